//! A socket pair that keeps messages apart, as /dev/fuse does, plays the kernel's part.

use super::*;
use crate::frontend::fuse::wire::{InHeader, falloc};
use crate::target::Target;
use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::OwnedFd;
use std::sync::MutexGuard;
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

const BYTES: usize = 1 << 20;

/// Memory as a target. It notes where each write's bytes are.
struct Ram {
    request_bytes_max: u64,
    state: Mutex<State>,
    /// The number of buffers that may be in use at once.
    budget_blocks: usize,
    room: std::sync::Condvar,
}

struct State {
    bytes: Vec<u8>,
    log: Vec<(Op, u64, u64)>,
    /// The number of requests with FUA.
    fua: usize,
    /// The number of blocks that are handed out, in the front-end or here.
    out: usize,
    /// The buffers that `buffer` and `try_buffer` gave: address and blocks.
    given: Vec<(usize, usize)>,
    /// The addresses of writes' bytes.
    written_from: Vec<usize>,
    held: Vec<Incoming>,
    hold: bool,
    fail: Option<Failure>,
    batches: Vec<usize>,
}

impl Ram {
    fn new(request_bytes_max: u64, budget_blocks: usize) -> Arc<Self> {
        let state = State {
            bytes: (0..BYTES).map(pattern).collect(),
            log: Vec::new(),
            fua: 0,
            out: 0,
            given: Vec::new(),
            written_from: Vec::new(),
            held: Vec::new(),
            hold: false,
            fail: None,
            batches: Vec::new(),
        };
        Arc::new(Self { request_bytes_max, state: Mutex::new(state), budget_blocks, room: std::sync::Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn carry_out(&self, mut request: Incoming) {
        let (at, length) = (index(request.offset), index(request.length));
        let mut state = self.state();
        state.log.push((request.op, request.offset, request.length));
        state.fua += usize::from(request.fua);
        let buffer = request.buffer.take();
        let reply = match (state.fail, request.op) {
            (Some(failure), _) => Reply::Failed(failure),
            (None, Op::Extents) => panic!("FUSE asks for none"),
            (None, Op::Read) => {
                let mut buffer = BufferMut::zeroed(length.div_ceil(4096));
                buffer.bytes_mut()[..length].copy_from_slice(&state.bytes[at..at + length]);
                let blocks = buffer.blocks();
                Reply::Data(vec![Segment::Data { slice: buffer.freeze().slice(0, blocks), start: 0, bytes: length }])
            }
            (None, Op::Write) => {
                let buffer = buffer.as_ref().expect("a write brings bytes");
                let lead = at % 4096;
                assert_eq!(buffer.blocks(), (lead + length).div_ceil(4096), "the buffer is of the write's size");
                state.written_from.push(buffer.bytes().as_ptr().addr());
                state.bytes[at..at + length].copy_from_slice(&buffer.bytes()[lead..lead + length]);
                Reply::Done
            }
            (None, Op::Discard | Op::WriteZeroes) => {
                state.bytes[at..at + length].fill(0);
                Reply::Done
            }
            (None, Op::Flush) => Reply::Done,
        };
        state.out -= buffer.as_ref().map_or(0, BufferMut::blocks);
        drop(state);
        self.room.notify_all();
        (request.done)(reply);
    }
}

impl Target for Ram {
    fn info(&self) -> TargetInfo {
        TargetInfo { bytes: count(BYTES), request_bytes_max: self.request_bytes_max, sector_bytes: 512, read_only: false }
    }

    fn buffer(&self, blocks: usize) -> Result<BufferMut, Failure> {
        let (mut state, timeout) =
            self.room.wait_timeout_while(self.state(), Duration::from_secs(10), |state| state.out + blocks > self.budget_blocks).unwrap();
        assert!(!timeout.timed_out(), "waited for memory that never came");
        state.out += blocks;
        let buffer = BufferMut::zeroed(blocks);
        state.given.push((buffer.bytes().as_ptr().addr(), blocks));
        Ok(buffer)
    }

    fn try_buffer(&self, blocks: usize) -> Option<BufferMut> {
        let fits = self.state().out + blocks <= self.budget_blocks;
        fits.then(|| self.buffer(blocks).unwrap())
    }

    fn submit(&self, batch: &mut Vec<Incoming>) {
        self.state().batches.push(batch.len());
        for request in batch.drain(..) {
            if self.state().hold {
                self.state().held.push(request);
            } else {
                self.carry_out(request);
            }
        }
    }
}

fn pattern(i: usize) -> u8 {
    (i / 512 * 7 + i % 251).to_le_bytes()[0]
}

/// A server thread, and this end of its channels.
struct Rig {
    ram: Arc<Ram>,
    kernel: [OwnedFd; 2],
    thread: std::thread::JoinHandle<End>,
}

impl Rig {
    fn new(ram: Arc<Ram>) -> Self {
        let rig = Self::stopped(ram);
        Self { thread: rig.1.start(), ..rig.0 }
    }

    /// Makes a rig where requests wait before the thread starts: see `start`.
    fn stopped(ram: Arc<Ram>) -> (Self, Later) {
        let (kernel_a, waiting) = pair(SocketFlags::CLOEXEC);
        let (kernel_b, draining) = pair(SocketFlags::CLOEXEC);
        rustix::io::ioctl_fionbio(&draining, true).unwrap();
        let later = Later(ram.clone(), waiting, draining);
        (Self { ram, kernel: [kernel_a, kernel_b], thread: std::thread::spawn(|| End::Broken) }, later)
    }

    /// Sends a request through channel `channel`.
    fn send(&self, channel: usize, opcode: u32, unique: u64, parts: &[&[u8]]) {
        let body = parts.concat();
        let mut header = InHeader::new_zeroed();
        (header.len, header.opcode, header.unique, header.node) = (u32::try_from(40 + body.len()).unwrap(), opcode, unique, 2);
        rustix::io::write(&self.kernel[channel], &[header.as_bytes(), &body].concat()).unwrap();
    }

    fn send_io(&self, channel: usize, opcode: u32, unique: u64, offset: u64, bytes: usize, payload: &[u8]) {
        self.send_opened(0, channel, opcode, unique, offset, bytes, payload);
    }

    /// Sends the same through a file that was opened with these flags.
    #[allow(clippy::too_many_arguments, reason = "the fields of a message")]
    fn send_opened(&self, flags: u32, channel: usize, opcode: u32, unique: u64, offset: u64, bytes: usize, payload: &[u8]) {
        let size = u32::try_from(bytes).unwrap().to_ne_bytes();
        self.send(channel, opcode, unique, &[&[0; 8], &offset.to_ne_bytes(), &size, &[0; 12], &flags.to_ne_bytes(), &[0; 4], payload]);
    }

    fn send_write(&self, unique: u64, offset: u64, payload: &[u8]) {
        self.send_io(0, 16, unique, offset, payload.len(), payload);
    }

    /// Returns the next answer: its number, its error, its payload.
    fn answer(&self, channel: usize) -> (u64, i32, Vec<u8>) {
        let mut bytes = vec![0; 300 << 10];
        let mut polled = [rustix::event::PollFd::new(&self.kernel[channel], rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut polled, Some(&patience)).unwrap(), 1, "no answer");
        let n = rustix::io::read(&self.kernel[channel], &mut bytes[..]).unwrap();
        bytes.truncate(n);
        assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, n);
        let error = i32::from_ne_bytes(bytes[4..8].try_into().unwrap());
        (u64::from_ne_bytes(bytes[8..16].try_into().unwrap()), error, bytes.split_off(16))
    }

    fn write(&self, offset: u64, payload: &[u8]) {
        self.send_write(11, offset, payload);
        let written = u32::try_from(payload.len()).unwrap().to_ne_bytes();
        assert_eq!(self.answer(0), (11, 0, [written, [0; 4]].concat()));
    }

    fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        self.send_io(0, 15, 12, offset, bytes, &[]);
        let (unique, error, data) = self.answer(0);
        assert_eq!((unique, error, data.len()), (12, 0, bytes));
        data
    }

    fn end(self) -> Arc<Ram> {
        drop(self.kernel);
        assert_eq!(self.thread.join().unwrap(), End::Over);
        self.ram
    }
}

struct Later(Arc<Ram>, OwnedFd, OwnedFd);

impl Later {
    fn start(self) -> std::thread::JoinHandle<End> {
        let Self(ram, waiting, draining) = self;
        std::thread::spawn(move || {
            Receiver::new(ram, Arc::default(), "disk".into(), BYTES, [waiting, draining].map(|channel| Arc::new(Channel::new(channel))))
                .run()
        })
    }
}

fn pair(flags: SocketFlags) -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn bytes_of(seed: usize, n: usize) -> Vec<u8> {
    (0..n).map(|i| pattern(i * 3 + seed)).collect()
}

#[test]
fn writes_of_any_shape_land_where_they_belong() {
    let rig = Rig::new(Ram::new(1 << 20, 1000));
    let mut model: Vec<u8> = (0..BYTES).map(pattern).collect();
    let shapes =
        [(0, 4096), (4096, 8192), (8192, 8192), (512, 512), (3584, 1024), (4096, 65_536), (512, 65_536), (0, 131_072), (7680, 4096)];
    for (seed, &(offset, bytes)) in shapes.iter().cycle().take(40).enumerate() {
        let payload = bytes_of(seed, bytes);
        rig.write(count(offset), &payload);
        model[offset..offset + bytes].copy_from_slice(&payload);
    }
    let ram = rig.end();
    assert!(ram.state().bytes == model);
}

#[test]
fn one_block_and_the_size_seen_before_are_not_copied() {
    let rig = Rig::new(Ram::new(1 << 20, 1000));
    rig.write(0, &bytes_of(1, 4096));
    // The first one shows the size; the next ones arrive in a buffer that was there before.
    for i in 0..3 {
        rig.write(0, &bytes_of(i, 32_768));
    }
    let ram = rig.end();
    let state = ram.state();
    let givens: Vec<usize> = state.given.iter().map(|&(address, _)| address).collect();
    let large: Vec<_> = state.given.iter().filter(|&&(_, blocks)| blocks == 8).collect();
    assert!(state.written_from.iter().all(|address| givens.contains(address) && address % 4096 == 0));
    // One is for the copy of the first, one is kept ready for each that followed, and one is for the next that never came.
    assert_eq!(large.len(), 5 - 1, "{:?}", state.given);
}

#[test]
fn reads_are_cut_to_what_was_asked() {
    let rig = Rig::new(Ram::new(65_536, 1000));
    for (offset, bytes) in [(0, 4096), (1, 1), (511, 2), (100, 10_000), (4096, 65_536), (0, 131_072), (700, 131_072)] {
        let expected: Vec<u8> = (offset..offset + bytes).map(pattern).collect();
        assert!(rig.read(count(offset), bytes) == expected, "{bytes} bytes at {offset}");
    }
    let ram = rig.end();
    assert!(ram.state().log.iter().all(|&(_, offset, bytes)| offset % 512 == 0 && bytes % 512 == 0 && bytes <= 65_536));
}

#[test]
fn large_writes_go_in_parts_where_the_target_wants_it() {
    let rig = Rig::new(Ram::new(16_384, 16));
    let payload = bytes_of(5, 100_352);
    rig.write(512, &payload);
    let ram = rig.end();
    let state = ram.state();
    assert!(state.log.len() == 7 && state.log.iter().all(|&(_, _, bytes)| bytes <= 16_384), "{:?}", state.log);
    assert!(state.bytes[512..512 + payload.len()] == payload);
}

#[test]
fn a_write_that_is_synced_has_fua_in_each_of_its_parts() {
    let rig = Rig::new(Ram::new(16_384, 16));
    let [data, all, none] = [OFlags::DSYNC, OFlags::SYNC, OFlags::empty()].map(|flags| flags.bits() | OFlags::RDWR.bits());
    for (unique, (flags, bytes)) in (1..).zip([(data, 4096), (data, 65_536), (all, 512), (none, 4096)]) {
        rig.send_opened(flags, 0, 16, unique, 0, bytes, &bytes_of(0, bytes));
        let (answered, error, _) = rig.answer(0);
        assert_eq!((answered, error), (unique, 0));
    }
    let ram = rig.end();
    let state = ram.state();
    assert_eq!((state.fua, state.log.len()), (1 + 4 + 1, 1 + 4 + 1 + 1));
}

#[test]
fn one_failed_part_fails_the_whole_once() {
    let rig = Rig::new(Ram::new(16_384, 100));
    rig.ram.state().fail = Some(Failure::NoSpace);
    rig.send_write(1, 0, &bytes_of(0, 65_536));
    assert_eq!(rig.answer(0), (1, -Errno::NOSPC.raw_os_error(), Vec::new()));
    rig.send_io(0, 15, 2, 0, 65_536, &[]);
    assert_eq!(rig.answer(0), (2, -Errno::NOSPC.raw_os_error(), Vec::new()));
    rig.ram.state().fail = None;
    rig.write(0, &bytes_of(0, 4096));
    rig.end();
}

#[test]
fn what_waits_is_taken_as_one_batch() {
    let (rig, later) = Rig::stopped(Ram::new(1 << 20, 1000));
    rig.send_write(0, 0, &bytes_of(0, 4096));
    for i in 1..20 {
        rig.send_io(1, 16, i, i * 4096, 4096, &bytes_of(index(i), 4096));
    }
    let rig = Rig { thread: later.start(), ..rig };
    assert_eq!(rig.answer(0).0, 0);
    for i in 1..16 {
        assert_eq!(rig.answer(1).0, i, "answers go back through the channel of their request, in order here");
    }
    // The waiting channel has no further request; one there makes the thread look at the other.
    rig.send_write(99, 0, &bytes_of(0, 4096));
    assert_eq!(rig.answer(0).0, 99);
    for i in 16..20 {
        assert_eq!(rig.answer(1).0, i);
    }
    let ram = rig.end();
    assert_eq!(ram.state().batches[..2], [16, 5]);
}

#[test]
fn little_memory_is_enough_and_is_waited_for_with_empty_hands() {
    // There is room for four blocks: one kept ready, and no guess of eight.
    let (rig, later) = Rig::stopped(Ram::new(16_384, 5));
    rig.send_write(0, 0, &bytes_of(0, 32_768));
    for i in 1..8 {
        rig.send_io(1, 16, i, 0, 8192, &bytes_of(0, 8192));
    }
    let rig = Rig { thread: later.start(), ..rig };
    assert_eq!(rig.answer(0).0, 0);
    for i in 1..8 {
        assert_eq!(rig.answer(1).0, i);
    }
    rig.end();
}

#[test]
fn flush_holes_and_zeroes_are_passed_on() {
    let rig = Rig::new(Ram::new(1 << 20, 100));
    rig.send(0, 20, 1, &[&[0; 16]]);
    assert_eq!(rig.answer(0), (1, 0, Vec::new()));
    for (unique, mode) in [(2, falloc::PUNCH_HOLE), (3, falloc::ZERO_RANGE)] {
        rig.send(0, 43, unique, &[&[0; 8], &512_u64.to_ne_bytes(), &16_384_u64.to_ne_bytes(), &mode.to_ne_bytes(), &[0; 4]]);
        assert_eq!(rig.answer(0), (unique, 0, Vec::new()));
    }
    assert!(rig.read(512, 16_384).iter().all(|&b| b == 0));
    let ram = rig.end();
    let expected = [
        (Op::Flush, 0, 0),
        (Op::WriteZeroes, 512, 3584),
        (Op::Discard, 4096, 12_288),
        (Op::WriteZeroes, 16_384, 512),
        (Op::WriteZeroes, 512, 16_384),
    ];
    assert_eq!(ram.state().log[..5], expected);
}

#[test]
fn malformed_requests_are_refused_and_service_goes_on() {
    let rig = Rig::new(Ram::new(1 << 20, 100));
    rustix::io::write(&rig.kernel[0], b"nonsense").unwrap();
    rig.send(0, 16, 5, &[&[0; 8]]);
    assert_eq!(rig.answer(0), (5, -Errno::INVAL.raw_os_error(), Vec::new()));
    rig.send(0, 4711, 6, &[]);
    assert_eq!(rig.answer(0), (6, -Errno::NOSYS.raw_os_error(), Vec::new()));
    rig.write(0, &bytes_of(0, 512));
    rig.end();
}

#[test]
fn a_request_that_the_target_drops_is_answered_with_an_error() {
    let rig = Rig::new(Ram::new(1 << 20, 100));
    rig.ram.state().hold = true;
    rig.send_write(3, 0, &bytes_of(0, 512));
    while rig.ram.state().held.is_empty() {
        std::thread::yield_now();
    }
    let held = std::mem::take(&mut rig.ram.state().held);
    drop(held);
    assert_eq!(rig.answer(0), (3, -Errno::IO.raw_os_error(), Vec::new()));
    rig.end();
}
