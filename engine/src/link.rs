//! A block's content finds its place: duplicate of a known block, or a new block; and an LBN comes to mean it.
//!
//! 1. Increments enter the refs page in memory here and now; the commit writes the page before it writes the link (R2). In the log's mode they
//!    stand beside it until their commit.
//! 2. A block is linked to only when the fingerprint table, or a birth that waits to enter it, confirms what the index says.
//! 3. Nothing here waits: what is missing is named ([`Blocked`]), and the caller comes again.

use crate::buffer::Slice;
use crate::contents::Run;
use crate::engine::Engine;
use crate::fingerprint::Digest;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry};
use crate::interface::{Class, Failure, IoFailure, IoId, Promised, RequestId};
use crate::io::IoFor;
use crate::promise::Named;
use crate::schedule::Blocked;
use crate::space::Fresh;
use crate::store::{Compared, Known, Since};
use crate::units::{Lbn, Pbn};

/// The most blocks in one command.
const RUN_BLOCKS_MAX: u64 = 256;

impl Engine {
    /// Gives `lbn` the content of `slice`.
    pub(crate) fn link(&mut self, request: RequestId, lbn: Lbn, slice: &Slice, digest: Digest, compared: Compared) -> Result<(), Blocked> {
        self.admit_records(1)?;
        let fingerprint = match digest {
            Digest::Zero => {
                self.store.io.ledger.zeroes += 1;
                self.promise(request, self.store.tables.open.number, Promised::Zero { lbn });
                self.set_point(lbn, MapEntry::Zero);
                return Ok(());
            }
            Digest::Of(fingerprint) => fingerprint,
            Digest::Partial => return Err(Blocked::Failed(Failure::Invalid)),
        };
        let content = Named { slice, fingerprint };
        if self.store.medium.superblock.is_protected(lbn) {
            let value = self.store.keys.fingerprinter.checksum(slice.block(0));
            return self.link_new(request, lbn, content, FingerprintEntry { kind: Kind::Checksum, value });
        }
        match self.store.find_duplicate(lbn, slice, &fingerprint, compared)? {
            Known::Duplicate(pbn, slot) => {
                self.link_duplicate(request, lbn, (pbn, slot), content);
                Ok(())
            }
            Known::Unchanged(pbn, slot, since) => {
                self.store.io.ledger.unchanged += 1;
                if let Since::Epoch(epoch) = since {
                    self.promise_block(request, epoch, lbn, (pbn, slot), content);
                }
                Ok(())
            }
            Known::New => self.link_new(request, lbn, content, FingerprintEntry::of(fingerprint)),
        }
    }

    fn link_duplicate(&mut self, request: RequestId, lbn: Lbn, (pbn, slot): (Pbn, u8), content: Named<'_>) {
        self.store.io.ledger.duplicates += 1;
        self.promise_block(request, self.store.tables.open.number, lbn, (pbn, slot), content);
        self.store.space.change_refs(&mut self.store.io, &mut self.store.tables, pbn, 1);
        self.store.tables.open.refs_pages.insert(self.store.geometry.refs_of(pbn).0.index);
        self.set_point(lbn, MapEntry::Block { pbn, slot });
        self.store.held_for_another(pbn, lbn);
        self.pack_if_large(self.store.tables.open.number);
    }

    /// Stores the content in a new block. Its count begins at two: the LBN's link and the fingerprint's (section 2.1).
    fn link_new(&mut self, request: RequestId, lbn: Lbn, content: Named<'_>, entry: FingerprintEntry) -> Result<(), Blocked> {
        let (slice, FingerprintEntry { kind, value: fingerprint }) = (content.slice, entry);
        let pbn = {
            let promised = self.contents_promised();
            self.store.space.allocate(&mut self.store.io, &mut self.store.tables, &mut self.store.contents.cache, lbn, promised)?
        };
        self.store.io.ledger.new_blocks += 1;
        self.store.space.change_refs(&mut self.store.io, &mut self.store.tables, pbn, 2);
        self.store.tables.open.refs_pages.insert(self.store.geometry.refs_of(pbn).0.index);
        self.store.tables.open.births.push(pbn);
        let epoch = self.store.tables.open.number.0;
        let held_back = self.hold_back(kind, lbn, pbn, slice);
        let goes = held_back.is_none();
        let held = Some(held_back.unwrap_or_else(|| slice.clone()));
        self.store.space.fresh.insert(pbn, Fresh { kind, fingerprint, epoch, held, waits: true });
        if kind == Kind::Fingerprint {
            self.store.index.insert(&fingerprint, pbn);
        }
        self.promise_block(request, self.store.tables.open.number, lbn, (pbn, 0), content);
        if goes {
            self.add_to_run(request, pbn, slice.clone());
        }
        self.let_large_epoch_go();
        self.set_point(lbn, MapEntry::Block { pbn, slot: 0 });
        self.pack_if_large(self.store.tables.open.number);
        Ok(())
    }

    /// From the open epoch on, `lbn` means `entry`.
    pub(crate) fn set_point(&mut self, lbn: Lbn, entry: MapEntry) {
        self.store.tables.open.opened.get_or_insert(self.store.io.now);
        self.requests.parts.overtake(lbn, lbn + 1);
        if let Some(MapEntry::Block { pbn, .. }) = self.store.tables.open.points.insert(lbn, entry) {
            self.cancel(pbn);
        }
    }

    /// Unmaps a range, from the open epoch on.
    pub(crate) fn unmap(&mut self, first: Lbn, end: Lbn) {
        self.store.tables.open.opened.get_or_insert(self.store.io.now);
        self.requests.parts.overtake(first, end);
        for (lbn, entry) in self.store.tables.open.unmap(first, end) {
            self.overtake(lbn);
            if let MapEntry::Block { pbn, .. } = entry {
                self.cancel(pbn);
            }
        }
    }

    /// A link made in the open epoch is unmade in it: no map sector ever held it, so its increment goes at once. Where promises name the block until
    /// the epoch is committed, the increment goes after that.
    fn cancel(&mut self, pbn: Pbn) {
        let (page, _) = self.store.geometry.refs_of(pbn);
        if self.store.settings.keeps_promises || self.store.tables.pages.get(page).is_none() {
            self.store.tables.open.cancelled.push(pbn);
            return;
        }
        let born_now = self.store.space.fresh.get(pbn).is_some_and(|f| f.waits && f.epoch == self.store.tables.open.number.0);
        let dies = born_now && self.store.tables.refs_now(pbn) == 2;
        self.store.space.change_refs(&mut self.store.io, &mut self.store.tables, pbn, if dies { -2 } else { -1 });
        if dies {
            self.store.end_birth(pbn);
        }
        self.store.tables.open.birth_lost_a_link |= born_now && !dies;
    }

    fn add_to_run(&mut self, request: RequestId, pbn: Pbn, slice: Slice) {
        if let Some(run) = &mut self.store.contents.run {
            if run.first + run.blocks == pbn && run.request == request && run.blocks < RUN_BLOCKS_MAX {
                run.blocks += 1;
                if let Some(next) = run.data.last_mut().expect("a run has blocks").join(slice) {
                    run.data.push(next);
                }
                return;
            }
            self.send_run();
        }
        self.store.contents.run = Some(Run { first: pbn, blocks: 1, data: vec![slice], request });
    }

    /// Sends the new blocks gathered so far.
    pub(crate) fn send_run(&mut self) {
        if let Some(Run { first, blocks, data, .. }) = self.store.contents.run.take() {
            let at = self.store.geometry.block_at(first);
            self.store.io.write(IoFor::Content { first, blocks }, at, data, Class::Data);
            self.store.contents.content_in_flight += 1;
        }
    }

    pub(crate) fn content_written(&mut self, io: IoId, first: Pbn, blocks: u64, stamp: u64, result: Result<(), IoFailure>) {
        self.store.contents.content_in_flight -= 1;
        if let Some(commit) = &mut self.scheme.commit {
            commit.content_arrived(io);
        }
        self.store.io.durability.content = stamp;
        for i in 0..blocks {
            let pbn = first + i;
            let fresh = self.store.space.fresh.get_mut(pbn).expect("content in flight is fresh");
            // Where it failed, too: see `release_unsent_content`.
            fresh.held = None;
            if result.is_ok() && !fresh.waits {
                self.store.space.forget_fresh(pbn);
            }
            self.content_lies_there(pbn, result.is_ok());
            self.content_arrived_for_waiters(pbn, result.is_ok());
        }
        self.store.space.changes += 1;
        self.commit_may_go_on();
    }

    /// After a failure nothing sends this content any more, and no commit makes it durable, so nobody reads it either (A5). It lies in the memory of
    /// requests: were it kept, further requests could wait for that memory for ever, and a flush among them would never hear of the failure.
    pub(crate) fn release_unsent_content(&mut self) {
        let run = self.store.contents.run.take().map_or(0..0, |run| run.first.0..run.first.0 + run.blocks).map(Pbn);
        let held_back = self.store.contents.held.blocks();
        for pbn in run.chain(held_back) {
            self.store.space.fresh.get_mut(pbn).into_iter().for_each(|fresh| fresh.held = None);
        }
    }

    pub(crate) fn content_arrived_for_waiters(&mut self, pbn: Pbn, good: bool) {
        if let Some(requests) = self.store.contents.content_waiters.remove(&pbn) {
            for request in requests {
                self.finish_part(request, (!good).then_some(Failure::Io));
            }
        }
    }
}
