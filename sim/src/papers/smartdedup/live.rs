//! Live measurements for Figures 3, 5 and 9: `./dev bench smartdedup-fio smartdedup-mixes smartdedup-dedisbench` leave a file, from which
//! the report takes them.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// The store that has no model to slow it.
pub const BARE: &str = "bare";
/// The bare store with no volume, with which volumes are compared.
pub const PASSTHROUGH: &str = "passthrough";
/// The volume with as little memory as the paper's.
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
    pub write_mib_per_second: f64,
    /// The latency of a buffered write: that of the client's page cache.
    pub write_p95_us: f64,
    pub read_mib_per_second: f64,
    pub read_p50_us: f64,
    pub read_p95_us: f64,
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

/// Everything that was measured live.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Live {
    pub cores: u64,
    pub fio: Vec<Fio>,
    pub mixes: Vec<Mix>,
    pub dedisbench: Vec<Fio>,
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
