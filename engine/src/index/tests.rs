//! Tests of the index in memory.

use super::*;

fn fp(n: u64) -> Fingerprint {
    Fingerprint::of_digest(blake3::hash(&n.to_le_bytes()).as_bytes())
}

impl Index {
    fn matches(&self, fp: &Fingerprint) -> Vec<Pbn> {
        self.places(fp).filter(|&place| self.is_alike(place, fp)).map(|place| self.lines.layout.pbn(self.lines.get(place))).collect()
    }
}

fn first(index: &Index, n: u64) -> Option<Pbn> {
    index.matches(&fp(n)).first().copied()
}

fn doubts(index: &Index, n: u64) -> bool {
    index.find(&fp(n)).is_some_and(|place| index.lines.layout.is_doubtful(index.lines.get(place)))
}

#[test]
fn finds_what_was_inserted_and_not_what_was_removed() {
    let mut index = Index::new(1 << 20, 1 << 14);
    (0..10_000).for_each(|n| index.insert(&fp(n), Pbn(n)));
    let found = (0..10_000).filter(|&n| first(&index, n) == Some(Pbn(n))).count();
    assert_eq!(found, 10_000);
    index.remove(&fp(5), Pbn(5));
    assert_eq!(first(&index, 5), None);
    index.remove(&fp(6), Pbn(7));
    assert_eq!(first(&index, 6), Some(Pbn(6)), "only the entry of that very block is removed");
}

#[test]
fn the_least_recently_used_entry_is_evicted() {
    let mut index = Index::new(512, 1 << 20);
    assert_eq!(index.capacity(), 12);
    (0..1000).for_each(|n| {
        index.insert(&fp(0), Pbn(0));
        index.insert(&fp(n), Pbn(n));
    });
    assert_eq!(first(&index, 0), Some(Pbn(0)));
    assert_eq!(index.entries(), 12);
}

#[test]
fn a_second_block_with_the_same_content_takes_the_place_of_the_first() {
    let mut index = Index::new(1 << 20, 1 << 14);
    index.insert(&fp(1), Pbn(5));
    index.insert(&fp(1), Pbn(9));
    assert_eq!((index.entries(), first(&index, 1)), (1, Some(Pbn(9))));
    index.remove(&fp(1), Pbn(9));
    assert_eq!((index.entries(), first(&index, 1)), (0, None), "the first does not come back");
}

#[test]
fn an_index_with_room_for_twice_the_blocks_loses_nothing() {
    let mut index = Index::new(1 << 20, 10_000);
    assert!(!index.is_whole_for(&fp(0)), "nobody has filled it yet");
    assert!(index.rebuild_ended(true));
    (0..10_000).for_each(|n| index.insert(&fp(n), Pbn(n)));
    assert!((0..10_000).all(|n| first(&index, n) == Some(Pbn(n))) && (0..20_000).all(|n| index.is_whole_for(&fp(n))));
    assert!(!index.spilled.is_clear(), "some needed their other bucket");
    assert!(index.rebuild_ended(true));
    let mut index = Index::new(1 << 20, 10_000);
    assert!(!index.rebuild_ended(false) && !index.is_whole_for(&fp(0)), "not all was seen");
}

#[test]
fn only_buckets_that_have_lost_an_entry_leave_what_they_lack_open() {
    let mut index = Index::new(1 << 20, 10_000);
    index.rebuild_ended(true);
    (0..18_000).for_each(|n| index.insert(&fp(n), Pbn(n % 10_000)));
    let open = (20_000..30_000).filter(|&n| !index.is_whole_for(&fp(n))).count();
    assert!((20..5000).contains(&open), "{open} of 10,000");
    (0..18_000).for_each(|n| assert!(first(&index, n).is_some() || !index.is_whole_for(&fp(n)), "{n} was evicted"));
    assert!(!index.rebuild_ended(true), "what was written meanwhile may have been stored before");
}

#[test]
fn doubt_about_a_block_ends_with_another_block_or_with_certainty() {
    let mut index = Index::new(1 << 20, 1 << 14);
    index.insert(&fp(1), Pbn(5));
    assert!(!doubts(&index, 1));
    index.doubt(&fp(1));
    assert!(doubts(&index, 1) && !doubts(&index, 2));
    assert_eq!(first(&index, 1), Some(Pbn(5)), "it is found all the same");
    index.end_doubt(&fp(1), Pbn(6));
    assert!(doubts(&index, 1), "that is another block");
    index.end_doubt(&fp(1), Pbn(5));
    assert!(!doubts(&index, 1));
    index.doubt(&fp(1));
    index.insert(&fp(1), Pbn(3));
    assert_eq!((doubts(&index, 1), first(&index, 1)), (false, Some(Pbn(3))));
    index.doubt(&fp(1));
    index.remove(&fp(1), Pbn(3));
    assert_eq!((index.entries(), doubts(&index, 1)), (0, false));
}

#[test]
fn an_offer_replaces_no_entry_and_adds_no_second_one() {
    let mut index = Index::new(1 << 20, 1 << 14);
    index.insert(&fp(1), Pbn(5));
    assert!(!index.offer(&fp(1), Pbn(9)));
    assert_eq!((index.entries(), first(&index, 1)), (1, Some(Pbn(5))));
    index.remove(&fp(1), Pbn(5));
    assert_eq!((index.entries(), first(&index, 1)), (0, None));
    assert!(index.offer(&fp(1), Pbn(9)));
    assert_eq!((index.entries(), first(&index, 1)), (1, Some(Pbn(9))));
}

#[test]
fn an_offer_finds_no_room_where_its_buckets_are_full() {
    let mut index = Index::new(1 << 10, 1 << 14);
    let taken = (0..1000).filter(|&n| index.offer(&fp(n), Pbn(n))).count();
    assert!(taken < 1000 && index.entries() == count(taken));
}

#[test]
fn where_tags_are_short_contents_that_agree_have_an_entry_each() {
    let mut index = Index::new(1 << 12, 1 << 24);
    index.rebuild_ended(true);
    let alike = |n: u8| {
        let mut bytes = [0; 20];
        (bytes[3], bytes[7]) = (n, 200);
        Fingerprint(bytes)
    };
    assert_eq!(index.buckets_of(&alike(0)), index.buckets_of(&alike(1)));
    index.insert(&alike(0), Pbn(5));
    index.insert(&alike(0), Pbn(5));
    assert_eq!(index.entries(), 1);
    index.insert(&alike(1), Pbn(6));
    assert!(!index.offer(&alike(1), Pbn(6)) && index.offer(&alike(2), Pbn(7)));
    let all = vec![Pbn(7), Pbn(6), Pbn(5)];
    assert_eq!((index.matches(&alike(0)), index.entries(), index.is_whole_for(&alike(0))), (all.clone(), 3, true));
    let by_number: Vec<_> = (0..).map_while(|nth| index.look_up(&alike(0), nth).unwrap()).collect();
    assert_eq!(by_number.iter().collect::<std::collections::BTreeSet<_>>(), all.iter().collect());
    index.remove_unconfirmed(&alike(0), Pbn(6));
    assert_eq!(index.matches(&alike(0)), all, "it may be that of another content");
    index.doubt(&alike(0));
    assert!(index.note_duplicate(Lbn(1), Pbn(5), &alike(0)));
    assert_eq!(index.matches(&alike(0)), [Pbn(5), Pbn(7), Pbn(6)], "the one in use comes first");
    index.remove(&alike(1), Pbn(6));
    assert_eq!(index.matches(&alike(1)), [Pbn(5), Pbn(7)]);
}

#[test]
fn an_entry_goes_to_its_other_bucket_where_both_are_full() {
    for blocks in [1 << 14, 1 << 24] {
        let mut index = Index::new(1 << 15, blocks);
        index.rebuild_ended(true);
        let most = index.capacity() / 100 * 85;
        (0..most).for_each(|n| index.insert(&fp(n), Pbn(n)));
        assert_eq!(index.entries(), most);
        assert!((0..most).all(|n| index.matches(&fp(n)).contains(&Pbn(n)) && index.is_whole_for(&fp(n))), "{blocks}");
        for n in 0..most {
            index.remove(&fp(n), Pbn(n));
        }
        assert_eq!(index.entries(), 0, "{blocks}: each is found in the bucket where it is");
    }
}

#[test]
fn a_sample_stays_longer() {
    let mut index = Index::new(1 << 14, 1 << 24);
    let room = index.capacity();
    (0..room * 4).for_each(|n| index.insert(&fp(n), Pbn(n)));
    let stayed = (0..room).filter(|&n| index.matches(&fp(n)).contains(&Pbn(n))).count();
    assert!((30..=room / 10).contains(&(stayed as u64)), "{stayed} of the first {room}");
    let recent = (room * 4 - room / 4..room * 4).filter(|&n| index.matches(&fp(n)).contains(&Pbn(n))).count();
    assert!(recent as u64 > room / 4 * 9 / 10, "{recent} of the last {}", room / 4);
}

/// The number of these that the index still has.
fn held(index: &Index, of: std::ops::Range<u64>) -> usize {
    of.filter(|&n| index.matches(&fp(n)).contains(&Pbn(n))).count()
}

#[test]
fn some_stay_however_much_is_written() {
    let mut index = Index::new(1 << 14, 1 << 24);
    let (room, buckets) = (index.capacity(), index.capacity() / 12);
    (0..room * 50).for_each(|n| index.insert(&fp(n), Pbn(n)));
    let oldest = held(&index, 0..room * 10);
    assert!(oldest as u64 > buckets / 10, "{oldest} of the oldest fifth, in {buckets} buckets");
}

#[test]
fn a_rebuild_takes_the_newest_and_some_of_all_others() {
    for times in [1, 2, 8, 100] {
        let mut index = Index::new(1 << 14, 1 << 24);
        let room = index.capacity();
        let blocks = room * times * 9 / 10;
        (0..blocks).for_each(|n| {
            index.offer_before(&fp(n), Pbn(n), blocks - 1 - n);
        });
        let tenths: Vec<_> = (0..10).map(|tenth| held(&index, blocks * tenth / 10..blocks * (tenth + 1) / 10)).collect();
        assert!(tenths.iter().all(|&held| held >= 30), "{times}: {tenths:?}");
        assert_eq!(held(&index, 0..room * 2 / 5) as u64, room * 2 / 5, "the newest");
        assert!(times > 1 || index.entries() == blocks, "all have room");
    }
}

#[test]
fn a_run_is_followed_only_where_the_index_lacks_entries() {
    let mut index = Index::new(1 << 12, 1 << 24);
    index.insert(&fp(1), Pbn(5));
    index.doubt(&fp(1));
    assert!(index.note_duplicate(Lbn(100), Pbn(5), &fp(1)));
    assert_eq!(index.following(Lbn(101), &fp(2)).unwrap().take(2).collect::<Vec<_>>(), [Pbn(6), Pbn(5)]);
    assert!(index.note_duplicate(Lbn(101), Pbn(6), &fp(2)), "as the one before it");
    index.insert(&fp(3), Pbn(7));
    assert!(!index.note_duplicate(Lbn(102), Pbn(7), &fp(3)), "its own entry says more");
    assert!(!index.note_duplicate(Lbn(103), Pbn(8), &fp(4)));
    index.rebuild_ended(true);
    assert!(index.following(Lbn(104), &fp(5)).is_none(), "what it does not have is stored nowhere");
}
