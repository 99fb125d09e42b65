//! Discards of freed blocks, in batches.
//!
//! A free block has no possible link (R4), so it may be discarded. It is pinned until the discard has ended (R6, R7).

use super::Space;
use crate::io::Io;
use crate::tables::Tables;
use crate::units::{Pbn, count};

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
        if io.failed || count(self.freed.len()) < if all { 1 } else { batch } {
            return;
        }
        let is_short = self.store.is_short;
        let run_min = if is_short { 1 } else { (batch / RUN_FRACTION).clamp(1, RUN_BLOCKS_MIN) };
        let mut freed = std::mem::take(&mut self.freed);
        // Ready blocks are about to be written again, so they are not worth a discard.
        self.ready.iter().for_each(|pbn| {
            freed.remove(pbn);
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
        if is_short {
            later.into_iter().for_each(|(first, blocks)| self.freed.extend((0..blocks).map(|i| first + i)));
        }
        for (first, blocks) in runs {
            self.discards += 1;
            (0..blocks).for_each(|i| self.pin(first + i));
            io.discard(first, self.geometry.block_at(first), blocks);
        }
    }

    /// Whether a block is free for certain: its count is in memory and zero, and it is not in use.
    fn is_free(&self, tables: &mut Tables, pbn: Pbn) -> bool {
        let (page, _) = self.geometry.refs_of(pbn);
        !self.is_busy(pbn) && tables.pages.get(page).is_some() && tables.refs_now(pbn) == 0
    }
}
