//! The acknowledgement ring: what a server promised its clients and has not made durable yet, for the server that comes after a kill.
//!
//! Where a device outlives its server, so do the acknowledgements that it gave: before a weak write is acknowledged, its link stands here,
//! or, where that would name nothing that the next server finds, its content. The ring is a file in a tmpfs, mapped into memory; it
//! survives the death of a process at any instruction, and nothing more: after a power cut there is no ring, and the promises of a flush
//! are all there is.
//!
//! 1. A record counts from the store of its position, the last one that [`Ring::append`] does. Before it, the place of the position holds
//!    zero: each append first writes the zero that ends the ring behind it. So nothing stale is ever taken for a record, whatever it looks
//!    like.
//! 2. Records lie one behind the other and none is overwritten before it was [committed](Ring::committed).
//! 3. Positions never repeat: they count the bytes since the ring was made, padding included.
//! 4. What is durable stands in the first page: up to which epoch, and by which trace on the medium the next server knows that its store is
//!    the one that was left. Two slots are written in turn, so that one of them is whole at any instruction.
//! 5. Contents of blocks lie behind the records, in places of their own, and a record says in which: so one gives its room back as soon as
//!    a later promise for its LBN stands ([`Ring::release`]), whatever was promised between. One that is not the last for its LBN may lie
//!    there no more, and is not replayed.
//! 6. A killed process leaves what its program had stored up to some instruction, in program order: a store that the compiler does not move
//!    is not moved. A matter of the compiler only, since processors interrupt precisely.
//!
//! | bytes | of the first page |
//! |---|---|
//! | 0–7 | magic |
//! | 8–23 | UUID of the volume |
//! | 24–31 | incarnation of the volume that the records belong to |
//! | 32–39 | bytes of records behind this page |
//! | 40–47 | contents of 4096 bytes that there is room for behind these |
//! | 48–51 | CRC32C of all that |
//! | 64–127, 128–191 | what is durable; written in turn, the one that was written later counts |
//!
//! | bytes | of what is durable |
//! |---|---|
//! | 0–7 | counts how often it was written |
//! | 8–15 | position up to which the ring is trimmed |
//! | 16–23 | epoch up to which promises are kept |
//! | 24–55 | two traces: sequence in the log, or sector of the map; kind (none, log, map) in the upper half of a word and the sector's sum in the lower |
//! | 56–63 | CRC32C of UUID, incarnation and all of the above, and 1 in the upper half |
//!
//! | bytes | of a record |
//! |---|---|
//! | 0–7 | its position |
//! | 8–11 | kind |
//! | 12–15 | bytes behind the first 48 |
//! | 16–23 | first LBN |
//! | 24–31 | PBN and, in the highest byte, slot; or number of blocks; or the content's place |
//! | 32–35 | CRC32C of UUID, incarnation, all of the above, the epoch and what is behind the first 48 bytes |
//! | 36–39 | zero |
//! | 40–47 | epoch |
//! | 48– | the fingerprint of a linked block, or the CRC32C of a content; padded to 8 bytes |
//!
//! Integers are the machine's own: a ring never leaves it.

pub mod exercise;
mod first_page;
mod replay;

pub use replay::{Replay, ReplayError};

use first_page::{DURABLE_BYTES, DURABLE_SLOTS, Durable, IDENTITY_BYTES, Identity};
use memmap2::MmapMut;
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::interface::Traces;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Blocks, Epoch, Lbn, Pbn, count, index};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

const PAGE: usize = 4096;
/// Bytes of a record, without what is behind them.
const RECORD_BYTES: u64 = 48;
/// Bytes of one that names a block: with the fingerprint that proves it.
pub const LINK_BYTES: u64 = RECORD_BYTES + 24;
const PROOF_BYTES: usize = 20;
const SUM_BYTES: usize = 4;
/// Where the slot stands in the word of a PBN.
const SLOT_SHIFT: u32 = 56;
const PBN_MASK: u64 = (1 << SLOT_SHIFT) - 1;
/// The fewest bytes of records: room for some two hundred links.
pub const BYTES_MIN: u64 = 16 << 10;

mod kind {
    /// Nothing: the next record begins at the ring's start.
    pub const SKIP: u32 = 1;
    pub const LINK: u32 = 2;
    pub const ZERO: u32 = 3;
    pub const UNMAP: u32 = 4;
    pub const CONTENT: u32 = 5;
}

/// One promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The content of a logical block is that of a physical one, which was written completely, or that of its slot; it has this
    /// fingerprint.
    Link { lbn: Lbn, pbn: Pbn, slot: u8, proof: Fingerprint },
    /// Logical blocks read as zeros, written so by the client.
    Zero { first: Lbn, blocks: Blocks },
    /// Logical blocks were discarded.
    Unmap { first: Lbn, blocks: Blocks },
    /// The content of a logical block is this, and it may stand nowhere else.
    Content { lbn: Lbn, content: &'a [u8; BLOCK_SIZE] },
}

/// Where a content lies in its ring.
#[derive(Debug, PartialEq, Eq)]
pub struct Place(u32);

/// Names a record of one ring. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

/// The ring has no room: commit, then call [`Ring::committed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the acknowledgement ring is full")]
pub struct Full;

/// The ring of a running server.
pub struct Ring {
    map: MmapMut,
    identity: Identity,
    seed: u32,
    /// Position of the next record.
    head: u64,
    durable: Durable,
    /// Places that hold nothing that counts.
    free: Vec<Place>,
}

impl Ring {
    /// Makes an empty ring with `bytes` for records (rounded to pages, [`BYTES_MIN`] at least), and room for so many contents, in the place
    /// of whatever stood at `path`, which must be on a tmpfs. Until this returns, the old ring stands there. All memory is taken now.
    ///
    /// # Errors
    /// When the file cannot be made, or the tmpfs has no room.
    pub fn create(path: &Path, bytes: u64, contents: u32, volume: [u8; 16], incarnation: u64) -> io::Result<Self> {
        let bytes = bytes.max(BYTES_MIN).next_multiple_of(count(PAGE));
        let fresh = path.with_extension("new");
        match std::fs::remove_file(&fresh) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&fresh)?;
        // Not a sparse file: a store into a page that the tmpfs cannot give would be a SIGBUS.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, count(PAGE) + bytes + u64::from(contents) * BLOCK_BYTES)?;
        let identity = Identity { volume, incarnation, bytes, contents: contents.into() };
        let durable = Durable { tail: bytes, ..Durable::default() };
        let mut ring = Self {
            map: map(&file)?,
            identity,
            seed: identity.seed(),
            head: bytes,
            durable,
            free: (0..contents).rev().map(Place).collect(),
        };
        ring.map[..IDENTITY_BYTES].copy_from_slice(&identity.encode());
        ring.write_durable();
        compiler_fence(Ordering::SeqCst);
        std::fs::rename(&fresh, path)?;
        Ok(ring)
    }

    /// The volume's incarnation that this ring's records belong to.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.identity.incarnation
    }

    /// Bytes taken by records that are not committed yet.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.head - self.durable.tail
    }

    /// Bytes for records.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.identity.bytes
    }

    /// Makes a promise that survives this process, and that `epoch` will make good. Where its content lies, if it has one: until that is
    /// [released](Self::release).
    ///
    /// # Errors
    /// When there is no room.
    pub fn append(&mut self, epoch: Epoch, record: &Record<'_>) -> Result<(Seq, Option<Place>), Full> {
        let sum;
        let (code, first, value, behind, place) = match record {
            Record::Link { lbn, pbn, slot, proof } => (kind::LINK, *lbn, pbn.get() | (u64::from(*slot) << SLOT_SHIFT), &proof.0[..], None),
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

    /// The content that lies there counts no more: a later promise for its LBN stands, or its own is kept.
    pub fn release(&mut self, place: Place) {
        self.free.push(place);
    }

    fn append_record(&mut self, epoch: Epoch, code: u32, first: Lbn, value: u64, behind: &[u8]) -> Result<Seq, Full> {
        let bytes = RECORD_BYTES + count(behind.len()).next_multiple_of(8);
        let left = self.left_in_lap(self.head);
        let skip = if bytes > left { left } else { 0 };
        let end = self.settle(self.head + skip + bytes);
        // Less, not equal: the zero behind the last record must not lie on the first one.
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

    /// What was promised up to and including `upto` is durable; its records are gone.
    ///
    /// # Panics
    /// When `upto` is of another ring.
    pub fn committed(&mut self, upto: Seq) {
        assert!(upto.0 <= self.head, "record {} is not of this ring, which ends at {}", upto.0, self.head);
        if upto.0 > self.durable.tail {
            self.durable.tail = upto.0;
            self.write_durable();
        }
    }

    /// Promises of epochs up to this one are kept, which has left these traces on the medium. Those up to `upto` are gone.
    ///
    /// # Panics
    /// When `upto` is of another ring.
    pub fn kept(&mut self, epoch: Epoch, traces: Traces, upto: Option<Seq>) {
        let tail = upto.map_or(0, |upto| upto.0);
        assert!(tail <= self.head, "record {tail} is not of this ring, which ends at {}", self.head);
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
        // SAFETY: the place is eight bytes of a mapping that we have borrowed exclusively, and it is aligned: the mapping begins on a page,
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

/// Where the next record begins when the last one ended at `position`: no record's fixed part is cut by the end of the ring.
fn settle(position: u64, ring_bytes: u64) -> u64 {
    let left = left_in_lap(position, ring_bytes);
    if left < RECORD_BYTES { position + left } else { position }
}

fn record_check(seed: u32, fixed: &[u8], behind: &[u8]) -> u32 {
    let named = crc32c::crc32c_append(crc32c::crc32c_append(seed, &fixed[..32]), &fixed[40..]);
    crc32c::crc32c_append(named, behind)
}

/// Where a content lies in the file.
fn content_at(ring_bytes: u64, place: u32) -> usize {
    PAGE + index(ring_bytes) + index(u64::from(place) * BLOCK_BYTES)
}

#[allow(unsafe_code)]
fn map(file: &File) -> io::Result<MmapMut> {
    // SAFETY: the file is new, private to its owner and kept at its length; only this process maps it, and the one after its death.
    unsafe { MmapMut::map_mut(file) }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({} of {} bytes)", self.used(), self.capacity())
    }
}

#[cfg(test)]
mod tests;
