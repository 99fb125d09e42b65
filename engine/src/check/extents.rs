//! Extents: how far data that follow each other for a client follow each other on the device. Dedup and compression break them up.

use crate::units::{Lbn, Pbn};

/// The end of the extent that goes on.
#[derive(Default)]
pub(super) struct Extents {
    last: Option<(Lbn, Pbn)>,
}

impl Extents {
    /// Whether an LBN begins an extent, and so does not go on where the LBN before it left off: in the same block, of which both are slots,
    /// or in the next one. LBNs ascend.
    pub(super) fn begins(&mut self, lbn: Lbn, pbn: Pbn) -> bool {
        let goes_on = self.last.is_some_and(|(before, at)| lbn == before + 1 && (pbn == at || pbn == at + 1));
        self.last = Some((lbn, pbn));
        !goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_goes_on_in_the_next_block_and_in_the_same_one() {
        let mut extents = Extents::default();
        let of = |lbns: &[(u64, u64)], extents: &mut Extents| -> Vec<bool> {
            lbns.iter().map(|&(lbn, pbn)| extents.begins(Lbn(lbn), Pbn(pbn))).collect()
        };
        assert_eq!(of(&[(0, 7), (1, 8), (2, 8), (3, 9)], &mut extents), [true, false, false, false]);
        assert_eq!(of(&[(4, 8), (5, 9), (7, 10), (8, 12)], &mut extents), [true, false, true, true], "back, on, a hole, a gap");
    }
}
