//! The links of a window of blocks, two bytes each: how many there are, whether they mean slots or the whole block, and the highest slot.

/// Bits for the number of links: more than a count can hold, so that too many show.
const NUMBER_BITS: u32 = 10;
const NUMBER_MAX: u16 = (1 << NUMBER_BITS) - 1;
/// A link means the whole block.
const WHOLE: u16 = 1 << 15;

/// Links of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links(u16);

impl Links {
    /// Counts one more.
    pub(crate) fn add(&mut self, slot: u8) {
        let number = (self.0 & NUMBER_MAX).saturating_add(1).min(NUMBER_MAX);
        let slots = u16::from(self.slot_max().max(slot)) << NUMBER_BITS;
        let whole = (self.0 & WHOLE) | if slot == 0 { WHOLE } else { 0 };
        self.0 = number | slots | whole;
    }

    /// The number of links, up to 1023.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.0 & NUMBER_MAX)
    }

    /// The highest slot that is meant; 0 where none is.
    pub(crate) fn slot_max(self) -> u8 {
        let [upper, _] = (self.0 & !WHOLE).to_be_bytes();
        upper >> (NUMBER_BITS - u8::BITS)
    }

    /// Whether the block as a whole is meant.
    pub(crate) fn whole(self) -> bool {
        self.0 & WHOLE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_counted_with_their_highest_slot() {
        let mut links = Links::default();
        assert_eq!((links.number(), links.slot_max(), links.whole()), (0, 0, false));
        for slot in [3, 15, 2] {
            links.add(slot);
        }
        assert_eq!((links.number(), links.slot_max(), links.whole()), (3, 15, false));
        (0..2000).for_each(|_| links.add(0));
        assert_eq!((links.number(), links.slot_max(), links.whole()), (1023, 15, true));
    }
}
