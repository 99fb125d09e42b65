//! Figures 3, 5 and 9, which are measured live: `./dev bench smartdedup-fio smartdedup-mixes smartdedup-dedisbench` leave a file, from
//! which the report takes them.

use super::published::{DEDISBENCH, FIO, MIXES};
use super::rows::statements;
use crate::papers::html::{Table, change, number, percent};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// fio on ext4 over a volume, or over the bare store.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Fio {
    /// "passthrough", or how the volume was attached.
    pub setup: String,
    /// "bare", or the device model that slowed the store.
    pub store: String,
    pub duplicates_percent: f64,
    pub write_mib_per_second: f64,
    pub write_p95_us: f64,
    pub read_mib_per_second: f64,
    pub read_p50_us: f64,
    pub read_p95_us: f64,
    /// The part of the data that took no blocks of its own, right after the writes; none for the bare store.
    pub saved: Option<f64>,
    /// Units written to the store.
    pub units: u64,
}

/// A mix of reads and writes.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Mix {
    pub mix: u8,
    pub setup: String,
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
    /// The data of a run of fio, in MiB.
    pub mib: u64,
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

const NOT_MEASURED: &str = "<p>Not measured in this run: <code>./dev bench smartdedup-fio smartdedup-mixes smartdedup-dedisbench</code> \
    measures it, and the next report shows it.</p>\n";

/// The run of the bare store for the same load.
fn base<'a>(of: &Fio, all: &'a [Fio]) -> Option<&'a Fio> {
    all.iter()
        .find(|fio| fio.setup == "passthrough" && fio.store == of.store && (fio.duplicates_percent - of.duplicates_percent).abs() < 0.01)
}

fn fio_table(caption: &str, all: &[Fio]) -> Table {
    let heads = [
        "store, duplicates, setup",
        "writes, MiB/s",
        "against passthrough",
        "p95, µs",
        "reads, MiB/s",
        "against passthrough",
        "p50, µs",
        "p95, µs",
        "space saved",
        "units against passthrough",
    ];
    let mut table = Table::new(caption, heads);
    for fio in all {
        let base = base(fio, all);
        let more = |value: fn(&Fio) -> f64| change(base.map(|base| value(fio) / value(base) - 1.0));
        #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
        let units = more(|fio| fio.units as f64);
        table.row([
            format!("{}, {} %, {}", fio.store, fio.duplicates_percent, fio.setup),
            number(Some(fio.write_mib_per_second), 1),
            more(|fio| fio.write_mib_per_second),
            number(Some(fio.write_p95_us), 0),
            number(Some(fio.read_mib_per_second), 1),
            more(|fio| fio.read_mib_per_second),
            number(Some(fio.read_p50_us), 0),
            number(Some(fio.read_p95_us), 0),
            percent(fio.saved),
            units,
        ]);
    }
    table
}

/// Formats Figure 3.
#[must_use]
pub fn fio(live: &Live) -> String {
    if live.fio.is_empty() {
        return statements(&FIO) + NOT_MEASURED;
    }
    let caption = format!("Figure 3: fio on ext4, three threads, random blocks of 4 KiB, buffered, {} MiB, {} cores", live.mib, live.cores);
    statements(&FIO) + &fio_table(&caption, &live.fio).html()
}

/// Formats Figure 5.
#[must_use]
pub fn mixes(live: &Live) -> String {
    if live.mixes.is_empty() {
        return statements(&MIXES) + NOT_MEASURED;
    }
    let heads = ["mix and setup", "seconds", "processor seconds", "against passthrough", "server's memory, MiB"];
    let mut table = Table::new("Figure 5: mixed reads and writes, 25 % duplicates; battery: none here to measure", heads);
    for mix in &live.mixes {
        let base = live.mixes.iter().find(|other| other.mix == mix.mix && other.setup == "passthrough");
        table.row([
            format!("Mix {}, {}", mix.mix, mix.setup),
            number(Some(mix.seconds), 1),
            number(Some(mix.cpu_seconds), 1),
            change(base.map(|base| mix.cpu_seconds / base.cpu_seconds - 1.0)),
            number(Some(mix.peak_mib), 1),
        ]);
    }
    statements(&MIXES) + &table.html()
}

/// Formats Figure 9.
#[must_use]
pub fn dedisbench(live: &Live) -> String {
    if live.dedisbench.is_empty() {
        return statements(&DEDISBENCH) + NOT_MEASURED;
    }
    let caption = "Figure 9: a load like DEDISbench's: fio with four threads, blocks of 4 KiB, a hot spot, as fast as it goes";
    statements(&DEDISBENCH) + &fio_table(caption, &live.dedisbench).html()
}
