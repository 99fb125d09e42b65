//! The files that have lost content by the damage that a scrub found.

use crate::attachment::questions;
use crate::attachment::record::Record;
use crate::exit::Outcome;
use crate::names::{Holder, Named, find};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::runtime::links::{PBNS_MAX, Stretch};
use crate::runtime::scrub_counts::name;
use crate::runtime::volume_counts::Scrub;
use onefold_engine::format::superblock::ScrubPart;
use onefold_engine::units::BLOCK_BYTES;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// The files and other holders of damaged bytes, or why they are not known.
#[derive(Debug, Default, Serialize)]
pub struct DamagedNames {
    pub names: Vec<Named>,
    /// Why there are none, or fewer than there could be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names_missing: Option<String>,
}

impl DamagedNames {
    /// Looks for the holders of all that the scrub found damaged in the volume's data, and of what was lost before. Waits at most
    /// `patience` for file systems.
    #[must_use]
    pub fn of(record: &Record, scrub: &Scrub, patience: Duration) -> Self {
        match Self::search(record, scrub, patience) {
            Ok(found) => found,
            Err(failed) => Self { names: Vec::new(), names_missing: Some(failed.message) },
        }
    }

    fn search(record: &Record, scrub: &Scrub, patience: Duration) -> Outcome<Self> {
        let data = name(ScrubPart::Data);
        let all: BTreeSet<u64> =
            scrub.found.iter().filter(|found| found.part == data && !found.is_mended).map(|found| found.number).collect();
        let pbns: BTreeSet<u64> = all.iter().copied().take(PBNS_MAX).collect();
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
        let listed = u64::try_from(all.len()).unwrap_or(u64::MAX);
        let is_all = pbns.len() == all.len() && listed >= scrub.damaged_blocks;
        let names_missing = (!is_all).then(|| "the scrub lists the first damaged blocks alone".to_owned());
        Ok(Self { names, names_missing })
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
