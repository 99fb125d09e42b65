//! Tests of a journal that goes from server to server.

use super::*;
use std::os::unix::fs::MetadataExt;

/// Servers are killed while they replay, before and after the volume shows their incarnation, and each commits epochs with numbers of its
/// own. No record is lost, none comes back, and there is never another file.
#[test]
fn a_journal_goes_from_server_to_server_where_it_is() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    append(&mut ring, Epoch(7), &link(1));
    append(&mut ring, Epoch(8), &Record::Content { lbn: Lbn(2), content: &[3; BLOCK_SIZE] });
    append(&mut ring, Epoch(8), &link(3));
    let known = |sequence| [Some(Trace::Log { sequence }), None];
    ring.kept(Epoch(7), known(70), None);
    let file = std::fs::metadata(&path).unwrap().ino();
    let promised = |replay: &Replay| replay.open_promises().map(first_of).collect::<Vec<_>>();
    for (incarnation, own_epoch) in [(2, 7), (2, 8), (3, 9), (3, 1), (4, 100)] {
        let (mut ring, replay) = Ring::take_over(&path, VOLUME, incarnation).unwrap();
        assert_eq!((promised(&replay), replay.has_lost()), (vec![2, 3], false), "{incarnation}");
        ring.kept(Epoch(own_epoch), known(own_epoch), None);
        assert_eq!((promised(&replayed(&path)), replayed(&path).traces()), (vec![2, 3], known(own_epoch)));
    }
    assert!(matches!(Ring::take_over(&path, VOLUME, 3), Err(ReplayError::Outdated)), "the volume was set back");
    assert!(matches!(Ring::take_over(&path, VOLUME, 6), Err(ReplayError::Outdated)), "another server has had the volume");
    let (mut ring, _) = Ring::take_over(&path, VOLUME, 5).unwrap();
    ring.kept(Epoch(3), known(3), None);
    ring.replayed();
    assert_eq!((ring.used(), numbers(&replayed(&path)), replayed(&path).traces()), (0, vec![], known(3)));
    assert_eq!(replayed(&path).owner(), Owner { incarnation: 6, is_changing: false });
    // The epochs of this server are small numbers, and all the room is free again.
    let (first, second) = (append(&mut ring, Epoch(4), &link(4)), append(&mut ring, Epoch(4), &link(5)));
    assert!(first < second);
    for lbn in [6, 7] {
        append(&mut ring, Epoch(4), &Record::Content { lbn: Lbn(lbn), content: &[9; BLOCK_SIZE] });
    }
    assert_eq!(promised(&replayed(&path)), [4, 5, 6, 7]);
    assert_eq!(std::fs::metadata(&path).unwrap().ino(), file, "it is the same file");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "and the only one");
}

/// The end of a replay is one store: whatever of it is done, the records are all there or all gone.
#[test]
fn a_replay_ends_at_one_moment() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    for n in 0..5 {
        append(&mut ring, EPOCH, &link(n));
    }
    let (mut ring, _) = Ring::take_over(&path, VOLUME, 2).unwrap();
    ring.kept(Epoch(1), [None; 2], None);
    let before = std::fs::read(&path).unwrap();
    ring.replayed();
    let after = std::fs::read(&path).unwrap();
    let changed: Vec<usize> = (0..before.len()).filter(|&i| before[i] != after[i]).collect();
    let mut torn = before.clone();
    for (done, &i) in changed.iter().enumerate() {
        let replay = Replay::parse(torn.clone(), VOLUME).unwrap();
        assert_eq!((replay.open_promises().count(), replay.owner().is(2), replay.has_lost()), (5, true, false), "{done} bytes");
        torn[i] = after[i];
    }
    let replay = Replay::parse(torn, VOLUME).unwrap();
    assert_eq!((replay.records().len(), replay.owner().is(3), replay.owner().is(2)), (0, true, false));
}

/// A server that could not promise something, or that found damage, may be killed before it has reported that.
#[test]
fn what_is_lost_stays_known_until_somebody_has_heard_of_it() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    for n in 0..3 {
        append(&mut ring, EPOCH, &link(n));
    }
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[PAGE + 72 + 20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    for incarnation in [2, 3] {
        let (_, replay) = Ring::take_over(&path, VOLUME, incarnation).unwrap();
        assert_eq!((numbers(&replay), replay.has_lost()), (vec![0], true), "{incarnation}");
    }
    let (mut ring, _) = Ring::take_over(&path, VOLUME, 3).unwrap();
    ring.replayed();
    assert!(replayed(&path).has_lost(), "the server may die before a flush fails");
    ring.loss_told();
    assert!(!replayed(&path).has_lost());
    append(&mut ring, EPOCH, &link(9));
    assert_eq!(numbers(&replayed(&path)), [9], "the damaged record is gone");
    ring.lose();
    let (_, replay) = Ring::take_over(&path, VOLUME, 4).unwrap();
    assert_eq!((numbers(&replay), replay.has_lost()), (vec![], true));
}

/// A kill would still need the records that were found, and they could be overwritten.
#[test]
#[should_panic(expected = "before those of the last server are durable")]
fn nothing_is_added_before_the_replay_has_ended() {
    let directory = directory();
    let path = directory.path().join("ring");
    drop(made(&path, BYTES_MIN, 2, 1));
    append(&mut Ring::take_over(&path, VOLUME, 2).unwrap().0, EPOCH, &link(1));
}

#[test]
fn a_journal_that_finds_no_room_leaves_nothing() {
    let directory = directory();
    let path = directory.path().join("ring");
    assert!(Ring::create(&path, 1 << 60, 2, VOLUME, 1).is_err());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Somebody has emptied the directory under the server.
#[test]
fn a_journal_whose_file_is_gone_is_made_again() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    append(&mut ring, EPOCH, &link(1));
    ring.make_again().unwrap();
    let file = std::fs::metadata(&path).unwrap().ino();
    std::fs::remove_file(&path).unwrap();
    ring.make_again().unwrap();
    assert_ne!(std::fs::metadata(&path).unwrap().ino(), file);
    append(&mut ring, EPOCH, &link(2));
    assert_eq!(numbers(&replayed(&path)), [1, 2]);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
