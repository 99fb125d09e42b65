//! New content that is held back until its epoch is sealed, and the progress of its compression.

use crate::format::unit::SLOTS_MAX;
use crate::interface::IoId;
use crate::policy::Policy;
use crate::units::{Epoch, Lbn, Pbn};
use std::collections::BTreeMap;

/// The most LBNs that are noted for a held block: a pack has no room for more links.
const LBNS_MAX: usize = 2 * SLOTS_MAX;

/// A held block.
#[derive(Debug)]
pub(crate) struct HeldBlock {
    /// The LBNs of the writes with this content, the first write first.
    pub lbns: Vec<Lbn>,
    pub state: HeldState,
    /// The policy of the first write.
    pub policy: Policy,
}

/// The state of a held block.
#[derive(Debug)]
pub(crate) enum HeldState {
    /// It is being compressed.
    Compressing(IoId),
    Compressed(Vec<u8>),
    /// It does not compress.
    Incompressible,
    /// Its bytes look like noise, so it is not compressed; it is held back so that it is written together with its neighbours.
    Noise,
}

/// The numbers of held blocks of one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub held: usize,
    /// The number of these that are being compressed.
    pub asked: usize,
    /// The number that were compressed, or found not to compress, since the caller last looked for blocks to pack.
    pub unseen: usize,
}

/// The held blocks of one epoch, of which there is at least one.
#[derive(Default)]
struct HeldInEpoch {
    blocks: BTreeMap<Pbn, HeldBlock>,
    asked: usize,
    unseen: usize,
}

/// All held blocks.
#[derive(Default)]
pub(crate) struct HeldBlocks {
    /// At most two epochs: one fills, one commits.
    epochs: BTreeMap<Epoch, HeldInEpoch>,
}

impl HeldBlocks {
    pub fn len(&self) -> usize {
        self.epochs.values().map(|of| of.blocks.len()).sum()
    }

    pub fn counts(&self, epoch: Epoch) -> Counts {
        let counts = |of: &HeldInEpoch| Counts { held: of.blocks.len(), asked: of.asked, unseen: of.unseen };
        self.epochs.get(&epoch).map(counts).unwrap_or_default()
    }

    /// Whether content of an epoch is being compressed.
    pub fn asks(&self, epoch: Epoch) -> bool {
        self.counts(epoch).asked > 0
    }

    pub fn contains(&self, epoch: Epoch, pbn: Pbn) -> bool {
        self.epochs.get(&epoch).is_some_and(|of| of.blocks.contains_key(&pbn))
    }

    pub fn blocks(&self) -> impl Iterator<Item = Pbn> {
        self.epochs.values().flat_map(|of| of.blocks.keys().copied())
    }

    /// The held blocks of an epoch, in their order.
    pub fn of(&self, epoch: Epoch) -> impl Iterator<Item = (Pbn, &HeldBlock)> {
        self.epochs.get(&epoch).into_iter().flat_map(|of| of.blocks.iter().map(|(&pbn, held)| (pbn, held)))
    }

    /// The held blocks of an epoch, in their order, up to the first that is being compressed.
    pub fn answered(&self, epoch: Epoch) -> impl Iterator<Item = (Pbn, &HeldBlock)> {
        self.of(epoch).take_while(|(_, held)| !matches!(held.state, HeldState::Compressing(_)))
    }

    /// Holds a block back. `asked`: the compression that is under way; none if the block looks like noise.
    pub fn add(&mut self, epoch: Epoch, pbn: Pbn, lbn: Lbn, asked: Option<IoId>, policy: Policy) {
        let of = self.epochs.entry(epoch).or_default();
        let state = asked.map_or(HeldState::Noise, HeldState::Compressing);
        of.blocks.insert(pbn, HeldBlock { lbns: vec![lbn], state, policy });
        of.asked += usize::from(asked.is_some());
        of.unseen += usize::from(asked.is_none());
    }

    /// Notes that another LBN is mapped to a block, if it is held.
    pub fn add_lbn(&mut self, epoch: Epoch, pbn: Pbn, lbn: Lbn) {
        let held = self.epochs.get_mut(&epoch).and_then(|of| of.blocks.get_mut(&pbn));
        if let Some(held) = held.filter(|held| held.lbns.len() < LBNS_MAX) {
            held.lbns.push(lbn);
        }
    }

    /// Takes the result of a compression; `data` is none if the block does not compress. Returns the epoch of the block; none if this block
    /// is no longer held: it may have lost its links and been allocated again in a later epoch.
    pub fn answer(&mut self, io: IoId, pbn: Pbn, data: Option<Vec<u8>>) -> Option<Epoch> {
        let is_it = |held: &HeldBlock| matches!(held.state, HeldState::Compressing(asked) if asked == io);
        let (&epoch, of) = self.epochs.iter_mut().find(|(_, of)| of.blocks.get(&pbn).is_some_and(is_it))?;
        of.blocks.get_mut(&pbn)?.state = data.map_or(HeldState::Incompressible, HeldState::Compressed);
        of.asked -= 1;
        of.unseen += 1;
        Some(epoch)
    }

    pub fn remove(&mut self, epoch: Epoch, pbn: Pbn) -> Option<HeldBlock> {
        let of = self.epochs.get_mut(&epoch)?;
        let held = of.blocks.remove(&pbn)?;
        of.asked -= usize::from(matches!(held.state, HeldState::Compressing(_)));
        if of.blocks.is_empty() {
            self.epochs.remove(&epoch);
        }
        Some(held)
    }

    /// Notes that the caller has looked for blocks to pack.
    pub fn looked_at(&mut self, epoch: Epoch) {
        if let Some(of) = self.epochs.get_mut(&epoch) {
            of.unseen = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E: Epoch = Epoch(3);

    #[test]
    fn counts_follow_what_is_held() {
        let mut holds = HeldBlocks::default();
        for n in 1..=3 {
            holds.add(E, Pbn(n), Lbn(n), Some(IoId(n)), Policy::DEFAULT);
        }
        assert_eq!(holds.counts(E), Counts { held: 3, asked: 3, unseen: 0 });
        assert_eq!(holds.answer(IoId(1), Pbn(1), Some(vec![7])), Some(E));
        assert_eq!(holds.answer(IoId(9), Pbn(2), None), None, "the question is older than the block that has the number now");
        assert_eq!(holds.counts(E), Counts { held: 3, asked: 2, unseen: 1 });
        holds.looked_at(E);
        assert!(holds.remove(E, Pbn(1)).is_some() && holds.remove(E, Pbn(2)).is_some() && holds.remove(E, Pbn(2)).is_none());
        assert_eq!(holds.counts(E), Counts { held: 1, asked: 1, unseen: 0 });
        holds.add(E, Pbn(4), Lbn(4), None, Policy::DEFAULT);
        assert_eq!(holds.counts(E), Counts { held: 2, asked: 1, unseen: 1 });
        assert_eq!(holds.answered(E).count(), 0, "it lies behind one that is being compressed");
        holds.remove(E, Pbn(3));
        assert_eq!(holds.answered(E).count(), 1);
        holds.remove(E, Pbn(4));
        assert_eq!((holds.counts(E), holds.len(), holds.epochs.len()), (Counts::default(), 0, 0));
    }
}
