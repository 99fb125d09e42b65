//! Out of line: an LBN that means one of two blocks with the same content is mapped to the other one.
//!
//! 1. It is a comparison and a swap: what the LBN means now is compared with the block to be linked to, and nothing comes between that and
//!    the new mapping. The map and the fingerprint table decide; whatever led here is advice.
//! 2. Only a mapping that is durable is changed. So no promise and no request names the old block, and after a crash before the commit the
//!    LBN still has it (R3).
//! 3. Nothing here waits: the error says what is missing, and the caller tries again.

use super::Store;
use crate::fingerprint::Fingerprint;
use crate::format::entry::{Kind, MapEntry, REFS_UNKNOWN};
use crate::format::page::PageId;
use crate::tables::Access;
use crate::units::{Lbn, Pbn};

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remapped {
    /// The LBN may be mapped to the block, which has this fingerprint.
    May(Fingerprint),
    /// The LBN means that block already, which has this fingerprint.
    Stands(Fingerprint),
    /// The LBN means something else by now, or what it means is not durable yet.
    Changed,
    /// The block has other content.
    Differs,
    /// The block takes no further link, or nothing but its fingerprint keeps it.
    NotThere,
}

impl Store {
    /// Notes that an LBN has new content, which may be stored elsewhere all the same if the index is not whole.
    pub fn note_new(&mut self, lbn: Lbn, fp: &Fingerprint) {
        if !self.index.is_whole_for(fp) {
            self.index.doubt(fp);
            self.skipped.add(lbn, fp, self.io.now);
        }
    }

    /// Notes that an LBN has the content of a stored block, which may be stored elsewhere, too, if the block is doubtful.
    pub fn note_duplicate(&mut self, lbn: Lbn, fp: &Fingerprint) {
        if self.index.is_doubtful(fp) {
            self.skipped.add(lbn, fp, self.io.now);
        }
    }

    /// The block that an LBN durably means, with its fingerprint. None if it means no whole block, if the block has no fingerprint by which
    /// duplicates are found, or if the mapping is not durable yet. `Err`: this page has to be read first.
    pub fn durable_block(&mut self, lbn: Lbn) -> Result<Option<(Pbn, Fingerprint)>, PageId> {
        if self.tables.overlay(lbn).is_some() {
            return Ok(None);
        }
        let Some(MapEntry::Block { pbn, slot: 0 }) = self.tables.lookup(&mut self.io, lbn)? else { return Ok(None) };
        Ok(self.fingerprint_in_table(pbn)?.map(|fp| (pbn, fp)))
    }

    /// The fingerprint that the table has for a whole block, if other LBNs may be linked to the block by it.
    fn fingerprint_in_table(&mut self, pbn: Pbn) -> Result<Option<Fingerprint>, PageId> {
        // The entry of a pending block is not in the table yet.
        if self.space.pending.get(pbn).is_some() || self.contents.suspects.contains(&pbn) {
            return Ok(None);
        }
        let (page, at) = self.geometry.fingerprint_of(pbn);
        match self.tables.ensure(&mut self.io, page) {
            Access::Loading => Err(page),
            Access::Unreadable => Ok(None),
            Access::Ready(resident) => {
                let entry = resident.page().content.fingerprint(at);
                Ok((entry.kind == Kind::Fingerprint).then_some(entry.value))
            }
        }
    }

    /// Compares what an LBN means with a block. `Err`: this page has to be read first.
    pub fn may_remap(&mut self, lbn: Lbn, to: Pbn) -> Result<Remapped, PageId> {
        if self.medium.superblock.is_protected(lbn) {
            return Ok(Remapped::Changed);
        }
        let Some((from, content)) = self.durable_block(lbn)? else { return Ok(Remapped::Changed) };
        if from == to {
            return Ok(Remapped::Stands(content));
        }
        match self.fingerprint_in_table(to)? {
            Some(fp) if fp == content => {}
            Some(_) => return Ok(Remapped::Differs),
            None => return Ok(Remapped::NotThere),
        }
        let (page, at) = self.geometry.refs_of(to);
        let committed = match self.tables.ensure(&mut self.io, page) {
            Access::Loading => return Err(page),
            Access::Unreadable => return Ok(Remapped::NotThere),
            Access::Ready(resident) => resident.page().content.refs(at),
        };
        // One link is that of the fingerprint. A block that no LBN means would take the place of one that is to be freed, and may be about
        // to lose its fingerprint.
        let refs = self.tables.with_pending(to, committed);
        let is_free_for_links = refs != REFS_UNKNOWN && (2..self.space.link_limit(&self.tables)).contains(&refs);
        Ok(if is_free_for_links { Remapped::May(content) } else { Remapped::NotThere })
    }

    /// Maps an LBN, for which [`Self::may_remap`] has just said that it may, to the block, from the open epoch on. The index has the block
    /// from now on, since its content comes again and again.
    pub fn remap(&mut self, lbn: Lbn, to: Pbn, fp: &Fingerprint) {
        self.index.insert(fp, to);
        self.add_links(to, 1);
        self.set_point(lbn, MapEntry::Block { pbn: to, slot: 0 });
    }
}
