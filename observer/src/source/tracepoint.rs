//! Bios seen by the classic tracepoint `block:block_bio_queue`, for kernels without BTF: without files, lifetimes and control groups.
//!
//! Each processor has its ring. A processor that comes online later is not seen: its bios are unknown.

use super::cpu_ring::CpuRing;
use super::format::Format;
use super::partitions::Partitions;
use super::{Drained, Seen, ring_bytes_within};
use crate::join::Bio;
use crate::observation::Operation;
use crate::refused::Refused;
use crate::{Disk, Wants};
use std::ffi::CString;
use std::io;

/// The tracepoint's events, one on each processor.
pub(crate) struct Tracepoint {
    rings: Vec<CpuRing>,
    ring_bytes: usize,
    format: Format,
    partitions: Partitions,
    wants_reads: bool,
    wants_flushes: bool,
}

impl Tracepoint {
    /// Opens the events, with at most `memory_bytes` for all rings.
    pub fn begin(disk: Disk, wants: Wants, wants_flushes: bool, memory_bytes: usize) -> Result<Self, Refused> {
        let format = Format::of_kernel()?;
        let partitions = Partitions::new(disk);
        let cpus = online().map_err(|source| Refused::Tracepoint { what: "/sys/devices/system/cpu/online", source })?;
        let page_bytes = rustix::param::page_size();
        // The first page of each ring has its positions.
        let ring_bytes = (memory_bytes / cpus.len()).saturating_sub(page_bytes);
        if ring_bytes < page_bytes {
            return Err(Refused::Memory { given: 2 * memory_bytes, least: 4 * page_bytes * cpus.len() });
        }
        let ring_bytes = ring_bytes_within(ring_bytes);
        let filter = CString::new(partitions.filter()).expect("a filter has no zero byte");
        let rings = cpus.iter().map(|cpu| CpuRing::open(*cpu, format.id, &filter, ring_bytes));
        let rings = rings.collect::<io::Result<Vec<_>>>().map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => Refused::NotAllowed { what: "perf_event_open".into(), source },
            _ => Refused::Tracepoint { what: "perf_event_open", source },
        })?;
        Ok(Self { rings, ring_bytes, format, partitions, wants_reads: wants.reads, wants_flushes })
    }

    /// Returns the bytes of the rings.
    pub fn bytes(&self) -> usize {
        self.rings.len() * (self.ring_bytes + rustix::param::page_size())
    }

    /// Passes on each bio that was seen before this began.
    pub fn drain(&mut self, mut each: impl FnMut(Seen)) -> Drained {
        let mut drained = Drained::default();
        for ring in &mut self.rings {
            let (has_lost, lost) = ring.drain(|sample| {
                let Some(fields) = self.format.decode(sample.process, sample.fields) else { return };
                let is_wanted = self.wants_reads || fields.observation.operation != Operation::Read;
                let is_wanted = is_wanted && (fields.sectors > 0 || self.wants_flushes && fields.flushes);
                if is_wanted && self.partitions.has(fields.device, sample.time) {
                    let end = fields.sector + u64::from(fields.sectors);
                    let bio = Bio { time: sample.time, start: fields.sector, end, observation: fields.observation };
                    each(Seen { bio, processor: 0, flushes: fields.flushes, is_wish: false });
                }
            });
            drained.has_lost |= has_lost;
            drained.lost += lost;
        }
        drained
    }
}

/// Returns the numbers of the processors that are online.
fn online() -> io::Result<Vec<u32>> {
    // As in `0-3,8`.
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let ranges = text.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    });
    let ranges: Option<Vec<_>> = ranges.collect();
    let cpus: Vec<u32> = ranges.ok_or(io::ErrorKind::InvalidData)?.into_iter().flatten().collect();
    if cpus.is_empty() { Err(io::ErrorKind::InvalidData.into()) } else { Ok(cpus) }
}
