//! The blocks that have an entry in the fingerprint table.

use super::run::{Expects, LookResult, Run};
use super::{PIECES_A_STEP, Scrub};
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::geometry::Geometry;
use crate::format::page::{PageId, Region};
use crate::format::superblock::ScrubPart;
use crate::format::unit;
use crate::interface::Class;
use crate::io::{Arrived, Io};
use crate::pool::{Keys, Pool};
use crate::schedule::Task;
use crate::space::{GRANULE_BLOCKS, Space};
use crate::tables::Access;
use crate::units::{BLOCK_BYTES, Pbn, count, index};

impl Scrub {
    /// Reads the next blocks that have entries, or passes over those that have none.
    pub(super) fn read_blocks(&mut self, pool: &mut Pool, next: u64) {
        let blocks = pool.geometry.data_blocks;
        let mut first = next;
        while first < blocks.min(next + PIECES_A_STEP) {
            let id = PageId { region: Region::Fingerprints, index: first / GRANULE_BLOCKS };
            let end = ((id.index + 1) * GRANULE_BLOCKS).min(blocks);
            let is_blank = pool.tables.is_blank(&mut pool.io, id);
            let access = if is_blank { Access::Unreadable } else { pool.tables.ensure(&mut pool.io, id) };
            match access {
                // A page that cannot be read was found as such.
                Access::Unreadable => first = end,
                Access::Loading => {
                    self.advance_if_any(&mut pool.io, &pool.geometry, next, first);
                    self.waits = true;
                    return pool.tables.wait(&mut pool.io, id, Task::Scrub);
                }
                Access::Ready(resident) => {
                    let content = &resident.page().content;
                    let entries: Vec<FingerprintEntry> = (first..end).map(|pbn| content.fingerprint(index(pbn % GRANULE_BLOCKS))).collect();
                    let entries = match pool.needed_entries(Pbn(first), entries) {
                        Ok(entries) => entries,
                        Err(refs) => {
                            self.advance_if_any(&mut pool.io, &pool.geometry, next, first);
                            self.waits = true;
                            return pool.tables.wait(&mut pool.io, refs, Task::Scrub);
                        }
                    };
                    let most = self.run_max(first);
                    let (skipped, run) = next_run(&pool.space, &pool.geometry, first, &entries, most);
                    first += count(skipped);
                    if run == 0 {
                        continue;
                    }
                    self.advance_if_any(&mut pool.io, &pool.geometry, next, first);
                    return self.read_run(&mut pool.io, &mut pool.space, &pool.geometry, first, entries[skipped..skipped + run].to_vec());
                }
            }
        }
        self.advance(&mut pool.io, &pool.geometry, first);
    }

    fn read_run(&mut self, io: &mut Io, space: &mut Space, geometry: &Geometry, first: u64, entries: Vec<FingerprintEntry>) {
        let (at, pieces) = (geometry.block_at(Pbn(first)), count(entries.len()));
        (0..pieces).for_each(|i| space.pin(Pbn(first + i)));
        self.read(io, Run { part: ScrubPart::Data, first, pieces, expects: Expects::Blocks(entries) }, at, Class::Data);
    }

    /// Judges blocks by the entries that they had when the read began.
    pub(super) fn judge_blocks(space: &mut Space, keys: &Keys, first: u64, entries: &[FingerprintEntry], arrived: &Arrived) -> LookResult {
        let is_sound = |(i, entry): (usize, &FingerprintEntry)| {
            let (pbn, block) = (Pbn(first + count(i)), arrived.buffer.block(i));
            match entry.kind {
                Kind::Carrier => unit::is_named_by(&entry.value, block) && keys.authentic(pbn, block).is_some(),
                _ => entry.proves(&keys.fingerprinter, arrived.digest(i), block),
            }
        };
        let bad = if arrived.result.is_err() { Some(0) } else { entries.iter().enumerate().position(|of| !is_sound(of)) };
        (0..count(entries.len())).for_each(|i| space.unpin(Pbn(first + i)));
        bad.map_or(LookResult::Sound, |i| LookResult::Bad(count(i)))
    }

    /// Reports a damaged block, unless a read has found it before. Nothing has its content, so it is not written again.
    pub(super) fn report_block(pool: &mut Pool, pbn: u64, is_unreadable: bool) {
        if !pool.contents.suspects.contains(Pbn(pbn)) {
            let what = if is_unreadable { "a block cannot be read" } else { "content differs from its fingerprint" };
            pool.block_damaged(Pbn(pbn), what);
        }
    }
}

/// Finds the next blocks to read, from `first` on: how many to pass over, and how many neighbours have content with an entry.
fn next_run(space: &Space, geometry: &Geometry, first: u64, entries: &[FingerprintEntry], most: u64) -> (usize, usize) {
    let pbn = |i: usize| Pbn(first + count(i));
    let is_to_read = |&i: &usize| !entries[i].is_none() && !space.pending.contains(pbn(i));
    let skipped = (0..entries.len()).find(is_to_read).unwrap_or(entries.len());
    let goes_on = |i: &usize| geometry.block_at(pbn(*i)) == geometry.block_at(pbn(skipped)) + count(i - skipped) * BLOCK_BYTES;
    let run = (skipped..entries.len()).take(index(most)).take_while(|i| is_to_read(i) && goes_on(i)).count();
    (skipped, run)
}
