//! A guarded volume beats while it grows, and a growth writes nothing after another host's claim. The growth is the program's own, over a
//! claim that is kept as a server and `grow` keep theirs; its device is made slow by what is asked before each write.

use crate::common::home::Home;
use crate::hosts::{Block, guarded, rest};
use onefold::device::backing::{Access, Backing};
use onefold::exit::Outcome;
use onefold::growth::{self, Order};
use onefold::heartbeat::{Claim, Kept, Lost};
use onefold::volume;
use onefold_engine::format::GuardState;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const GIB: u64 = 1 << 30;

/// A volume that is claimed, on a store that has become larger: this long.
fn claimed(home: &Home, bytes: u64) -> (Block, Arc<Backing>, Claim) {
    let block = guarded(home);
    File::options().write(true).open(home.path("disk")).unwrap().set_len(bytes).unwrap();
    let backing = Arc::new(Backing::open(Path::new(&home.path("disk")), Access::Write).unwrap());
    let superblock = volume::load(&backing).unwrap().superblock;
    let mut claim = Claim::make(&backing, &superblock, &|_| Ok(())).unwrap().expect("it has a guard");
    claim.confirm().unwrap();
    (block, backing, claim)
}

fn grow(backing: &Backing, may_go_on: impl Fn() -> bool) -> Outcome {
    growth::grow(backing, &Order { device_bytes: backing.facts().length, logical_blocks: None }, may_go_on)
}

fn size(home: &Home) -> u64 {
    home.json(&["status", "disk"])["volume"]["device_bytes"].as_u64().unwrap()
}

#[test]
fn a_growth_asks_before_each_mebibyte_and_stops_at_once() {
    let home = Home::new();
    // A 140th of the new space is metadata, 58 MiB, in two dozen steps.
    let (_, backing, claim) = claimed(&home, 8 * GIB);
    for most in [0, 3, 5] {
        let asked = AtomicU32::new(0);
        let ended = grow(&backing, || asked.fetch_add(1, Ordering::Relaxed) < most);
        assert!(ended.is_err_and(|failed| failed.message.contains("broken off")));
        assert_eq!(asked.load(Ordering::Relaxed), most + 1, "it went on");
        assert_eq!(volume::load(&backing).unwrap().superblock.geometry.device_bytes.get(), 32 << 20);
    }
    let asked = AtomicU32::new(0);
    grow(&backing, || asked.fetch_add(1, Ordering::Relaxed) < u32::MAX).unwrap();
    assert!(asked.load(Ordering::Relaxed) > 58, "{asked:?} questions");
    claim.release();
    drop(backing);
    assert_eq!(size(&home), 8 * GIB);
}

#[test]
fn a_growth_beats_and_writes_nothing_after_the_claim_of_another_host() {
    let home = Home::new();
    let (block, backing, claim) = claimed(&home, GIB);
    let kept = Kept::start(claim);
    let (first, begun) = (block.read().sequence, Instant::now());
    let theirs = std::thread::scope(|scope| {
        let claiming = scope.spawn(|| {
            while block.read().sequence < first + 3 {
                assert!(begun.elapsed() < Duration::from_secs(20), "it does not beat");
                std::thread::sleep(Duration::from_millis(20));
            }
            let theirs = block.becomes_theirs(GuardState::Served);
            // The other host opens the volume two intervals later.
            std::thread::sleep(Duration::from_secs(2));
            (theirs, rest(&home))
        });
        let ended = grow(&backing, || {
            std::thread::sleep(Duration::from_millis(700));
            kept.holds()
        });
        assert!(ended.is_err_and(|failed| failed.message.contains("broken off")));
        claiming.join().unwrap()
    });
    assert!(matches!(kept.end(), Err(Lost::Ousted)));
    let (theirs, left) = theirs;
    assert!(rest(&home) == left && block.read() == theirs, "it wrote");
    drop(backing);
    assert_eq!(size(&home), 32 << 20);
}

/// A beat that is late makes whoever would write wait: by now another host may count this one as dead.
#[test]
fn nobody_writes_while_a_beat_is_late() {
    let home = Home::new();
    let (_, _backing, claim) = claimed(&home, GIB);
    let kept = Kept::start(claim);
    assert!(kept.holds());
    // The block cannot be read any more, so no further beat succeeds.
    File::options().write(true).open(home.path("disk")).unwrap().set_len(4096).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!kept.holds());
    let reports = Arc::new(AtomicU32::new(0));
    let reported = reports.clone();
    kept.when_lost(move |_| {
        reported.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(reports.load(Ordering::Relaxed), 1, "a loss of before is reported at once");
    assert!(matches!(kept.end(), Err(Lost::Failed(_))));
}
