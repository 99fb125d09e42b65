//! `dedup`: looks for duplicates that the index did not find when they were written.

use super::awaited::{self, Progress};
use crate::attachment::control::{OrderOutOfLine, ServerRequest};
use crate::attachment::find::{Found, find};
use crate::attachment::plan::parse_index_memory;
use crate::attachment::questions;
use crate::attachment::record::Record;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style};
use crate::runtime::volume_counts::{OutOfLine, VolumeCounts};
use serde::Serialize;
use std::path::PathBuf;

/// Look for duplicates that the index did not find when they were written
///
/// An index that has not room for all fingerprints misses duplicates. Writes whose content it did not find are looked up later, in the
/// background; this command shows how far that is, or has it look at blocks that were written long ago.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    volume: String,
    /// Look at all blocks, and wait for the end.
    #[arg(long, conflicts_with_all = ["range", "pause", "resume"])]
    all: bool,
    /// Look at the blocks of 4 KiB from number A up to and with number B, and wait for the end.
    #[arg(long, value_name = "A-B", value_parser = range, conflicts_with_all = ["pause", "resume"])]
    range: Option<(u64, u64)>,
    /// Rest until it is resumed.
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Go on.
    #[arg(long)]
    resume: bool,
    /// Give the index this much memory from now on, within its share of --memory.
    #[arg(long, value_name = "SIZE", value_parser = parse_index_memory)]
    index_memory: Option<Size>,
    /// Do not wait for the end.
    #[arg(long)]
    no_wait: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Returns a range's first block and the block behind its last one.
fn range(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (first, last) =
        text.split_once('-').and_then(|(a, b)| Some((number(a)?, number(b)?))).ok_or("two block numbers, such as 0-4095")?;
    if first > last {
        return Err(format!("block {first} is behind block {last}: the smaller number comes first"));
    }
    Ok((first, last.saturating_add(1)))
}

#[derive(Debug, Serialize)]
struct Dedup {
    path: PathBuf,
    index_entries: u64,
    index_capacity: u64,
    #[serde(flatten)]
    out_of_line: OutOfLine,
}

impl Report for Dedup {
    const NAME: &'static str = "dedup";

    fn table(&self) -> Table {
        let work = &self.out_of_line;
        let fill = |used: u64, room: u64| format!("{used} of {room}");
        Table::new()
            .row("backing store", self.path.display())
            .row("index", format!("{} of {} entries", self.index_entries, self.index_capacity))
            .row("out of line", in_a_line(work))
            .row("skipped", fill(work.skipped_with_fingerprint, work.skipped_with_fingerprint_max))
            .row("without fingerprint", fill(work.skipped_without, work.skipped_without_max))
            .row("in ranges", fill(work.skipped_ranges, work.skipped_ranges_max))
            .row("to be looked up", format!("{} blocks", work.waiting_lbns + work.looked_up_now))
            .row("set aside", set_aside(work))
            .row("looked up", format!("{} blocks, {} of them were duplicates and are linked now", work.looked_up, work.linked))
    }
}

/// Says what waits on free blocks until one pass over the fingerprint table is worth it.
fn set_aside(work: &OutOfLine) -> String {
    match work.set_aside_lbns {
        0 => "none".to_owned(),
        lbns => format!("{lbns} blocks, until there are enough for one look through the table; `--all` looks now"),
    }
}

/// Says in a line how far the work is.
pub fn in_a_line(work: &OutOfLine) -> String {
    let left = work.waiting_lbns + work.looked_up_now;
    match work {
        OutOfLine { is_on: false, .. } => "off: a duplicate is only found when it is written".to_owned(),
        OutOfLine { is_paused: true, .. } => format!("paused: {left} blocks to be looked up; {} found duplicate", work.linked),
        OutOfLine { looked_up_now: 0, .. } => format!("{left} blocks to be looked up; {} found duplicate", work.linked),
        _ => format!(
            "{} blocks compared with {} of {} pages, {} wait; {} found duplicate",
            work.looked_up_now, work.swept_pages, work.pages, work.waiting_lbns, work.linked
        ),
    }
}

/// Gives the order, waits, and shows how far the work is.
///
/// # Errors
/// When the volume is not attached or has no such work, or when its server does not answer.
pub fn run(arguments: &Arguments) -> Outcome {
    let Found { path, attached } = find(&arguments.volume)?;
    let Some(record) = attached else {
        return Err(Failed::new(Exit::NotFound, format!("{} is not attached", path.display()))
            .next(format!("Its server does this work: `onefold attach {}`.", path.display())));
    };
    let volume = counts(&record)?;
    let order = order(arguments, &volume)?;
    if let Some(Size(bytes)) = arguments.index_memory {
        questions::ask(&record, &ServerRequest::IndexMemory { bytes })?;
    }
    if let Some(order) = order {
        let volume = awaited::of_working(&record, volume)?;
        if !volume.out_of_line.is_on {
            let message = format!("{} has no work out of line", record.path.display());
            return Err(Failed::new(Exit::State, message)
                .next("With --verify-duplicates, and read-only, duplicates are only found when they are written."));
        }
        questions::ask(&record, &ServerRequest::Deduplicate(order))?;
        if matches!(order, OrderOutOfLine::Range { .. }) && !arguments.no_wait {
            wait(&record)?;
        }
    }
    let VolumeCounts { dedup, out_of_line, .. } = counts(&record)?;
    let (index_entries, index_capacity) = (dedup.index_entries, dedup.index_capacity);
    let report = Dedup { path: record.path.clone(), index_entries, index_capacity, out_of_line };
    crate::output::print(&report, Style::of(arguments.json));
    Ok(())
}

fn order(arguments: &Arguments, volume: &VolumeCounts) -> Outcome<Option<OrderOutOfLine>> {
    let blocks = volume.space.logical_blocks;
    Ok(match *arguments {
        Arguments { pause: true, .. } => Some(OrderOutOfLine::Pause),
        Arguments { resume: true, .. } => Some(OrderOutOfLine::Resume),
        Arguments { all: true, .. } => Some(OrderOutOfLine::Range { first: 0, end: blocks }),
        Arguments { range: Some((first, end)), .. } if end > blocks => {
            let message = format!("--range {first}-{}: the volume has blocks 0 to {}", end - 1, blocks - 1);
            return Err(Failed::new(Exit::State, message));
        }
        Arguments { range: Some((first, end)), .. } => Some(OrderOutOfLine::Range { first, end }),
        _ => None,
    })
}

fn counts(record: &Record) -> Outcome<VolumeCounts> {
    questions::counts(record)?.volume.ok_or_else(|| {
        Failed::new(Exit::State, format!("{} is attached with --passthrough: nothing is deduplicated", record.path.display()))
    })
}

/// Waits until everything that was asked for is looked up, and says how far that is.
fn wait(record: &Record) -> Outcome {
    let before = counts(record)?.out_of_line.looked_up;
    awaited::wait(&format!("onefold dedup --resume {}", record.path.display()), || {
        let volume = awaited::of_working(record, counts(record)?)?;
        let now = volume.out_of_line;
        Ok(match now {
            _ if now.is_idle() => Progress::Over,
            _ if volume.is_read_only => return Err(read_only(record)),
            OutOfLine { is_paused: true, .. } => Progress::Paused,
            _ => Progress::UnderWay {
                line: in_a_line(&now),
                done: (now.looked_up - before).saturating_sub(now.looked_up_now),
                left: now.waiting_lbns + now.looked_up_now,
            },
        })
    })
}

/// Returns the failure of work that writes, on a volume that takes no writes any more although its store works.
fn read_only(record: &Record) -> Failed {
    let path = record.path.display();
    Failed::new(Exit::System, format!("{path} takes no writes any more, and no duplicate is linked"))
        .next(format!("`onefold status {path}` says why."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_both_its_ends() {
        assert_eq!(range("3-5"), Ok((3, 6)));
        assert_eq!(range("7-7"), Ok((7, 8)));
        assert!(range("5-3").unwrap_err().contains("comes first"));
        assert!(["", "5", "-5", "a-b", "1-", "1-2-3", "1..2"].into_iter().all(|text| range(text).is_err()));
    }
}
