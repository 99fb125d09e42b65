//! The facts about a trace that Tables 2 and 4 have: its size, its duplicates, and who contributes most of them.

use crate::laboratory::index::lab::share;
use onefold_trace::info::{Counts, Info, Part};
use serde::{Deserialize, Serialize};

/// The contributors that are listed.
const CONTRIBUTORS: usize = 3;

/// A stream or process, by its duplicates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contributor {
    pub name: String,
    /// Its share of the trace's block writes, and the share of duplicates among its own.
    pub writes: f64,
    pub duplication: f64,
}

/// The facts about a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub seconds: f64,
    pub blocks_written: u64,
    pub blocks_read: u64,
    /// The blocks that were written at least once, and the contents.
    pub blocks_ever_written: u64,
    pub contents: u64,
    /// The share of block writes whose content had been written before, zeros excluded.
    pub duplication: f64,
    /// By the recorder's kinds of data: files, metadata, journal; and by process.
    pub streams: Vec<Contributor>,
    pub processes: Vec<Contributor>,
}

/// Lists the parts with most duplicates.
fn contributors(parts: &[Part], total: &Counts) -> Vec<Contributor> {
    let mut parts: Vec<&Part> = parts.iter().filter(|part| part.counts.duplicates_ever > 0).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.counts.duplicates_ever));
    let contributor = |part: &&Part| Contributor {
        name: part.name.to_string(),
        writes: share(part.counts.blocks_written, total.blocks_written),
        duplication: share(part.counts.duplicates_ever, part.counts.blocks_written),
    };
    parts.iter().take(CONTRIBUTORS).map(contributor).collect()
}

impl From<&Info> for Facts {
    fn from(info: &Info) -> Self {
        Self {
            seconds: std::time::Duration::from_nanos(info.duration_ns).as_secs_f64(),
            blocks_written: info.total.blocks_written,
            blocks_read: info.total.blocks_read,
            blocks_ever_written: info.shape.blocks_ever_written,
            contents: info.contents,
            duplication: share(info.total.duplicates_ever, info.total.blocks_written),
            streams: contributors(&info.streams, &info.total),
            processes: contributors(&info.processes, &info.total),
        }
    }
}
