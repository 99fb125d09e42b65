//! A block's content finds its place: duplicate of a known block, or a new block; and an LBN comes to mean it.
//!
//! 1. Increments enter the refs page in memory here and now; the commit writes the page before it writes the link (R2). In the log's mode they
//!    stand beside it until their commit.
//! 2. A block is linked to only when the fingerprint table, or a birth that waits to enter it, confirms what the index says.
//! 3. Nothing here waits: what is missing is named ([`Blocked`]), and the caller comes again.

use crate::buffer::Slice;
use crate::contents::Run;
use crate::engine::Engine;
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::{FingerprintEntry, Kind, MapEntry, REFS_UNKNOWN};
use crate::interface::{Class, Failure, IoFailure, IoId, Notice, Promised, RequestId};
use crate::io::IoFor;
use crate::log::Log;
use crate::promise::Named;
use crate::schedule::Blocked;
use crate::slot::{in_slot, slot_of};
use crate::space::Fresh;
use crate::tables::Got;
use crate::units::{Epoch as Number, Lbn, Pbn};

/// What a byte-by-byte comparison has shown so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    Nothing,
    Same(Pbn),
    /// The content of that slot, in the carrier with this authenticator.
    SameSlot(Pbn, u8, Fingerprint),
    Differs(Pbn),
}

/// Since when an LBN means what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Durable,
    /// From this epoch on, which fills or commits.
    Epoch(Number),
}

/// The most blocks in one command.
const RUN_BLOCKS_MAX: u64 = 256;

/// What became of a look for a duplicate.
enum Known {
    /// Link to this slot of it; its refs page is in memory.
    Duplicate(Pbn, u8),
    /// The LBN means it already.
    Unchanged(Pbn, u8, Since),
    New,
}

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
        if self.medium.superblock.is_protected(lbn) {
            let value = self.store.keys.fingerprinter.checksum(slice.block(0));
            return self.link_new(request, lbn, content, FingerprintEntry { kind: Kind::Checksum, value });
        }
        match self.find_duplicate(lbn, slice, &fingerprint, compared)? {
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

    /// A stored block with this content that may take one more link.
    fn find_duplicate(&mut self, lbn: Lbn, slice: &Slice, fp: &Fingerprint, compared: Compared) -> Result<Known, Blocked> {
        let Some(pbn) = self.store.index.get(fp) else { return Ok(Known::New) };
        if compared == Compared::Differs(pbn) || self.store.contents.suspects.contains(&pbn) {
            return Ok(Known::New);
        }
        let Some(slot) = self.confirmed(pbn, fp, compared)? else {
            self.store.index.remove(fp, pbn);
            return Ok(Known::New);
        };
        if let Some(since) = self.means_already(lbn, pbn, slot) {
            return Ok(Known::Unchanged(pbn, slot, since));
        }
        let (page, _) = self.store.geometry.refs_of(pbn);
        match self.store.tables.ensure(&mut self.store.io, page) {
            Got::Wait => return Err(Blocked::Page(page)),
            Got::Unreadable => return Ok(Known::New),
            Got::Ready => {}
        }
        let refs = self.store.tables.refs_now(pbn);
        if refs == 0 {
            self.store.io.notice(Notice::Damage { what: "a fingerprint names a block without links", at: pbn.0 });
            self.store.index.remove(fp, pbn);
            return Ok(Known::New);
        }
        if refs == REFS_UNKNOWN || refs >= self.link_limit() {
            self.store.io.ledger.overflows += u64::from(refs != REFS_UNKNOWN);
            return Ok(Known::New);
        }
        // A slot has been compared if its carrier had to be read; else it is compared here.
        let is_compared = compared == Compared::Same(pbn) || matches!(compared, Compared::SameSlot(same, ..) if same == pbn);
        if self.store.settings.verify_duplicates && !is_compared {
            match self.in_memory(pbn).map(|block| in_slot(&block, slot)) {
                Some(Some(stored)) if stored.block(0) == slice.block(0) => {}
                Some(_) => return Ok(Known::New),
                None if slot > 0 => return Err(Blocked::Carrier(pbn)),
                None => return Err(Blocked::Compare(pbn)),
            }
        }
        Ok(Known::Duplicate(pbn, slot))
    }

    /// The slot of `pbn` in which, as the medium or a birth on its way there says, this content lies.
    fn confirmed(&mut self, pbn: Pbn, fp: &Fingerprint, compared: Compared) -> Result<Option<u8>, Blocked> {
        if pbn.0 >= self.store.geometry.data_blocks {
            return Ok(None);
        }
        let birth = self.store.space.fresh.get(pbn).filter(|fresh| fresh.waits);
        let entry = match birth.map(|fresh| FingerprintEntry { kind: fresh.kind, value: fresh.fingerprint }) {
            Some(entry) => entry,
            None => {
                let (page, at) = self.store.geometry.fingerprint_of(pbn);
                match self.store.tables.ensure(&mut self.store.io, page) {
                    Got::Wait => return Err(Blocked::Page(page)),
                    Got::Unreadable => return Ok(None),
                    Got::Ready => self.store.tables.pages.expect(page).content.fingerprint(at),
                }
            }
        };
        match entry.kind {
            Kind::Fingerprint => Ok((entry.value == *fp).then_some(0)),
            // What the log takes a name from still has it on its page, and may be in the index by its slots.
            Kind::Carrier if self.store.tables.is_losing_its_name(pbn) => Ok(None),
            Kind::Carrier => match compared {
                Compared::SameSlot(same, slot, authenticator) if same == pbn && authenticator == entry.value => Ok(Some(slot)),
                _ => match self.in_memory(pbn) {
                    Some(block) => Ok(slot_of(block.block(0), fp)),
                    None => Err(Blocked::Carrier(pbn)),
                },
            },
            Kind::None | Kind::Checksum => Ok(None),
        }
    }

    /// A block, where it is in memory and known to be right.
    pub(crate) fn in_memory(&mut self, pbn: Pbn) -> Option<Slice> {
        self.store.space.fresh.get(pbn).and_then(|fresh| fresh.held.clone()).or_else(|| self.store.contents.cache.get(pbn))
    }

    /// Whether the LBN is known, without any I/O, to mean this block already, and since when.
    fn means_already(&mut self, lbn: Lbn, pbn: Pbn, slot: u8) -> Option<Since> {
        let (entry, since) = match self.store.tables.overlay(lbn) {
            Some((entry, epoch)) => (entry, Since::Epoch(epoch)),
            None => {
                let (page, at) = self.store.geometry.map_of(lbn);
                (self.store.geometry.known(self.store.tables.pages.get(page)?.content.map(at)), Since::Durable)
            }
        };
        (entry == MapEntry::Block { pbn, slot }).then_some(since)
    }

    fn link_duplicate(&mut self, request: RequestId, lbn: Lbn, (pbn, slot): (Pbn, u8), content: Named<'_>) {
        self.store.io.ledger.duplicates += 1;
        self.promise_block(request, self.store.tables.open.number, lbn, (pbn, slot), content);
        self.store.space.change_refs(&mut self.store.io, &mut self.store.tables, pbn, 1);
        self.store.tables.open.refs_pages.insert(self.store.geometry.refs_of(pbn).0.index);
        self.set_point(lbn, MapEntry::Block { pbn, slot });
        self.held_for_another(pbn, lbn);
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
            self.end_birth(pbn);
        }
        self.store.tables.open.birth_lost_a_link |= born_now && !dies;
    }

    /// Forgets the fingerprint of a block that never needs to enter the table.
    pub(crate) fn end_birth(&mut self, pbn: Pbn) {
        let fresh = self.store.space.fresh.get_mut(pbn).expect("only a birth that waits is ended");
        fresh.waits = false;
        let (kind, fingerprint, epoch, done) = (fresh.kind, fresh.fingerprint, fresh.epoch, fresh.held.is_none());
        if self.drop_held(pbn, epoch) || done {
            self.store.space.forget_fresh(pbn);
        }
        if kind == Kind::Fingerprint {
            self.store.index.remove(&fingerprint, pbn);
        }
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
        let held_back = self.scheme.log.iter().flat_map(Log::held_back);
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
