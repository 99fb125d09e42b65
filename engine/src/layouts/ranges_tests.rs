//! The choice of ranges.

use super::*;

fn block(lbn: u64) -> Range<u64> {
    lbn * BLOCK_BYTES..(lbn + 1) * BLOCK_BYTES
}

fn chosen(protected: &Protected) -> Vec<(u64, u32)> {
    protected.ranges.iter().map(|range| (range.first.0, range.blocks)).collect()
}

#[test]
fn ranges_are_rounded_outward_and_joined() {
    let mut candidates = Candidates::default();
    for range in [8191..8193, 4096..4097, 20 * 4096..21 * 4096, 12288..16384] {
        candidates.add(Importance::Tables, &range);
    }
    let protected = candidates.choose(&[]);
    assert_eq!((chosen(&protected), protected.left_out), (vec![(1, 3), (20, 1)], Blocks(0)));
}

#[test]
fn the_most_important_ranges_get_the_room_that_the_user_left() {
    let mut candidates = Candidates::default();
    (0..40).for_each(|n| candidates.add(Importance::Metadata, &block(2 * n)));
    (0..40).for_each(|n| candidates.add(Importance::Superblock, &block(1000 + 2 * n)));
    let user: Vec<ProtectedRange> = (0..20).map(|n| ProtectedRange { first: Lbn(5000 + 2 * n), blocks: 1, is_found: false }).collect();
    let protected = candidates.choose(&user);
    let expected: Vec<(u64, u32)> = (0..4).map(|n| (2 * n, 1)).chain((0..40).map(|n| (1000 + 2 * n, 1))).collect();
    assert_eq!((chosen(&protected), protected.left_out), (expected, Blocks(36)));
}

#[test]
fn a_range_that_touches_a_chosen_one_needs_no_room() {
    let mut candidates = Candidates::default();
    (0..64).for_each(|n| candidates.add(Importance::Superblock, &block(2 * n)));
    candidates.add(Importance::Tables, &block(500));
    candidates.add(Importance::Tables, &block(127));
    let protected = candidates.choose(&[]);
    assert_eq!((protected.ranges.len(), protected.left_out), (64, Blocks(1)));
    assert_eq!(chosen(&protected)[63], (126, 2));
}

#[test]
fn what_the_user_protects_needs_no_range() {
    let mut candidates = Candidates::default();
    candidates.add(Importance::Superblock, &block(0));
    candidates.add(Importance::Tables, &block(70));
    let protected = candidates.choose(&[ProtectedRange { first: Lbn(0), blocks: 10, is_found: false }]);
    assert_eq!(chosen(&protected), [(70, 1)]);
    let users = vec![ProtectedRange { first: Lbn(1000), blocks: 1, is_found: false }; PROTECTED_MAX];
    let protected = candidates.choose(&users);
    assert_eq!((chosen(&protected), protected.left_out), (vec![], Blocks(2)));
}

#[test]
fn ranges_beyond_the_limit_are_counted() {
    let mut candidates = Candidates::default();
    (0..CANDIDATES_MAX as u64 + 10).for_each(|n| candidates.add(Importance::Metadata, &block(2 * n)));
    candidates.leave_out(4097);
    assert_eq!(candidates.choose(&[]).left_out, Blocks(CANDIDATES_MAX as u64 + 10 - 64 + 2));
}
