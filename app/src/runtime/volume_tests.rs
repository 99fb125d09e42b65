//! Tests of the real engine in its runtime, over a device in memory: threads, batches, memory pressure, failures.

use super::notices::Notices;
use super::volume::Volume;
use super::{Closing, Served};
use crate::device::memory::{Memory, MemoryDevice};
use crate::device::patient::Patient;
use crate::device::room::watch;
use crate::device::{Device, Method, Work, backing, start};
use crate::memory::pool::Pool;
use crate::runtime::volume::Surroundings;
use crate::test_kit::{read, skipped, submit};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::{FormatStep, Geometry, Superblock, Wish, format};
use onefold_engine::interface::{Event, Failure, Op, Reply};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::Settings;
use onefold_engine::units::{Bytes, index};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LENGTH: u64 = 64 << 20;

fn new_superblock() -> Superblock {
    let geometry = Geometry::plan(Bytes(LENGTH), &Wish::default()).unwrap();
    Superblock::new(geometry, [7; 16], [8; 32], Algorithm::Blake3, &Settings::default())
}

fn formatted() -> (Memory, Superblock) {
    let superblock = new_superblock();
    let mut bytes = vec![0; index(LENGTH)];
    for step in format(&superblock, Bytes(LENGTH), &[]) {
        match step {
            FormatStep::Zero { at, length } => bytes[index(at.get())..][..index(length.get())].fill(0),
            FormatStep::Write { at, page } => bytes[index(at.get())..][..4096].copy_from_slice(&page[..]),
            FormatStep::Flush => {}
        }
    }
    (Arc::new(Mutex::new(bytes)), superblock)
}

fn open(device: Arc<dyn Device>, superblock: Superblock, memory_bytes: u64) -> Arc<Volume> {
    open_with(device, superblock, Settings { memory_bytes, ..Settings::default() })
}

fn open_with(device: Arc<dyn Device>, superblock: Superblock, settings: Settings) -> Arc<Volume> {
    let pool = Pool::new(Accountant::new(settings.memory_bytes));
    Volume::open(superblock, settings, device, pool, Surroundings::default(), Notices::default())
}

/// Reads the superblock back from memory.
fn superblock_of(memory: &Memory) -> Superblock {
    let bytes = memory.lock().unwrap();
    let copies = (0..2).filter_map(|copy| Superblock::decode(bytes[copy * 4096..].first_chunk().unwrap(), copy).ok());
    copies.max_by_key(|s| s.generation).expect("a sound superblock")
}

fn write(volume: &Volume, offset: u64, content: &[u8]) -> Reply {
    submit(volume, Op::Write, offset, content.len() as u64, Some(content), false).recv().unwrap()
}

fn flush(volume: &Volume) -> Reply {
    submit(volume, Op::Flush, 0, 0, None, false).recv().unwrap()
}

/// The numbers that a test draws, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Writes, discards and reads at any 512 bytes of one part of the volume, against plain bytes.
fn client(volume: &Volume, first: u64, bytes: u64, seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed);
    let mut model = vec![0u8; index(bytes)];
    for round in 0..400 {
        let sectors = 1 + dice.below(40);
        let at = dice.below(bytes / 512 - sectors) * 512;
        let (range, length) = (index(at)..index(at + sectors * 512), sectors * 512);
        match dice.below(10) {
            0..=5 => {
                // Few contents, so that clients find each other's blocks.
                let fill = u8::try_from(dice.below(5)).unwrap();
                let content: Vec<u8> = (0..index(length)).map(|i| fill.wrapping_mul(((index(at) + i) / 512 % 8) as u8)).collect();
                model[range].copy_from_slice(&content);
                assert!(matches!(write(volume, first + at, &content), Reply::Done));
            }
            6 => {
                model[range].fill(0);
                let hear = submit(volume, Op::WriteZeroes, first + at, length, None, round % 3 == 0);
                assert!(matches!(hear.recv().unwrap(), Reply::Done));
            }
            7 => assert!(matches!(flush(volume), Reply::Done)),
            _ => assert!(read(volume, first + at, length).unwrap() == model[range], "client {seed}, round {round}: wrong bytes"),
        }
    }
    model
}

fn four_clients(volume: &Arc<Volume>) -> Vec<Vec<u8>> {
    let part = 4 << 20;
    let clients: Vec<_> = (0..4)
        .map(|n| {
            let volume = volume.clone();
            std::thread::spawn(move || client(&volume, n * part, part, n + 1))
        })
        .collect();
    clients.into_iter().map(|client| client.join().unwrap()).collect()
}

fn assert_holds(volume: &Volume, models: &[Vec<u8>]) {
    for (n, model) in (0u64..).zip(models) {
        for at in (0..model.len()).step_by(256 << 10) {
            let found = read(volume, n * (4 << 20) + at as u64, 256 << 10).unwrap();
            assert!(found == model[at..at + (256 << 10)], "client {n} at {at}");
        }
    }
}

#[test]
fn four_clients_find_what_they_wrote_and_so_does_the_next_opening() {
    let (memory, superblock) = formatted();
    let volume = open(MemoryDevice::over(memory.clone()), superblock, 16 << 20);
    let models = four_clients(&volume);
    assert_holds(&volume, &models);
    let counts = volume.counts().volume.unwrap();
    assert!(counts.dedup.duplicates > 0, "no client found another's block: {:?}", counts.dedup);
    assert_eq!(volume.close(), Closing::Clean);
    let superblock = superblock_of(&memory);
    assert!(superblock.clean);
    let volume = open(MemoryDevice::over(memory), superblock, 4 << 20);
    assert_holds(&volume, &models);
    assert_eq!(volume.close(), Closing::Clean);
}

#[test]
fn every_back_end_carries_a_volume() {
    for method in [Method::Uring, Method::Plain] {
        let (memory, superblock) = formatted();
        let path = std::env::temp_dir().join(format!("onefold-volume-{}-{method:?}", std::process::id()));
        std::fs::write(&path, &*memory.lock().unwrap()).unwrap();
        let store = Arc::new(backing::Backing::open(&path, backing::Access::Write).unwrap());
        let pool = Pool::new(Accountant::new(8 << 20));
        match start(store, &pool, method) {
            Ok(device) => {
                let volume = Volume::open(superblock, Settings::default(), device, pool, Surroundings::default(), Notices::default());
                let models = four_clients(&volume);
                assert_holds(&volume, &models);
                assert_eq!(volume.close(), Closing::Clean);
            }
            Err(error) => skipped(&format!("{method:?}: {error}")),
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn more_reads_and_writes_than_the_budget_holds_get_through() {
    let (memory, superblock) = formatted();
    let volume = open(MemoryDevice::over(memory), superblock, Accountant::BYTES_MIN);
    let writers: Vec<_> = (0..3u64)
        .map(|n| {
            let volume = volume.clone();
            std::thread::spawn(move || {
                for i in 0..40u64 {
                    let content: Vec<u8> = (0..128 << 10).map(|b: u32| (u64::from(b / 4096) * 31 + i * 7 + n) as u8).collect();
                    assert!(matches!(write(&volume, (n * 40 + i) * (128 << 10), &content), Reply::Done));
                }
            })
        })
        .collect();
    // A reply that was not taken yet is charged, too: four at most.
    let readers: Vec<_> = (0..4u64)
        .map(|n| {
            let volume = volume.clone();
            std::thread::spawn(move || {
                for i in 0..30u64 {
                    let hear = submit(&*volume, Op::Read, (n * 30 + i) * (128 << 10), 128 << 10, None, false);
                    assert!(matches!(hear.recv().unwrap(), Reply::Data(_)));
                }
            })
        })
        .collect();
    writers.into_iter().chain(readers).for_each(|client| client.join().unwrap());
    let requests = volume.condition().memory.into_iter().find(|part| part.part == "requests").unwrap();
    assert!(requests.peak_bytes <= 2 * requests.limit_bytes, "{requests:?}");
    assert_eq!(volume.close(), Closing::Clean);
}

#[test]
fn a_small_write_overtakes_no_large_one_that_arrived_before() {
    let (memory, superblock) = formatted();
    let volume = open(MemoryDevice::over(memory), superblock, 16 << 20);
    for round in 0..200u8 {
        let (large, small) = (vec![round; 256 << 10], [!round; 4096]);
        let answers =
            [submit(&*volume, Op::Write, 0, 256 << 10, Some(&large), false), submit(&*volume, Op::Write, 8192, 4096, Some(&small), false)];
        answers.into_iter().for_each(|answer| assert!(matches!(answer.recv().unwrap(), Reply::Done)));
        assert_eq!(read(&*volume, 4096, 8192).unwrap(), [[round; 4096], small].concat(), "round {round}");
    }
    assert_eq!(volume.close(), Closing::Clean);
}

#[test]
fn a_flush_that_fails_is_told_and_nothing_is_written_after_it() {
    let (memory, superblock) = formatted();
    let device = MemoryDevice::over(memory.clone());
    let volume = open(device.clone(), superblock, 16 << 20);
    assert!(matches!(write(&volume, 0, &[1; 8192]), Reply::Done));
    assert!(matches!(flush(&volume), Reply::Done));
    device.break_at(|work| matches!(work, Work::Flush));
    assert!(matches!(write(&volume, 8192, &[2; 4096]), Reply::Done));
    assert!(matches!(flush(&volume), Reply::Failed(_)));
    let written = device.log.lock().unwrap().len();
    device.break_at(|_| false);
    assert!(matches!(write(&volume, 0, &[3; 4096]), Reply::Failed(Failure::ReadOnly)));
    assert!(matches!(flush(&volume), Reply::Failed(_)), "a flush was taken for good again");
    assert_eq!(read(&*volume, 0, 8192).unwrap(), [1; 8192], "what was synced before");
    let condition = volume.condition();
    assert_eq!(condition.state, "read-only");
    assert!(condition.notices.iter().any(|notice| notice.contains("read-only")), "{:?}", condition.notices);
    assert_eq!(volume.close(), Closing::Failed);
    assert!(!superblock_of(&memory).clean, "a failed volume was marked clean");
    let after = device.log.lock().unwrap()[written..].iter().filter(|&&name| name == "write").count();
    assert_eq!(after, 0, "something was written after the failure");
}

/// Opens a volume over a device that may refuse writes, and has them tried again as a server does. It serves: while it opens, writes wait
/// for no room.
fn open_patiently(memory: Memory, superblock: Superblock) -> (Arc<MemoryDevice>, Arc<Volume>) {
    let device = MemoryDevice::over(memory);
    let patient = Patient::new(device.clone());
    let refusals = patient.refusals();
    let volume = open_with(patient, superblock, Settings { memory_bytes: 16 << 20, full_wait_ms: 60_000, ..Settings::default() });
    watch(None, refusals, Arc::downgrade(&volume), Volume::store_has);
    until("it serves", || volume.condition().state == "serving");
    (device, volume)
}

fn is_full(volume: &Volume) -> bool {
    let condition = volume.condition();
    condition.state == "full" && condition.reason.is_some_and(|why| why.contains("host"))
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(20), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn writes_without_room_are_done_when_there_is_some() {
    for errno in [libc::ENOSPC, libc::EDQUOT] {
        let (memory, superblock) = formatted();
        let (device, volume) = open_patiently(memory.clone(), superblock);
        device.refuse_at(errno, |work| matches!(work, Work::Write { .. }));
        assert!(matches!(write(&volume, 0, &[1; 64 << 10]), Reply::Done));
        let flushed = submit(&*volume, Op::Flush, 0, 0, None, false);
        until("the volume is full", || is_full(&volume));
        assert!(flushed.recv_timeout(Duration::from_millis(500)).is_err(), "the flush waits");
        device.break_at(|_| false);
        assert!(matches!(flushed.recv().unwrap(), Reply::Done));
        until("it serves", || volume.condition().state == "serving");
        assert_eq!(volume.close(), Closing::Clean);
        let volume = open(MemoryDevice::over(memory.clone()), superblock_of(&memory), 16 << 20);
        assert_eq!(read(&*volume, 0, 64 << 10).unwrap(), [1; 64 << 10]);
        assert_eq!(volume.close(), Closing::Clean);
    }
}

#[test]
fn a_volume_without_room_below_is_closed_and_says_that_it_lost_something() {
    let (memory, superblock) = formatted();
    let (device, volume) = open_patiently(memory.clone(), superblock);
    assert!(matches!(write(&volume, 0, &[1; 4096]), Reply::Done) && matches!(flush(&volume), Reply::Done));
    device.refuse_at(libc::ENOSPC, |work| matches!(work, Work::Write { .. }));
    assert!(matches!(write(&volume, 4096, &[2; 64 << 10]), Reply::Done));
    let flushed = submit(&*volume, Op::Flush, 0, 0, None, false);
    until("the volume is full", || is_full(&volume));
    volume.order(Event::EndWaiting);
    assert!(matches!(flushed.recv().unwrap(), Reply::Failed(_)));
    assert_eq!(volume.close(), Closing::Failed);
    let volume = open(MemoryDevice::over(memory.clone()), superblock_of(&memory), 16 << 20);
    assert_eq!(read(&*volume, 0, 4096).unwrap(), [1; 4096], "what was synced");
    assert_eq!(volume.close(), Closing::Clean);
}

/// Everything that a flush covers was answered before, and may be lost.
#[test]
fn a_flush_without_room_is_a_failure_of_the_device() {
    let (memory, superblock) = formatted();
    let (device, volume) = open_patiently(memory, superblock);
    assert!(matches!(write(&volume, 0, &[1; 4096]), Reply::Done));
    device.refuse_at(libc::ENOSPC, |work| matches!(work, Work::Flush));
    assert!(matches!(flush(&volume), Reply::Failed(Failure::Io)));
    assert_eq!(volume.condition().state, "read-only");
    assert_eq!(volume.close(), Closing::Failed);
}

#[test]
fn a_read_that_fails_costs_that_read_only() {
    let (memory, superblock) = formatted();
    let volume = open(MemoryDevice::over(memory.clone()), superblock, 16 << 20);
    assert!(matches!(write(&volume, 0, &[1; 4096]), Reply::Done));
    assert!(matches!(write(&volume, 1 << 20, &[2; 4096]), Reply::Done));
    assert_eq!(volume.close(), Closing::Clean);
    let superblock = superblock_of(&memory);
    let data = superblock.geometry.block_at(onefold_engine::units::Pbn(0)).get();
    assert_eq!(data, 448 << 10, "the fault below names this place");
    let device = MemoryDevice::over(memory);
    let volume = open(device.clone(), superblock, 16 << 20);
    device.break_at(|work| matches!(work, Work::Read { at, .. } if *at == 448 << 10));
    assert_eq!(read(&*volume, 0, 4096), Err(Failure::Io));
    assert_eq!(read(&*volume, 1 << 20, 4096).unwrap(), [2; 4096]);
    device.break_at(|_| false);
    assert_eq!(read(&*volume, 0, 4096).unwrap(), [1; 4096]);
    assert!(matches!(write(&volume, 0, &[3; 4096]), Reply::Done));
    assert_eq!(volume.close(), Closing::Clean);
}
