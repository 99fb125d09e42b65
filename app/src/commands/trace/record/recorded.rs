//! A recording that has been made.

use crate::bios::recording::{Recording, Seen};
use crate::exit::Outcome;
use crate::output::Report;
use crate::output::size::Size;
use crate::output::table::Table;
use crate::runtime::recording::About;
use crate::runtime::recording::recorder::Tally;
use serde::Serialize;
use std::path::PathBuf;

/// The source of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    /// The kernel's block layer: a block device, and root.
    Kernel,
    /// The volume's server.
    Server,
}

/// The summary of a recording.
#[derive(Debug, Serialize)]
pub(super) struct Recorded {
    pub trace: PathBuf,
    pub by: By,
    #[serde(flatten)]
    pub about: About,
    #[serde(flatten)]
    pub tally: Tally,
    #[serde(flatten)]
    pub seen: Option<Seen>,
}

impl Report for Recorded {
    const NAME: &'static str = "trace-recorded";

    fn table(&self) -> Table {
        let Tally { records, blocks, gaps, gap_stretches, bytes } = self.tally;
        let gaps = if gaps == 0 { "none".to_owned() } else { format!("{gaps} requests are missing, in {gap_stretches} stretches") };
        let table = Table::new()
            .row("trace", self.trace.display())
            .row("requests from", if self.by == By::Kernel { "the kernel" } else { "the server" })
            .row("records", records)
            .row("blocks written", blocks)
            .row("gaps", gaps)
            .row("size", Size(bytes))
            .row("fingerprints", &self.about.algorithm)
            .row_if("key", self.about.key_id.as_ref());
        let Some(seen) = self.seen else { return table };
        table
            .row("blocks with content", seen.blocks_known)
            .row("blocks without room", seen.blocks_without_room)
            .row("blocks in part", seen.blocks_partial)
            .row("pieces unreadable", seen.pieces_unreadable)
            .row("own requests left out", seen.own_requests)
    }
}

/// Records what the kernel hands over, until it is over.
pub(super) fn until_over(mut recording: Recording, file: PathBuf, is_over: impl Fn() -> bool) -> Outcome<Recorded> {
    while !is_over() {
        recording.go_on()?;
    }
    let about = recording.about().clone();
    let (tally, seen) = recording.end()?;
    Ok(Recorded { trace: file, by: By::Kernel, about, tally, seen: Some(seen) })
}
