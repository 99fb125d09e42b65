//! The next requests of clients, drawn by the run's options.

use super::Client;
use super::contents::with_head;
use crate::checkers::oracle::{Oracle, TOGETHER_MAX};
use crate::explorer::options::Shape;
use crate::explorer::setting::Stretch;
use crate::ground::content::{Content, Shared, pattern};
use crate::ground::record::record;
use fastrand::Rng;
use onefold_engine::format::ProtectedRange;
use onefold_engine::interface::{Allowance, Deduplicate, Event, Op, Request, ScrubOrder};
use onefold_engine::units::{BLOCK_BYTES, Bytes, Lbn};

impl Client {
    fn stretch(&self, rng: &mut Rng) -> Stretch {
        self.stretches[rng.usize(0..self.stretches.len())]
    }

    fn content(&mut self, rng: &mut Rng) -> Shared {
        if rng.u8(..) < self.options.zero {
            return Content::zero();
        }
        if rng.u8(..) < self.options.unique {
            self.unique += 1;
            return with_head(&self.options, pattern(&format!("u{}", self.unique % 10_000_000)));
        }
        self.alphabet[rng.usize(0..self.alphabet.len())].clone()
    }

    /// Draws the next request and reports it to the oracle.
    pub fn next(&mut self, oracle: &mut Oracle, rng: &mut Rng) -> Request {
        let mix = self.options.mix;
        let kinds = [mix.write, mix.part, mix.read, mix.flush, mix.discard, mix.zeroes];
        let mut draw = rng.u32(0..kinds.iter().sum());
        let kind = kinds.iter().position(|&w| {
            draw < w || {
                draw -= w;
                false
            }
        });
        let fua = rng.u8(..) < self.options.fua;
        let used = || self.stretches.iter().flat_map(|&(first, blocks)| first..first + blocks);
        if let Some(lbn) = used().find(|&lbn| oracle.is_tangled(lbn)) {
            let content = self.content(rng);
            return self.write(lbn, &[content], fua, oracle);
        }
        // If too many versions of one block are pending already, a read is always possible.
        let crowded = used().any(|lbn| !oracle.has_room(lbn));
        let kind = if crowded && kind != Some(3) { Some(2) } else { kind };
        if let Some(lbn) = self.coincidences.next_to_read() {
            return self.read(lbn * BLOCK_BYTES, BLOCK_BYTES, oracle);
        }
        if let Some(request) = self.try_that_coincides(fua, oracle, rng) {
            return request;
        }
        match kind.expect("a kind was drawn") {
            0 => self.whole_blocks(fua, oracle, rng),
            1 if self.options.coincide => match self.part_of_recent(fua, oracle, rng) {
                Some(request) => request,
                None => self.whole_blocks(fua, oracle, rng),
            },
            1 => {
                let (first, blocks) = self.part_of_stretch(rng);
                let sectors = blocks * 8;
                let from = rng.u64(0..sectors);
                let to = rng.u64(from + 1..=sectors);
                let contents: Vec<Shared> = (from / 8..to.div_ceil(8)).map(|_| self.content(rng)).collect();
                self.write_sectors(first * 8 + from, to - from, &contents, fua, oracle)
            }
            2 => {
                let (first, blocks) = self.part_of_stretch(rng);
                let (from, to) = if rng.u8(..) < 64 { (rng.u64(0..4), blocks * 8 - rng.u64(0..4)) } else { (0, blocks * 8) };
                self.read_or_ask((first * 8 + from) * 512, (to - from) * 512, oracle)
            }
            3 => self.flush(oracle),
            4 if self.options.shape != Shape::Spread && rng.u8(..) < 24 => {
                let first = rng.u64(0..self.volume.geometry.logical_blocks);
                let (first, blocks) = self.beyond_used(first, rng);
                self.clear(Op::Discard, first * 8, blocks * 8, fua, oracle)
            }
            kind => {
                let op = if kind == 4 { Op::Discard } else { Op::WriteZeroes };
                let (first, blocks) = self.part_of_stretch(rng);
                let (from, to) = if rng.u8(..) < 48 { (rng.u64(0..4), blocks * 8 - rng.u64(0..4)) } else { (0, blocks * 8) };
                self.clear(op, first * 8 + from, to - from, fua, oracle)
            }
        }
    }

    /// Draws an order for the work out of line, another size of the index, or what the machine can afford.
    pub fn order_out_of_line(&self, rng: &mut Rng) -> Event {
        let (first, blocks) = self.part_of_stretch(rng);
        let order = match rng.u8(0..10) {
            0 => Event::Deduplicate(Deduplicate::Pause),
            1 => Event::Deduplicate(Deduplicate::Resume),
            2 => Event::Deduplicate(Deduplicate::Range { first: Lbn(0), end: Lbn(self.volume.geometry.logical_blocks) }),
            9 => Event::Allowance(Allowance { in_line: rng.u8(0..=100), out_of_line: [0, 50, 100][rng.usize(0..3)] }),
            3 => Event::IndexMemory(Bytes([0, 1 << 20][rng.usize(0..2)])),
            _ => Event::Deduplicate(Deduplicate::Range { first: Lbn(first), end: Lbn(first + blocks) }),
        };
        record!("  order: {order:?}");
        order
    }

    /// Draws ranges that are to be protected from now on, instead of those that were before.
    pub fn order_protection(&self, rng: &mut Rng) -> Event {
        let range = |rng: &mut Rng| {
            let (first, blocks) = self.part_of_stretch(rng);
            ProtectedRange { first: Lbn(first), blocks: u32::try_from(blocks).expect("a few"), is_found: true }
        };
        let ranges: Vec<_> = (0..rng.usize(0..4)).map(|_| range(rng)).collect();
        record!("  order: protect {ranges:?}");
        Event::Protect(ranges)
    }

    /// Draws an order for the scrub, or one to save the ledger. Most begin a scrub, or let it go on, at a rate that reads a volume of a run
    /// within its time.
    pub fn order_scrub(&self, rng: &mut Rng) -> Event {
        let order = match rng.u8(0..8) {
            0 => ScrubOrder::Pause,
            1 => ScrubOrder::Resume,
            2 => ScrubOrder::Cancel,
            3 => {
                record!("  order: save the ledger");
                return Event::SaveLedger;
            }
            _ => ScrubOrder::Begin { kib_per_second: [1 << 16, 1 << 24][rng.usize(0..2)] },
        };
        record!("  order: {order:?}");
        Event::Scrub(order)
    }

    fn whole_blocks(&mut self, fua: bool, oracle: &mut Oracle, rng: &mut Rng) -> Request {
        let (first, blocks) = self.part_of_stretch(rng);
        let contents: Vec<Shared> = (0..blocks).map(|_| self.content(rng)).collect();
        if self.options.coincide {
            self.coincidences.writes(first..first + blocks);
        }
        self.write(first, &contents, fua, oracle)
    }

    fn part_of_stretch(&self, rng: &mut Rng) -> (u64, u64) {
        let (first, blocks) = self.stretch(rng);
        let from = rng.u64(0..blocks);
        (first + from, rng.u64(1..=self.options.blocks.min(blocks - from)))
    }

    /// Draws a long range of blocks, some of which no write goes to.
    fn beyond_used(&self, first: u64, rng: &mut Rng) -> (u64, u64) {
        let logical = self.volume.geometry.logical_blocks;
        let end = (first + rng.u64(1..=900)).min(logical);
        (first, end - first)
    }

    /// Notes that a block of content is being written: a pack, or a client's block.
    pub fn sees_content(&mut self, content: &Shared) {
        if self.options.coincide {
            self.coincidences.sees(content);
        }
    }

    /// Notes that everything to be written has been written.
    pub fn has_seen_content(&mut self, rng: &mut Rng) {
        if self.coincidences.has_news() {
            self.coincidences.has_seen(self.waiting.values(), rng);
        }
    }

    /// Writes the next content that makes a block equal to another.
    fn try_that_coincides(&mut self, fua: bool, oracle: &mut Oracle, rng: &mut Rng) -> Option<Request> {
        while let Some((lbn, content)) = self.coincidences.next_try() {
            let is_on = self.waiting.values().any(|w| w.is_part() && w.lbn() == lbn);
            if is_on && oracle.has_room(lbn) && oracle.together(lbn) < TOGETHER_MAX - 1 {
                self.coincidences.doubt(lbn);
                let (from, sectors) = if rng.u8(..) < 64 { (1, 7) } else { (0, 8) };
                return Some(self.write_sectors(lbn * 8 + from, sectors, &[content], fua, oracle));
            }
        }
        None
    }

    /// Writes a part of a block that was written recently and is not stored anywhere yet.
    fn part_of_recent(&mut self, fua: bool, oracle: &mut Oracle, rng: &mut Rng) -> Option<Request> {
        let plain: Vec<u64> = self.coincidences.recent().filter(|&lbn| oracle.together(lbn) == 0).collect();
        let &lbn = plain.get(rng.usize(0..plain.len().max(1)))?;
        let from = rng.u64(0..8);
        let (sectors, content) = (rng.u64(1..=(8 - from).min(7)), self.content(rng));
        Some(self.write_sectors(lbn * 8 + from, sectors, &[content], fua, oracle))
    }
}
