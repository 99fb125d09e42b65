//! Work out of line: duplicates that the index did not find when they were written (SmartDedup section 3.1).
//!
//! 1. It takes what the skipped buffer has, and waits until that is durable: what changes later is skipped again.
//! 2. It gathers candidates, LBNs with a tag of their fingerprint: of the skipped buffer, and of the ranges that somebody asked for.
//! 3. Then it sweeps the fingerprint table (`sweep.rs`). On a large volume it sets candidates aside until there are many, and sieves the
//!    table once for all of them (`sieve.rs`).
//! 4. A new mapping is a record of the open epoch, like that of a written duplicate, and obeys the same rules. The block that it leaves is
//!    kept by its entry alone, until it is reclaimed.
//! 5. Its reads are limited to a rate, and it makes no records while those of the open epoch fill a quarter of their memory; if somebody
//!    waits for it, half of their memory, so that the epoch is sealed then.
//! 6. On a large volume it reads no more than twice what clients write, unless somebody waits for it: what is left waits for their writes.
//! 7. On a full volume it begins at once, since it makes room. A sweep that has begun so goes on to its end.
//! 8. Blocks that were deferred are read while candidates are gathered, and get their fingerprints (`naming.rs`).

mod blocks;
mod due;
mod gather;
mod naming;
mod passes;
mod sieve;
mod sweep;

use crate::answers::Answers;
use crate::format::page::{PageId, Region};
use crate::index::{NamedLbn, Ranges, Skipped, ToCompare};
use crate::interface::Deduplicate;
use crate::io::Io;
use crate::pool::{BlocksRead, Medium, Parts};
use crate::schedule::{Blocked, Task};
use crate::scheme::Scheme;
use crate::space::{GRANULE_BLOCKS, Space};
use crate::stats::OutOfLineCounts;
use crate::units::{Epoch, Lbn, Pbn, Time, count};
use sieve::Sieve;
use std::collections::BTreeMap;

/// Work that somebody waits for reads this number of times as fast.
const URGENT: u64 = 8;
/// Ranges that somebody asked for and that are not gathered yet.
const RANGES_MAX: usize = 1024;
/// The time between two looks whether an epoch is durable.
const COMMIT_MS: u64 = 100;

/// The step of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutOfLineStage {
    /// Nothing is under way.
    Idle,
    /// This epoch and those before it are to be durable.
    Await(Epoch),
    /// Candidates are gathered.
    Gather,
    /// The fingerprint table is compared with the candidates, from the entry of this block on.
    Sweep(Pbn),
    /// It is sieved for what was set aside.
    Sieve,
}

/// The work out of line, and how far it is.
pub(crate) struct OutOfLine {
    stage: OutOfLineStage,
    /// The entries that were taken of the skipped buffer.
    batch: Skipped,
    /// While they are swept, they are in order of their tags.
    candidates: Vec<NamedLbn>,
    sieve: Sieve,
    /// The reason why nothing that is skipped can be set aside now.
    blocked_aside: Option<Blocked>,
    /// The blocks that it has read, and its reads that are under way.
    known: BlocksRead,
    reading: u64,
    /// The blocks below this one are read singly: they could not be read together.
    read_singly_until: Pbn,
    /// The blocks that candidates have left for later places, in these epochs: until later, their counts have the links that are gone.
    left: BTreeMap<Pbn, Epoch>,
    /// The candidates of this batch are set aside.
    is_setting_aside: bool,
    /// The volume was full during this sweep.
    makes_room: bool,
    /// A block that was deferred and could not be given its fingerprint.
    unnamed: Option<Pbn>,
    /// The LBNs that somebody asked for.
    asked: Ranges,
    pub waits: bool,
    /// It goes on at this time.
    pause: Option<Time>,
    looked_up: u64,
    linked: u64,
    read_units: u64,
}

impl OutOfLine {
    /// The work on a volume that was opened: what somebody had asked for goes on.
    pub fn new(parts: &Parts) -> Self {
        let mut asked = Ranges::new(RANGES_MAX);
        if parts.pool.settings.finds_out_of_line() {
            parts.volume.to_compare.asked().for_each(|(first, end)| asked.add(first, end));
        }
        Self {
            stage: OutOfLineStage::Idle,
            batch: parts.volume.skipped.another(),
            candidates: Vec::new(),
            sieve: Sieve::new(parts.pool.sieve_bytes(), &parts.pool.geometry),
            blocked_aside: None,
            known: BlocksRead::default(),
            reading: 0,
            read_singly_until: Pbn(0),
            left: BTreeMap::new(),
            is_setting_aside: false,
            makes_room: false,
            unnamed: None,
            asked,
            waits: false,
            pause: None,
            looked_up: 0,
            linked: 0,
            read_units: 0,
        }
    }

    /// Does what somebody asked for.
    #[cold]
    pub fn order(&mut self, parts: &mut Parts, order: Deduplicate) {
        let now = parts.pool.io.now();
        parts.volume.to_compare.pause(&mut parts.pool.medium.superblock, order == Deduplicate::Pause, now);
        if let Deduplicate::Range { first, end } = order {
            let end = end.min(Lbn(parts.pool.geometry.logical_blocks));
            if parts.pool.settings.finds_out_of_line() && first < end {
                self.asked.add(first, end);
                parts.volume.to_compare.ask(&mut parts.pool.medium.superblock, first, end, now);
            }
        }
        self.pause = None;
    }

    /// The LBNs that it mapped to another block.
    pub fn linked(&self) -> u64 {
        self.linked
    }

    pub fn counts(&self, parts: &Parts) -> OutOfLineCounts {
        let is_passing = matches!(self.stage, OutOfLineStage::Sieve);
        let asked_aside = if parts.volume.to_compare.is_asked { self.sieve.awaited() } else { 0 };
        OutOfLineCounts {
            is_on: parts.pool.settings.finds_out_of_line(),
            is_paused: parts.volume.to_compare.is_paused,
            skipped: parts.volume.skipped.counts(),
            taken: self.batch.counts(),
            asked_lbns: self.asked.lbns() + asked_aside,
            aside_lbns: self.sieve.aside() - asked_aside,
            aside_blocks: self.sieve.blocks(),
            candidates: if is_passing { self.sieve.candidates() } else { count(self.candidates.len()) },
            swept_pages: match self.stage {
                OutOfLineStage::Sweep(next) => next.0 / GRANULE_BLOCKS,
                OutOfLineStage::Sieve => self.sieve.sieved_pages(),
                _ => 0,
            },
            pages: parts.pool.geometry.pages_of_blocks(Region::Fingerprints),
            looked_up: self.looked_up,
            linked: self.linked,
            read_units: self.read_units,
        }
    }

    /// Does a little of it, and counts what it reads for that.
    pub fn look_for_duplicates(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers) {
        let before = parts.pool.io.ledger.read_units();
        self.do_a_little(parts, scheme, answers);
        self.read_units += parts.pool.io.ledger.read_units() - before;
    }

    fn do_a_little(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers) {
        self.waits = self.reading > 0;
        if is_save_due(&parts.pool.io, &parts.volume.to_compare, &parts.pool.medium) {
            scheme.update_superblock(&mut parts.pool);
        }
        if self.gives_room_back(&parts.pool.space) {
            self.give_up_sieve(&mut parts.pool.io, &mut parts.pool.space, &parts.volume.to_compare);
        }
        if self.sets_aside_meanwhile(parts) {
            self.set_aside_meanwhile(parts);
        }
        if self.rests(parts) || self.pause.is_some_and(|until| parts.pool.io.now() < until) {
            return;
        }
        self.pause = None;
        self.makes_room |= parts.pool.space.is_full();
        match self.stage {
            OutOfLineStage::Idle if self.is_pass_due(&parts.volume.to_compare, &parts.pool.geometry) => {
                self.begin_pass(&mut parts.pool.io, &parts.pool.tables)
            }
            OutOfLineStage::Idle => {
                self.blocked_aside = None;
                if self.batch.is_empty() {
                    std::mem::swap(&mut self.batch, &mut parts.volume.skipped);
                    parts.volume.to_compare.begin();
                    self.sieve.await_all();
                }
                self.stage = OutOfLineStage::Await(parts.pool.tables.open.number);
                parts.pool.io.schedule.ask_for_background();
            }
            OutOfLineStage::Await(epoch) if !parts.pool.tables.is_durable(epoch) => self.wait_for_commit(&parts.pool.io),
            OutOfLineStage::Await(_) => {
                self.is_setting_aside = self.sets_aside(&parts.pool.io, &parts.pool.space);
                if !self.is_setting_aside {
                    self.candidates = self.batch.take_named();
                }
                self.stage = OutOfLineStage::Gather;
                parts.pool.io.schedule.ask_for_background();
            }
            OutOfLineStage::Gather => self.gather(parts),
            OutOfLineStage::Sweep(next) => self.sweep(parts, scheme, answers, next),
            OutOfLineStage::Sieve => self.go_on_sieving(parts, scheme, answers),
        }
    }

    /// Waits for a page that is being read, by one of this number of reads.
    fn wait(&mut self, parts: &mut Parts, id: PageId, reads: u64) {
        self.pause_after_reads(parts, reads);
        parts.pool.tables.wait(&mut parts.pool.io, id, Task::OutOfLine);
    }

    /// Waits for reads, and then for as long as their rate asks for.
    fn pause_after_reads(&mut self, parts: &Parts, reads: u64) {
        self.waits = true;
        let rate = parts.pool.settings.knobs.out_of_line_reads_per_second;
        let share = u64::from(parts.volume.adaptation.allowance().out_of_line);
        let rate = if self.makes_room || is_urgent(&parts.pool.space, &parts.volume.to_compare) {
            rate.saturating_mul(URGENT)
        } else {
            (rate.saturating_mul(share) / 100).max(1)
        };
        self.pause = Some(parts.pool.io.now().plus_ns((reads * 1_000_000_000).div_ceil(rate)));
    }

    /// Waits until the open epoch may be durable.
    fn wait_for_commit(&mut self, io: &Io) {
        self.pause = Some(io.now().plus_ms(COMMIT_MS));
    }

    fn end_sweep(&mut self, io: &Io, to_compare: &mut ToCompare, medium: &mut Medium) {
        self.known.clear();
        (self.read_singly_until, self.makes_room) = (Pbn(0), false);
        self.batch.give_named(std::mem::take(&mut self.candidates));
        self.stage = OutOfLineStage::Idle;
        self.end_if_compared(io, to_compare, medium);
    }

    /// Ends with the regions that are under way, unless something of them is still to be compared.
    fn end_if_compared(&self, io: &Io, to_compare: &mut ToCompare, medium: &mut Medium) {
        if self.batch.is_empty() && self.asked.first().is_none() && self.sieve.awaited() == 0 {
            to_compare.end(&mut medium.superblock, io.now());
        }
    }

    /// Notes that what it waited for is there.
    pub fn is_called(&mut self) {
        self.waits = false;
    }
}

/// Whether somebody waits for it: who has asked for it, or writes that find no room.
fn is_urgent(space: &Space, to_compare: &ToCompare) -> bool {
    to_compare.is_asked || space.is_full()
}

/// The time at which the superblock has to be written again, unless it is being written.
fn save_at(io: &Io, to_compare: &ToCompare, medium: &Medium) -> Option<Time> {
    to_compare.save_at(&medium.superblock).filter(|_| !medium.is_busy() && !io.is_read_only())
}

fn is_save_due(io: &Io, to_compare: &ToCompare, medium: &Medium) -> bool {
    save_at(io, to_compare, medium).is_some_and(|at| at <= io.now())
}
