//! Tests of the acknowledgement journal: the records that the next server finds in it.

use super::*;
use onefold_engine::interface::Trace;
use std::path::Path;

mod life;

const VOLUME: [u8; 16] = *b"sixteen bytes id";
const EPOCH: Epoch = Epoch(5);

/// A directory that is removed when it is dropped; on the tmpfs where there is one, though any file will do here.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn link(n: u64) -> Record<'static> {
    Record::Link { lbn: Lbn(n), pbn: Pbn((n * 3) & PBN_MASK), slot: n.to_ne_bytes()[0] % 16, proof: [n.to_ne_bytes()[0]; 20] }
}

/// Makes a journal for the server that begins the incarnation after this one, which has nothing to replay.
fn made(path: &Path, bytes: u64, contents: u32, incarnation: u64) -> Ring {
    let mut ring = Ring::create(path, bytes, contents, VOLUME, incarnation).unwrap();
    ring.replayed();
    ring
}

fn append(ring: &mut Ring, epoch: Epoch, record: &Record<'_>) -> Seq {
    ring.append(epoch, record).unwrap().0
}

fn zero(n: u64) -> Record<'static> {
    Record::Zero { first: Lbn(n), blocks: Blocks(1) }
}

fn replayed(path: &Path) -> Replay {
    Ring::replay(path, VOLUME).unwrap()
}

fn first_of(record: Record<'_>) -> u64 {
    match record {
        Record::Link { lbn, .. } | Record::Content { lbn, .. } => lbn.get(),
        Record::Zero { first, .. } | Record::Unmap { first, .. } => first.get(),
    }
}

fn numbers(replay: &Replay) -> Vec<u64> {
    replay.records().map(|(_, record)| first_of(record)).collect()
}

#[test]
fn every_kind_of_record_comes_back_as_it_was() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, 1 << 16, 2, 9);
    let content = std::array::from_fn(|i| (i % 251).to_ne_bytes()[0]);
    let records = [
        link(1),
        Record::Zero { first: Lbn(2), blocks: Blocks(1 << 40) },
        Record::Unmap { first: Lbn(3), blocks: Blocks(u64::MAX) },
        Record::Content { lbn: Lbn(4), content: &content },
        Record::Content { lbn: Lbn(5), content: &[9; BLOCK_SIZE] },
        link(u64::MAX / 3),
    ];
    let seqs: Vec<Seq> = records.iter().map(|record| append(&mut ring, EPOCH, record)).collect();
    let replay = replayed(&path);
    assert_eq!((replay.owner(), replay.has_lost()), (Owner { incarnation: 10, is_changing: false }, false));
    assert_eq!(replay.records().collect::<Vec<_>>(), seqs.into_iter().zip(records).collect::<Vec<_>>());
}

#[test]
fn a_full_ring_says_so_and_goes_on_after_a_commit() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    let mut seqs = Vec::new();
    while let Ok((seq, _)) = ring.append(EPOCH, &link(count(seqs.len()))) {
        seqs.push(seq);
    }
    // 72 bytes each, less the gap between the end and the beginning.
    assert_eq!(seqs.len(), 16 * 1024 / 72 - 1);
    assert_eq!(numbers(&replayed(&path)), (0..count(seqs.len())).collect::<Vec<_>>());
    ring.committed(seqs[99]);
    assert_eq!(numbers(&replayed(&path)), (100..count(seqs.len())).collect::<Vec<_>>());
    let more = (0..).take_while(|&n| ring.append(EPOCH, &link(1000 + n)).is_ok()).count();
    assert_eq!(more, 100, "room for as many as went");
    ring.committed(seqs[50]);
    assert_eq!(replayed(&path).records().len(), seqs.len(), "an older commit changes nothing");
}

#[test]
fn records_go_round_the_end_in_one_piece() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    let mut kept = std::collections::VecDeque::new();
    for n in 0..2000_u64 {
        let record = if n % 3 == 0 { link(n) } else { zero(n) };
        loop {
            match ring.append(EPOCH, &record) {
                Ok((seq, _)) => break kept.push_back((seq, record)),
                Err(Full) => ring.committed(kept.pop_front().expect("an empty ring has room for any record").0),
            }
        }
        if n % 97 == 0 {
            assert!(replayed(&path).records().eq(kept.iter().copied()), "after {n}");
        }
    }
}

/// Contents free their room in any order, whatever comes before and after them.
#[test]
fn a_content_stands_until_a_later_promise_for_its_lbn() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    let content = |n: u64| Box::new([n.to_ne_bytes()[0]; BLOCK_SIZE]);
    let put = |ring: &mut Ring, lbn, n| ring.append(EPOCH, &Record::Content { lbn: Lbn(lbn), content: &content(n) });
    let (_, first) = put(&mut ring, 1, 11).unwrap();
    let (_, second) = put(&mut ring, 2, 12).unwrap();
    assert_eq!(put(&mut ring, 3, 13), Err(Full), "there is room for two");
    assert_eq!(numbers(&replayed(&path)), [1, 2]);
    append(&mut ring, EPOCH, &link(2));
    ring.release(second.unwrap());
    let (_, third) = put(&mut ring, 3, 13).unwrap();
    let records = |path: &Path| replayed(path).records().map(|(_, record)| format!("{record:?}")).collect::<Vec<_>>();
    let of = |lbn, n| format!("{:?}", Record::Content { lbn: Lbn(lbn), content: &content(n) });
    assert_eq!(records(&path), [of(1, 11), format!("{:?}", link(2)), of(3, 13)], "another lies in the place of the second");
    append(&mut ring, EPOCH, &zero(3));
    ring.release(third.unwrap());
    let (_, again) = put(&mut ring, 1, 21).unwrap();
    ring.release(first.unwrap());
    assert_eq!(records(&path), [format!("{:?}", link(2)), format!("{:?}", zero(3)), of(1, 21)]);
    ring.release(again.unwrap());
    assert!(!replayed(&path).damaged);
}

#[test]
fn a_content_that_is_not_what_its_record_says_is_damage() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    append(&mut ring, EPOCH, &zero(1));
    append(&mut ring, EPOCH, &Record::Content { lbn: Lbn(2), content: &[1; BLOCK_SIZE] });
    append(&mut ring, EPOCH, &zero(3));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[content_at(BYTES_MIN, 0) + 77] ^= 4;
    let replay = Replay::parse(bytes.clone(), VOLUME).unwrap();
    assert_eq!((numbers(&replay), replay.damaged), (vec![1, 3], true));
    // The contents of a durable epoch may be overwritten.
    ring.kept(EPOCH, [None; 2], None);
    bytes[..PAGE].copy_from_slice(&std::fs::read(&path).unwrap()[..PAGE]);
    assert!(!Replay::parse(bytes, VOLUME).unwrap().damaged);
}

/// Whoever can write the file can make every check of it right.
#[test]
fn a_record_of_a_kind_that_does_not_exist_is_damage() {
    use exercise::{Forged, Numbers, forge};
    let numbers_of = Numbers { incarnation: 1, tail: BYTES_MIN, epoch: 4, traces: [None; 2] };
    for (code, damaged) in [(kind::ZERO, false), (0, true), (6, true), (u32::MAX, true)] {
        let record = |code, first| Forged { code, first, value: 1, epoch: 5, content: Vec::new(), content_bytes: 0 };
        let file = forge(VOLUME, &numbers_of, &[record(kind::ZERO, 1), record(code, 2)]);
        let replay = Replay::parse(file, VOLUME).unwrap();
        let expected = if damaged { vec![1] } else { vec![1, 2] };
        assert_eq!((numbers(&replay), replay.damaged), (expected, damaged), "kind {code}");
    }
}

#[test]
fn a_new_ring_takes_the_place_of_the_old_one_at_once() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut old = made(&path, BYTES_MIN, 2, 1);
    old.append(EPOCH, &link(1)).unwrap();
    let mut new = made(&path, BYTES_MIN, 2, 2);
    assert_eq!((replayed(&path).owner().incarnation, replayed(&path).records().len()), (3, 0));
    new.append(EPOCH, &link(7)).unwrap();
    old.append(EPOCH, &link(8)).unwrap();
    assert_eq!(numbers(&replayed(&path)), [7]);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left lying about");
}

#[test]
fn what_is_no_ring_of_this_volume_is_named() {
    let directory = directory();
    let path = directory.path().join("ring");
    assert!(matches!(Ring::replay(&path, VOLUME), Err(ReplayError::Missing)));
    drop(made(&path, BYTES_MIN, 2, 1));
    assert!(matches!(Ring::replay(&path, [0; 16]), Err(ReplayError::Foreign)));
    let bytes = std::fs::read(&path).unwrap();
    for cut in [0, 100, 4095, 4096, bytes.len() - 8] {
        assert!(matches!(Replay::parse(bytes[..cut].to_vec(), VOLUME), Err(ReplayError::Damaged { .. })), "{cut}");
    }
}

/// A writer that is killed leaves a prefix of its stores. The test takes all prefixes, for a record and for a trim.
#[test]
fn every_prefix_of_an_append_is_the_ring_before_or_after() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    // Stale bytes of a whole lap are under the bytes written now, and look like records.
    for n in 0..400 {
        let seq = append(&mut ring, EPOCH, &link(n));
        ring.committed(seq);
    }
    append(&mut ring, EPOCH, &zero(100));
    let before = std::fs::read(&path).unwrap();
    let end = ring.head;
    append(&mut ring, EPOCH, &link(101));
    let after = std::fs::read(&path).unwrap();

    let (at, behind) = (ring.place(end), ring.place(ring.head));
    let mut torn = before.clone();
    torn[behind..behind + 8].copy_from_slice(&after[behind..behind + 8]);
    for written in at + 8..behind {
        torn[written] = after[written];
        let replay = Replay::parse(torn.clone(), VOLUME).unwrap();
        assert_eq!((numbers(&replay), replay.damaged), (vec![100], false), "{} bytes", written - at);
    }
    torn[at..at + 8].copy_from_slice(&after[at..at + 8]);
    assert!(torn == after, "these were all stores");
    assert_eq!(numbers(&Replay::parse(torn, VOLUME).unwrap()), [100, 101]);
}

#[test]
fn a_trim_that_was_cut_off_leaves_the_trim_before() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    let seqs: Vec<Seq> = (0..6).map(|n| append(&mut ring, EPOCH, &link(n))).collect();
    for (n, &seq) in seqs.iter().enumerate() {
        let before = std::fs::read(&path).unwrap();
        ring.committed(seq);
        let after = std::fs::read(&path).unwrap();
        let changed: Vec<usize> = (0..before.len()).filter(|&i| before[i] != after[i]).collect();
        assert!(!changed.is_empty() && changed.iter().all(|i| *i < PAGE));
        for bits in 0..1_u32 << changed.len().min(6) {
            // Any part of the slot's bytes, as though even a word could tear.
            let mut torn = before.clone();
            for (k, &i) in changed.iter().enumerate() {
                if (bits >> (k % 6)) & 1 == 1 {
                    torn[i] = after[i];
                }
            }
            let first = numbers(&Replay::parse(torn, VOLUME).unwrap()).first().copied().unwrap_or(6);
            assert!(first == count(n) || first == count(n) + 1, "trim {n}, {bits:b}: begins at {first}");
        }
    }
}

#[test]
fn any_flipped_bit_of_a_record_is_found() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    for n in 0..3 {
        append(&mut ring, EPOCH, &link(n));
    }
    let bytes = std::fs::read(&path).unwrap();
    let second = PAGE + 72;
    // There is nothing after the fingerprint.
    for bit in 0..68 * 8 {
        let mut flipped = bytes.clone();
        flipped[second + bit / 8] ^= 1 << (bit % 8);
        let replay = Replay::parse(flipped, VOLUME).unwrap();
        // A position that is no position ends the ring, as a torn record does.
        match bit / 8 {
            0..8 => assert_eq!((numbers(&replay), replay.damaged), (vec![0], false), "bit {bit}"),
            _ => assert_eq!((numbers(&replay), replay.damaged), (vec![0], true), "bit {bit}"),
        }
    }
}

#[test]
fn arbitrary_bytes_never_panic() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    for n in 0..60 {
        append(&mut ring, EPOCH, &if n % 2 == 0 { link(n) } else { zero(n) });
    }
    let bytes = std::fs::read(&path).unwrap();
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        index(state >> 33)
    };
    let mut outcomes = [0; 3];
    for _ in 0..3000 {
        let mut bytes = bytes.clone();
        for _ in 0..1 + next() % 30 {
            let at = if next() % 4 == 0 { next() % 144 } else { PAGE + next() % 4000 };
            bytes[at] = next().to_ne_bytes()[0];
        }
        match Replay::parse(bytes, VOLUME) {
            Ok(replay) => outcomes[usize::from(replay.records().len() == 60)] += 1,
            Err(_) => outcomes[2] += 1,
        }
    }
    assert!(outcomes.iter().all(|&n| n > 5), "{outcomes:?}: an outcome is hardly ever reached");
}

#[test]
fn promises_of_durable_epochs_are_kept_and_the_others_are_not() {
    let directory = directory();
    let path = directory.path().join("ring");
    let mut ring = made(&path, BYTES_MIN, 2, 1);
    ring.append(Epoch(8), &link(1)).unwrap();
    ring.append(Epoch(7), &link(2)).unwrap();
    let traces = [Some(Trace::Map { sector: 3, sum: u32::MAX }), Some(Trace::Log { sequence: u64::MAX })];
    ring.kept(Epoch(7), traces, None);
    ring.append(Epoch(9), &link(3)).unwrap();
    let open: Vec<u64> = replayed(&path).open_promises().map(first_of).collect();
    assert_eq!(open, [1, 3], "the promise of epoch 7 is kept, though one of epoch 8 stands before it");
    assert_eq!(replayed(&path).traces(), traces);
}

/// Commits without records, as of a client that writes with FUA alone, take no room.
#[test]
fn what_is_kept_takes_no_room() {
    let directory = directory();
    let mut ring = made(&directory.path().join("ring"), BYTES_MIN, 2, 1);
    (0..10_000).for_each(|epoch| ring.kept(Epoch(epoch), [None; 2], None));
    assert_eq!(ring.used(), 0);
}
