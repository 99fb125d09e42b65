//! Passes of the sieve over the fingerprint table, on a large volume: when they begin and end, and the comparison of what they find.

use super::sieve::Sifted;
use super::{OutOfLine, OutOfLineStage};
use crate::answers::Answers;
use crate::format::geometry::Geometry;
use crate::index::ToCompare;
use crate::io::{Arrived, Io};
use crate::pool::{Medium, Parts};
use crate::schedule::{Blocked, Task};
use crate::scheme::Scheme;
use crate::space::Space;
use crate::tables::Tables;
use crate::units::Pbn;

impl OutOfLine {
    /// Whether a pass over the table is to begin.
    pub(super) fn is_pass_due(&self, to_compare: &ToCompare, geometry: &Geometry) -> bool {
        let is_all_gathered = self.batch.is_empty() && self.asked.first().is_none();
        let aside = self.sieve.aside();
        aside > 0 && (self.is_pass_full(geometry) || to_compare.is_asked && is_all_gathered)
    }

    /// Whether enough was set aside for a pass.
    pub(super) fn is_pass_full(&self, geometry: &Geometry) -> bool {
        self.sieve.aside() >= self.sieve.candidates_wanted(geometry)
    }

    pub(super) fn begin_pass(&mut self, io: &mut Io, tables: &Tables) {
        self.looked_up += self.sieve.begin_pass(tables);
        self.stage = OutOfLineStage::Sieve;
        io.schedule.ask_for_background();
    }

    /// Goes on with the pass that is under way.
    pub(super) fn go_on_sieving(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers) {
        match self.sieve.sift(&mut parts.pool, self.reading > 0) {
            Sifted::Goes => parts.pool.io.schedule.ask_for_background(),
            Sifted::Commits => self.wait_for_commit(&parts.pool.io),
            Sifted::Page(page, reads) => self.wait(parts, page, reads),
            Sifted::Reads(reads) => {
                self.reading += 1;
                self.pause_after_reads(parts, reads);
            }
            Sifted::Writes => self.waits = true,
            Sifted::NoRoom if self.sieve.is_writing() => self.waits = true,
            Sifted::NoRoom => self.give_up_sieve(&mut parts.pool.io, &mut parts.pool.space, &parts.volume.to_compare),
            Sifted::Found => self.go_on_comparing(parts, scheme, answers),
            Sifted::Over => self.end_pass(&mut parts.pool.io, &mut parts.pool.space, &mut parts.volume.to_compare, &mut parts.pool.medium),
        }
    }

    fn go_on_comparing(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers) {
        if self.candidates.is_empty() {
            self.forget_left(&parts.pool.tables);
            self.candidates = self.sieve.candidates_found();
        }
        match self.compare_found(parts, scheme, answers) {
            Ok(()) => parts.pool.io.schedule.ask_for_background(),
            Err(Blocked::Page(missing)) => self.wait(parts, missing, 1),
            Err(Blocked::Compare(missing)) => self.read_targets(parts, missing),
            Err(Blocked::Carrier(missing)) => self.read_carriers(parts, [missing]),
            Err(_) => self.wait_for_room(&parts.pool.io, &mut parts.pool.tables, &parts.pool.settings),
        }
    }

    /// Compares the candidates with the blocks that may have their content.
    pub(super) fn compare_found(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers) -> Result<(), Blocked> {
        while let Some(pbn) = self.sieve.block_found() {
            self.compare_block(parts, scheme, answers, pbn)?;
            self.sieve.block_compared();
        }
        self.candidates.clear();
        Ok(())
    }

    /// Ends with the candidates of a pass: all of them were compared.
    fn end_pass(&mut self, io: &mut Io, space: &mut Space, to_compare: &mut ToCompare, medium: &mut Medium) {
        self.sieve.end_pass(space);
        self.end_sweep(io, to_compare, medium);
        self.blocked_aside = None;
        io.schedule.ask_for_background();
    }

    /// Whether a full volume is to get the blocks back now: whatever the work waits for, but for what is under way on them (R7).
    pub(super) fn gives_room_back(&self, space: &Space) -> bool {
        space.is_full() && self.sieve.blocks() > 0 && self.reading == 0 && !self.sieve.is_writing()
    }

    /// Gives the blocks back. What is being compared, or waits for it, is gathered again.
    #[cold]
    pub(super) fn give_up_sieve(&mut self, io: &mut Io, space: &mut Space, to_compare: &ToCompare) {
        self.sieve.give_up(space);
        self.candidates.clear();
        self.known.clear();
        let left = to_compare.under_way().chain(to_compare.skipped());
        left.for_each(|(first, end)| self.asked.add(first, end));
        self.stage = OutOfLineStage::Idle;
        io.schedule.ask_for_background();
    }

    /// Whether candidates are set aside.
    pub(super) fn sets_aside(&self, io: &Io, space: &Space) -> bool {
        self.sieve.has_memory() && !io.is_read_only() && !space.lacks_room_for_others(io.stage())
    }

    /// Whether LBNs that are skipped have to be set aside now, whatever the work does or waits for: there are more than fit into memory.
    pub(super) fn sets_aside_meanwhile(&self, parts: &Parts) -> bool {
        let may = match self.blocked_aside {
            None => true,
            Some(Blocked::Page(page)) => parts.pool.tables.pages.peek(page).is_some(),
            Some(_) => false,
        };
        let has_many = parts.volume.skipped.is_nearly_full() && parts.volume.skipped.last_named().is_some();
        may && has_many && self.sets_aside(&parts.pool.io, &parts.pool.space) && self.sieve.takes_more()
    }

    /// Sets aside for later passes what is skipped meanwhile.
    pub(super) fn set_aside_meanwhile(&mut self, parts: &mut Parts) {
        self.blocked_aside = None;
        while let Some((candidate, low)) = parts.volume.skipped.last_named() {
            if let Err(blocked) = self.sieve.set_aside(&mut parts.pool, candidate, low) {
                if let Blocked::Page(page) = blocked {
                    parts.pool.tables.wait(&mut parts.pool.io, page, Task::OutOfLine);
                }
                self.blocked_aside = Some(blocked);
                return;
            }
            parts.volume.skipped.remove_last_named();
        }
    }

    /// Pages of the sieve have arrived.
    pub fn sieve_pages_arrived(&mut self, io: &mut Io, first: Pbn, arrived: &Arrived) {
        self.sieve.pages_arrived(first, arrived);
        self.reading -= 1;
        io.schedule.push(Task::OutOfLine);
    }

    /// A page of the sieve was written.
    pub fn sieve_page_written(&mut self, io: &mut Io) {
        self.sieve.page_written();
        io.schedule.push(Task::OutOfLine);
    }
}
