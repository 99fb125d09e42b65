//! The fingerprints of the slots of carriers that were read lately: only a carrier itself has them.

use crate::fingerprint::Fingerprint;
use crate::units::Pbn;
use std::collections::VecDeque;

/// The most carriers. The search for the place of one LBN needs two of them at once.
const CARRIERS_MAX: usize = 32;

/// The slots of one carrier.
struct Known {
    pbn: Pbn,
    /// The value of the entry that named the carrier when it was read. Another carrier at this block has another one.
    value: Fingerprint,
    /// Empty if the block was not that carrier.
    slots: Vec<Fingerprint>,
}

/// The slots of some carriers, the oldest first.
#[derive(Default)]
pub(crate) struct KnownSlots {
    carriers: VecDeque<Known>,
}

impl KnownSlots {
    /// Notes the slots of a carrier that its entry named by `value`. None is known of an older carrier then, if there is no more room.
    pub fn add(&mut self, pbn: Pbn, value: Fingerprint, slots: Vec<Fingerprint>) {
        if self.carriers.len() == CARRIERS_MAX {
            self.carriers.pop_front();
        }
        self.carriers.push_back(Known { pbn, value, slots });
    }

    /// The fingerprints of the slots of the carrier that its entry names by `value`, if they are known.
    pub fn of(&self, pbn: Pbn, value: &Fingerprint) -> Option<&[Fingerprint]> {
        let known = self.carriers.iter().rev().find(|known| known.pbn == pbn && known.value == *value)?;
        Some(&known.slots)
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.carriers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fp(n: u8) -> Fingerprint {
        Fingerprint::of_digest(&[n; 20])
    }

    #[test]
    fn another_carrier_at_the_same_block_is_unknown() {
        let mut known = KnownSlots::default();
        known.add(Pbn(5), fp(1), vec![fp(2), fp(3)]);
        assert_eq!(known.of(Pbn(5), &fp(1)), Some(&[fp(2), fp(3)][..]));
        assert_eq!((known.of(Pbn(5), &fp(9)), known.of(Pbn(6), &fp(1))), (None, None));
    }

    #[test]
    fn the_oldest_carriers_make_room() {
        let mut known = KnownSlots::default();
        (0..=CARRIERS_MAX as u64).for_each(|n| known.add(Pbn(n), fp(1), Vec::new()));
        assert!(known.of(Pbn(0), &fp(1)).is_none() && known.of(Pbn(1), &fp(1)).is_some());
        known.clear();
        assert!(known.of(Pbn(1), &fp(1)).is_none());
    }
}
