//! One processor's ring of a perf event.
//!
//! The kernel publishes a record when it is complete, and never writes behind the reader's position. A record may go across the end of
//! the ring. What is lost is only reported by a record that comes later; so a ring that has no room for one more counts as a loss.

#![allow(unsafe_code)] // perf_event_open, ioctl

use crate::mapping::Mapping;
use std::ffi::{CStr, c_int, c_ulong};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

/// `struct perf_event_attr` up to its fifth version, which every kernel knows that this crate is for.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    bytes: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    branches: u64,
    registers: u64,
    stack: u32,
    clock: i32,
    registers_intr: u64,
    aux_watermark: u32,
    stack_max: u16,
    reserved: u16,
}

const _: () = assert!(size_of::<Attributes>() == 112);

const TYPE_TRACEPOINT: u32 = 2;
/// TID, TIME, RAW.
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 10;
/// `watermark`, so that nobody is woken up for each record, and `use_clockid`.
const FLAGS: u64 = 1 << 14 | 1 << 25;
const OPEN_CLOSE_ON_EXEC: c_ulong = 1 << 3;
const SET_FILTER: libc::Ioctl = 0x4008_2406;
/// Places in the first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// More than a record of this tracepoint.
const RECORD_BYTES_MAX: usize = 256;

/// The ring of one processor; the event ends when it is dropped.
pub(super) struct CpuRing {
    shared: Mapping,
    page_bytes: usize,
    ring_bytes: usize,
    position: u64,
    _event: OwnedFd,
}

/// A sample of the event: who submitted it when, and the tracepoint's own fields.
pub(super) struct Sample<'a> {
    pub process: u32,
    pub time: u64,
    pub fields: &'a [u8],
}

impl CpuRing {
    /// Opens the event on a processor, with a ring of `ring_bytes`, a power of two of pages.
    pub fn open(cpu: u32, tracepoint: u64, filter: &CStr, ring_bytes: usize) -> io::Result<Self> {
        let attributes = Attributes {
            kind: TYPE_TRACEPOINT,
            bytes: 112,
            config: tracepoint,
            sample_period: 1,
            sample_type: SAMPLE_TYPE,
            flags: FLAGS,
            wakeup_watermark: u32::MAX,
            clock: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let (every_process, no_group): (libc::pid_t, c_int) = (-1, -1);
        // SAFETY: the structure is as long as it says, and the kernel only reads it.
        let result =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, every_process, cpu, no_group, OPEN_CLOSE_ON_EXEC) };
        let descriptor = c_int::try_from(result).expect("a descriptor or -1");
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has made it, and nobody else has it.
        let event = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // A kernel that does not take the filter passes on more, which the reader leaves out.
        // SAFETY: the text ends with a zero.
        let _ = unsafe { libc::ioctl(event.as_raw_fd(), SET_FILTER, filter.as_ptr()) };
        let page_bytes = rustix::param::page_size();
        let shared = Mapping::new(event.as_fd(), 0, page_bytes + ring_bytes, true)?;
        Ok(Self { shared, page_bytes, ring_bytes, position: 0, _event: event })
    }

    /// Passes on each sample that is there. Returns whether more may have been lost since the last time, and how many were known to be.
    pub fn drain(&mut self, mut each: impl FnMut(Sample<'_>)) -> (bool, u64) {
        let head = self.shared.word(HEAD).load(Ordering::Acquire);
        let used = head.wrapping_sub(self.position);
        if used == 0 {
            return (false, 0);
        }
        let mut lost = 0;
        let mut record = [0; RECORD_BYTES_MAX];
        while self.position != head {
            self.copy(self.position, &mut record[..8]);
            let kind = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]);
            let bytes = u16::from_ne_bytes([record[6], record[7]]);
            let record = &mut record[..usize::from(bytes).clamp(8, RECORD_BYTES_MAX)];
            self.copy(self.position, record);
            match kind {
                SAMPLE => {
                    if let Some(sample) = sample(record) {
                        each(sample);
                    }
                }
                LOST => lost += record.get(16..).and_then(<[u8]>::first_chunk).map_or(1, |count| u64::from_ne_bytes(*count)),
                _ => {}
            }
            self.position += u64::from(bytes.max(8));
        }
        // The kernel may have the room from now on: everything has been copied.
        self.shared.word(TAIL).store(self.position, Ordering::Release);
        (lost > 0 || used + RECORD_BYTES_MAX as u64 > self.ring_bytes as u64, lost)
    }

    /// Copies what is in the ring at a position, around its end.
    fn copy(&self, position: u64, out: &mut [u8]) {
        let at = usize::try_from(position & (self.ring_bytes as u64 - 1)).expect("a ring fits into memory");
        let (first, second) = out.split_at_mut(out.len().min(self.ring_bytes - at));
        self.shared.copy(self.page_bytes + at, first);
        self.shared.copy(self.page_bytes, second);
    }
}

fn sample(record: &[u8]) -> Option<Sample<'_>> {
    let process = u32::from_ne_bytes(*record.get(8..)?.first_chunk()?);
    let time = u64::from_ne_bytes(*record.get(16..)?.first_chunk()?);
    Some(Sample { process, time, fields: record.get(28..)? })
}
