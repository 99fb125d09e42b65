//! The frame of a block: a head of 32 bytes, and content.

use super::MAGIC;
use std::io::{self, Read};
use twox_hash::XxHash3_64;

/// The size of a head.
pub const HEAD_BYTES: usize = 32;
/// The largest content of a block before compression; a reader refuses larger ones, so that it needs no more memory.
pub const CONTENT_BYTES_MAX: usize = 4 << 20;
/// The place of the first block.
pub const FIRST_AT: u64 = MAGIC.len() as u64;

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The facts about the trace, as JSON.
    Facts = 1,
    Records = 2,
    /// Gaps, as JSON.
    Gaps = 3,
    /// The end of a recording that was ended in order.
    End = 4,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        [Self::Facts, Self::Records, Self::Gaps, Self::End].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// The head of a block.
///
/// | bytes | content |
/// |---|---|
/// | 0..4 | kind |
/// | 4..8 | the bytes of the content as they are stored; fewer than the next number: compressed by zstd |
/// | 8..12 | the bytes of the content |
/// | 12..16 | 0 |
/// | 16..24 | XXH3-64 of the content as it is stored |
/// | 24..32 | XXH3-64 of the head's place in the file, 8 bytes, and of its bytes before |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub kind: Kind,
    pub stored: u32,
    pub bytes: u32,
    sum: u64,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("it lies inside the head")
}

fn sum_of_head(at: u64, head: &[u8]) -> u64 {
    let mut summed = [0; 32];
    summed[..8].copy_from_slice(&at.to_le_bytes());
    summed[8..].copy_from_slice(&head[..24]);
    XxHash3_64::oneshot(&summed)
}

impl Head {
    /// Returns the bytes of a head at this place, for content that is stored like this and has `bytes` bytes.
    pub fn encode(kind: Kind, at: u64, stored: &[u8], bytes: u32) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        let stored_bytes = u32::try_from(stored.len()).expect("no more is stored than a block has");
        head[4..8].copy_from_slice(&stored_bytes.to_le_bytes());
        head[8..12].copy_from_slice(&bytes.to_le_bytes());
        head[16..24].copy_from_slice(&XxHash3_64::oneshot(stored).to_le_bytes());
        let sum = sum_of_head(at, &head);
        head[24..].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// Decodes the head at this place.
    ///
    /// # Errors
    /// The reason why it is none.
    pub fn decode(head: &[u8; HEAD_BYTES], at: u64) -> Result<Self, String> {
        if u64::from_le_bytes(number(head, 24)) != sum_of_head(at, head) {
            return Err("the checksum of a block's head is wrong".to_owned());
        }
        let kind = u32::from_le_bytes(number(head, 0));
        let kind = Kind::of(kind).ok_or_else(|| format!("a block has the unknown kind {kind}"))?;
        let [stored, bytes] = [4, 8].map(|at| u32::from_le_bytes(number(head, at)));
        if stored > bytes || bytes as usize > CONTENT_BYTES_MAX || number(head, 12) != [0; 4] {
            return Err(format!("a block has {stored} bytes for {bytes}, of at most {CONTENT_BYTES_MAX}"));
        }
        Ok(Self { kind, stored, bytes, sum: u64::from_le_bytes(number(head, 16)) })
    }

    /// Returns the content of stored bytes, as many as the head says.
    ///
    /// # Errors
    /// The reason why they are not the content.
    pub fn content(&self, stored: Vec<u8>) -> Result<Vec<u8>, String> {
        if XxHash3_64::oneshot(&stored) != self.sum {
            return Err("the checksum of a block's content is wrong".to_owned());
        }
        if self.stored == self.bytes {
            return Ok(stored);
        }
        let content =
            zstd::bulk::decompress(&stored, self.bytes as usize).map_err(|error| format!("a block does not decompress: {error}"))?;
        if content.len() == self.bytes as usize {
            Ok(content)
        } else {
            Err(format!("a block has {} bytes instead of {}", content.len(), self.bytes))
        }
    }
}

/// Reads until `buffer` is full or the input ends; returns the number of bytes.
pub fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
