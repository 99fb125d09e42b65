//! Live measurements for Figures 3, 5 and 9: `./dev bench smartdedup-fio smartdedup-mixes smartdedup-dedisbench read-cache-equal
//! dedisbench-live` leave a file, from which the report takes them.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// The store that has no model to slow it.
pub const BARE: &str = "bare";
/// The bare store with no volume, with which volumes are compared.
pub const PASSTHROUGH: &str = "passthrough";
/// The volume with the paper's memory as it is counted there: for the index, without requests and caches.
pub const PAPER: &str = "index 3M";
/// The volume with as little memory in all.
pub const LITTLE: &str = "memory 3500K";
/// The volume with default settings.
pub const VOLUME: &str = "volume";

/// fio on ext4 over a volume, or over the bare store.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Fio {
    /// "passthrough", or how the volume was attached.
    pub setup: String,
    /// "bare", or the device model that slowed the store.
    pub store: String,
    /// The data that was written, in MiB, and as much was read.
    pub mib: u64,
    pub duplicates_percent: f64,
    /// The bound on the dirty pages of the device, if there is one. Without it the latency of a buffered write is the page cache's.
    #[serde(default)]
    pub dirty_bytes: Option<u64>,
    pub write_mib_per_second: f64,
    pub write_p95_us: f64,
    pub read_mib_per_second: f64,
    pub read_p50_us: f64,
    pub read_p95_us: f64,
    /// Reads in another order than that of the writes.
    #[serde(default)]
    pub other_read_mib_per_second: Option<f64>,
    /// By how much the commands of a slowed store took longer than its model says, in per cent.
    #[serde(default)]
    pub late_percent: Option<f64>,
    /// The part of the data that took no blocks of its own, right after the writes; none for the bare store.
    pub saved: Option<f64>,
    /// The units written to the store, as a multiple of those of passthrough.
    pub units_ratio: f64,
}

/// A mix of reads and writes.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Mix {
    pub mix: u8,
    pub setup: String,
    /// The data that was read and written, in MiB.
    pub mib: u64,
    pub seconds: f64,
    /// Processor seconds of the whole machine.
    pub cpu_seconds: f64,
    /// The most memory that the server had resident.
    pub peak_mib: f64,
}

/// DEDISbench's load with the distribution of scanned data.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Distributed {
    pub setup: String,
    pub store: String,
    pub mib: u64,
    pub duplicates_percent: f64,
    /// The tree whose distribution it is.
    pub tree: String,
    pub write_mib_per_second: f64,
    pub write_p99_us: f64,
    pub read_mib_per_second: f64,
    pub read_p99_us: f64,
    /// The same as in [`Fio`].
    pub saved: Option<f64>,
    pub units_ratio: f64,
    pub late_percent: f64,
}

/// Reads of a store: with the same bytes of cache, by PBN on a volume and by LBN on the bare store; or with the memory of Figure 3.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct EqualReads {
    pub setup: String,
    pub store: String,
    pub mib: u64,
    pub duplicates_percent: f64,
    /// The order in which blocks are read.
    pub load: String,
    pub read_mib_per_second: f64,
    pub read_p95_us: f64,
    /// The share of blocks for which the device was not read.
    pub hits: f64,
    /// The bytes of cache, where both sides have the same.
    pub cache_mib: Option<f64>,
}

/// Everything that was measured live.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Live {
    pub cores: u64,
    pub fio: Vec<Fio>,
    pub mixes: Vec<Mix>,
    pub dedisbench: Vec<Fio>,
    pub equal: Vec<EqualReads>,
    /// Figure 3's reads, all setups in turn: medians.
    pub reads: Vec<EqualReads>,
    pub distributed: Vec<Distributed>,
}

impl Live {
    /// Reads the file.
    ///
    /// # Errors
    /// Fails if it is not there, or is no such file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}; ./dev bench smartdedup-fio makes such a file", path.display()))
    }
}

/// Returns the run of the bare store for the same load.
#[must_use]
pub fn base<'a>(of: &Fio, all: &'a [Fio]) -> Option<&'a Fio> {
    all.iter()
        .find(|fio| fio.setup == PASSTHROUGH && fio.store == of.store && (fio.duplicates_percent - of.duplicates_percent).abs() < 0.01)
}

/// Returns the change of the speed of reads against passthrough with the same bytes of cache.
#[must_use]
pub fn equal_change(of: &EqualReads, all: &[EqualReads]) -> Option<f64> {
    let is_base = |other: &&EqualReads| {
        other.setup == PASSTHROUGH && other.load == of.load && (other.duplicates_percent - of.duplicates_percent).abs() < 0.01
    };
    all.iter().find(is_base).map(|base| of.read_mib_per_second / base.read_mib_per_second - 1.0)
}

/// Returns the change of the speed of Figure 3's reads against passthrough: of those in turn, if there are any.
#[must_use]
pub fn reads_change(fio: &Fio, live: &Live) -> Option<f64> {
    let is_it = |of: &&EqualReads| of.setup == fio.setup && (of.duplicates_percent - fio.duplicates_percent).abs() < 0.01;
    let in_turn = live.reads.iter().find(is_it).filter(|of| of.store == fio.store).and_then(|of| equal_change(of, &live.reads));
    in_turn.or_else(|| change_of(fio, &live.fio, |fio| fio.read_mib_per_second))
}

/// Returns the change of a value against passthrough.
#[must_use]
pub fn change_of(fio: &Fio, all: &[Fio], value: fn(&Fio) -> f64) -> Option<f64> {
    base(fio, all).map(|base| value(fio) / value(base) - 1.0)
}

/// Returns the change of the processor seconds of a mix against passthrough.
#[must_use]
pub fn processor_change(mix: &Mix, all: &[Mix]) -> Option<f64> {
    let base = all.iter().find(|other| other.mix == mix.mix && other.setup == PASSTHROUGH);
    base.map(|base| mix.cpu_seconds / base.cpu_seconds - 1.0)
}
