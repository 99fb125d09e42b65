//! New content that is held back until its epoch is sealed, and how much of it is being compressed.

use crate::format::unit::SLOTS_MAX;
use crate::interface::IoId;
use crate::units::{Epoch, Lbn, Pbn};
use std::collections::BTreeMap;

/// The most LBNs that are remembered of a held block: a pack has no room for more links.
const LBNS_MAX: usize = 2 * SLOTS_MAX;

/// A held block.
#[derive(Debug)]
pub(crate) struct Held {
    /// The LBNs of the write that brought it, and of those that brought the same since.
    pub lbns: Vec<Lbn>,
    pub state: Holding,
}

/// The state of a held block.
#[derive(Debug)]
pub(crate) enum Holding {
    /// It is being compressed.
    Asked(IoId),
    Small(Vec<u8>),
    /// It does not compress.
    Loose,
    /// It looks so much like noise that nobody asked; it waits for its neighbours.
    Noise,
}

/// The numbers of held blocks of one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub held: usize,
    /// The number of these that are being compressed.
    pub asked: usize,
    /// Compressed, or known not to compress, since the caller saw last what could be packed.
    pub fresh: usize,
}

/// The held blocks of one epoch: never none.
#[derive(Default)]
struct HeldInEpoch {
    blocks: BTreeMap<Pbn, Held>,
    asked: usize,
    fresh: usize,
}

/// All held blocks.
#[derive(Default)]
pub(crate) struct Holds {
    /// Two epochs at the most: one fills, one commits.
    epochs: BTreeMap<Epoch, HeldInEpoch>,
}

impl Holds {
    pub fn len(&self) -> usize {
        self.epochs.values().map(|of| of.blocks.len()).sum()
    }

    pub fn counts(&self, epoch: Epoch) -> Counts {
        let counts = |of: &HeldInEpoch| Counts { held: of.blocks.len(), asked: of.asked, fresh: of.fresh };
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

    /// Those of an epoch, by block.
    pub fn of(&self, epoch: Epoch) -> impl Iterator<Item = (Pbn, &Held)> {
        self.epochs.get(&epoch).into_iter().flat_map(|of| of.blocks.iter().map(|(&pbn, held)| (pbn, held)))
    }

    /// Those of an epoch, by block, up to the first that is being compressed.
    pub fn answered(&self, epoch: Epoch) -> impl Iterator<Item = (Pbn, &Held)> {
        self.of(epoch).take_while(|(_, held)| !matches!(held.state, Holding::Asked(_)))
    }

    /// Adds a block that is held back: it is being compressed, or it looks like noise, and is held back for its neighbours' sake.
    pub fn add(&mut self, epoch: Epoch, pbn: Pbn, lbn: Lbn, asked: Option<IoId>) {
        let of = self.epochs.entry(epoch).or_default();
        of.blocks.insert(pbn, Held { lbns: vec![lbn], state: asked.map_or(Holding::Noise, Holding::Asked) });
        of.asked += usize::from(asked.is_some());
        of.fresh += usize::from(asked.is_none());
    }

    /// Another LBN means a block, if it is held.
    pub fn means_too(&mut self, epoch: Epoch, pbn: Pbn, lbn: Lbn) {
        let held = self.epochs.get_mut(&epoch).and_then(|of| of.blocks.get_mut(&pbn));
        if let Some(held) = held.filter(|held| held.lbns.len() < LBNS_MAX) {
            held.lbns.push(lbn);
        }
    }

    /// Takes the answer for a block that was compressed, if it could be. Returns its epoch; none where it is held no more: it may have
    /// died, and been born again in a later epoch.
    pub fn answer(&mut self, io: IoId, pbn: Pbn, data: Option<Vec<u8>>) -> Option<Epoch> {
        let is_it = |held: &Held| matches!(held.state, Holding::Asked(asked) if asked == io);
        let (&epoch, of) = self.epochs.iter_mut().find(|(_, of)| of.blocks.get(&pbn).is_some_and(is_it))?;
        of.blocks.get_mut(&pbn)?.state = data.map_or(Holding::Loose, Holding::Small);
        of.asked -= 1;
        of.fresh += 1;
        Some(epoch)
    }

    pub fn remove(&mut self, epoch: Epoch, pbn: Pbn) -> Option<Held> {
        let of = self.epochs.get_mut(&epoch)?;
        let held = of.blocks.remove(&pbn)?;
        of.asked -= usize::from(matches!(held.state, Holding::Asked(_)));
        if of.blocks.is_empty() {
            self.epochs.remove(&epoch);
        }
        Some(held)
    }

    /// Nothing is fresh any more: the caller has seen what could be packed.
    pub fn looked_at(&mut self, epoch: Epoch) {
        if let Some(of) = self.epochs.get_mut(&epoch) {
            of.fresh = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E: Epoch = Epoch(3);

    #[test]
    fn counts_follow_what_is_held() {
        let mut holds = Holds::default();
        for n in 1..=3 {
            holds.add(E, Pbn(n), Lbn(n), Some(IoId(n)));
        }
        assert_eq!(holds.counts(E), Counts { held: 3, asked: 3, fresh: 0 });
        assert_eq!(holds.answer(IoId(1), Pbn(1), Some(vec![7])), Some(E));
        assert_eq!(holds.answer(IoId(9), Pbn(2), None), None, "that was asked before it died, and was born again");
        assert_eq!(holds.counts(E), Counts { held: 3, asked: 2, fresh: 1 });
        holds.looked_at(E);
        assert!(holds.remove(E, Pbn(1)).is_some() && holds.remove(E, Pbn(2)).is_some() && holds.remove(E, Pbn(2)).is_none());
        assert_eq!(holds.counts(E), Counts { held: 1, asked: 1, fresh: 0 });
        holds.add(E, Pbn(4), Lbn(4), None);
        assert_eq!(holds.counts(E), Counts { held: 2, asked: 1, fresh: 1 });
        assert_eq!(holds.answered(E).count(), 0, "it lies behind one that is being compressed");
        holds.remove(E, Pbn(3));
        assert_eq!(holds.answered(E).count(), 1);
        holds.remove(E, Pbn(4));
        assert_eq!((holds.counts(E), holds.len(), holds.epochs.len()), (Counts::default(), 0, 0));
    }
}
