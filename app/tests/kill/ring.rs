//! A writer of an acknowledgement journal is killed at any moment: everything that it had reported is replayed completely and in order.

use crate::tools::Random;
use onefold::runtime::ring::{ContentPlace, Record, Ring, Seq};
use onefold_engine::units::{BLOCK_SIZE, Blocks, Epoch, Lbn, Pbn};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

const VOLUME: [u8; 16] = *b"a killed writer!";
const EPOCH: Epoch = Epoch(5);
const ROUNDS: u64 = 150;
/// The size of the journal: small, so that it wraps around many times in a round.
const RING_BYTES: u64 = 16 << 10;
const CONTENTS: u32 = 5;

/// Plays the writer: `write-ring PATH SEED`.
pub fn play(arguments: &[&str]) -> Option<ExitCode> {
    let ["write-ring", path, seed] = *arguments else { return None };
    write(Path::new(path), seed.parse().expect("a seed"));
    Some(ExitCode::SUCCESS)
}

/// Returns the record with this number, and its content: the same for writer and reader.
fn record(number: u64, content: &mut [u8; BLOCK_SIZE]) -> Record<'_> {
    let mut random = Random(number);
    let (first, blocks) = (Lbn(number), Blocks(random.below(1000)));
    match random.below(8) {
        0 => Record::Zero { first, blocks },
        1 => Record::Unmap { first, blocks },
        2 => {
            for (i, word) in (number..).zip(content.chunks_exact_mut(8)) {
                word.copy_from_slice(&i.to_ne_bytes());
            }
            Record::Content { lbn: first, content }
        }
        _ => {
            let proof = [random.below(256).to_le_bytes()[0]; 20];
            Record::Link { lbn: first, pbn: Pbn(random.below(1 << 40)), slot: u8::try_from(random.below(16)).unwrap(), proof }
        }
    }
}

/// Appends forever. It reports on standard output, in 16 bytes each, the number of a record whose append has returned, and the number up to
/// which records *may* be trimmed from now on.
fn write(path: &Path, seed: u64) {
    // The last writer's ring is taken over, as servers do it, so that each is killed in the ring that the others have left.
    let mut ring = match Ring::take_over(path, VOLUME, seed) {
        Ok((ring, _)) => ring,
        Err(_) => Ring::create(path, RING_BYTES, CONTENTS, VOLUME, seed).expect("a ring"),
    };
    ring.replayed();
    let mut random = Random(seed);
    // `Stdout` would hold back data without a newline.
    let mut out = File::from(std::io::stdout().as_fd().try_clone_to_owned().expect("standard output"));
    let mut live: VecDeque<(u64, Seq, Option<ContentPlace>)> = VecDeque::new();
    let mut content = [0; BLOCK_SIZE];
    let (mut number, mut trimmed) = (0, 0);
    let mut say = |number: u64, trimmed: u64| {
        let report = [number.to_ne_bytes(), trimmed.to_ne_bytes()].concat();
        out.write_all(&report).expect("the reader listens");
    };
    loop {
        match ring.append(EPOCH, &record(number + 1, &mut content)) {
            Ok((seq, place)) => {
                number += 1;
                live.push_back((number, seq, place));
                say(number, trimmed);
            }
            Err(_) => {
                let keep = usize::try_from(random.below(20)).unwrap().min(live.len() - 1);
                let goes = live.len() - keep;
                let (upto, seq) = live.get(goes - 1).map(|&(upto, seq, _)| (upto, seq)).expect("one goes at least");
                trimmed = upto;
                // This is reported before it is done: if the writer is killed in between, the reader must allow both.
                say(number, trimmed);
                ring.committed(seq);
                live.drain(..goes).filter_map(|(.., place)| place).for_each(|place| ring.release(place));
            }
        }
    }
}

pub fn keeps_what_was_acknowledged() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a tmpfs");
    let path = directory.path().join("ring");
    let me = std::env::current_exe().unwrap();
    let (mut records, mut found_trimmed) = (0, 0);
    for seed in 1..=ROUNDS {
        let mut writer =
            Command::new(&me).arg("write-ring").arg(&path).arg(seed.to_string()).stdout(Stdio::piped()).spawn().expect("a writer");
        let mut output = writer.stdout.take().unwrap();
        // The reader reads on another thread, so that the writer does not block at a full pipe.
        let reader = std::thread::spawn(move || {
            let mut last = [0; 16];
            let mut buffer = [0; 16 << 10];
            let mut partial = Vec::new();
            while let Ok(n @ 1..) = output.read(&mut buffer) {
                partial.extend_from_slice(&buffer[..n]);
                let whole = partial.len() / 16 * 16;
                if whole > 0 {
                    last.copy_from_slice(&partial[whole - 16..whole]);
                    partial.drain(..whole);
                }
            }
            (u64::from_ne_bytes(last[..8].try_into().unwrap()), u64::from_ne_bytes(last[8..].try_into().unwrap()))
        });
        std::thread::sleep(Duration::from_micros(2000 + Random(seed).below(20_000)));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let (reported, trimmable) = reader.join().unwrap();
        if reported == 0 {
            continue;
        }
        let replay = Ring::replay(&path, VOLUME).unwrap_or_else(|e| panic!("seed {seed}, {reported} records: {e}"));
        assert!(replay.owner().is(seed + 1) && !replay.has_lost(), "seed {seed}: {:?}", replay.owner());
        let found: Vec<_> = replay.records().map(|(_, record)| record).collect();
        let first = match found.first() {
            Some(Record::Link { lbn, .. } | Record::Content { lbn, .. }) => lbn.get(),
            Some(Record::Zero { first, .. } | Record::Unmap { first, .. }) => first.get(),
            None => reported + 1,
        };
        let last = first + u64::try_from(found.len()).unwrap() - 1;
        let mut content = [0; BLOCK_SIZE];
        for (number, found) in (first..).zip(&found) {
            assert_eq!(*found, record(number, &mut content), "seed {seed}, record {number}");
        }
        assert!(first <= trimmable + 1, "seed {seed}: records {} to {first} are missing", trimmable + 1);
        // One append may have ended without its report.
        assert!((reported..=reported + 1).contains(&last), "seed {seed}: record {reported} was acknowledged, the last one found is {last}");
        records += reported;
        found_trimmed += u64::from(first > 1);
    }
    assert!(
        records > ROUNDS * 100 && found_trimmed > ROUNDS / 2,
        "{records} records, {found_trimmed} trimmed rings: too few to show anything"
    );
}
