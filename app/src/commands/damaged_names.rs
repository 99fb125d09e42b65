//! The files that have lost content by damage.

use crate::attachment::questions;
use crate::attachment::record::Record;
use crate::exit::Outcome;
use crate::names::{Holder, Named, find};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::runtime::links::{PBNS_MAX, Stretch};
use onefold_engine::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// The files and other holders of damaged bytes, or why they are not known.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct DamagedNames {
    pub names: Vec<Named>,
    /// Why there are none, or fewer than there could be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names_missing: Option<String>,
}

impl DamagedNames {
    /// Looks for the holders of what is damaged in the volume's data, and of what was lost before: of these blocks, and of those that the
    /// server has found since it began. Waits at most `patience` for file systems. `damaged`: the number of damaged blocks.
    #[must_use]
    pub fn of(record: &Record, listed: &BTreeSet<u64>, damaged: u64, patience: Duration) -> Self {
        let found = questions::damaged(record).unwrap_or_default();
        let all: BTreeSet<u64> = listed.union(&found).copied().collect();
        let mut names = Self::of_blocks(record, &all, patience);
        let is_all = all.len() <= PBNS_MAX && u64::try_from(all.len()).unwrap_or(u64::MAX) >= damaged;
        if !is_all && names.names_missing.is_none() {
            names.names_missing = Some("there are more damaged blocks than the server lists".to_owned());
        }
        names
    }

    /// Looks for the holders of these blocks, of at most [`PBNS_MAX`] of them, and of what was lost before.
    #[must_use]
    pub fn of_blocks(record: &Record, blocks: &BTreeSet<u64>, patience: Duration) -> Self {
        Self::search(record, blocks, patience).unwrap_or_else(|failed| Self { names: Vec::new(), names_missing: Some(failed.message) })
    }

    fn search(record: &Record, blocks: &BTreeSet<u64>, patience: Duration) -> Outcome<Self> {
        let pbns: BTreeSet<u64> = blocks.iter().copied().take(PBNS_MAX).collect();
        let stretches = questions::links(record, &pbns)?;
        let ranges: Vec<Range<u64>> = stretches.iter().map(|Stretch { offset, bytes }| *offset..offset + bytes).collect();
        let device = Path::new(&record.location);
        if ranges.is_empty() {
            return Ok(Self::default());
        }
        if !device.is_absolute() {
            let names = stretches.iter().map(|&Stretch { offset, bytes }| Named { offset, bytes, holder: Holder::NotMounted }).collect();
            let why = "the volume is no block device of this machine, so its file systems are not looked at".to_owned();
            return Ok(Self { names, names_missing: Some(why) });
        }
        let names = find(device, &ranges, Instant::now() + patience)
            .map_err(|error| crate::exit::Failed::system(format!("{}: cannot find the names of damaged bytes", device.display()), error))?;
        Ok(Self { names, names_missing: None })
    }

    /// Adds a row for each holder.
    #[must_use]
    pub fn add_to(&self, table: Table) -> Table {
        let row = |named: &Named| vec![(named.offset / BLOCK_BYTES).to_string(), Size(named.bytes).to_string(), named.holder.to_string()];
        let table = match self.names.is_empty() {
            true => table,
            false => table.line("").grid(&["LBN", "size", "is"], self.names.iter().map(row).collect()),
        };
        match &self.names_missing {
            Some(why) => table.line("").line(format!("Names: {why}.")),
            None => table,
        }
    }
}
