//! The figures of `docs/evaluating.md`, from counts of one stretch of a replay.

use crate::laboratory::counts::device::Tally;
use crate::laboratory::replay::flash::{FlashAccount, FlashFigures};
use crate::laboratory::replay::truth::WriteCounts;
use crate::machine::account::{Account, BlockUsage, Epochs, LogEpochs};
use onefold_engine::interface::Class;
pub use onefold_trace::replay::latency::Latency;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A figure for each class of device operations.
pub type ByClass<T> = BTreeMap<String, T>;

/// Counts of the client's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    pub writes: u64,
    pub flushes: u64,
    pub fua: u64,
    pub reads: u64,
    pub discards: u64,
    /// The flushes for which nothing had changed since the previous one, and the device flushes until their answer.
    pub idle_flushes: u64,
    pub idle_device_flushes: u64,
}

/// All accounts at one moment; times exclude idling.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    pub at_ns: u64,
    pub client: ClientCounts,
    pub seen: WriteCounts,
    pub bound: (u64, u64),
    pub device: Tally,
    pub machine: Account,
    /// The flash below the device, if there is one.
    pub flash: Option<FlashAccount>,
}

impl Accounts {
    /// Leaves out the reads between two earlier moments, and their time.
    pub fn leave_out_reads(&mut self, from: &Self, to: &Self) {
        let of = to.device.since(&from.device).read;
        self.device.read.iter_mut().zip(of).for_each(|(all, part)| *all = all.since(part));
        self.client.reads -= to.client.reads - from.client.reads;
        self.at_ns -= to.at_ns - from.at_ns;
    }
}

/// Shares of the client's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Duplication {
    #[serde(flatten)]
    pub shares: onefold_trace::info::Duplication,
    /// The share of duplicates that the scheme found, zeros included; none if it does not count them.
    pub found: Option<f64>,
}

/// The figures of one stretch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub virtual_seconds: f64,
    pub client_units: u64,
    pub client_writes: u64,
    pub client_flushes: u64,
    pub client_fua: u64,
    pub client_reads: u64,
    pub client_discards: u64,
    /// The epochs; none if the scheme does not count them.
    pub epochs: Option<Epochs>,
    pub epochs_all: Option<u64>,
    /// The epochs of the log; none if the scheme has no log.
    pub log_epochs: Option<LogEpochs>,
    /// Client flushes with nothing to commit, and device flushes for them.
    pub idle_flushes: u64,
    pub idle_device_flushes: u64,
    pub device_units: ByClass<u64>,
    pub device_units_all: u64,
    /// All units except those of content; a unit with slots is content.
    pub metadata_units_all: u64,
    pub device_read_units: u64,
    /// Those of the map, of fingerprints and of counts: look-ups that went to the medium.
    #[serde(default)]
    pub table_read_units: u64,
    pub device_flushes: u64,
    pub device_discards: u64,
    pub duplication: Duplication,
    pub ideal: f64,
    pub bound: f64,
    pub bound_epochs: u64,
    pub write_ratio: f64,
    /// The efficiency; none if there are no duplicates.
    pub efficiency: Option<f64>,
    pub metadata_per_unit: ByClass<f64>,
    pub metadata_per_epoch: Option<ByClass<f64>>,
    pub flush_ratio: Option<f64>,
    /// Latencies by "write", "read", "flush", "fua", "discard".
    pub latency_us: BTreeMap<String, Latency>,
    /// The figures of the flash below; none if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashFigures>,
}

/// The use of the volume's space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Space {
    pub client_blocks: u64,
    pub client_contents: u64,
    /// Blocks that one or more LBNs map to; none if the scheme does not know.
    pub linked: Option<u64>,
    pub unique: Option<u64>,
    pub shared: Option<u64>,
    pub kept: Option<u64>,
    pub free: Option<u64>,
    /// Units of metadata that were ever written, and blocks that a log uses for itself.
    pub metadata: u64,
    /// (linked + metadata) ÷ the client's blocks.
    pub ratio: Option<f64>,
    /// The space that the phase alone takes.
    #[serde(default)]
    pub added: Added,
}

/// The space that a phase takes, without what was there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Added {
    /// The blocks that the client wrote in the phase and that hold something at its end.
    pub client_blocks: u64,
    /// Their contents, zeros excluded, that no other block holds.
    pub client_contents: u64,
    /// The blocks of the device for them: these contents, and what the scheme stores more than once beyond what it did at the beginning.
    /// None if the scheme does not know.
    pub linked: Option<u64>,
    /// The units of metadata that were written for the first time, and blocks that a log uses for itself beyond those at the beginning.
    pub metadata: u64,
    /// (linked + metadata) ÷ the client's blocks; none if there are none.
    pub ratio: Option<f64>,
}

impl Added {
    /// Computes the difference between two moments, where the client wrote `client_blocks` with `client_contents` of their own.
    #[must_use]
    pub fn between(then: &Space, now: &Space, (client_blocks, client_contents): (u64, u64)) -> Self {
        let twice = |space: &Space| space.linked.map(|linked| i128::from(linked) - i128::from(space.client_contents));
        let more = twice(now).map(|now| now - twice(then).unwrap_or(0));
        let linked = more.map(|more| u64::try_from(i128::from(client_contents) + more).unwrap_or(0));
        let metadata = now.metadata.saturating_sub(then.metadata);
        let ratio = linked.filter(|_| client_blocks > 0).map(|linked| ratio(linked + metadata, client_blocks));
        Self { client_blocks, client_contents, linked, metadata, ratio }
    }
}

#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

fn name(class: Class) -> &'static str {
    match class {
        Class::Data => "data",
        Class::Refs => "refs",
        Class::Map => "map",
        Class::Fingerprints => "fingerprints",
        Class::Written => "written",
        Class::Superblock => "superblock",
        Class::Log => "log",
    }
}

/// Whether units of a class are of the map, the fingerprints or the counts.
const fn is_table(class: Class) -> bool {
    matches!(class, Class::Refs | Class::Map | Class::Fingerprints | Class::Written)
}

fn by_class<T>(of: impl Fn(Class) -> T) -> ByClass<T> {
    Class::ALL.into_iter().map(|class| (name(class).to_owned(), of(class))).collect()
}

fn metadata<T>(of: impl Fn(Class) -> T) -> ByClass<T> {
    Class::ALL.into_iter().filter(|&class| class != Class::Data).map(|class| (name(class).to_owned(), of(class))).collect()
}

impl Figures {
    /// Computes the figures between two moments.
    #[must_use]
    pub fn between(then: &Accounts, now: &Accounts, latency_us: BTreeMap<String, Latency>) -> Self {
        let device = now.device.since(&then.device);
        let seen = now.seen.since(then.seen);
        let units = seen.units;
        let epochs = now.machine.epochs.map(|all| all.since(&then.machine.epochs.unwrap_or_default()));
        let epochs_all = epochs.map(|e| e.all());
        let log_epochs = now.machine.log.map(|all| all.since(&then.machine.log.unwrap_or_default()));
        // A unit with slots holds content, whatever records are in it.
        let carriers = log_epochs.map_or(0, |log| log.carriers());
        let metadata_units = |class| device.units_of(class) - if class == Class::Log { carriers } else { 0 };
        let duplication = Duplication {
            shares: seen.duplication(),
            found: now.machine.found.map(|all| ratio(all - then.machine.found.unwrap_or(0), units)),
        };
        let saved = duplication.shares.live + duplication.shares.zero;
        let write_ratio = ratio(device.units(), units);
        Self {
            virtual_seconds: ratio((now.at_ns - then.at_ns) / 1_000_000, 1000),
            client_units: units,
            client_writes: now.client.writes - then.client.writes,
            client_flushes: now.client.flushes - then.client.flushes,
            client_fua: now.client.fua - then.client.fua,
            client_reads: now.client.reads - then.client.reads,
            client_discards: now.client.discards - then.client.discards,
            epochs,
            epochs_all,
            log_epochs,
            idle_flushes: now.client.idle_flushes - then.client.idle_flushes,
            idle_device_flushes: now.client.idle_device_flushes - then.client.idle_device_flushes,
            device_units: by_class(|class| device.units_of(class)),
            device_units_all: device.units(),
            metadata_units_all: device.units() - device.units_of(Class::Data) - carriers,
            device_read_units: device.read.iter().map(|c| c.units).sum(),
            table_read_units: Class::ALL.into_iter().filter(|&class| is_table(class)).map(|class| device.read[class as usize].units).sum(),
            device_flushes: device.flushes,
            device_discards: device.discards,
            duplication,
            ideal: 1.0 - saved,
            bound: ratio(now.bound.0 - then.bound.0, units),
            bound_epochs: now.bound.1 - then.bound.1,
            write_ratio,
            efficiency: (saved > 0.0).then(|| (1.0 - write_ratio) / saved),
            metadata_per_unit: metadata(|class| ratio(metadata_units(class), units)),
            metadata_per_epoch: epochs_all.map(|all| metadata(|class| ratio(metadata_units(class), all))),
            flush_ratio: epochs_all.map(|all| ratio(device.flushes, all)),
            latency_us,
            flash: now.flash.as_ref().map(|flash| FlashFigures::between(then.flash.as_ref(), flash)),
        }
    }
}

impl Space {
    /// Combines what the client holds, the scheme's account, and the metadata on the device.
    #[must_use]
    pub fn of((client_blocks, client_contents): (u64, u64), usage: Option<BlockUsage>, metadata: u64) -> Self {
        let metadata = metadata + usage.map_or(0, |f| f.log);
        Self {
            client_blocks,
            client_contents,
            linked: usage.map(|f| f.linked),
            unique: usage.and_then(|f| Some(f.linked.saturating_sub(f.shared?))),
            shared: usage.and_then(|f| f.shared),
            kept: usage.map(|f| f.kept),
            free: usage.and_then(|f| f.free),
            metadata,
            ratio: usage.map(|f| ratio(f.linked + metadata, client_blocks)),
            added: Added::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_takes_its_own_contents_and_what_was_stored_twice_and_new_metadata() {
        let space = |client_contents, linked, metadata| Space { client_contents, linked: Some(linked), metadata, ..Space::default() };
        let added = Added::between(&space(100, 102, 5), &space(160, 165, 9), (80, 60));
        assert_eq!((added.linked, added.metadata, added.ratio), (Some(63), 4, Some(67.0 / 80.0)));
        assert_eq!(Added::between(&Space::default(), &Space::default(), (0, 0)).ratio, None);
    }

    #[test]
    fn a_percentile_is_the_least_latency_that_its_share_does_not_exceed() {
        let l = Latency::of((1..=1000).rev().map(|us| us * 1000).collect());
        assert_eq!((l.p50, l.p90, l.p99, l.p999, l.max), (500.0, 900.0, 990.0, 999.0, 1000.0));
        assert_eq!((l.count, l.mean), (1000, 500.5));
        assert_eq!(Latency::of(vec![7000]).p50, 7.0);
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }
}
