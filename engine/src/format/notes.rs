//! The notes of a volume: a text that is kept in it beside the tables, such as the rules of hints. The engine neither reads nor writes it.
//!
//! 1. Two copies lie one behind the other, between the front copies of the superblock, or the guard block, and the first extent. A volume
//!    whose extents begin right there keeps no notes.
//! 2. A change writes the copy that is damaged, or older, and flushes. The other copy stays whole.
//! 3. Notes are advice: a volume whose notes are damaged, or lost, serves all the same.

use super::counter::COUNTER_MAX;
use super::front::SUPERBLOCKS_BYTES;
use super::layout::layout;
use super::superblock::Superblock;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, count, index};

/// The most blocks of a copy.
pub const NOTES_BLOCKS_MAX: u64 = 32;
/// A volume keeps one block of notes, in each copy, for this number of blocks of its own.
const SHARE_BLOCKS: u64 = 4096;
const MAGIC: [u8; 8] = *b"1FNOTES1";

layout! {
    /// The fields before the text of a copy.
    at, "Notes", 64;
    MAGIC 8,
    UUID 16,
    SEQUENCE 8,
    LENGTH 4,
    RESERVED 24,
    CHECKSUM 4,
}

/// The notes of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notes {
    /// Raised by each change, from 1; at most 2^62.
    pub sequence: u64,
    pub text: Vec<u8>,
}

/// The place of a volume's notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotesArea {
    /// The beginning of the first copy.
    pub at: Bytes,
    /// The blocks of each of the two copies.
    pub copy_blocks: u64,
}

impl NotesArea {
    /// The blocks, of both copies together, that a new volume of this size keeps for notes.
    #[must_use]
    pub fn blocks_for(device_bytes: u64) -> u64 {
        2 * (device_bytes / BLOCK_BYTES / SHARE_BLOCKS).clamp(1, NOTES_BLOCKS_MAX)
    }

    /// The area of a volume, if it has one.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Option<Self> {
        let at = SUPERBLOCKS_BYTES + if superblock.is_guarded() { BLOCK_BYTES } else { 0 };
        let end = superblock.geometry.extents.iter().map(|extent| extent.offset.get()).min()?;
        let copy_blocks = (end.saturating_sub(at) / BLOCK_BYTES / 2).min(NOTES_BLOCKS_MAX);
        (copy_blocks > 0).then_some(Self { at: Bytes(at), copy_blocks })
    }

    /// The place of a copy, 0 or 1.
    #[must_use]
    pub fn copy_at(&self, copy: u64) -> Bytes {
        Bytes(self.at.get() + copy * self.copy_blocks * BLOCK_BYTES)
    }

    /// The most bytes of a text.
    #[must_use]
    pub fn text_bytes_max(&self) -> usize {
        index(self.copy_blocks) * BLOCK_SIZE - at::LAYOUT.bytes
    }

    /// The whole blocks of a copy with these notes, of the volume that was made with this UUID; none if the text is too long.
    #[must_use]
    pub fn encode(&self, notes: &Notes, uuid: &[u8; 16]) -> Option<Vec<u8>> {
        if notes.text.len() > self.text_bytes_max() {
            return None;
        }
        let end = at::LAYOUT.bytes + notes.text.len();
        let mut out = vec![0; end.next_multiple_of(BLOCK_SIZE)];
        at::MAGIC.of_mut(&mut out).copy_from_slice(&MAGIC);
        at::UUID.of_mut(&mut out).copy_from_slice(uuid);
        at::SEQUENCE.set(&mut out, notes.sequence);
        at::LENGTH.set(&mut out, count(notes.text.len()));
        out[at::LAYOUT.bytes..end].copy_from_slice(&notes.text);
        let checksum = checksum_of(&out, &notes.text);
        at::CHECKSUM.set(&mut out, u64::from(checksum));
        Some(out)
    }

    /// The notes of a copy that was read as a whole; none if it has none of the volume that was made with this UUID.
    #[must_use]
    pub fn decode(&self, copy: &[u8], uuid: &[u8; 16]) -> Option<Notes> {
        let head = copy.get(..at::LAYOUT.bytes)?;
        let text = copy.get(at::LAYOUT.bytes..at::LAYOUT.bytes.checked_add(index(at::LENGTH.get(head)))?)?;
        let sequence = at::SEQUENCE.get(head);
        let is_whole = at::MAGIC.of(head) == MAGIC
            && at::UUID.of(head) == uuid
            && (1..=COUNTER_MAX).contains(&sequence)
            && at::RESERVED.of(head).iter().all(|&byte| byte == 0)
            && at::CHECKSUM.get(head) == u64::from(checksum_of(head, text));
        is_whole.then(|| Notes { sequence, text: text.to_vec() })
    }
}

/// The sum of the fields before it, and of the text.
fn checksum_of(head: &[u8], text: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&head[..at::CHECKSUM.offset]), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Algorithm;
    use crate::format::{Geometry, Wish};
    use crate::settings::Settings;

    const UUID: [u8; 16] = [3; 16];
    const AREA: NotesArea = NotesArea { at: Bytes(8192), copy_blocks: 2 };

    fn volume(notes_blocks: u64, guard: bool) -> Superblock {
        let wish = Wish { logical_blocks: None, reserve_blocks: None, guard, notes_blocks };
        let geometry = Geometry::plan(Bytes(64 << 20), &wish).expect("it fits");
        let mut superblock = Superblock::new(geometry, UUID, [7; 32], Algorithm::Blake3, &Settings::default());
        if guard {
            superblock.set_guard(1000);
        }
        superblock
    }

    #[test]
    fn the_area_lies_before_the_first_extent() {
        assert_eq!(NotesArea::of(&volume(0, false)), None);
        assert_eq!(NotesArea::of(&volume(0, true)), None);
        assert_eq!(NotesArea::of(&volume(8, false)), Some(NotesArea { at: Bytes(8192), copy_blocks: 4 }));
        let guarded = NotesArea::of(&volume(8, true)).expect("it has one");
        assert_eq!(guarded, NotesArea { at: Bytes(12_288), copy_blocks: 4 });
        assert_eq!(guarded.copy_at(1), Bytes(12_288 + 16_384));
        assert_eq!([16 << 20, 64 << 20, 1 << 40].map(NotesArea::blocks_for), [2, 8, 64]);
    }

    #[test]
    fn notes_come_back_and_damage_does_not() {
        for length in [0, 1, 4032, 4033, AREA.text_bytes_max()] {
            let notes = Notes { sequence: 5, text: (0..=250).cycle().take(length).collect() };
            let copy = AREA.encode(&notes, &UUID).expect("it fits");
            assert_eq!(AREA.decode(&copy, &UUID), Some(notes), "{length}");
            assert_eq!(AREA.decode(&copy, &[4; 16]), None, "another volume's");
            for at in (0..(64 + length).min(copy.len())).step_by(7) {
                let mut damaged = copy.clone();
                damaged[at] ^= 4;
                assert_eq!(AREA.decode(&damaged, &UUID), None, "{length}: byte {at}");
            }
            assert_eq!(AREA.decode(&copy[..63.min(copy.len())], &UUID), None);
        }
        assert_eq!(AREA.encode(&Notes { sequence: 1, text: vec![0; AREA.text_bytes_max() + 1] }, &UUID), None);
        assert_eq!(AREA.decode(&[0xff; 8192], &UUID), None);
    }
}
