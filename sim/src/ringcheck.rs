//! The set checker of the acknowledgement ring: whenever the server is killed, its device holds what standing promises name.
//!
//! 1. When a promise of a block is remembered, that block, or the slot of it, holds the promised content in every state that a kill could leave: what
//!    was completed last, and all that is under way.
//! 2. While the promise stands, nothing else is written there, and the block is not discarded; not by the server that recalls it either.
//!
//! It does not look at lives whose device fails or is spoilt, since anything may be missing there (A5); nor at promises that carry their content.

use crate::content::Shared;
use crate::disk::{Cell, SimDisk};
use crate::violation::{Violation, violation};
use crate::volume::{Place, Volume};
use onefold_engine::fingerprint::{Digest, Fingerprint};
use onefold_engine::format::unit;
use onefold_engine::interface::{Promise, Promised};
use onefold_engine::units::{Epoch, Lbn};
use rustc_hash::FxHashMap;
use std::fmt;

/// What a promise names of a block.
#[derive(Clone, Copy)]
struct Named {
    /// None: the last server's.
    epoch: Option<Epoch>,
    lbn: Lbn,
    slot: u8,
    proof: Fingerprint,
}

impl Named {
    /// Whether a block with this content holds what is promised.
    fn is_in(&self, content: &Shared, volume: &Volume) -> bool {
        match self.slot {
            0 => volume.digest(content) == Digest::Of(self.proof),
            slot => {
                let slots = unit::slots(content.bytes()).unwrap_or_default();
                slots.get(usize::from(slot) - 1).is_some_and(|slot| slot.fingerprint == self.proof)
            }
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LBN {} (slot {} with {:?}, epoch {:?})", self.lbn.0, self.slot, self.proof, self.epoch)
    }
}

/// By block: what standing promises name of it.
#[derive(Clone, Default)]
pub struct RingChecker {
    named: FxHashMap<u64, Vec<Named>>,
}

impl RingChecker {
    /// What a server has left that was killed: its promises stand until they are durable.
    #[must_use]
    pub fn taking_over(promises: &[Promised]) -> Self {
        let mut checker = Self::default();
        for what in promises {
            let _ = checker.note(None, what);
        }
        checker
    }

    fn note(&mut self, epoch: Option<Epoch>, what: &Promised) -> Option<(u64, Named)> {
        let Promised::Link { lbn, pbn, slot, proof } = *what else { return None };
        let named = Named { epoch, lbn, slot, proof };
        self.named.entry(pbn.0).or_default().push(named);
        Some((pbn.0, named))
    }

    /// Promises are remembered, which nobody has heard of yet.
    ///
    /// # Errors
    /// When a kill could leave something else where they lead (1).
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

    /// Epochs up to this one are durable: their promises are gone.
    pub fn forget(&mut self, epoch: Epoch) {
        self.retain(|of| of.is_none_or(|of| of > epoch));
    }

    /// What the last server had promised is durable.
    pub fn recalled(&mut self) {
        self.retain(|of| of.is_some());
    }

    fn retain(&mut self, stands: impl Fn(Option<Epoch>) -> bool) {
        self.named.retain(|_, of_block| {
            of_block.retain(|named| stands(named.epoch));
            !of_block.is_empty()
        });
    }

    /// A write (or, without content, a discard) of a block is about to be issued.
    ///
    /// # Errors
    /// When a standing promise names something else there (2).
    pub fn about_to_change(&self, block: u64, content: Option<&Shared>, volume: &Volume) -> Result<(), Violation> {
        let Place::Data(pbn) = volume.place(block) else { return Ok(()) };
        let of_block = self.named.get(&pbn).map_or(&[][..], Vec::as_slice);
        match of_block.iter().find(|named| content.is_none_or(|content| !named.is_in(content, volume))) {
            Some(named) => Err(violation!("ring: PBN {pbn} is changed to {content:?} while {named} is promised there")),
            None => Ok(()),
        }
    }
}

/// Every content that a kill could leave in a block, apart from mixtures of their sectors; none where a discard came last.
fn left_by_a_kill(cell: &Cell) -> impl Iterator<Item = Option<&Shared>> {
    let under_way = cell.since().iter().rev().take_while(|version| version.in_flight());
    let completed = cell.since().iter().rev().find(|version| !version.in_flight());
    let completed = match completed {
        Some(version) => (!version.discard).then_some(&version.content),
        None => (!cell.trimmed()).then(|| cell.durable()),
    };
    under_way.map(|version| (!version.discard).then_some(&version.content)).chain([completed])
}
