//! The acknowledgement journal: the writes that a server acknowledged and has not made durable yet, for the server that comes after a kill.
//!
//! Where a device outlives its server, so do the acknowledgements that it gave. Before a weak write is acknowledged, its link is recorded
//! here, or its content, where the link would name nothing that the next server finds. The journal is a file in a tmpfs, mapped into
//! memory, and used as a ring. It survives the death of a process at any instruction, and nothing more: after a power loss there is no
//! journal, and only flushed writes are safe.
//!
//! 1. A record is valid from the store of its position, the last store of [`Ring::append`]. Before that, the place of the position holds
//!    zero: each append first writes the zero that ends the journal after its record. So stale bytes are never taken for a record, whatever
//!    they look like.
//! 2. Records follow one another, and none is overwritten before it was [committed](Ring::committed).
//! 3. Positions never repeat: they count the bytes since the journal was made, padding included.
//! 4. The first page holds the durable state: the last durable epoch, and the traces on the medium by which the next server knows that its
//!    store is the one that was left. Two slots are written in turn, so that one of them is whole at any instruction.
//! 5. Contents of blocks are after the records, in places of their own, and each has a record that names its place. So a content frees its
//!    room as soon as a later record for its LBN is there ([`Ring::release`]), whatever came between. A content that is not the last for
//!    its LBN may be overwritten, and is not replayed.
//! 6. The next server takes the journal over where it is, and adds nothing until the records that it found are durable. They stay valid as
//!    they are, whatever epochs it commits meanwhile and however often it is killed; one store of the durable state ends them all
//!    ([`Ring::replayed`]). So no takeover needs a second journal, or its room.
//! 7. A killed process leaves its stores up to some instruction, in program order, as long as the compiler does not reorder them. Only the
//!    compiler matters, since processors interrupt precisely.
//!
//! | bytes | of the first page |
//! |---|---|
//! | 0–7 | magic |
//! | 8–23 | UUID of the volume |
//! | 24–31 | incarnation of the volume when the journal was made |
//! | 32–39 | bytes of records after this page |
//! | 40–47 | number of contents of 4096 bytes that have room after these |
//! | 48–51 | CRC32C of all that |
//! | 64–143, 192–271 | durable state; written in turn, the later one is valid |
//!
//! | bytes | of the durable state |
//! |---|---|
//! | 0–7 | number of its writes |
//! | 8–15 | position up to which the journal is trimmed |
//! | 16–23 | epoch up to which records are durable |
//! | 24–31 | incarnation of the volume that the journal belongs to |
//! | 32–39 | 1: it may belong to the next incarnation instead, since a server is taking it over; 2: acknowledged writes are lost |
//! | 40–71 | two traces: log sequence or map sector; kind (none, log, map) in the upper half of a word, the sector's sum in the lower |
//! | 72–79 | CRC32C of UUID, incarnation and all of the above, and 1 in the upper half |
//!
//! | bytes | of a record |
//! |---|---|
//! | 0–7 | its position |
//! | 8–11 | kind |
//! | 12–15 | bytes after the first 48 |
//! | 16–23 | first LBN |
//! | 24–31 | PBN and, in the highest byte, slot; or number of blocks; or the content's place |
//! | 32–35 | CRC32C of UUID, first incarnation, all of the above, the epoch and the bytes after the first 48 |
//! | 36–39 | zero |
//! | 40–47 | epoch |
//! | 48– | the fingerprint of a linked block, or the CRC32C of a content; padded to 8 bytes |
//!
//! Integers are the machine's own: a journal never leaves it.

pub mod exercise;
mod first_page;
mod life;
mod replay;

pub use first_page::Owner;
pub use replay::{Replay, ReplayError};

use first_page::{DURABLE_BYTES, DURABLE_SLOTS, Durable, IDENTITY_BYTES, Identity};
use memmap2::MmapMut;
use onefold_engine::interface::Traces;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Blocks, Epoch, Lbn, Pbn, count, index};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

const PAGE: usize = 4096;
/// The size of a record, without the bytes after it.
const RECORD_BYTES: u64 = 48;
/// The size of a record that names a block: with the fingerprint that proves it.
pub const LINK_BYTES: u64 = RECORD_BYTES + 24;
const PROOF_BYTES: usize = 20;
const SUM_BYTES: usize = 4;
/// The position of the slot in the word of a PBN.
const SLOT_SHIFT: u32 = 56;
const PBN_MASK: u64 = (1 << SLOT_SHIFT) - 1;
/// The smallest size of all records: room for some two hundred links.
pub const BYTES_MIN: u64 = 16 << 10;

mod kind {
    /// No record: the next one begins at the start of the ring.
    pub const SKIP: u32 = 1;
    pub const LINK: u32 = 2;
    pub const ZERO: u32 = 3;
    pub const UNMAP: u32 = 4;
    pub const CONTENT: u32 = 5;
}

/// One acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A link: the content of a logical block is that of a physical one, which was written completely, or that of its slot; the bytes
    /// are the fingerprint entry that proves it.
    Link { lbn: Lbn, pbn: Pbn, slot: u8, proof: [u8; PROOF_BYTES] },
    /// Zeros: a client wrote the logical blocks as zeros.
    Zero { first: Lbn, blocks: Blocks },
    /// A discard of logical blocks.
    Unmap { first: Lbn, blocks: Blocks },
    /// The content of a logical block, which may be nowhere else.
    Content { lbn: Lbn, content: &'a [u8; BLOCK_SIZE] },
}

/// The place of a content in its journal.
#[derive(Debug, PartialEq, Eq)]
pub struct ContentPlace(u32);

/// Names a record of one journal. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

/// The journal has no room: commit, then call [`Ring::committed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the acknowledgement journal is full")]
pub struct Full;

/// The journal of a running server.
pub struct Ring {
    map: MmapMut,
    path: PathBuf,
    identity: Identity,
    seed: u32,
    /// The position of the next record.
    head: u64,
    durable: Durable,
    /// The last durable epoch of this server while the records of another are valid: invariant 6.
    own_epoch: Epoch,
    /// The places without valid content.
    free: Vec<ContentPlace>,
}

impl Ring {
    /// Returns the number of contents that the journal has room for.
    #[must_use]
    pub fn contents(&self) -> u64 {
        self.identity.contents
    }

    /// Returns the bytes of records that are not committed yet.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.head - self.durable.tail
    }

    /// Returns the bytes for records.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.identity.bytes
    }

    /// Adds a record that survives this process, and that `epoch` will make durable. Returns the place of its content, if it has one, which
    /// is taken until it is [released](Self::release).
    ///
    /// # Errors
    /// When there is no room.
    ///
    /// # Panics
    /// When the records that were found may not be durable yet: invariant 6.
    pub fn append(&mut self, epoch: Epoch, record: &Record<'_>) -> Result<(Seq, Option<ContentPlace>), Full> {
        assert!(!self.durable.owner.is_changing, "a record comes before those of the last server are durable");
        let sum;
        let (code, first, value, behind, place) = match record {
            Record::Link { lbn, pbn, slot, proof } => (kind::LINK, *lbn, pbn.get() | (u64::from(*slot) << SLOT_SHIFT), &proof[..], None),
            Record::Zero { first, blocks } => (kind::ZERO, *first, blocks.get(), &[][..], None),
            Record::Unmap { first, blocks } => (kind::UNMAP, *first, blocks.get(), &[][..], None),
            Record::Content { lbn, content } => {
                let place = self.free.pop().ok_or(Full)?;
                let at = content_at(self.identity.bytes, place.0);
                self.map[at..at + BLOCK_SIZE].copy_from_slice(&content[..]);
                sum = crc32c::crc32c(&content[..]).to_ne_bytes();
                (kind::CONTENT, *lbn, u64::from(place.0), &sum[..], Some(place))
            }
        };
        match self.append_record(epoch, code, first, value, behind) {
            Ok(seq) => Ok((seq, place)),
            Err(full) => {
                self.free.extend(place);
                Err(full)
            }
        }
    }

    /// Frees the place of a content that is no longer valid: a later record for its LBN is there, or its own is durable.
    pub fn release(&mut self, place: ContentPlace) {
        self.free.push(place);
    }

    fn append_record(&mut self, epoch: Epoch, code: u32, first: Lbn, value: u64, behind: &[u8]) -> Result<Seq, Full> {
        let bytes = RECORD_BYTES + count(behind.len()).next_multiple_of(8);
        let left = self.left_in_lap(self.head);
        let skip = if bytes > left { left } else { 0 };
        let end = self.settle(self.head + skip + bytes);
        // Less, not equal: the zero after the last record must not overwrite the first one.
        if bytes > self.identity.bytes || end - self.durable.tail >= self.identity.bytes {
            return Err(Full);
        }
        if skip > 0 {
            let padding = u32::try_from(skip - RECORD_BYTES).expect("less than what is behind a record");
            self.put(self.head + skip, epoch, kind::SKIP, padding, 0, 0, &[]);
        }
        let behind_bytes = u32::try_from(behind.len()).expect("a sum or a fingerprint");
        self.put(end, epoch, code, behind_bytes, first.get(), value, behind);
        Ok(Seq(end))
    }

    /// Frees the records up to and including `upto`, which are durable.
    ///
    /// # Panics
    /// When `upto` is of another journal.
    pub fn committed(&mut self, upto: Seq) {
        assert!(upto.0 <= self.head, "record {} is not of this ring, which ends at {}", upto.0, self.head);
        if upto.0 > self.durable.tail {
            self.durable.tail = upto.0;
            self.write_durable();
        }
    }

    /// Notes that records of epochs up to this one are durable, which has left these traces on the medium. Frees those up to `upto`. While
    /// there are the records of another server, the traces are all that changes.
    ///
    /// # Panics
    /// When `upto` is of another journal.
    pub fn kept(&mut self, epoch: Epoch, traces: Traces, upto: Option<Seq>) {
        let tail = upto.map_or(0, |upto| upto.0);
        assert!(tail <= self.head, "record {tail} is not of this ring, which ends at {}", self.head);
        self.own_epoch = epoch;
        let epoch = if self.durable.owner.is_changing { self.durable.epoch } else { epoch };
        self.durable = Durable { epoch, traces, tail: self.durable.tail.max(tail), ..self.durable };
        self.write_durable();
    }

    /// Writes the record at the head and moves the head to `end`.
    #[allow(clippy::too_many_arguments)] // one for each field
    fn put(&mut self, end: u64, epoch: Epoch, code: u32, behind_bytes: u32, first: u64, value: u64, behind: &[u8]) {
        let mut fixed = [0; 48];
        fixed[..8].copy_from_slice(&self.head.to_ne_bytes());
        fixed[8..12].copy_from_slice(&code.to_ne_bytes());
        fixed[12..16].copy_from_slice(&behind_bytes.to_ne_bytes());
        fixed[16..24].copy_from_slice(&first.to_ne_bytes());
        fixed[24..32].copy_from_slice(&value.to_ne_bytes());
        fixed[40..].copy_from_slice(&epoch.get().to_ne_bytes());
        let check = record_check(self.seed, &fixed, behind);
        fixed[32..36].copy_from_slice(&check.to_ne_bytes());

        let (at, next) = (self.place(self.head), self.place(end));
        // The end first, then the record, its position last: invariant 1.
        self.store(next, 0);
        self.map[at + 8..at + 48].copy_from_slice(&fixed[8..]);
        self.map[at + 48..at + 48 + behind.len()].copy_from_slice(behind);
        self.store(at, self.head);
        self.head = end;
    }

    fn write_durable(&mut self) {
        self.durable.turn += 1;
        let slot = DURABLE_SLOTS[index(self.durable.turn % 2)];
        let bytes = self.durable.encode(self.seed);
        let (fields, check) = bytes.split_at(DURABLE_BYTES - 8);
        // The check last: invariant 4.
        self.store(slot + fields.len(), 0);
        self.map[slot..slot + fields.len()].copy_from_slice(fields);
        self.store(slot + fields.len(), u64::from_ne_bytes(check.try_into().expect("eight bytes")));
    }

    /// Stores a word, after everything before and before everything after it in the program.
    #[allow(unsafe_code)]
    fn store(&mut self, at: usize, word: u64) {
        let place = &mut self.map[at..at + 8];
        // SAFETY: the place is eight bytes of a mapping that is borrowed exclusively here, and it is aligned: the mapping begins on a page,
        // and all positions are multiples of 8 (asserted).
        let place = unsafe {
            assert!(place.as_ptr().addr() % 8 == 0);
            AtomicU64::from_ptr(place.as_mut_ptr().cast())
        };
        compiler_fence(Ordering::SeqCst);
        place.store(word, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    fn place(&self, position: u64) -> usize {
        PAGE + index(position % self.identity.bytes)
    }

    fn left_in_lap(&self, position: u64) -> u64 {
        left_in_lap(position, self.identity.bytes)
    }

    fn settle(&self, position: u64) -> u64 {
        settle(position, self.identity.bytes)
    }
}

fn left_in_lap(position: u64, ring_bytes: u64) -> u64 {
    ring_bytes - position % ring_bytes
}

/// Returns the position of the next record when the last one ended at `position`: the end of the ring splits no record's fixed part.
fn settle(position: u64, ring_bytes: u64) -> u64 {
    let left = left_in_lap(position, ring_bytes);
    if left < RECORD_BYTES { position + left } else { position }
}

fn record_check(seed: u32, fixed: &[u8], behind: &[u8]) -> u32 {
    let named = crc32c::crc32c_append(crc32c::crc32c_append(seed, &fixed[..32]), &fixed[40..]);
    crc32c::crc32c_append(named, behind)
}

/// Returns the place of a content in the file.
fn content_at(ring_bytes: u64, place: u32) -> usize {
    PAGE + index(ring_bytes) + index(u64::from(place) * BLOCK_BYTES)
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({} of {} bytes)", self.used(), self.capacity())
    }
}

#[cfg(test)]
mod tests;
