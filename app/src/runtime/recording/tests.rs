//! The ring when it is full, and a recording with more requests than it can follow.

use super::entry::{Asked, Content, Entry, LastGap, Wants};
use super::line::{Line, Listener};
use super::{FIXED_BYTES, NAMED_BYTES, Naming, Order, RING_REQUESTS, RecordError, Recording, room};
use crate::device::memory::MemoryDevice;
use crate::memory::pool::Pool;
use crate::runtime::passthrough::Passthrough;
use crate::runtime::{Closing, Served};
use crate::target::{Incoming, Target};
use crate::test_kit::{read, submit};
use onefold_engine::buffer::BufferMut;
use onefold_engine::interface::{Op, Reply};
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::units::count;
use onefold_trace::header::Gap;
use onefold_trace::recording::Reader;
use rtrb::{Consumer, Producer, RingBuffer};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The least memory with which content can be recorded.
const MEMORY_BYTES_MIN: u64 = 16 * FIXED_BYTES;
const WRITE: Asked = Asked { op: Op::Write, fua: false, offset: 0, length: 4096 };
const READ: Asked = Asked { op: Op::Read, fua: false, offset: 0, length: 4096 };

struct Rig {
    line: Line,
    entries: Consumer<Entry>,
    spent: Producer<Content>,
}

fn rig(held_max: u64) -> Rig {
    let (send, entries) = RingBuffer::new(RING_REQUESTS);
    let (spend, spent) = RingBuffer::new(RING_REQUESTS);
    let listener = Listener { thread: std::thread::current(), is_asleep: Arc::new(AtomicBool::new(false)) };
    Rig { line: Line::new(send, spent, Wants::Bytes, 0, held_max, listener), entries, spent: spend }
}

fn bytes(blocks: usize) -> Content {
    Content::Bytes(BufferMut::zeroed(blocks).freeze())
}

impl Rig {
    /// Plays the recorder for `many` requests; returns the requests missed before each.
    fn take(&mut self, many: usize) -> Vec<u64> {
        let mut one = || {
            let entry = self.entries.pop().expect("this many were reported");
            if !matches!(entry.content, Content::None) {
                self.spent.push(entry.content).expect("the way back has room");
            }
            entry.gap.map_or(0, |gap| gap.requests)
        };
        (0..many).map(|_| one()).collect()
    }

    fn left(self) -> Option<Gap> {
        let last: LastGap = Arc::new(Mutex::new(None));
        self.line.close(&last);
        *last.lock().unwrap()
    }
}

#[test]
fn what_finds_no_room_is_one_gap_until_half_is_free() {
    let mut rig = rig(u64::MAX);
    (0..RING_REQUESTS + 10).for_each(|_| rig.line.tell(READ, Content::None));
    rig.take(RING_REQUESTS / 2 - 1);
    rig.line.tell(READ, Content::None);
    rig.take(1);
    rig.line.tell(READ, Content::None);
    let gaps = rig.take(RING_REQUESTS / 2 + 1);
    assert!(gaps[..RING_REQUESTS / 2].iter().all(|missed| *missed == 0));
    assert_eq!(gaps.last(), Some(&11));
    assert_eq!(rig.left(), None);
}

#[test]
fn content_is_bounded_until_it_is_let_go_of() {
    let mut rig = rig(10 * 4096);
    rig.line.tell(WRITE, bytes(10));
    rig.line.tell(WRITE, bytes(1));
    assert_eq!(rig.take(1), [0]);
    // It is back, but nobody has freed it.
    rig.line.tell(WRITE, bytes(1));
    rig.line.spent().release();
    rig.line.tell(WRITE, bytes(10));
    assert_eq!(rig.take(1), [2]);
    rig.line.spent().release();
    (0..RING_REQUESTS + 1).for_each(|_| rig.line.tell(WRITE, bytes(0)));
    // The ring of requests is empty again, but none of them is freed.
    rig.take(RING_REQUESTS);
    rig.line.tell(WRITE, bytes(0));
    assert_eq!(rig.left().map(|gap| gap.requests), Some(2), "at the end it is reported, too");
}

fn order(file: &Path) -> Order {
    Order { file: file.to_path_buf(), naming: Naming::Md5, sync_after: Duration::from_millis(10) }
}

#[test]
fn records_and_gaps_are_what_was_sent_and_memory_stays_bounded() {
    let accountant = Accountant::new(MEMORY_BYTES_MIN);
    let target = Passthrough::new(MemoryDevice::new(8 << 20), Pool::new(accountant.clone()));
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("t");
    let recording = Recording::begin(target.tap(), &order(&file)).unwrap();
    assert!(matches!(Recording::begin(target.tap(), &order(&place.path().join("u"))), Err(RecordError::Busy)));
    let answered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for n in 0..3_u64 {
            let (target, answered) = (&target, &answered);
            scope.spawn(move || {
                for i in 0..1500 {
                    let fill = u8::try_from((n + i) % 251).unwrap();
                    let reply = submit(&**target, Op::Write, (i % 64) * 65536, 65536, Some(&[fill; 65536]), false).recv();
                    assert!(matches!(reply, Ok(Reply::Done)));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let tally = recording.end().unwrap();
    assert_eq!(tally.records + tally.gaps, 4500);
    assert_eq!(answered.into_inner(), 4500);
    assert!(tally.records > 0);
    let reader = Reader::open(&file, false).unwrap();
    let gaps = reader.header().gaps.clone();
    assert_eq!((count(gaps.len()), gaps.iter().map(|gap| gap.requests).sum()), (tally.gap_stretches, tally.gaps));
    let records: Vec<_> = reader.map(|record| record.unwrap()).collect();
    assert_eq!((count(records.len()), tally.blocks), (tally.records, 16 * tally.records));
    assert!(records.iter().all(|record| record.blocks.len() == 16));
    assert!(accountant.peak(Part::Requests) <= accountant.limit(Part::Requests));
    assert_eq!(target.close(), Closing::Clean);
    assert_eq!(accountant.used(Part::Requests), 0, "all memory is back");
}

#[test]
fn the_largest_request_finds_room_beside_a_recording() {
    let accountant = Accountant::new(MEMORY_BYTES_MIN);
    let target = Passthrough::new(MemoryDevice::new(64 << 20), Pool::new(accountant));
    let place = tempfile::tempdir().unwrap();
    let recording = Recording::begin(target.tap(), &order(&place.path().join("t"))).unwrap();
    let largest = target.info().request_bytes_max;
    let content = vec![7; usize::try_from(largest).unwrap()];
    for n in 0..20 {
        assert!(matches!(submit(&*target, Op::Write, n % 4 * largest, largest, Some(&content), true).recv(), Ok(Reply::Done)));
    }
    assert_eq!(read(&*target, 0, largest).unwrap(), content);
    let tally = recording.end().unwrap();
    assert_eq!(tally.records + tally.gaps, 21);
    assert_eq!(target.close(), Closing::Clean);
}

/// Makes an open file one that has no more room.
fn fill_up(file: &Path) {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &std::path::PathBuf| std::fs::read_link(path).is_ok_and(|target| target == file);
    let open: Vec<i32> = open.filter(is_it).map(|path| path.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for descriptor in &open {
        // SAFETY: both are open; whoever has the second one goes on with another file.
        assert_eq!(unsafe { libc::dup2(full.as_raw_fd(), *descriptor) }, *descriptor);
    }
    assert_eq!(open.len(), 1);
}

#[test]
fn a_trace_that_cannot_be_written_ends_the_recording_and_nothing_else() {
    let target = Passthrough::new(MemoryDevice::new(8 << 20), Pool::new(Accountant::new(MEMORY_BYTES_MIN)));
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("t");
    let recording = Recording::begin(target.tap(), &order(&file)).unwrap();
    fill_up(&file);
    let mut batch: Vec<Incoming> = Vec::new();
    let (tell, hear) = std::sync::mpsc::channel();
    for _ in 0..3 {
        let tell = tell.clone();
        let done = Box::new(move |reply: Reply| tell.send(matches!(reply, Reply::Done)).unwrap());
        batch.push(Incoming { op: Op::Flush, offset: 0, length: 0, buffer: None, fua: false, done });
    }
    target.submit(&mut batch);
    assert!((0..3).all(|_| hear.recv().unwrap()));
    while !recording.is_over() {
        std::thread::yield_now();
    }
    assert!(matches!(submit(&*target, Op::Write, 0, 4096, Some(&[1; 4096]), true).recv(), Ok(Reply::Done)));
    assert!(matches!(recording.end(), Err(RecordError::File(_))));
    assert!(!target.tap().is_on());
    let again = Recording::begin(target.tap(), &order(&place.path().join("again"))).unwrap();
    assert_eq!(again.end().unwrap().records, 0);
    assert_eq!(target.close(), Closing::Clean);
}

#[test]
fn more_memory_is_room_for_more_requests() {
    let at = |memory_bytes: u64| {
        let accountant = Accountant::new(memory_bytes);
        let (half, largest) = (accountant.limit(Part::Requests) / 2, Pool::new(accountant).request_bytes_max());
        let room = room(half, largest, Wants::Bytes).unwrap();
        assert_eq!(room.charged + room.held_max, half);
        assert!(room.held_max >= largest, "{memory_bytes}: the largest request would never be recorded");
        room.requests
    };
    let rooms: Vec<usize> = (0..7).map(|doubled| at(MEMORY_BYTES_MIN << doubled)).collect();
    assert_eq!(rooms[0], RING_REQUESTS);
    assert!(rooms.windows(2).all(|two| two[0] < two[1]), "{rooms:?}");
    let names = room(8 << 20, 1 << 20, Wants::Names).unwrap();
    assert_eq!((names.charged, names.held_max, names.requests), (FIXED_BYTES + NAMED_BYTES, NAMED_BYTES, RING_REQUESTS));
}
