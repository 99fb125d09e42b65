//! Completions of device operations: each goes to the component that asked for the operation.

use super::Engine;
use crate::format::page::PageId;
use crate::interface::{IoFailure, IoId};
use crate::io::{Arrived, FlushFor, IoFor, Stage};
use crate::pool::Pool;
use crate::recovery::{OpeningEvent, promised_contents, replay};
use crate::schedule::Task;
use crate::space::GRANULE_BLOCKS;
use crate::units::{Pbn, count};

impl Engine {
    pub(super) fn on_read(&mut self, io: IoId, arrived: Arrived) {
        let Self { parts, requests, answers, scheme, phase, background, .. } = self;
        match parts.pool.io.end(io) {
            Some(IoFor::PageLoad(first)) => self.pages_loaded(first, &arrived),
            Some(IoFor::Read { op, run }) => requests.read_arrived(&mut parts.pool, op, run, arrived),
            Some(IoFor::ReadForWrite { op, pbn }) => requests.write_base_arrived(parts, scheme, answers, op, pbn, arrived),
            Some(IoFor::ReadForProof { first }) => {
                promised_contents::content_arrived(&mut parts.pool, answers, first, arrived);
                self.go_on_replaying();
            }
            Some(IoFor::ReadForReplay { pbn, slot, lbn }) => {
                replay::copy_arrived(&mut parts.pool, answers, requests, lbn, (pbn, slot), arrived)
            }
            Some(IoFor::ReadForFingerprint { first }) => background.rebuild.unnamed_arrived(&mut parts.pool, first, &arrived),
            Some(IoFor::ReadForIndex { pbn, authenticator }) => {
                background.rebuild.carrier_arrived(&mut parts.pool, pbn, authenticator, &arrived)
            }
            Some(IoFor::ReadForNaming { first, wanted }) => {
                background.out_of_line.unnamed_arrived(&mut parts.pool, first, wanted, &arrived)
            }
            Some(IoFor::ReadForOutOfLine { first, entries }) => {
                background.out_of_line.blocks_arrived(parts, scheme, answers, (first, entries), &arrived);
            }
            Some(IoFor::ReadForSieve { first }) => background.out_of_line.sieve_pages_arrived(&mut parts.pool.io, first, &arrived),
            Some(IoFor::ReadForScrub) => background.scrub.arrived(&mut parts.pool, scheme, &arrived),
            Some(what @ (IoFor::ReadForScan { .. } | IoFor::ReadForVerification { .. } | IoFor::PageForVerification(_))) => {
                let step = phase.on(OpeningEvent::LogBlock(what, arrived), &mut parts.pool, scheme, answers);
                self.go_on_opening(step);
            }
            Some(IoFor::SuperblockRead) => self.superblock_read(&arrived.buffer, arrived.result),
            _ => debug_assert!(false, "a read that nobody asked for ended"),
        }
    }

    /// Takes the pages that one read has brought.
    fn pages_loaded(&mut self, first: PageId, arrived: &Arrived) {
        for i in 0..arrived.buffer.blocks() {
            let Pool { tables, io, .. } = &mut self.parts.pool;
            let overtaken = tables.page_loaded(io, first.after(count(i)), arrived.buffer.block(i), arrived.result);
            overtaken.into_iter().for_each(|last| self.log_is_damaged(last));
        }
    }

    pub(super) fn on_written(&mut self, io: IoId, result: Result<(), IoFailure>) {
        let Some(what) = self.parts.pool.io.end(io) else {
            debug_assert!(false, "a write that nobody asked for ended");
            return;
        };
        if result.is_err() {
            self.fail(match &what {
                IoFor::Content { .. } | IoFor::ProvedContent(_) | IoFor::SievePage => "a write of data",
                IoFor::Superblock => "a write of the superblock",
                IoFor::Units { .. } | IoFor::CompactedUnits { .. } => "a write of the log",
                _ => "a write of metadata",
            });
        }
        let Self { parts, answers, scheme, phase, background, .. } = self;
        let stamp = parts.pool.io.durability.completed(result.is_ok());
        match what {
            IoFor::Content { first, blocks } => self.content_written(io, (first, blocks), stamp, result.is_ok()),
            IoFor::ProvedContent(blocks) => {
                promised_contents::content_written(&parts.pool.io, answers, blocks);
                self.go_on_replaying();
            }
            IoFor::PageWrite { id, removed } => {
                if parts.pool.tables.page_written(&mut parts.pool.io, id, removed, stamp, result) {
                    scheme.page_written(&mut parts.pool.io, &parts.pool.tables, id, stamp);
                    parts.pool.contents.go_on_marking(&mut parts.pool.io);
                    self.go_on_closing_if_begun();
                }
            }
            IoFor::Units { units, carriers, .. } => {
                scheme.units_written(&mut parts.pool, units, carriers, result.is_ok());
                let step = phase.on(OpeningEvent::UnitsWritten(units), &mut parts.pool, scheme, answers);
                self.go_on_opening(step);
            }
            IoFor::CompactedUnits { units } => scheme.copies_written(&mut parts.pool.io, units),
            IoFor::SievePage => background.out_of_line.sieve_page_written(&mut parts.pool.io),
            IoFor::Superblock => self.superblock_copy_written(),
            _ => debug_assert!(false, "the end of a write names something else"),
        }
    }

    /// Goes on when a write of new content has ended.
    fn content_written(&mut self, io: IoId, (first, blocks): (Pbn, u64), stamp: u64, is_good: bool) {
        let Self { parts, answers, scheme, .. } = self;
        parts.pool.contents.write_ended();
        scheme.content_arrived(io);
        parts.pool.io.durability.content_written(stamp);
        for pbn in (0..blocks).map(|i| first + i) {
            let pending = parts.pool.space.pending.get_mut(pbn).expect("content in flight is fresh");
            // After a failure, too: see `release_unsent_content`.
            pending.drop_content();
            if is_good && !pending.waits {
                parts.pool.space.forget_pending(pbn);
            }
            answers.ack_journal.content_lies_there(&mut parts.pool, pbn, is_good);
            answers.content_arrived(&mut parts.pool, pbn, is_good);
        }
        parts.pool.space.has_changed();
        parts.pool.tables.commit_may_go_on(&mut parts.pool.io);
    }

    pub(super) fn on_flushed(&mut self, io: IoId, result: Result<(), IoFailure>) {
        let Some(IoFor::Flush { why, mark }) = self.parts.pool.io.end(io) else { return };
        if result.is_err() {
            self.fail("a flush");
        } else {
            self.parts.pool.io.durability.flushed(mark);
            self.after_any_flush();
        }
        let Self { parts, answers, scheme, phase, .. } = self;
        let failed = parts.pool.io.has_failed();
        match why {
            FlushFor::CommitContent | FlushFor::CommitLinks if failed => {}
            FlushFor::CommitContent | FlushFor::CommitLinks => {
                let progress = scheme.commit_flushed(&mut parts.pool, answers);
                self.commit_progressed(progress);
            }
            FlushFor::Opening => {
                let step = phase.on(OpeningEvent::DeviceFlushed, &mut parts.pool, scheme, answers);
                self.go_on_opening(step);
            }
            FlushFor::OpeningUnits => {
                let step = phase.on(OpeningEvent::UnitsFlushed, &mut parts.pool, scheme, answers);
                self.go_on_opening(step);
            }
            FlushFor::PromisedContents => {
                promised_contents::contents_flushed(answers);
                self.go_on_replaying();
            }
            FlushFor::Superblock => self.superblock_flushed(),
            FlushFor::Closing => self.closing_flushed(),
            FlushFor::Checkpoint if failed => {}
            FlushFor::Checkpoint => {
                let reached = scheme.checkpoint_flushed(&mut parts.pool);
                self.checkpoint_progressed(Ok(reached));
            }
        }
    }

    /// Goes on with what any flush allows.
    fn after_any_flush(&mut self) {
        let parts = &mut self.parts;
        parts.pool.contents.go_on_marking(&mut parts.pool.io);
        let mark = parts.pool.io.durability.mark();
        while parts.pool.io.durability.removed.front().is_some_and(|(stamp, _)| *stamp <= mark) {
            let Some((_, blocks)) = parts.pool.io.durability.removed.pop_front() else { break };
            parts.pool.tables.removals.are_durable(blocks.len());
            parts.pool.space.reclaimed(blocks[0].0 / GRANULE_BLOCKS);
            parts.pool.settle.unlink(blocks);
            parts.pool.io.schedule.push(Task::Settle);
        }
        let durability = &mut parts.pool.io.durability;
        while durability.bits.front().is_some_and(|(stamp, _)| *stamp <= mark) {
            durability.bits_ready.extend(durability.bits.pop_front().map(|(_, id)| id));
        }
        if !durability.bits_ready.is_empty() {
            parts.pool.io.schedule.push(Task::Bits);
        }
    }

    pub(super) fn on_discarded(&mut self, io: IoId, result: Result<(), IoFailure>) {
        let Pool { io: ios, space, .. } = &mut self.parts.pool;
        match ios.end(io) {
            // A discard may fail: then it has discarded nothing.
            Some(IoFor::Discard { first, blocks }) => {
                space.discard_ended(first, blocks);
            }
            Some(IoFor::Fill { first, blocks }) => space.stock_filled(ios, first, blocks, result.is_ok()),
            _ => debug_assert!(false, "a discard that nobody asked for ended"),
        }
    }

    /// Goes on with the replay of the acknowledgement journal.
    pub(super) fn go_on_replaying(&mut self) {
        let Self { parts, requests, answers, scheme, .. } = self;
        if parts.pool.io.stage() == Stage::Replaying {
            replay::go_on_replaying(&mut parts.pool, scheme, answers, requests);
            if replay::is_replayed(&mut parts.pool, answers) {
                self.serve();
            }
        }
    }
}
