//! Out of line: an LBN that means one of two places with the same content is mapped to the other one. A place is a whole block, or a slot
//! of a carrier.
//!
//! 1. It is a comparison and a swap: what the LBN means now is compared with the place to be linked to, and nothing comes between that and
//!    the new mapping. The map, the fingerprint table and the carriers that it names decide; whatever led here is advice.
//! 2. Only a mapping that is durable is changed. So no promise and no request names the old place, and after a crash before the commit the
//!    LBN still has it (R3).
//! 3. Links go to the first place in the table that has the content. Only an LBN that its block has alone goes to a later one: nothing else
//!    would free a block.
//! 4. The LBN gives up its copy, so the block to be linked to was just read from the device, and held the content. What a cache has of it
//!    does not count.
//! 5. Nothing here waits: the error says what is missing, and the caller tries again.

use super::Pool;
use super::blocks_read::BlocksRead;
use super::slot::Place;
use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry, REFS_UNKNOWN};
use crate::format::page::PageId;
use crate::format::unit;
use crate::policy::Policy;
use crate::schedule::Blocked;
use crate::tables::Access;
use crate::units::{Lbn, Pbn};

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remapped {
    /// The LBN may be mapped from this block to the place, whose content has this fingerprint.
    May(Pbn, Fingerprint),
    /// The LBN stays with this block, whose content has this fingerprint.
    Stands(Pbn, Fingerprint),
    /// The LBN means that block already, which has this fingerprint, and no other LBN does: another place would free the block.
    Alone(Fingerprint),
    /// The LBN means something else by now, or what it means is not durable yet.
    Changed,
    /// The place has other content.
    Differs,
    /// The block takes no further link, or nothing but its entry keeps it.
    NotThere,
}

impl Pool {
    /// The place that an LBN durably means, with the fingerprint of its content. None if the LBN means no content by whose fingerprint
    /// duplicates are found, or if the mapping is not durable yet. `Err`: this page or carrier has to be read first.
    pub fn durable_place(&mut self, lbn: Lbn, known: &BlocksRead) -> Result<Option<(Place, Fingerprint)>, Blocked> {
        if self.tables.overlay(lbn).is_some() {
            return Ok(None);
        }
        let entry = self.tables.lookup(&mut self.io, lbn).map_err(Blocked::Page)?;
        let Some(MapEntry::Block { pbn, slot }) = entry else { return Ok(None) };
        Ok(self.fingerprint_at((pbn, slot), known)?.map(|fp| ((pbn, slot), fp)))
    }

    /// The fingerprint of the content of a place, if other LBNs may be linked to the place by it.
    fn fingerprint_at(&mut self, (pbn, slot): Place, known: &BlocksRead) -> Result<Option<Fingerprint>, Blocked> {
        let entry = self.settled_entry(pbn).map_err(Blocked::Page)?;
        match (entry.kind, slot) {
            (Kind::Fingerprint, 0) => Ok(Some(entry.value)),
            (Kind::Carrier, 1..) => Ok(self.slots_of(pbn, &entry.value, known)?.get(usize::from(slot) - 1).copied()),
            _ => Ok(None),
        }
    }

    /// The entry that the table has for a block; none while something under way may change it, or the block may be damaged.
    pub fn settled_entry(&mut self, pbn: Pbn) -> Result<FingerprintEntry, PageId> {
        // The entry of a pending block is not in the table yet.
        if self.space.pending.get(pbn).is_some() || self.contents.suspects.contains(pbn) || self.tables.is_losing_its_name(pbn) {
            return Ok(FingerprintEntry::NONE);
        }
        let (page, at) = self.geometry.fingerprint_of(pbn);
        match self.tables.ensure(&mut self.io, page) {
            Access::Loading => Err(page),
            Access::Unreadable => Ok(FingerprintEntry::NONE),
            Access::Ready(resident) => {
                let entry = resident.page().content.fingerprint(at);
                Ok(if entry.is_suspect() { FingerprintEntry::NONE } else { entry })
            }
        }
    }

    /// The fingerprints of the slots of the carrier that its entry names by `value`.
    pub fn slots_of(&mut self, pbn: Pbn, value: &Fingerprint, known: &BlocksRead) -> Result<Vec<Fingerprint>, Blocked> {
        match known.slots_of(pbn, value) {
            Some(slots) => Ok(slots.to_vec()),
            None => self.in_memory(pbn).map(|block| unit::fingerprints(block.block(0))).ok_or(Blocked::Carrier(pbn)),
        }
    }

    /// Compares what an LBN means with the content of a place. `Err`: this page or block has to be read first.
    pub fn may_remap(&mut self, lbn: Lbn, to: Place, known: &BlocksRead) -> Result<Remapped, Blocked> {
        if self.medium.policy_of(lbn, Policy::DEFAULT).is_apart() {
            return Ok(Remapped::Changed);
        }
        if !self.may_take_links(lbn, to.0)? {
            return Ok(Remapped::NotThere);
        }
        let Some((from, content)) = self.durable_place(lbn, known)? else { return Ok(Remapped::Changed) };
        // Another slot of the same carrier would free nothing.
        if from.0 == to.0 {
            return Ok(if self.is_alone(from)? { Remapped::Alone(content) } else { Remapped::Stands(from.0, content) });
        }
        match self.fingerprint_at(to, known)? {
            Some(fp) if fp == content => {}
            Some(_) => return Ok(Remapped::Differs),
            None => return Ok(Remapped::NotThere),
        }
        if from.0 < to.0 && !self.is_alone(from)? {
            return Ok(Remapped::Stands(from.0, content));
        }
        let entry = self.settled_entry(to.0).map_err(Blocked::Page)?;
        if !known.holds(to, &entry.value, &content, self.io.now()) {
            return Err(if to.1 == 0 { Blocked::Compare(to.0) } else { Blocked::Carrier(to.0) });
        }
        Ok(Remapped::May(from.0, content))
    }

    /// Whether a block takes further links, or this LBN means it already. It is asked before anything is compared: of a block that takes
    /// none, all candidates stay open, and to compare them would need the carriers of all of them at once. `Err`: this page has to be read
    /// first.
    fn may_take_links(&mut self, lbn: Lbn, to: Pbn) -> Result<bool, Blocked> {
        // One link is that of the entry. A block that no LBN means would take the place of one that is to be freed, and may be about to
        // lose its entry.
        let links = 2..self.space.link_limit(&self.tables);
        if self.refs(to)?.is_some_and(|refs| links.contains(&refs)) {
            return Ok(true);
        }
        let entry = self.tables.lookup(&mut self.io, lbn).map_err(Blocked::Page)?;
        Ok(matches!(entry, Some(MapEntry::Block { pbn, .. }) if pbn == to))
    }

    /// Whether one LBN alone means a whole block, which has an entry. `Err`: this page has to be read first.
    fn is_alone(&mut self, (pbn, slot): Place) -> Result<bool, Blocked> {
        Ok(self.refs(pbn)? == Some(2) && slot == 0)
    }

    /// The links of a block, those of the open epoch included; none if they are not known. `Err`: this page has to be read first.
    fn refs(&mut self, pbn: Pbn) -> Result<Option<u8>, Blocked> {
        let (page, at) = self.geometry.refs_of(pbn);
        match self.tables.ensure(&mut self.io, page) {
            Access::Loading => Err(Blocked::Page(page)),
            Access::Unreadable => Ok(None),
            Access::Ready(resident) => {
                let committed = resident.page().content.refs(at);
                Ok(Some(self.tables.with_pending(pbn, committed)).filter(|&refs| refs != REFS_UNKNOWN))
            }
        }
    }

    /// Maps an LBN, for which [`Self::may_remap`] has just said that it may, to the place, from the open epoch on, which is sealed within
    /// this time. The index has its block from now on, since its content comes again and again.
    pub fn remap(&mut self, lbn: Lbn, (pbn, slot): Place, fp: &Fingerprint, ms: u64) {
        self.index.insert(fp, pbn);
        self.space.add_links(&mut self.io, &mut self.tables, pbn, 1);
        self.set_point_within(lbn, MapEntry::Block { pbn, slot }, ms);
    }
}
