//! Reading a journal that its writer has left: total over any bytes, and trusting nothing that is not checked.

use super::{
    BYTES_MIN, DURABLE_BYTES, DURABLE_SLOTS, Durable, IDENTITY_BYTES, Identity, Owner, PAGE, PBN_MASK, PROOF_BYTES, RECORD_BYTES, Record,
    Ring, SUM_BYTES, Seq, content_at, kind, left_in_lap, record_check, settle,
};
use onefold_engine::interface::Traces;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Blocks, Lbn, Pbn, count, index};
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// The reason why there is nothing to replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// There is no journal: the machine was restarted, or the volume was closed.
    #[error("there is no acknowledgement journal")]
    Missing,
    #[error("the acknowledgement journal belongs to another volume")]
    Foreign,
    /// The volume was served since then, by a server with another journal.
    #[error("the acknowledgement journal belongs to another incarnation of the volume")]
    Outdated,
    #[error("the acknowledgement journal is damaged: {what}")]
    Damaged { what: &'static str },
    #[error("cannot read the acknowledgement journal: {0}")]
    Io(#[from] io::Error),
}

/// A dead server's records.
#[derive(Debug)]
pub struct Replay {
    /// The checksum of a finished record does not match, so that it and the following ones are not replayed; or that of a content does not
    /// match. No kill explains either.
    pub damaged: bool,
    ring: Vec<u8>,
    pub(super) identity: Identity,
    pub(super) durable: Durable,
    /// The position after the last record.
    pub(super) end: u64,
    /// The position of each record in the file.
    starts: Vec<(Seq, usize)>,
}

impl Ring {
    /// Reads the journal at `path`, which its server has left forever.
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
    /// Parses the bytes of a journal, whatever they are.
    ///
    /// # Errors
    /// See [`Ring::replay`].
    pub fn parse(file: Vec<u8>, volume: [u8; 16]) -> Result<Self, ReplayError> {
        let damaged = |what| ReplayError::Damaged { what };
        let found = file.get(..PAGE).ok_or(damaged("it has no header"))?;
        let identity = Identity {
            volume: found[8..24].try_into().expect("16 bytes"),
            made_in: word(found, 24),
            bytes: word(found, 32),
            contents: word(found, 40),
        };
        if found[..IDENTITY_BYTES] != identity.encode() {
            return Err(damaged("its header does not match its check"));
        }
        if identity.volume != volume {
            return Err(ReplayError::Foreign);
        }
        let bytes = identity.bytes;
        let in_file = identity.contents.checked_mul(BLOCK_BYTES).and_then(|contents| contents.checked_add(bytes));
        if in_file != Some(count(file.len() - PAGE)) || bytes < BYTES_MIN || bytes % 8 != 0 {
            return Err(damaged("it has another length than its header says"));
        }
        let seed = identity.seed();
        let slots = DURABLE_SLOTS.map(|slot| found[slot..slot + DURABLE_BYTES].try_into().expect("a slot"));
        // (No journal lives long enough to reach the upper bound; it keeps the arithmetic below from overflowing.)
        let in_range = |durable: &Durable| durable.tail >= bytes && durable.tail % 8 == 0 && durable.tail < u64::MAX / 2;
        let valid = slots.iter().filter_map(|slot| Durable::decode(slot, seed)).filter(in_range);
        let durable = valid.max_by_key(|durable| durable.turn).ok_or(damaged("it does not say where it begins"))?;

        let mut replay = Self { damaged: false, ring: file, identity, durable, end: durable.tail, starts: Vec::new() };
        replay.walk(durable.tail, bytes, seed);
        replay.keep_contents_that_count(&identity);
        Ok(replay)
    }

    fn walk(&mut self, tail: u64, ring_bytes: u64, seed: u32) {
        let mut position = tail;
        while position - tail < ring_bytes && left_in_lap(position, ring_bytes) >= RECORD_BYTES {
            let at = PAGE + index(position % ring_bytes);
            if word(&self.ring, at) != position {
                return;
            }
            let (code, behind_bytes) = (half(&self.ring, at + 8), half(&self.ring, at + 12));
            let bytes = RECORD_BYTES + u64::from(behind_bytes).next_multiple_of(8);
            let fits = bytes <= left_in_lap(position, ring_bytes);
            let is_skip = code == kind::SKIP;
            let behind = if is_skip || !fits { 0..0 } else { at + 48..at + 48 + behind_bytes as usize };
            let check = record_check(seed, &self.ring[at..at + 48], &self.ring[behind]);
            let is_kind = match code {
                kind::LINK => behind_bytes as usize == PROOF_BYTES,
                kind::CONTENT => behind_bytes as usize == SUM_BYTES,
                kind::SKIP | kind::ZERO | kind::UNMAP => true,
                _ => false,
            };
            if !fits || !is_kind || half(&self.ring, at + 32) != check || half(&self.ring, at + 36) != 0 {
                self.damaged = true;
                return;
            }
            position = settle(position + bytes, ring_bytes);
            self.end = position;
            if !is_skip {
                self.starts.push((Seq(position), at));
            }
        }
    }

    /// Removes the contents that are no longer valid: others may be in their places (invariant 5 of the journal).
    fn keep_contents_that_count(&mut self, identity: &Identity) {
        let mut later = HashSet::new();
        let mut keep = Vec::with_capacity(self.starts.len());
        for &(seq, at) in self.starts.iter().rev() {
            let (code, lbn) = (half(&self.ring, at + 8), word(&self.ring, at + 16));
            let counts = match code {
                kind::CONTENT if !self.is_open(at) || later.contains(&lbn) => false,
                kind::CONTENT => {
                    let is_there = self.is_content_there(identity, at);
                    self.damaged |= !is_there;
                    is_there
                }
                _ => true,
            };
            if matches!(code, kind::LINK | kind::ZERO | kind::CONTENT) {
                later.insert(lbn);
            }
            keep.extend(counts.then_some((seq, at)));
        }
        keep.reverse();
        self.starts = keep;
    }

    fn is_content_there(&self, identity: &Identity, at: usize) -> bool {
        let place = word(&self.ring, at + 24);
        let is_whole = |content: &[u8; BLOCK_SIZE]| crc32c::crc32c(content) == half(&self.ring, at + 48);
        place < identity.contents && self.content(place).is_some_and(is_whole)
    }

    /// Returns the content in a place of the journal.
    fn content(&self, place: u64) -> Option<&[u8; BLOCK_SIZE]> {
        let at = content_at(word(&self.ring, 32), u32::try_from(place).ok()?);
        self.ring.get(at..at + BLOCK_SIZE)?.try_into().ok()
    }

    fn is_open(&self, at: usize) -> bool {
        word(&self.ring, at + 40) > self.durable.epoch.get()
    }

    /// Returns the records in the order in which they were made.
    pub fn records(&self) -> impl ExactSizeIterator<Item = (Seq, Record<'_>)> {
        self.starts.iter().map(|&(seq, at)| (seq, self.record(at)))
    }

    /// Returns the records that are not known to be durable: those of epochs after the last durable one.
    pub fn open_promises(&self) -> impl Iterator<Item = Record<'_>> {
        self.starts.iter().filter(|(_, at)| self.is_open(*at)).map(|&(_, at)| self.record(at))
    }

    /// Returns the incarnation of the volume that the journal belongs to.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.durable.owner
    }

    /// Whether acknowledged writes are lost: the records have gaps, or an earlier server has noted it.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.damaged || self.durable.has_lost
    }

    /// Returns the traces that the last durable epoch has left on the medium.
    #[must_use]
    pub fn traces(&self) -> Traces {
        self.durable.traces
    }

    fn record(&self, at: usize) -> Record<'_> {
        let (first, value) = (Lbn(word(&self.ring, at + 16)), word(&self.ring, at + 24));
        match half(&self.ring, at + 8) {
            kind::LINK => {
                let proof = self.ring[at + 48..at + 48 + PROOF_BYTES].try_into().expect("its length was checked");
                Record::Link { lbn: first, pbn: Pbn(value & PBN_MASK), slot: value.to_be_bytes()[0], proof }
            }
            kind::ZERO => Record::Zero { first, blocks: Blocks(value) },
            kind::UNMAP => Record::Unmap { first, blocks: Blocks(value) },
            _ => Record::Content { lbn: first, content: self.content(value).expect("the places of contents were looked at") },
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
