//! Reads of blocks for the work out of line: only a carrier has the fingerprints of its slots, and a block that others are to be mapped to
//! has to be read first, since their own copies are given up for it.
//!
//! 1. A block is pinned while it is read (R7), so what arrives belongs to the entry that asked for it.
//! 2. Nothing of a carrier is believed but what the volume made for that place and the entry names.
//! 3. Mappings that wait for what was read are made as soon as it arrives: the pause for the rate of reads comes after that.

use super::{OutOfLine, OutOfLineStage};
use crate::answers::Answers;
use crate::fingerprint::Digest;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::geometry::Geometry;
use crate::format::unit;
use crate::interface::Class;
use crate::io::{Arrived, Io, IoFor, Stage};
use crate::pool::Parts;
use crate::schedule::Task;
use crate::scheme::Scheme;
use crate::space::Space;
use crate::units::{Pbn, count};

/// Reads under way at once.
pub(super) const READS_AT_ONCE: usize = 8;
/// The most blocks in one read.
const RUN_BLOCKS_MAX: usize = 16;
/// This number of blocks counts as one read.
const RUN_BLOCKS_A_READ: usize = 8;

impl OutOfLine {
    /// Reads carriers whose entries are in memory, and waits for them.
    pub(super) fn read_carriers(&mut self, parts: &mut Parts, carriers: impl IntoIterator<Item = Pbn>) {
        let mut reads = 0;
        for pbn in carriers {
            let Ok(entry @ FingerprintEntry { kind: Kind::Carrier, .. }) = parts.pool.settled_entry(pbn) else { continue };
            self.read(&mut parts.pool.io, &mut parts.pool.space, &parts.pool.geometry, pbn, vec![entry]);
            reads += 1;
        }
        self.wait_for_reads(parts, reads);
    }

    /// Reads a block that others are to be mapped to, and neighbours of it for which the same is true.
    pub(super) fn read_targets(&mut self, parts: &mut Parts, first: Pbn) {
        let mut entries = Vec::new();
        let most = if first < self.read_singly_until { 1 } else { RUN_BLOCKS_MAX };
        while entries.len() < most && first.0 + count(entries.len()) < parts.pool.geometry.data_blocks {
            let pbn = first + count(entries.len());
            let is_next =
                entries.is_empty() || parts.pool.geometry.are_neighbours(Pbn(pbn.0 - 1), pbn) && self.is_target(&mut parts.pool, pbn);
            match parts.pool.settled_entry(pbn) {
                Ok(entry @ FingerprintEntry { kind: Kind::Fingerprint, .. }) if is_next => entries.push(entry),
                _ => break,
            }
        }
        let reads = entries.len().div_ceil(RUN_BLOCKS_A_READ);
        if reads > 0 {
            self.read(&mut parts.pool.io, &mut parts.pool.space, &parts.pool.geometry, first, entries);
        }
        self.wait_for_reads(parts, count(reads));
    }

    fn read(&mut self, io: &mut Io, space: &mut Space, geometry: &Geometry, first: Pbn, entries: Vec<FingerprintEntry>) {
        let (blocks, is_whole) = (entries.len(), entries[0].kind == Kind::Fingerprint);
        (0..count(blocks)).for_each(|i| space.pin(first + i));
        io.read(IoFor::ReadForOutOfLine { first, entries }, geometry.block_at(first), blocks, is_whole, Class::Data);
        self.reading += 1;
    }

    fn wait_for_reads(&mut self, parts: &mut Parts, reads: u64) {
        if self.reading > 0 {
            self.pause_after_reads(parts, reads);
        } else {
            parts.pool.io.schedule.ask_for_background();
        }
    }

    /// Notes the contents of blocks that have been read: none of one that is not what its entry says. Such a block is damaged.
    pub fn blocks_arrived(
        &mut self,
        parts: &mut Parts,
        scheme: &mut Scheme,
        answers: &mut Answers,
        (first, entries): (Pbn, Vec<FingerprintEntry>),
        arrived: &Arrived,
    ) {
        // Which of them cannot be read shows when each is read by itself.
        let is_unclear = arrived.result.is_err() && entries.len() > 1;
        if is_unclear {
            self.read_singly_until = first + count(entries.len());
        }
        for (i, entry) in entries.into_iter().enumerate() {
            let (pbn, block) = (first + count(i), arrived.buffer.block(i));
            let contents = match entry.kind {
                _ if arrived.result.is_err() => Vec::new(),
                Kind::Carrier if parts.pool.keys.authentic(pbn, block) == Some(entry.value) => unit::fingerprints(block),
                Kind::Fingerprint if arrived.digest(i) == Digest::Of(entry.value) => vec![entry.value],
                _ => Vec::new(),
            };
            if contents.is_empty() && !is_unclear {
                parts.pool.entry_is_wrong(pbn, arrived.result.is_err());
            }
            self.known.add(pbn, entry.value, contents);
            parts.pool.space.unpin(pbn);
        }
        self.reading -= 1;
        if self.reading == 0 {
            self.known.have_ended(parts.pool.io.now());
            parts.pool.io.schedule.push(Task::OutOfLine);
            self.map_to_what_was_read(parts, scheme, answers);
        }
    }

    fn map_to_what_was_read(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers) {
        if parts.pool.io.stage() != Stage::Serving || parts.pool.io.has_failed() || !self.may_work(parts) {
            return;
        }
        // What it has to wait for it meets again when it goes on.
        let _waits = match self.stage {
            OutOfLineStage::Sweep(next) if next.0 < parts.pool.geometry.data_blocks => {
                let (id, _) = parts.pool.geometry.fingerprint_of(next);
                let is_loaded = parts.pool.tables.pages.get(id).is_some();
                if is_loaded { self.compare_page(parts, scheme, answers, id, next) } else { Ok(()) }
            }
            OutOfLineStage::Sieve => self.compare_found(parts, scheme, answers),
            _ => Ok(()),
        };
    }
}
