//! The steps of a commit.

use crate::commit::{Due, Step};
use crate::engine::Engine;
use crate::format::page::{PageId, Region};
use crate::interface::{Reply, Trace};
use crate::io::FlushFor;
use crate::schedule::Task;

impl Engine {
    /// Something that the commit may wait for has ended.
    pub(crate) fn commit_may_go_on(&mut self) {
        if self.scheme.commit.is_some() {
            self.store.io.schedule.push(Task::Commit);
        }
    }

    pub(crate) fn go_on_committing(&mut self) {
        if self.store.io.failed {
            return;
        }
        match self.scheme.commit.as_ref().map(|c| c.step) {
            Some(Step::Content) if self.scheme.log.is_some() => self.step_large_content(),
            Some(Step::Content) => self.step_content(),
            Some(Step::Links) => self.step_links(),
            Some(Step::Units) => self.step_units(),
            Some(Step::FlushOne | Step::FlushTwo) | None => {}
        }
    }

    /// Step 1. Refs pages go out; then wait for them and for the content, and flush.
    fn step_content(&mut self) {
        self.send_due_pages();
        let commit = self.scheme.commit.as_ref().expect("a step belongs to a commit");
        if !commit.due.is_empty() || commit.content_left > 0 {
            return;
        }
        // Content of the next epoch may have completed meanwhile: its number is higher, and a flush too many is no harm.
        let relied_on = commit.relied_on.max(self.store.io.durability.content);
        if relied_on > self.store.io.durability.mark || commit.removals {
            self.scheme.commit.as_mut().expect("it is there").step = Step::FlushOne;
            self.store.io.flush(FlushFor::CommitContent);
        } else {
            self.scheme.commit.as_mut().expect("it is there").step = Step::Links;
            self.step_links();
        }
    }

    /// Sends the pages of step 1 that can be sent now.
    fn send_due_pages(&mut self) {
        let commit = self.scheme.commit.as_ref().expect("a step belongs to a commit");
        let unsent: Vec<PageId> = commit.due.iter().filter(|&(_, &due)| due == Due::Unsent).map(|(&id, _)| id).collect();
        for id in unsent {
            let (dirty, writing, stamp) = match self.store.tables.pages.get(id) {
                Some(page) => (page.dirty.is_some(), page.writing, page.stamp),
                // It was written, by someone else, and left the memory since.
                None => (false, false, self.store.io.durability.refs),
            };
            let commit = self.scheme.commit.as_mut().expect("it is there");
            match (dirty, writing) {
                (true, true) => {}
                (true, false) => {
                    commit.due.insert(id, Due::Sent);
                    self.store.tables.write_page(&mut self.store.io, id);
                }
                // What is in flight was composed after the last change, so it carries the increments.
                (false, true) => {
                    commit.due.insert(id, Due::Sent);
                }
                (false, false) => {
                    commit.relied_on = commit.relied_on.max(stamp);
                    commit.due.remove(&id);
                }
            }
        }
    }

    /// A page's write has completed: step 1 or step 2 may wait for it.
    pub(crate) fn commit_page_written(&mut self, id: PageId, stamp: u64) {
        let Some(commit) = &mut self.scheme.commit else { return };
        if id.region == Region::Map {
            commit.map_writing.remove(&id);
        } else if commit.due.get(&id) == Some(&Due::Sent) {
            commit.due.remove(&id);
            commit.relied_on = commit.relied_on.max(stamp);
        }
        self.store.io.schedule.push(Task::Commit);
    }

    pub(crate) fn commit_flushed(&mut self) {
        if self.store.io.failed {
            return;
        }
        let commit = self.scheme.commit.as_mut().expect("only a commit asked for this flush");
        match commit.step {
            Step::FlushOne => {
                if self.scheme.log.is_some() {
                    commit.step = Step::Units;
                    return self.step_units();
                }
                commit.step = Step::Links;
                self.step_links();
            }
            Step::FlushTwo => self.epoch_is_durable(),
            Step::Content | Step::Links | Step::Units => unreachable!("no flush is in flight in these steps"),
        }
    }

    /// The end of step 2, and step 3: whoever waited is answered, decrements and fingerprints may enter their pages.
    pub(crate) fn epoch_is_durable(&mut self) {
        let commit = self.scheme.commit.take().expect("an epoch that became durable was committing");
        let epoch = self.store.tables.committing.take().expect("an epoch that became durable was committing");
        self.store.medium.superblock.last_epoch = epoch.number;
        self.scheme.anticipation.durable(self.store.io.now);
        if self.has_ring() {
            let log = self.scheme.log.as_ref().filter(|_| commit.log.is_sent());
            let trace = log.map_or(commit.trace, |log| Some(Trace::Log { sequence: log.last_sequence() }));
            self.promises_are_kept(epoch.number, trace);
        }
        for request in epoch.waiters {
            self.store.io.reply(request, Reply::Done);
        }
        if self.scheme.log.is_some() {
            let removed = epoch.removed.into_iter().collect();
            self.log_epoch_is_durable(epoch.number, commit.log, removed);
        } else {
            self.store.settle.unlink(commit.unlinked);
            self.store.settle.born(epoch.births, epoch.number.0);
            self.store.settle.name(epoch.named);
        }
        self.store.settle.unlink(epoch.cancelled);
        self.store.io.schedule.push(Task::Settle);
        let carriers = self.carriers();
        self.store.space.warn_when_filling(&mut self.store.io, carriers);
        self.serve_when_recalled();
        self.update_for_ledger();
    }
}
