//! Fingerprints for blocks that a crash has left without a whole one (P5). The index rebuild and reads restore them.
//!
//! 1. In mode `log` a crash leaves a short fingerprint for each block of a large epoch. Its entry counts as a link, so the whole
//!    fingerprint replaces it on the page at once.
//! 2. In mode `ordered` a crash leaves no entry. The fingerprint is a new link: its increment is part of the open epoch (R2), and the
//!    fingerprint enters its page when that epoch is durable.
//! 3. A count that may be too high after a crash does not prove a link. So the index rebuild restores such fingerprints only after the
//!    recount; a block that a read finds by its LBN is linked for certain.
//! 4. A block that was deferred has a checksum until the work out of line has read it.
//! 5. Blocks of protected LBNs, and others that stay apart, have checksums and get no fingerprint. Where some LBNs are protected, only a
//!    read knows whether a block is one of theirs.

use super::Pool;
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::{FingerprintEntry, Kind, MapEntry};
use crate::format::page::PageId;
use crate::io::Stage;
use crate::policy::Policy;
use crate::space::GRANULE_BLOCKS;
use crate::tables::Access;
use crate::tables::EpochRecords;
use crate::units::{BLOCK_SIZE, Lbn, Pbn, count, index};

impl Pool {
    /// Whether blocks with a count and without an entry are linked, so that they get fingerprints (invariants 3 and 5).
    fn restores_missing(&self) -> bool {
        let are_read = self.settings.knobs.rebuild_reads_per_second > 0;
        are_read && !self.tables.has_records() && !self.medium.superblock.garbage_possible && self.medium.superblock.protected.is_empty()
    }

    /// Whether a page of fingerprints was never written, and no block of it lacks a fingerprint.
    pub fn has_no_fingerprints(&mut self, id: PageId) -> bool {
        let (counts, _) = self.geometry.refs_of(self.geometry.first_pbn(id));
        self.tables.is_blank(&mut self.io, id) && (!self.restores_missing() || self.tables.is_blank(&mut self.io, counts))
    }

    /// The linked blocks without a whole fingerprint of a page of fingerprints, which is in memory. `Err`: that page of counts has to be
    /// loaded first.
    pub fn unnamed_on(&mut self, id: PageId) -> Result<Vec<Pbn>, PageId> {
        let first = self.geometry.first_pbn(id);
        let blocks = GRANULE_BLOCKS.min(self.geometry.data_blocks - first.0);
        let restores_missing = self.restores_missing();
        let page = self.tables.pages.expect(id);
        let is_nameless = restores_missing && page.damaged == 0;
        let entries = (0..blocks).map(|i| (first + i, page.content.fingerprint(index(i))));
        let wanting = entries.filter(|(_, entry)| entry.short().is_some() || is_nameless && entry.is_none());
        let mut wanting: Vec<(Pbn, FingerprintEntry)> = wanting.collect();
        let (counts, _) = self.geometry.refs_of(first);
        if wanting.iter().any(|(_, entry)| entry.is_none()) && matches!(self.tables.ensure(&mut self.io, counts), Access::Loading) {
            return Err(counts);
        }
        wanting.retain(|&(pbn, entry)| (entry.short().is_some() || self.tables.is_linked(pbn)) && self.may_get_fingerprint(pbn));
        Ok(wanting.into_iter().map(|(pbn, _)| pbn).collect())
    }

    /// Whether restored fingerprints have not entered their pages yet.
    pub fn fingerprints_are_on_their_way(&self) -> bool {
        !self.io.has_failed()
            && (!self.tables.open.named.is_empty()
                || self.tables.committing.as_ref().is_some_and(|epoch| !epoch.named.is_empty())
                || self.settle.names_any())
    }

    /// Whether a restored fingerprint of a block has not entered its page yet.
    pub fn is_being_named(&self, pbn: Pbn) -> bool {
        let is_named = |epoch: &EpochRecords| epoch.named.contains_key(&pbn);
        is_named(&self.tables.open) || self.tables.committing.as_ref().is_some_and(is_named) || self.settle.names(pbn)
    }

    /// The fingerprint of a whole block, if it is known without I/O.
    pub fn fingerprint_here(&self, pbn: Pbn) -> Option<Fingerprint> {
        let entry = match self.space.pending.get(pbn).filter(|pending| pending.waits) {
            Some(pending) => FingerprintEntry { kind: pending.kind, value: pending.fingerprint },
            None => {
                let (page, at) = self.geometry.fingerprint_of(pbn);
                self.tables.pages.peek(page)?.fingerprint(at)
            }
        };
        (entry.kind == Kind::Fingerprint).then_some(entry.value)
    }

    /// Whether nothing under way changes the block's fingerprint.
    fn may_get_fingerprint(&self, pbn: Pbn) -> bool {
        !self.is_being_named(pbn)
            && !self.space.pending.contains(pbn)
            && !self.contents.suspects.contains(pbn)
            && !self.tables.is_losing_its_name(pbn)
            && !self.space.is_of_scheme(pbn)
    }

    /// Restores the fingerprint of a linked block whose content was read, if it lacks it. Returns whether it does: the block has the
    /// fingerprint now, or with the open epoch.
    pub fn restore_fingerprint(&mut self, pbn: Pbn, fingerprint: Fingerprint) -> bool {
        let is_trusted = self.tables.proved_only().is_none() && !self.io.has_failed();
        if self.io.stage() != Stage::Serving || !is_trusted || self.io.is_opened_to_read() || !self.may_get_fingerprint(pbn) {
            return false;
        }
        let ((names, at), (counts, _)) = (self.geometry.fingerprint_of(pbn), self.geometry.refs_of(pbn));
        let Some(page) = self.tables.pages.get(names) else { return false };
        let entry = page.content.fingerprint(at);
        if entry.short() == Some(fingerprint.short()) {
            self.tables.pages.touch(names, self.io.now()).content.set_fingerprint(at, FingerprintEntry::of(fingerprint));
            self.index.insert(&fingerprint, pbn);
            return true;
        }
        let is_nameless = entry.is_none() && page.damaged == 0 && !self.tables.has_records();
        if !is_nameless || !self.tables.is_linked(pbn) || self.tables.refs_now(pbn) >= self.space.link_limit(&self.tables) {
            return false;
        }
        self.space.change_refs(&mut self.io, &mut self.tables, pbn, 1);
        self.tables.open.refs_pages.insert(counts.index);
        self.tables.open.seal_within(self.io.now(), self.settings.commit_period_ms);
        self.tables.open.named.insert(pbn, fingerprint);
        true
    }

    /// The block that an LBN durably means, if it was deferred when it was written. `Err`: that page has to be loaded first.
    pub fn deferred(&mut self, lbn: Lbn) -> Result<Option<Pbn>, PageId> {
        if self.tables.overlay(lbn).is_some() || self.medium.policy_of(lbn, Policy::DEFAULT).is_apart() {
            return Ok(None);
        }
        let Some(MapEntry::Block { pbn, slot: 0 }) = self.tables.lookup(&mut self.io, lbn)? else { return Ok(None) };
        Ok(has_checksum_alone(&self.settled_entry(pbn)?).then_some(pbn))
    }

    /// A run of at most `most` blocks around this one, which was deferred, that were deferred, too, and have their entries on one
    /// page and lie in one extent: its first block, and their number.
    pub fn deferred_around(&mut self, pbn: Pbn, most: u64) -> (Pbn, u64) {
        let (id, at) = self.geometry.fingerprint_of(pbn);
        let Some(page) = self.tables.pages.get(id).filter(|_| self.medium.superblock.protected.is_empty()) else { return (pbn, 1) };
        let (begin, end) = self.geometry.extent_of(pbn);
        let at = count(at);
        let (begin, end) = (at.saturating_sub(pbn - begin), GRANULE_BLOCKS.min(at + (end - pbn)));
        let is_like_it = |at: &u64| has_checksum_alone(&page.content.fingerprint(index(*at)));
        let after = count((at + 1..end.min(at + most)).take_while(is_like_it).count());
        let before = count((begin..at).rev().take(index(most - 1 - after)).take_while(is_like_it).count());
        (Pbn(pbn.0 - before), before + 1 + after)
    }

    /// Gives a block that was deferred its fingerprint, if what was read of it is what its checksum says. Returns whether the block is
    /// done: it has its fingerprint, or gets none.
    pub fn name_deferred(&mut self, pbn: Pbn, digest: Digest, block: &[u8; BLOCK_SIZE]) -> bool {
        let (id, at) = self.geometry.fingerprint_of(pbn);
        let Some(page) = self.tables.pages.get(id) else { return false };
        let entry = page.content.fingerprint(at);
        let Digest::Of(fingerprint) = digest else { return true };
        if self.io.stage() != Stage::Serving || self.io.is_read_only() || !has_checksum_alone(&entry) || !self.may_get_fingerprint(pbn) {
            return true;
        }
        if !entry.proves(&self.keys.fingerprinter, digest, block) {
            self.content_damaged(pbn);
            return true;
        }
        self.tables.pages.touch(id, self.io.now()).content.set_fingerprint(at, FingerprintEntry::of(fingerprint));
        self.index.offer(&fingerprint, pbn);
        self.index.doubt(&fingerprint);
        true
    }

    /// Enters a restored fingerprint whose increment is durable on its page, which is in memory.
    pub fn enter_name(&mut self, pbn: Pbn, fingerprint: Fingerprint) {
        let (id, at) = self.geometry.fingerprint_of(pbn);
        let page = self.tables.pages.touch(id, self.io.now());
        debug_assert!(page.content.fingerprint(at).is_none(), "a block that is named again has no name");
        page.content.set_fingerprint(at, FingerprintEntry::of(fingerprint));
        if !self.contents.suspects.contains(pbn) {
            self.index.offer(&fingerprint, pbn);
        }
    }
}

/// Whether a block has a checksum and no fingerprint, not even a short one, and does not stay apart.
fn has_checksum_alone(entry: &FingerprintEntry) -> bool {
    entry.kind == Kind::Checksum && entry.short().is_none() && !entry.is_suspect() && !entry.is_apart()
}
