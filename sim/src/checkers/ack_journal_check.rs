//! The set checker of the acknowledgement journal: whenever the server is killed, its device holds what the promises in force name.
//!
//! 1. When a promise about a block is remembered, that block, or its slot, holds the promised content in every state that a kill could
//!    leave: the last completed content, and all that is under way.
//! 2. While the promise is in force, nothing else is written there, and the block is not discarded; not by the server that replays it
//!    either.
//!
//! It does not check lives whose device fails or is damaged, since anything may be missing there (A5), or promises that contain their
//! content.

use crate::device::disk::{Cell, SimDisk};
use crate::device::volume::{BlockUse, Volume};
use crate::ground::content::Shared;
use crate::ground::violation::{Violation, violation};
use onefold_engine::format::entry::FingerprintEntry;
use onefold_engine::format::unit;
use onefold_engine::interface::{Promise, Promised};
use onefold_engine::units::{Epoch, Lbn};
use rustc_hash::FxHashMap;
use std::fmt;

/// The part of a promise that is about a block.
#[derive(Clone, Copy)]
struct NamedBlock {
    /// The epoch; none for a promise of the last server.
    epoch: Option<Epoch>,
    lbn: Lbn,
    slot: u8,
    proof: FingerprintEntry,
}

impl NamedBlock {
    /// Returns whether a block with this content holds what is promised.
    fn is_in(&self, content: &Shared, volume: &Volume) -> bool {
        match self.slot {
            0 => volume.says(&self.proof, content),
            slot => {
                let slots = unit::slots(content.bytes()).unwrap_or_default();
                slots.get(usize::from(slot) - 1).is_some_and(|slot| FingerprintEntry::of(slot.fingerprint) == self.proof)
            }
        }
    }
}

impl fmt::Display for NamedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LBN {} (slot {} with {:?}, epoch {:?})", self.lbn.0, self.slot, self.proof, self.epoch)
    }
}

/// The promises in force, by block.
#[derive(Clone, Default)]
pub struct AckJournalChecker {
    named: FxHashMap<u64, Vec<NamedBlock>>,
}

impl AckJournalChecker {
    /// Begins with the promises of a server that was killed: they are in force until they are durable.
    #[must_use]
    pub fn taking_over(promises: &[Promised]) -> Self {
        let mut checker = Self::default();
        for what in promises {
            let _ = checker.note(None, what);
        }
        checker
    }

    fn note(&mut self, epoch: Option<Epoch>, what: &Promised) -> Option<(u64, NamedBlock)> {
        let Promised::Link { lbn, pbn, slot, proof } = *what else { return None };
        let named = NamedBlock { epoch, lbn, slot, proof };
        self.named.entry(pbn.0).or_default().push(named);
        Some((pbn.0, named))
    }

    /// Checks promises that are remembered before they are acknowledged.
    ///
    /// # Errors
    /// Fails if a kill could leave something else in their places (1).
    pub fn remember(&mut self, promises: &[Promise], disk: &SimDisk, volume: &Volume) -> Result<(), Violation> {
        for promise in promises {
            let Some((pbn, named)) = self.note(Some(promise.epoch), &promise.what) else { continue };
            let cell = disk.cell(volume.block_of(pbn));
            if left_by_a_kill(cell).any(|content| content.is_none_or(|content| !named.is_in(content, volume))) {
                return Err(violation!("ring: {named} is promised in PBN {pbn}, where a kill could leave something else: {cell:?}"));
            }
        }
        Ok(())
    }

    /// Forgets the promises of epochs up to this one, which are durable.
    pub fn forget(&mut self, epoch: Epoch) {
        self.retain(|of| of.is_none_or(|of| of > epoch));
    }

    /// Notes that the last server's promises are durable.
    pub fn replayed(&mut self) {
        self.retain(|of| of.is_some());
    }

    fn retain(&mut self, stands: impl Fn(Option<Epoch>) -> bool) {
        self.named.retain(|_, of_block| {
            of_block.retain(|named| stands(named.epoch));
            !of_block.is_empty()
        });
    }

    /// Checks a write (or, without content, a discard) of a block that is about to be issued.
    ///
    /// # Errors
    /// Fails if a promise in force names something else there (2).
    pub fn about_to_change(&self, block: u64, content: Option<&Shared>, volume: &Volume) -> Result<(), Violation> {
        let BlockUse::Data(pbn) = volume.place(block) else { return Ok(()) };
        let of_block = self.named.get(&pbn).map_or(&[][..], Vec::as_slice);
        match of_block.iter().find(|named| content.is_none_or(|content| !named.is_in(content, volume))) {
            Some(named) => Err(violation!("ring: PBN {pbn} is changed to {content:?} while {named} is promised there")),
            None => Ok(()),
        }
    }
}

/// Lists every content that a kill could leave in a block, apart from mixtures of their sectors; none if a discard came last.
fn left_by_a_kill(cell: &Cell) -> impl Iterator<Item = Option<&Shared>> {
    let under_way = cell.since().iter().rev().take_while(|version| version.in_flight());
    let completed = cell.since().iter().rev().find(|version| !version.in_flight());
    let completed = match completed {
        Some(version) => (!version.discard).then_some(&version.content),
        None => (!cell.trimmed()).then(|| cell.durable()),
    };
    under_way.map(|version| (!version.discard).then_some(&version.content)).chain([completed])
}
