//! The report of a watch, as a table and as JSON.

use super::Account;
use super::amounts::{Hour, Named, Totals};
use super::life::Age;
use crate::bios::Missing;
use crate::forecast::Written;
use crate::output::Report;
use crate::output::size::Size;
use crate::output::table::Table;
use onefold_engine::units::BLOCK_BYTES;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// The most rows of a table; JSON has all.
const ROWS_MAX: usize = 12;
/// The most files of a report.
const FILES_MAX: usize = 200;
/// Content may be unseen of one block in this many without a word.
const UNSEEN_SHARE: u64 = 100;
const DAY_S: u64 = 86_400;

/// The report of a watch.
#[derive(Clone, Debug, Serialize)]
pub struct Watched {
    pub disk: PathBuf,
    pub disk_bytes: u64,
    pub seconds: f64,
    pub totals: Totals,
    pub programs: Vec<Named>,
    pub kinds: Vec<Named>,
    pub files: Vec<Named>,
    pub hours: Vec<Hour>,
    /// The forecasts of a volume, by commit mode.
    pub volumes: Vec<Written>,
    pub age: Option<Age>,
    /// Years until the device is worn out at this rate, and with a volume that packs; none where the device does not tell enough.
    pub years_left: Option<f64>,
    pub years_left_on_a_volume: Option<f64>,
    pub missing: Missing,
    /// The things that were not seen at all, as sentences.
    pub blind_spots: Vec<String>,
}

impl Watched {
    /// Makes the report of an account.
    #[must_use]
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // an estimate of years
    pub fn new(disk: PathBuf, disk_bytes: u64, time: Duration, account: &Account, volumes: Vec<Written>, age: Option<Age>) -> Self {
        let (totals, programs, kinds, files, hours) = account.summed(FILES_MAX);
        let a_day = |bytes: f64| (bytes * DAY_S as f64 / time.as_secs_f64().max(1.0)) as u64;
        let written = (totals.all.units * BLOCK_BYTES) as f64;
        let years = |bytes: f64| age.as_ref()?.years_left(a_day(bytes));
        let packed = volumes.first().filter(|volume| volume.client_blocks > 0 && volume.ended.is_none());
        let years_left = years(written);
        let years_left_on_a_volume = packed.and_then(|volume| years(written * volume.units as f64 / volume.client_blocks as f64));
        let (missing, blind_spots) = (Missing::default(), Vec::new());
        let seconds = time.as_secs_f64();
        Self {
            disk,
            disk_bytes,
            seconds,
            totals,
            programs,
            kinds,
            files,
            hours,
            volumes,
            age,
            years_left,
            years_left_on_a_volume,
            missing,
            blind_spots,
        }
    }

    fn share(&self, units: u64) -> String {
        share(units, self.totals.all.units)
    }

    /// Returns the rows of a table of shares: name, bytes, share of all, flushes, and duplicates.
    pub(super) fn rows(&self, all: &[Named], most: usize) -> Vec<Vec<String>> {
        let row = |named: &Named| {
            let part = named.part;
            let known = share(part.duplicate_blocks, part.units);
            vec![named.name.clone(), Size(part.bytes).to_string(), self.share(part.units), part.flushes.to_string(), known]
        };
        all.iter().take(most).map(row).collect()
    }

    fn grid(&self, table: Table, head: &str, all: &[Named]) -> Table {
        let rows = self.rows(all, ROWS_MAX);
        if rows.is_empty() { table } else { table.line("").grid(&[head, "written", "of all", "flushes", "duplicates"], rows) }
    }

    /// The headings of the rows of volumes.
    pub(super) const VOLUME_HEADS: [&str; 7] = ["a volume in mode", "of", "would write", "saved", "found", "flushes", "covers"];

    pub(super) fn volume_rows(&self) -> Vec<Vec<String>> {
        let row = |volume: &Written| {
            let saved = volume.client_blocks.saturating_sub(volume.units);
            let covered = volume.ended.as_ref().map_or_else(|| "all".to_owned(), |why| format!("the beginning: {why}"));
            vec![
                volume.commit_mode.clone(),
                size_of_units(volume.client_blocks),
                size_of_units(volume.units),
                share(saved, volume.client_blocks),
                share(volume.found_blocks, volume.client_blocks),
                volume.flushes.to_string(),
                covered,
            ]
        };
        self.volumes.iter().map(row).collect()
    }

    /// Returns a sentence where so much content was not seen that a forecast says little.
    pub(super) fn caveat(&self) -> Option<String> {
        let (unseen, all) = (self.totals.unknown_blocks, self.totals.all.units);
        (unseen * UNSEEN_SHARE > all).then(|| {
            let share = share(unseen, all);
            format!("Content of {share} of the blocks was not seen. The forecast takes it for what came before: a volume may differ.")
        })
    }

    /// Returns the facts about the whole, by name.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let Totals { all, journal, metadata, .. } = self.totals;
        let totals = &self.totals;
        let known = totals.known_blocks + totals.zero_blocks;
        let mut facts = vec![
            ("disk", format!("{}, {}", self.disk.display(), Size(self.disk_bytes))),
            ("time", format!("{:.0} s", self.seconds)),
            ("written", format!("{} in {} requests, {} blocks of 4 KiB", Size(all.bytes), all.requests, all.units)),
            ("flushes", all.flushes.to_string()),
            ("journal", format!("{} of the blocks", self.share(journal.units))),
            ("metadata", format!("{} of the blocks", self.share(metadata.units))),
            ("duplicates", share(all.duplicate_blocks, known)),
            ("zeros", share(totals.zero_blocks, known)),
            ("compressible", format!("{} to half or less", share(totals.compressible_blocks, totals.measured_blocks))),
            ("discarded", Size(totals.discarded_bytes).to_string()),
        ];
        let years = |name, years: Option<f64>| years.map(|years| (name, format!("{years:.1} years at this rate")));
        let age = self.age.as_ref().map(|age| ("life used", format!("{} % ({})", age.used_percent, age.source)));
        let unseen = (totals.unknown_blocks > 0).then(|| ("content not seen", self.share(totals.unknown_blocks)));
        let missing = (self.missing.requests > 0).then(|| ("requests missing", self.missing.requests.to_string()));
        let left = [years("life left", self.years_left), years("on a volume", self.years_left_on_a_volume)];
        facts.extend([unseen, missing, age].into_iter().chain(left).flatten());
        facts
    }
}

/// Returns the size of this many blocks of 4 KiB.
pub(super) fn size_of_units(units: u64) -> String {
    Size(units * BLOCK_BYTES).to_string()
}

/// Returns a part of a whole in per cent.
#[allow(clippy::cast_precision_loss)] // counts far below 2^52
pub(super) fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

impl Report for Watched {
    const NAME: &'static str = "watch";

    fn table(&self) -> Table {
        let mut table = self.facts().into_iter().fold(Table::new(), |table, (name, value)| table.row(name, value));
        for spot in &self.blind_spots {
            table = table.line(spot.as_str());
        }
        table = self.grid(table, "program", &self.programs);
        table = self.grid(table, "kind", &self.kinds);
        table = self.grid(table, "file", &self.files);
        let rows = self.volume_rows();
        if rows.is_empty() {
            return table;
        }
        let table = table.line("").grid(&Self::VOLUME_HEADS, rows);
        self.caveat().into_iter().fold(table, Table::line)
    }
}
