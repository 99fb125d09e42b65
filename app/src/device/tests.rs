//! Both back-ends, tested against files of this machine.

use super::backing::{Access, Allocation, Backing, OpenError};
use super::{Command, Completed, Completions, Device, Method, Work, start};
use crate::memory::pool::Pool;
use crate::test_kit::skipped;
use onefold_engine::buffer::{BufferMut, Home, Slice};
use onefold_engine::memory::Accountant;
use onefold_engine::units::BLOCK_SIZE;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A path where nothing is, and that is cleaned up.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("onefold-device-{}-{n}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Keeps completions until a test takes them.
#[derive(Default)]
struct Collector {
    done: Mutex<Vec<Completed>>,
    more: Condvar,
    /// Work that [`Device::call`] was called for, and that it saw.
    asked: AtomicU32,
    seen: AtomicU32,
}

impl Completions for Collector {
    fn completed(&self, batch: &mut Vec<Completed>) {
        let mut done = self.done.lock().unwrap();
        self.seen.fetch_max(self.asked.load(Ordering::SeqCst), Ordering::SeqCst);
        done.append(batch);
        self.more.notify_all();
    }
}

impl Collector {
    fn wait(&self, count: usize) -> Vec<Completed> {
        let mut done = self.more.wait_while(self.done.lock().unwrap(), |done| done.len() < count).unwrap();
        let mut done = std::mem::take(&mut *done);
        done.sort_by_key(|c| c.token);
        done
    }
}

struct Rig {
    device: Arc<dyn Device>,
    sink: Arc<Collector>,
    home: Arc<dyn Home>,
    _scratch: Scratch,
}

/// Runs a test on every back-end that this machine has.
fn on_every_back_end(length: u64, test: impl Fn(&Rig)) {
    for method in [Method::Uring, Method::Plain] {
        let scratch = Scratch::new();
        let backing = Arc::new(Backing::create_file(&scratch.0, length, Allocation::Sparse, Access::Write).unwrap());
        let pool = Pool::new(Accountant::new(16 << 20));
        let device = match start(backing, &pool, method) {
            Ok(device) => device,
            Err(error) => {
                skipped(&format!("{method:?}: {error}"));
                continue;
            }
        };
        let sink = Arc::new(Collector::default());
        let weak: std::sync::Weak<Collector> = Arc::downgrade(&sink);
        device.connect(weak);
        let rig = Rig { device, sink, home: pool.share(None), _scratch: scratch };
        test(&rig);
        rig.device.stop();
    }
}

impl Rig {
    fn do_all(&self, works: Vec<Work>) -> Vec<Completed> {
        let count = works.len();
        let mut batch = works.into_iter().zip(0..).map(|(work, token)| Command { token, work }).collect();
        self.device.submit(&mut batch);
        assert!(batch.is_empty());
        self.sink.wait(count)
    }

    fn do_one(&self, work: Work) -> (Work, io::Result<()>) {
        let done = self.do_all(vec![work]).pop().unwrap();
        (done.work, done.result)
    }

    fn filled(&self, blocks: usize, seed: u8) -> BufferMut {
        let mut buffer = self.home.clone().take(blocks);
        for (i, byte) in buffer.bytes_mut().iter_mut().enumerate() {
            *byte = (i / 7) as u8 ^ seed;
        }
        buffer
    }

    fn read(&self, at: u64, blocks: usize) -> BufferMut {
        let buffer = self.home.clone().take(blocks);
        match self.do_one(Work::Read { at, buffer, skip: 0, bytes: blocks * BLOCK_SIZE, is_idle: blocks % 2 == 0 }) {
            (Work::Read { buffer, .. }, Ok(())) => buffer,
            (_, result) => panic!("{result:?}"),
        }
    }
}

fn write(at: u64, data: Vec<Slice>) -> Work {
    let bytes = data.iter().map(|s| s.bytes().len()).sum();
    Work::Write { at, data, skip: 0, bytes, fua: false }
}

#[test]
fn what_was_written_is_read() {
    on_every_back_end(8 << 20, |rig| {
        let works = (0..100).map(|n| write(n * 8192, vec![rig.filled(2, n as u8).freeze().slice(0, 2)])).collect();
        assert!(rig.do_all(works).iter().all(|c| c.result.is_ok()));
        rig.do_one(Work::Flush).1.unwrap();
        for n in 0..100 {
            assert_eq!(rig.read(n * 8192, 2).bytes(), rig.filled(2, n as u8).bytes());
        }
    });
}

#[test]
fn scattered_slices_are_gathered() {
    on_every_back_end(16 << 20, |rig| {
        let (a, b) = (rig.filled(4, 1).freeze(), rig.filled(4, 2).freeze());
        // The pieces are more than one system call takes, from two buffers in turn.
        let data: Vec<_> = (0..1500).map(|n| if n % 2 == 0 { a.slice(n % 4, 1) } else { b.slice(n % 4, 1) }).collect();
        rig.do_one(write(4096, data.clone())).1.unwrap();
        let back = rig.read(4096, 1500);
        for (n, slice) in data.iter().enumerate() {
            assert_eq!(back.block(n), slice.block(0), "block {n}");
        }
    });
}

#[test]
fn writes_with_fua_are_read_too_whole_and_in_pieces() {
    on_every_back_end(1 << 20, |rig| {
        let (whole, pieces) = (rig.filled(1, 1).freeze(), rig.filled(4, 2).freeze());
        let data = [vec![whole.slice(0, 1)], (0..4).map(|n| pieces.slice(3 - n, 1)).collect()];
        for (at, data) in [0, 8192].into_iter().zip(data) {
            let bytes = data.len() * BLOCK_SIZE;
            rig.do_one(Work::Write { at, data, skip: 0, bytes, fua: true }).1.unwrap();
        }
        assert_eq!(rig.read(0, 1).bytes(), rig.filled(1, 1).bytes());
        let back = rig.read(8192, 4);
        (0..4).for_each(|n| assert_eq!(back.block(n), rig.filled(4, 2).block(3 - n), "block {n}"));
        assert!(!rig.device.takes_fua(), "of files nobody expects it");
    });
}

#[test]
fn discarded_and_zeroed_bytes_of_a_file_are_zeros() {
    on_every_back_end(1 << 20, |rig| {
        rig.do_one(write(0, vec![rig.filled(16, 3).freeze().slice(0, 16)])).1.unwrap();
        rig.do_one(Work::Discard { at: 4096, length: 8192 }).1.unwrap();
        rig.do_one(Work::Zero { at: 8 * 4096, length: 4096 }).1.unwrap();
        let back = rig.read(0, 16);
        let expected = rig.filled(16, 3);
        for n in 0..16 {
            match n {
                1 | 2 | 8 => assert!(back.block(n).iter().all(|&b| b == 0), "block {n}"),
                _ => assert_eq!(back.block(n), expected.block(n), "block {n}"),
            }
        }
    });
}

#[test]
fn misaligned_and_outlying_commands_are_refused_with_their_memory() {
    on_every_back_end(1 << 20, |rig| {
        if !rig.device.facts().is_direct {
            skipped("no direct I/O on this file system, so nothing is misaligned");
            return;
        }
        let attempts = [(100, 4096), (0, 4095), (1 << 20, 4096), ((1 << 20) - 4096, 8192), (u64::MAX - 4095, 4096)];
        for (at, bytes) in attempts {
            let (work, result) = rig.do_one(Work::Read { at, buffer: rig.home.clone().take(2), skip: 0, bytes, is_idle: false });
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput, "{bytes} bytes at {at}");
            assert!(matches!(work, Work::Read { buffer, .. } if buffer.blocks() == 2));
        }
    });
}

#[test]
fn a_device_that_shrank_ends_a_read_with_an_error() {
    on_every_back_end(1 << 20, |rig| {
        let file = std::fs::OpenOptions::new().write(true).open(&rig.device.facts().path).unwrap();
        file.set_len(512 << 10).unwrap();
        let buffer = rig.home.clone().take(16);
        let (_, result) = rig.do_one(Work::Read { at: (512 << 10) - 8192, buffer, skip: 0, bytes: 16 * BLOCK_SIZE, is_idle: false });
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn parts_of_a_buffer_move_alone() {
    on_every_back_end(1 << 20, |rig| {
        let align = usize::try_from(rig.device.facts().offset_align.max(512)).unwrap();
        rig.do_one(write(0, vec![rig.filled(2, 5).freeze().slice(0, 2)])).1.unwrap();
        let data = vec![rig.filled(2, 9).freeze().slice(0, 2)];
        rig.do_one(Work::Write { at: align as u64, data, skip: align, bytes: align, fua: false }).1.unwrap();
        let (old, new, back) = (rig.filled(2, 5), rig.filled(2, 9), rig.read(0, 2));
        assert_eq!(back.bytes()[..align], old.bytes()[..align]);
        assert_eq!(back.bytes()[align..2 * align], new.bytes()[align..2 * align]);
        assert_eq!(back.bytes()[2 * align..], old.bytes()[2 * align..]);
    });
}

#[test]
fn a_second_open_is_refused_and_names_the_holder() {
    let scratch = Scratch::new();
    let first = Backing::create_file(&scratch.0, 1 << 20, Allocation::Whole, Access::Write).unwrap();
    assert!(first.is_allocated().unwrap());
    for access in [Access::Write, Access::Read] {
        match Backing::open(&scratch.0, access) {
            Err(OpenError::InUse { holder: Some(holder), .. }) => {
                assert!(holder.contains(&std::process::id().to_string()), "{holder}");
            }
            other => panic!("{other:?}"),
        }
    }
    drop(first);
    let readers = [Backing::open(&scratch.0, Access::Read).unwrap(), Backing::open(&scratch.0, Access::Read).unwrap()];
    assert!(matches!(Backing::open(&scratch.0, Access::Write), Err(OpenError::InUse { .. })));
    drop(readers);
    Backing::open(&scratch.0, Access::Write).unwrap();
}

/// A killed server's last requests hold its lock for a while. Here another process keeps its open file; `flock` takes the lock and ends.
#[test]
fn who_waits_for_a_store_of_a_dead_process_waits_longer() {
    let scratch = Scratch::new();
    let file = std::fs::File::create(&scratch.0).unwrap();
    file.set_len(1 << 20).unwrap();
    let mut flock = std::process::Command::new("flock");
    if let Err(error) = flock.args(["-x", "0"]).stdin(file.try_clone().unwrap()).status() {
        return skipped(&format!("flock: {error}"));
    }
    let refused = Backing::open(&scratch.0, Access::Write);
    let Err(OpenError::InUse { may_be_dead: true, holder, .. }) = &refused else { panic!("{refused:?}") };
    // In a separate PID namespace the kernel does not name a process that has ended.
    assert_eq!(holder.as_ref().is_some_and(|holder| holder.contains("has ended")), sees_every_process(), "{holder:?}");
    let held = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(400));
        drop(file);
    });
    drop(flock);
    Backing::open_patiently(&scratch.0, Access::Write, Duration::ZERO).expect("it waits for the dead");
    held.join().unwrap();
}

#[test]
fn what_is_no_store_is_refused() {
    assert!(matches!(Backing::open("/dev/null".as_ref(), Access::Write), Err(OpenError::NotAStore { .. })));
    assert!(matches!(Backing::open("/nowhere/at/all".as_ref(), Access::Write), Err(OpenError::Missing { .. })));
    let scratch = Scratch::new();
    drop(Backing::create_file(&scratch.0, 1 << 20, Allocation::Sparse, Access::Write).unwrap());
    assert!(Backing::create_file(&scratch.0, 1 << 20, Allocation::Sparse, Access::Write).is_err(), "an existing file was created anew");
}

#[test]
fn no_call_is_lost() {
    on_every_back_end(1 << 20, |rig| {
        for call in 1..=10_000 {
            if call % 7 == 0 {
                rig.read(0, 1);
            }
            rig.sink.asked.store(call, Ordering::SeqCst);
            rig.device.call();
            let began = Instant::now();
            while rig.sink.seen.load(Ordering::SeqCst) < call {
                assert!(began.elapsed() < Duration::from_secs(10), "call {call} was lost");
                std::thread::yield_now();
            }
            // The next one comes while the device falls asleep, each time at another point.
            (0..call % 512).for_each(|_| std::hint::spin_loop());
        }
    });
}

/// Whether the kernel's lists name every process of this machine. In a separate PID namespace, as in most containers, they omit locks of
/// processes that live elsewhere or have ended.
fn sees_every_process() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == "pid:[4026531836]")
}
