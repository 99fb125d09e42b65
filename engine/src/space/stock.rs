//! The stock of a store in a file: free blocks at which the host has written before.
//!
//! 1. The log, and the first new blocks of each epoch, take such blocks where there are any: so the host has nothing of its own to write
//!    for a small epoch that somebody waits for. Large epochs take blocks where nothing was written yet, and the host writes its metadata
//!    once for all of them; or such of these blocks as the stock does not need.
//! 2. Formatting makes the first stock. When little is left, zeros are written to a further piece, ahead and in the background. A block
//!    of the piece is free for certain (R4), and pinned until that has ended (R6, R7), as for a discard.
//!    Before that, blocks that only their fingerprint keeps are reclaimed, as on a full volume: they are written, and a dead block is worth
//!    less than a write of zeros. So the stock serves a file system's journal that goes round forever.
//! 3. What the stock needs is not given back to the host (`discard.rs`).

use super::Space;
use super::supply::Ground;
use crate::io::{Io, Stage};
use crate::schedule::Task;
use crate::tables::{Access, Tables};
use crate::units::{BLOCK_BYTES, Pbn};

/// It is short when this part of it is left: kept blocks are reclaimed.
const SHORT_FRACTION: u64 = 4;
/// Little is left when this part of the stock is.
const LOW_FRACTION: u64 = 8;
/// The time after which a piece that the host refused is tried again.
const REFUSED_MS: u64 = 10_000;

impl Space {
    /// The number of free blocks at which the host has written before, as far as the scan knows.
    fn free_written(&self) -> u64 {
        self.census.free.saturating_sub(self.unwritten.blocks())
    }

    /// Whether large epochs may take from what the host has written.
    pub(super) fn has_more_than_stock(&self) -> bool {
        self.scan_complete() && self.free_written() > self.stock.blocks
    }

    /// The number of blocks that may be given back to the host.
    pub(super) fn beyond_stock(&self) -> u64 {
        self.free_written().saturating_sub(self.stock.blocks)
    }

    /// The number of blocks that are to be reclaimed for the stock, if it is short: `under_way` are being reclaimed. Otherwise what would
    /// replace them would go where the host has not written yet, or zeros would go there first.
    pub(super) fn lacks_in_stock(&self, under_way: u64) -> Option<u64> {
        if self.unwritten.is_empty() {
            return None;
        }
        let has = self.free_written() + under_way;
        (has < self.stock.blocks / SHORT_FRACTION).then(|| self.stock.blocks / SHORT_FRACTION * 2 - has)
    }

    /// Whether the stock has to grow, and may.
    pub fn is_stock_low(&self, io: &Io) -> bool {
        // This is asked at each turn, and most stores have no stock.
        if self.unwritten.is_empty() {
            return false;
        }
        let may =
            io.stage() == Stage::Serving && !io.has_failed() && !io.is_opened_to_read() && self.scan_complete() && !self.stock.is_growing;
        let has_room = !self.store.is_short && self.store_left > self.stock.blocks;
        let was_refused = self.stock.refused.is_some_and(|at| io.now() < at.plus_ms(REFUSED_MS));
        may && has_room && !was_refused && self.free_written() < self.stock.blocks / LOW_FRACTION
    }

    /// Lets the stock grow by a piece if it is low.
    pub fn fill_stock(&mut self, io: &mut Io, tables: &mut Tables) {
        self.prepare_free_blocks(io, tables);
        let mut piece: Option<(Pbn, u64)> = None;
        while let Some(&pbn) = self.supply(Ground::Unwritten).ready.front() {
            let is_next = piece.is_none_or(|(first, blocks)| {
                let begins_piece = self.geometry.block_at(pbn).get() % (self.policy.piece_blocks * BLOCK_BYTES) == 0;
                self.geometry.are_neighbours(first + (blocks - 1), pbn) && !begins_piece
            });
            if !is_next {
                break;
            }
            let page = self.geometry.refs_of(pbn).0;
            if matches!(tables.ensure(io, page), Access::Loading) {
                tables.wait(io, page, Task::Allocate);
                break;
            }
            self.supply(Ground::Unwritten).ready.pop_front();
            if self.is_free(tables, pbn) {
                piece = Some(piece.map_or((pbn, 1), |(first, blocks)| (first, blocks + 1)));
            }
        }
        let Some((first, blocks)) = piece else { return };
        (0..blocks).for_each(|i| self.pin(first + i));
        self.stock.is_growing = true;
        self.store_left = self.store_left.saturating_sub(blocks);
        io.fill(first, self.geometry.block_at(first), blocks);
    }

    /// Zeros were written to these blocks, or the host has refused them.
    pub fn stock_filled(&mut self, io: &Io, first: Pbn, blocks: u64, is_good: bool) {
        self.stock.is_growing = false;
        self.stock.refused = (!is_good).then_some(io.now());
        if is_good {
            self.unwritten.written(first, blocks);
        }
        (0..blocks).for_each(|i| self.unpin(first + i));
        let ground = self.ground_of(first);
        self.supply(ground).ready.extend((0..blocks).map(|i| first + i));
    }
}
