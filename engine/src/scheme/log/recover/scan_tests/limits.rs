//! Units name LBNs and blocks of the volume, and no block twice.

use super::*;

#[test]
fn what_counts_names_what_the_volume_has() {
    let Limits { lbns, pbns, .. } = LIMITS;
    let outside = |record| Medium::of([unit(11, Vec::new()), unit(12, vec![record])]).end().outside;
    let clear = |lbn, old| Record::Clear { lbn: Lbn(lbn), to: MapEntry::Unmapped, olds: vec![OldRun { first: old, blocks: 2 }] };
    let inside = [
        new(lbns - 1, 20, None),
        link(1, pbns - 1, Some(pbns - 1)),
        clear(lbns - 2, Some(Pbn(pbns - 2))),
        Record::Removed { pbn: Pbn(7), blocks: 2 },
    ];
    inside.into_iter().for_each(|record| assert_eq!(outside(record), None));
    let beyond = [
        link(lbns, 20, None),
        link(1, pbns, None),
        link(1, 20, Some(pbns)),
        clear(lbns - 1, None),
        clear(0, Some(Pbn(pbns - 1))),
        Record::Removed { pbn: Pbn(pbns - 1), blocks: 2 },
    ];
    beyond.into_iter().for_each(|record| assert_eq!(outside(record.clone()), Some(12), "{record:?}"));
    // Places that the volume does not have are not requested.
    let mut last = unit(12, Vec::new());
    last.places = vec![Places { first: Pbn(pbns - 1), blocks: 2 }];
    assert_eq!(Medium::of([unit(11, Vec::new()), last]).end().outside, Some(12));
    // A unit that does not count is ignored.
    let far = Medium::of([unit(11, Vec::new()), changed(unit(12, vec![link(lbns, 20, None)]), |h| h.units = 2)]);
    assert_eq!(far.end().outside, None);
}

#[test]
fn no_block_is_two_places_of_the_log() {
    let naming = |first: u64, blocks| {
        let mut last = unit(12, Vec::new());
        last.places = vec![Places { first: Pbn(first), blocks }];
        Medium::of([unit(11, Vec::new()), last]).end().block_used_twice()
    };
    assert_eq!([naming(50, 3), naming(1012, 2), naming(1010, 2)], [None, Some(Pbn(1012)), Some(Pbn(1011))]);
    let two = [Places { first: Pbn(60), blocks: 2 }, Places { first: Pbn(61), blocks: 1 }];
    assert_eq!(Medium::default().scanned_from(LogTail { places: two.to_vec(), ..log_tail() }, true).block_used_twice(), Some(Pbn(61)));
    let log_tail = LogTail { compacted: Compacted { since: 2, places: runs([place(FIRST)].into_iter()) }, ..log_tail() };
    assert_eq!(Medium::default().scanned_from(log_tail, true).block_used_twice(), Some(place(FIRST)));
}
