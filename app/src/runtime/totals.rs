//! The counts of an attachment over all its servers: each server counts from zero, and adds what the ones before it had counted.
//!
//! 1. No count that was reported becomes smaller: counts are kept in a file before they are reported, and before a server gives way.
//! 2. Meanwhile they are kept every few seconds while they change. A kill loses what came after that, and nobody has seen it.

use super::Served;
use super::condition::Counts;
use super::latency::Latency;
use super::tally::Count;
use super::volume_counts::VolumeCounts;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The time between two looks at the counts.
const LOOK: Duration = Duration::from_secs(5);

/// The counts of all servers of an attachment, this one included.
pub struct Totals {
    served: Arc<dyn Served>,
    /// The counts of the servers before this one.
    before: Counts,
    place: PathBuf,
    /// The text that was kept last.
    kept: Mutex<Vec<u8>>,
    /// The log has a line about counts that could not be kept.
    is_noted: AtomicBool,
}

impl Totals {
    /// Begins to count for `served`, after the counts at `place` where another server had the attachment before. Keeps them from here on.
    ///
    /// # Panics
    /// When the system has no more threads.
    #[must_use]
    pub fn begin(served: Arc<dyn Served>, place: &Path, is_replacement: bool) -> Arc<Self> {
        let before = if is_replacement { kept_at(place) } else { Counts::default() };
        let totals = Arc::new(Self { served, before, place: place.to_owned(), kept: Mutex::default(), is_noted: AtomicBool::default() });
        let weak = Arc::downgrade(&totals);
        std::thread::Builder::new().name("totals".to_owned()).spawn(move || keep_on(&weak)).expect("the system has threads left");
        totals
    }

    /// Returns the counts since the volume was attached, and keeps them.
    pub fn counts(&self) -> Counts {
        // Two that keep at once would keep the older ones last.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = self.served.counts();
        counts.add(&self.before);
        let text = serde_json::to_vec(&counts).expect("counts are plain data");
        if *kept != text {
            match store(&self.place, &text) {
                Ok(()) => *kept = text,
                Err(_) if self.is_noted.swap(true, Ordering::Relaxed) => {}
                Err(error) => tracing::warn!(%error, place = %self.place.display(), "the counts cannot be kept for the next server"),
            }
        }
        counts
    }
}

fn keep_on(totals: &Weak<Totals>) {
    while let Some(totals) = totals.upgrade() {
        totals.counts();
        drop(totals);
        std::thread::sleep(LOOK);
    }
}

fn kept_at(place: &Path) -> Counts {
    fs::read(place).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn store(place: &Path, text: &[u8]) -> std::io::Result<()> {
    let fresh = place.with_extension("counts-new");
    fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, place)).inspect_err(|_| {
        let _ = fs::remove_file(&fresh);
    })
}

impl Counts {
    /// Adds the counts of earlier servers. What is no count, such as the space in use, stays as it is.
    fn add(&mut self, before: &Self) {
        add_all(&mut self.client, &before.client);
        add_all(&mut self.device, &before.device);
        add_all(&mut self.failed, &before.failed);
        self.damage += before.damage;
        for Latency { what, requests, ns } in &before.latencies {
            let Some(now) = self.latencies.iter_mut().find(|now| now.what == *what) else { continue };
            now.ns = now.ns.saturating_add(*ns);
            now.requests.iter_mut().zip(requests).for_each(|(now, before)| *now += before);
        }
        if let (Some(now), Some(before)) = (&mut self.volume, &before.volume) {
            now.add(before);
        }
    }
}

/// Adds counts of the same name. One that this server does not have is kept.
fn add_all(now: &mut Vec<Count>, before: &[Count]) {
    for count in before {
        match now.iter_mut().find(|now| now.what == count.what) {
            Some(now) => {
                now.operations += count.operations;
                now.bytes += count.bytes;
            }
            None => now.push(count.clone()),
        }
    }
}

impl VolumeCounts {
    fn add(&mut self, before: &Self) {
        let Self { ledger, space, packing, dedup, out_of_line, commits, .. } = self;
        let sums = [
            (&mut ledger.client_units, before.ledger.client_units),
            (&mut ledger.device_units, before.ledger.device_units),
            (&mut ledger.ideal_units, before.ledger.ideal_units),
            (&mut ledger.device_flushes, before.ledger.device_flushes),
            (&mut ledger.device_fua_writes, before.ledger.device_fua_writes),
            (&mut ledger.client_flushes, before.ledger.client_flushes),
            (&mut space.recounted_blocks, before.space.recounted_blocks),
            (&mut space.reclaimed_blocks, before.space.reclaimed_blocks),
            (&mut space.discarded_bytes, before.space.discarded_bytes),
            (&mut packing.plain_units, before.packing.plain_units),
            (&mut packing.carrier_units, before.packing.carrier_units),
            (&mut packing.packs, before.packing.packs),
            (&mut packing.packed_blocks, before.packing.packed_blocks),
            (&mut packing.packed_bytes, before.packing.packed_bytes),
            (&mut packing.padding_bytes, before.packing.padding_bytes),
            (&mut dedup.duplicates, before.dedup.duplicates),
            (&mut dedup.zeroes, before.dedup.zeroes),
            (&mut dedup.unchanged, before.dedup.unchanged),
            (&mut dedup.new_blocks, before.dedup.new_blocks),
            (&mut dedup.filtered, before.dedup.filtered),
            (&mut dedup.overflows, before.dedup.overflows),
            (&mut dedup.deferred, before.dedup.deferred),
            (&mut dedup.read_cache_hits, before.dedup.read_cache_hits),
            (&mut out_of_line.looked_up, before.out_of_line.looked_up),
            (&mut out_of_line.linked, before.out_of_line.linked),
            (&mut out_of_line.read_units, before.out_of_line.read_units),
            (&mut commits.wanted, before.commits.wanted),
            (&mut commits.timer, before.commits.timer),
            (&mut commits.pressure, before.commits.pressure),
        ];
        sums.into_iter().for_each(|(now, before)| *now += before);
    }
}
