//! The filter against fragmentation (SmartDedup section 4.5, after iDedup): a duplicate is linked to only within a long run.
//!
//! 1. A run is a row of blocks of one write whose duplicates are a row on the device, too: each is in the block that follows the one
//!    before, or in the same block, as slots of a carrier are.
//! 2. A block that is zero, incomplete, apart or of new content ends a run.
//! 3. The index alone decides, before the first block of the write has its place. So a block may be linked to whose neighbour turns out
//!    not to be a duplicate; the filter is worth what the index's advice is.

use crate::fingerprint::Digest;
use crate::policy::Policies;
use crate::pool::Pool;
use crate::units::{Lbn, Pbn, index};

/// Returns for each block of a write whether it is in no run that is long enough. The blocks begin at `first`; the digest of one that
/// the write covers in part is [`Digest::Partial`].
#[inline(never)]
pub(super) fn lone_blocks(pool: &mut Pool, first: Lbn, digests: impl ExactSizeIterator<Item = Digest>, policies: &Policies) -> Vec<bool> {
    let min_run = index(pool.settings.min_run);
    if digests.len() < min_run {
        return vec![true; digests.len()];
    }
    let duplicates = (first.0..).map(Lbn).zip(digests).enumerate().map(|(i, (lbn, digest))| match digest {
        Digest::Of(fp) if !pool.medium.policy_of(lbn, policies.of(i)).is_apart() => pool.index.look_up(&fp, 0).ok().flatten(),
        _ => None,
    });
    outside_runs(duplicates, min_run)
}

/// Returns for each block whether it is in no run of at least `min_run`, which is 2 or more.
fn outside_runs(duplicates: impl Iterator<Item = Option<Pbn>>, min_run: usize) -> Vec<bool> {
    let (mut lone, mut first, mut last) = (Vec::with_capacity(duplicates.size_hint().0), 0, None::<Pbn>);
    for (at, duplicate) in duplicates.enumerate() {
        let goes_on = last.zip(duplicate).is_some_and(|(before, pbn)| pbn == before || pbn == before + 1);
        if !goes_on {
            first = at;
        }
        last = duplicate;
        let length = at + 1 - first;
        lone.push(length < min_run);
        if length == min_run {
            lone[first..].fill(false);
        }
    }
    lone
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows each block as `l`, linked to, or `n`, stored as new.
    fn shown(duplicates: &[Option<u64>], min_run: usize) -> String {
        let lone = outside_runs(duplicates.iter().map(|pbn| pbn.map(Pbn)), min_run);
        lone.into_iter().map(|is_lone| if is_lone { 'n' } else { 'l' }).collect()
    }

    fn row(pbns: &[u64]) -> Vec<Option<u64>> {
        pbns.iter().copied().map(Some).collect()
    }

    #[test]
    fn a_run_counts_from_its_length_on() {
        assert_eq!(shown(&row(&[7, 8, 9]), 4), "nnn");
        assert_eq!(shown(&row(&[7, 8, 9, 10]), 4), "llll");
        assert_eq!(shown(&row(&[7, 8, 9, 10, 11, 12]), 4), "llllll");
        assert_eq!(shown(&row(&[7, 8]), 2), "ll");
        assert_eq!(shown(&[], 2), "");
    }

    #[test]
    fn a_gap_a_step_back_and_other_blocks_end_a_run() {
        assert_eq!(shown(&row(&[7, 8, 10, 11, 12]), 3), "nnlll");
        assert_eq!(shown(&row(&[7, 8, 9, 8, 7]), 3), "lllnn", "only ascending blocks are a run");
        assert_eq!(shown(&[Some(7), Some(8), None, Some(9), Some(10)], 3), "nnnnn");
        assert_eq!(shown(&[None, None, Some(1), Some(2), None], 2), "nnlln");
    }

    #[test]
    fn slots_of_one_block_are_neighbours() {
        assert_eq!(shown(&row(&[7, 7, 7, 8]), 4), "llll");
        assert_eq!(shown(&row(&[7, 7, 9, 9]), 3), "nnnn");
    }
}
