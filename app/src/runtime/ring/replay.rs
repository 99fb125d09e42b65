//! Reading a ring that its writer has left: total over any bytes, and believing nothing that is not checked.

use super::{
    BYTES_MIN, Identity, PAGE, PBN_MASK, RECORD_BYTES, Record, Ring, Seq, TRIM_SLOTS, kind, left_in_lap, record_check, settle, trim_check,
};
use onefold_engine::units::{Blocks, Lbn, Pbn, count, index};
use std::io;
use std::path::Path;

/// Why there is nothing to replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// No ring: the machine was started anew, or the volume was closed.
    #[error("there is no acknowledgement ring")]
    Missing,
    #[error("the acknowledgement ring belongs to another volume")]
    Foreign,
    #[error("the acknowledgement ring is damaged: {what}")]
    Damaged { what: &'static str },
    #[error("cannot read the acknowledgement ring: {0}")]
    Io(#[from] io::Error),
}

/// A dead server's promises.
#[derive(Debug)]
pub struct Replay {
    /// The volume's incarnation that they belong to.
    pub incarnation: u64,
    /// A finished record does not match its check, which no kill explains. It and what followed is not replayed.
    pub damaged: bool,
    ring: Vec<u8>,
    /// Where each record begins in it.
    starts: Vec<(Seq, usize)>,
}

impl Ring {
    /// Reads the ring at `path`, which its server has left for good.
    ///
    /// # Errors
    /// When there is none, or it is not one of `volume`.
    pub fn replay(path: &Path, volume: [u8; 16]) -> Result<Replay, ReplayError> {
        match std::fs::read(path) {
            Ok(bytes) => Replay::parse(bytes, volume),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(ReplayError::Missing),
            Err(e) => Err(e.into()),
        }
    }
}

impl Replay {
    /// Understands the bytes of a ring, whatever they are.
    ///
    /// # Errors
    /// See [`Ring::replay`].
    pub fn parse(file: Vec<u8>, volume: [u8; 16]) -> Result<Self, ReplayError> {
        let damaged = |what| ReplayError::Damaged { what };
        let found = file.get(..PAGE).ok_or(damaged("it has no header"))?;
        let identity =
            Identity { volume: found[8..24].try_into().expect("16 bytes"), incarnation: word(found, 24), bytes: word(found, 32) };
        if found[..44] != identity.encode() {
            return Err(damaged("its header does not match its check"));
        }
        if identity.volume != volume {
            return Err(ReplayError::Foreign);
        }
        let bytes = identity.bytes;
        if count(file.len() - PAGE) != bytes || bytes < BYTES_MIN || bytes % 8 != 0 {
            return Err(damaged("it has another length than its header says"));
        }
        let trims = TRIM_SLOTS.map(|slot| (word(found, slot), word(found, slot + 8)));
        // (No ring lives long enough to reach the upper bound; it keeps the arithmetic below from overflowing.)
        let in_range = |position: u64| position >= bytes && position % 8 == 0 && position < u64::MAX / 2;
        let valid = trims.into_iter().filter(|&(position, check)| in_range(position) && check == trim_check(position));
        let tail = valid.map(|(position, _)| position).max().ok_or(damaged("it does not say where it begins"))?;

        let mut replay = Self { incarnation: identity.incarnation, damaged: false, ring: file, starts: Vec::new() };
        replay.walk(tail, bytes, identity.seed());
        Ok(replay)
    }

    fn walk(&mut self, tail: u64, ring_bytes: u64, seed: u32) {
        let mut position = tail;
        while position - tail < ring_bytes && left_in_lap(position, ring_bytes) >= RECORD_BYTES {
            let at = PAGE + index(position % ring_bytes);
            if word(&self.ring, at) != position {
                return;
            }
            let (code, content_bytes) = (half(&self.ring, at + 8), half(&self.ring, at + 12));
            let bytes = RECORD_BYTES + u64::from(content_bytes).next_multiple_of(8);
            let fits = bytes <= left_in_lap(position, ring_bytes);
            let is_skip = code == kind::SKIP;
            let content = if is_skip || !fits { 0..0 } else { at + 48..at + 48 + content_bytes as usize };
            let check = record_check(seed, &self.ring[at..at + 48], &self.ring[content]);
            if !fits || half(&self.ring, at + 32) != check || half(&self.ring, at + 36) != 0 {
                self.damaged = true;
                return;
            }
            position = settle(position + bytes, ring_bytes);
            if !is_skip {
                self.starts.push((Seq(position), at));
            }
        }
    }

    /// The promises in the order in which they were made.
    pub fn records(&self) -> impl ExactSizeIterator<Item = (Seq, Record<'_>)> {
        self.starts.iter().map(|&(seq, at)| (seq, self.record(at)))
    }

    /// The promises that are not known to be kept: those of epochs that no [`Record::Durable`] covers.
    pub fn open_promises(&self) -> impl Iterator<Item = Record<'_>> {
        let epoch = |at: usize| word(&self.ring, at + 40);
        let records = || self.starts.iter().map(move |&(_, at)| (epoch(at), self.record(at)));
        let durable = records().filter(|(_, r)| *r == Record::Durable).map(|(epoch, _)| epoch).max();
        records().filter(move |(epoch, r)| *r != Record::Durable && Some(*epoch) > durable).map(|(_, record)| record)
    }

    fn record(&self, at: usize) -> Record<'_> {
        let (first, value) = (Lbn(word(&self.ring, at + 16)), word(&self.ring, at + 24));
        match half(&self.ring, at + 8) {
            kind::LINK => Record::Link { lbn: first, pbn: Pbn(value & PBN_MASK), slot: value.to_be_bytes()[0] },
            kind::ZERO => Record::Zero { first, blocks: Blocks(value) },
            kind::UNMAP => Record::Unmap { first, blocks: Blocks(value) },
            kind::DURABLE => Record::Durable,
            _ => Record::Content { lbn: first, content: &self.ring[at + 48..at + 48 + half(&self.ring, at + 12) as usize] },
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
