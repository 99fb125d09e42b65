//! Discards of freed blocks, in batches.
//!
//! A free block has no possible link (R4), so it may be discarded. It is pinned until the discard has ended (R6, R7).
//!
//! A file goes back to its host in whole pieces: a hole of 4 KiB would cost the host metadata now and again when it is written. What the
//! stock needs stays (`stock.rs`). Only where the host is short of room it gets everything.

use super::Space;
use crate::io::Io;
use crate::tables::Tables;
use crate::units::{BLOCK_BYTES, Pbn, count};
use std::collections::BTreeSet;

/// Shorter runs are not worth a command, except in small batches.
const RUN_BLOCKS_MIN: u64 = 8;
/// In a small batch the shortest run is the batch divided by this.
const RUN_FRACTION: u64 = 128;
/// The most commands in one batch.
const RUNS_A_BATCH: usize = 64;

impl Space {
    /// Discards freed blocks if they make a full batch, or, with `all`, however few they are.
    pub fn discard_freed(&mut self, io: &mut Io, tables: &mut Tables, all: bool) {
        let batch = self.policy.discard_batch_blocks;
        if io.has_failed() || count(self.freed.len()) < if all { 1 } else { batch } {
            return;
        }
        let is_short = self.store.is_short;
        if self.unwritten.is_tracked() && !is_short {
            return self.discard_pieces(io, tables);
        }
        let run_min = if is_short { 1 } else { (batch / RUN_FRACTION).clamp(1, RUN_BLOCKS_MIN) };
        let mut freed = std::mem::take(&mut self.freed);
        // Ready blocks are about to be written again, so they are not worth a discard.
        self.ready_blocks().for_each(|pbn| {
            freed.remove(&pbn);
        });
        let mut runs: Vec<(Pbn, u64)> = Vec::new();
        for pbn in freed {
            if !self.is_free(tables, pbn) {
                continue;
            }
            match runs.last_mut() {
                Some((first, blocks)) if self.geometry.are_neighbours(*first + (*blocks - 1), pbn) => *blocks += 1,
                _ => runs.push((pbn, 1)),
            }
        }
        runs.retain(|&(_, blocks)| blocks >= run_min);
        runs.sort_by_key(|&(first, blocks)| (std::cmp::Reverse(blocks), first));
        let later = runs.split_off(runs.len().min(RUNS_A_BATCH));
        if is_short || all {
            later.into_iter().for_each(|(first, blocks)| self.freed.extend((0..blocks).map(|i| first + i)));
        }
        runs.into_iter().for_each(|(first, blocks)| self.discard(io, first, blocks));
    }

    fn discard(&mut self, io: &mut Io, first: Pbn, blocks: u64) {
        self.discards += 1;
        (0..blocks).for_each(|i| self.pin(first + i));
        self.unwritten.given_back(first, blocks);
        io.discard(first, self.geometry.block_at(first), blocks);
    }

    /// Discards the pieces in which blocks were freed and which are free as a whole, but for the stock. Those at the end of the store go
    /// first.
    fn discard_pieces(&mut self, io: &mut Io, tables: &mut Tables) {
        let freed = std::mem::take(&mut self.freed);
        let pieces: BTreeSet<Pbn> = freed.into_iter().filter_map(|pbn| self.piece_of(pbn)).collect();
        let ready: BTreeSet<Pbn> = self.ready_blocks().filter_map(|pbn| self.piece_of(pbn)).collect();
        let mut runs = 0;
        for first in pieces.into_iter().rev().filter(|first| !ready.contains(first)) {
            let is_known = self.has_counts_of(tables, first) && self.has_counts_of(tables, first + (self.policy.piece_blocks - 1));
            if is_known && !(0..self.policy.piece_blocks).all(|i| self.is_free(tables, first + i)) {
                continue;
            }
            if !is_known || runs == RUNS_A_BATCH || self.beyond_stock() < self.policy.piece_blocks {
                // It is looked at again with what is freed next.
                self.freed.insert(first);
                continue;
            }
            runs += 1;
            self.discard(io, first, self.policy.piece_blocks);
        }
    }

    /// The first block of the piece in which a block lies, if all of the piece is in one extent.
    fn piece_of(&self, pbn: Pbn) -> Option<Pbn> {
        let (from, end) = self.geometry.extent_of(pbn);
        let within = self.geometry.block_at(pbn).get() / BLOCK_BYTES % self.policy.piece_blocks;
        let first = Pbn(pbn.get().checked_sub(within)?);
        (first >= from && first + self.policy.piece_blocks <= end).then_some(first)
    }

    /// Whether a block is free for certain: its count is in memory and zero, and it is not in use.
    pub(super) fn is_free(&self, tables: &mut Tables, pbn: Pbn) -> bool {
        !self.is_busy(pbn) && self.has_counts_of(tables, pbn) && tables.refs_now(pbn) == 0
    }

    /// Whether the page with the count of a block is in memory.
    fn has_counts_of(&self, tables: &mut Tables, pbn: Pbn) -> bool {
        tables.pages.get(self.geometry.refs_of(pbn).0).is_some()
    }

    /// Takes the end of a discard of these blocks.
    pub fn discard_ended(&mut self, first: Pbn, blocks: u64) {
        self.discards -= 1;
        (0..blocks).for_each(|i| self.unpin(first + i));
    }
}
