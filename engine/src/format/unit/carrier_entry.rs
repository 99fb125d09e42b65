//! The value of a carrier's entry: the beginning of its authenticator, and tags of its slots.
//!
//! 1. 64 bits of the authenticator tell the carrier from every other unit that was ever written to its block. The unit itself has all of
//!    the authenticator, which proves that the volume made it.
//! 2. The tags show which contents may lie in its slots, without a read of the carrier. They share 90 bits, so the more slots there are,
//!    the less each tag says.
//! 3. The value of a suspect carrier has no slots ([`FingerprintEntry::suspect`](crate::format::FingerprintEntry::suspect)).

use super::fields::SLOTS_MAX;
use crate::fingerprint::Fingerprint;
use crate::format::entry::{AUTHENTICATOR_PART, FINGERPRINT_ENTRY_SIZE, SLOT_COUNT_BITS};
use std::ops::RangeInclusive;

/// The bits that the tags share, and the most that one has.
const TAGS_BITS: u32 = 90;
const TAG_BITS_MAX: u32 = 32;
/// A tag of this number of bits or more shows what lies in a slot: up to five slots have them.
const TAG_BITS_CERTAIN: u32 = 18;

const _: () = assert!(SLOTS_MAX < 1 << SLOT_COUNT_BITS);

/// The bits of each of this many tags.
fn tag_bits(slots: u32) -> u32 {
    (TAGS_BITS / slots.max(1)).min(TAG_BITS_MAX)
}

/// The value of the entry of a carrier with this authenticator, whose slots have these fingerprints.
pub(super) fn value(authenticator: &[u8], slots: &[Fingerprint]) -> Fingerprint {
    let slots = &slots[..slots.len().min(SLOTS_MAX)];
    let number = u8::try_from(slots.len()).map_or(0, u32::from);
    let bits = tag_bits(number);
    let tags = (0..).zip(slots).map(|(i, slot)| u128::from(slot.head() >> (u64::BITS - bits)) << (SLOT_COUNT_BITS + i * bits));
    let rest = tags.fold(u128::from(number), |rest, tag| rest | tag).to_le_bytes();
    let mut value = [0; FINGERPRINT_ENTRY_SIZE];
    value[..AUTHENTICATOR_PART].copy_from_slice(&authenticator[..AUTHENTICATOR_PART]);
    value[AUTHENTICATOR_PART..].copy_from_slice(&rest[..FINGERPRINT_ENTRY_SIZE - AUTHENTICATOR_PART]);
    Fingerprint(value)
}

/// Whether a value is that of the unit with this authenticator, as far as the authenticator shows.
pub(super) fn is_of(value: &Fingerprint, authenticator: &[u8]) -> bool {
    value.0[..AUTHENTICATOR_PART] == authenticator[..AUTHENTICATOR_PART]
}

/// For each slot of a carrier whose entry has this value, the heads ([`Fingerprint::head`]) that the fingerprint of its content may have.
pub fn heads_of_slots(value: &Fingerprint) -> impl Iterator<Item = RangeInclusive<u64>> + use<> {
    let mut rest = [0; size_of::<u128>()];
    rest[..FINGERPRINT_ENTRY_SIZE - AUTHENTICATOR_PART].copy_from_slice(&value.0[AUTHENTICATOR_PART..]);
    let rest = u128::from_le_bytes(rest);
    let number = u32::from(rest.to_le_bytes()[0] & ((1 << SLOT_COUNT_BITS) - 1));
    let bits = tag_bits(number);
    (0..number).map(move |i| {
        let tag = (rest >> (SLOT_COUNT_BITS + i * bits)) & ((1 << bits) - 1);
        let [a, b, c, d, e, f, g, h, ..] = tag.to_le_bytes();
        let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]) << (u64::BITS - bits);
        first..=first | (u64::MAX >> bits)
    })
}

/// Whether a carrier whose entry has this value has a slot with this fingerprint, but for one case in thousands. `false` for carriers of
/// six slots and more, whose tags are shorter.
pub fn most_likely_has(value: &Fingerprint, fp: &Fingerprint) -> bool {
    heads_of_slots(value).any(|heads| heads.contains(&fp.head()) && heads.end() - heads.start() <= u64::MAX >> TAG_BITS_CERTAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fp(n: u64) -> Fingerprint {
        Fingerprint::of_digest(blake3::hash(&n.to_le_bytes()).as_bytes())
    }

    proptest! {
        #[test]
        fn each_slot_is_within_its_heads_and_the_value_leaves_the_kind_alone(
            slots in proptest::collection::vec(any::<u64>().prop_map(fp), 0..=SLOTS_MAX),
            authenticator in any::<[u8; 20]>(),
        ) {
            let value = value(&authenticator, &slots);
            prop_assert_eq!(value, Fingerprint::of_digest(&value.0), "158 bits");
            prop_assert!(is_of(&value, &authenticator));
            let heads: Vec<_> = heads_of_slots(&value).collect();
            prop_assert_eq!(heads.len(), slots.len());
            prop_assert!(heads.iter().zip(&slots).all(|(heads, slot)| heads.contains(&slot.head())));
        }
    }

    #[test]
    fn few_slots_have_tags_that_hardly_match_by_chance() {
        for (slots, chance) in [(1, 32), (2, 32), (3, 30), (4, 22), (6, 15), (15, 6)] {
            let value = value(&[9; 20], &(0..slots).map(fp).collect::<Vec<_>>());
            let widths: Vec<_> = heads_of_slots(&value).map(|heads| (heads.end() - heads.start()).leading_zeros()).collect();
            assert_eq!(widths, vec![chance; usize::try_from(slots).unwrap()]);
        }
    }

    #[test]
    fn another_authenticator_or_another_slot_is_another_value() {
        let one = value(&[9; 20], &[fp(1), fp(2)]);
        assert_ne!(one, value(&[9; 20], &[fp(2), fp(1)]));
        assert_ne!(one, value(&[9; 20], &[fp(1)]));
        assert!(!is_of(&one, &[8; 20]) && is_of(&one, &[9; 20]));
        assert_eq!(heads_of_slots(&value(&[9; 20], &[])).count(), 0);
    }
}
