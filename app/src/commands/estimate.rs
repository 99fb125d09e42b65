//! `estimate`: tells what a volume would save of files, before there is one.

use crate::estimate::{Blocks, Estimate, Listener, MEMORY_BYTES_MIN, estimate};
use crate::exit::Outcome;
use crate::files::{first_shown, stopped_by_signals, unscanned};
use crate::output::percent::Percent;
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use onefold_engine::format::{Geometry, Wish};
use onefold_engine::memory::Accountant;
use onefold_engine::units::{BLOCK_BYTES, Bytes};
use onefold_trace::scan::ScanError;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The number of kinds in the table; JSON has all.
const KINDS_MAX: usize = 12;
/// The bytes of index memory that a fingerprint takes, in thirds: an index of up to 128 GiB has twelve in 64 bytes.
const INDEX_BYTES_THIRDS: u64 = 16;
/// The bytes of index memory for each stored block with which nearly all duplicates are found, many of them in the background.
const INDEX_BYTES_LITTLE: u64 = 2;
/// The index's share of a server's memory, in commit mode `log`: 3/16, less an eighth of that, which what was skipped takes.
const INDEX_SHARE: (u64, u64) = (21, 128);

/// Estimate what a volume would save of files, trees, images and block devices
///
/// Reads all of them and writes nothing. Blocks are 4 KiB; the last one of a file is filled up with zeros. Trees are read without following
/// links, each file once however many names it has, and without the file systems mounted in them; what ext4 would write of its own to hold
/// them counts, too. What is named twice, or lies in a tree that is named, too, counts as if it were stored twice.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Files, block devices and directories.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Memory to estimate in. Where the contents do not fit, a sample of them is counted, and the report has its error.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_memory)]
    memory: Size,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn parse_memory(typed: &str) -> Result<Size, String> {
    Size::at_least(typed, MEMORY_BYTES_MIN)
}

#[derive(Debug, Serialize)]
struct Estimated {
    paths: Vec<PathBuf>,
    files: u64,
    /// The number of things inside trees that could not be read.
    unread: u64,
    #[serde(flatten)]
    all: Share,
    /// With 95 % probability the percentage saved is off by no more than this because of what was sampled.
    error_percent: f64,
    /// One content in this many was counted.
    sampled: u64,
    /// Memory for the index, and for the server with it: all duplicates are found when they are written, or, with little of it, many of
    /// them in the background.
    memory: Wanted,
    memory_little: Wanted,
    /// The least store that holds all of it; none where it is larger than a volume may be.
    store_bytes: Option<u64>,
    /// By kind of file, the most blocks first.
    kinds: Vec<Share>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Wanted {
    index_bytes: u64,
    memory_bytes: u64,
}

impl Wanted {
    fn of(index_bytes: u64) -> Self {
        let (share, of) = INDEX_SHARE;
        let memory_bytes = (index_bytes.saturating_mul(of) / share).next_multiple_of(1 << 20);
        Self { index_bytes, memory_bytes: memory_bytes.max(Accountant::BYTES_MIN) }
    }
}

/// The savings of some blocks.
#[derive(Clone, Debug, Serialize)]
struct Share {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    logical_bytes: u64,
    /// Blocks of zeros, not counted among the others.
    zero_bytes: u64,
    physical_bytes: u64,
    /// The parts of the logical bytes that need no block: as duplicates, because others are packed in one block, and both.
    duplicate_percent: Option<f64>,
    packed_percent: Option<f64>,
    saved_percent: Option<f64>,
}

impl Share {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts of blocks, far below 2^52
    fn of(kind: Option<&str>, blocks: &Blocks) -> Self {
        let percent = |part: f64| (blocks.written > 0).then(|| 100.0 * part / blocks.written as f64);
        let (written, contents) = (blocks.written as f64, blocks.contents as f64);
        Self {
            kind: kind.map(str::to_owned),
            logical_bytes: blocks.written * BLOCK_BYTES,
            zero_bytes: blocks.zero * BLOCK_BYTES,
            physical_bytes: blocks.holders.round() as u64 * BLOCK_BYTES,
            duplicate_percent: percent(written - contents),
            packed_percent: percent(contents - blocks.holders),
            saved_percent: percent(written - blocks.holders),
        }
    }
}

impl Report for Estimated {
    const NAME: &'static str = "estimate";

    fn table(&self) -> Table {
        let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1} %"));
        let all = &self.all;
        let error = if self.error_percent >= 0.05 { format!(", ± {:.1} points", self.error_percent) } else { String::new() };
        let saved = match all.saved_percent {
            Some(saved) => {
                let (logical, physical) = (Size(all.logical_bytes), Size(all.physical_bytes));
                format!("{} ({logical} of blocks : {physical} that hold them){error}", Percent(saved))
            }
            None => "nothing: there is no content".to_owned(),
        };
        let memory = |wanted: &Wanted| format!("--memory {}, an index of {}", short(wanted.memory_bytes), Size(wanted.index_bytes));
        let row = |share: &Share| {
            let name = share.kind.clone().unwrap_or_default();
            let columns = [share.duplicate_percent, share.packed_percent, share.saved_percent].map(percent);
            [vec![name, Size(share.logical_bytes).to_string()], columns.to_vec()].concat()
        };
        let table = Table::new()
            .row("saved", saved)
            .row(
                "written",
                format!(
                    "{} to the store; what the disk below a store in a file writes for it depends on the file system around it, \
                and `onefold stats` counts it",
                    Size(all.physical_bytes)
                ),
            )
            .row("duplicates", percent(all.duplicate_percent))
            .row("packed", percent(all.packed_percent))
            .row("files", self.files)
            .row_if("not read", Some(self.unread).filter(|unread| *unread > 0))
            .row_if(
                "blocks of zeros",
                Some(all.zero_bytes).filter(|bytes| *bytes > 0).map(|bytes| format!("{}, which take no room", Size(bytes))),
            )
            .row("memory", format!("{} find every duplicate at once", memory(&self.memory)))
            .row("at least", format!("{} find nearly all, many in the background", memory(&self.memory_little)))
            .row_if("store", self.store_bytes.map(|bytes| format!("at least {}", Size(bytes))))
            .row_if(
                "sample",
                Some(self.sampled).filter(|one| *one > 1).map(|one| format!("one content in {one}: --memory counts more of them")),
            );
        let rows = self.kinds.iter().take(KINDS_MAX).map(row).collect();
        let table = table.line("").grid(&["kind", "blocks", "duplicates", "packed", "saved"], rows);
        let more = self.kinds.len().saturating_sub(KINDS_MAX);
        if more > 0 { table.line(format!("and {more} more kinds; --json has all")) } else { table }
    }
}

/// A size of whole MiB as an option takes it.
fn short(bytes: u64) -> String {
    format!("{}M", bytes >> 20)
}

/// The size of the least store on which this number of blocks have room.
fn least_store(blocks: u64, logical_blocks: u64) -> Option<u64> {
    let fits = |bytes: u64| {
        let plan = Geometry::plan(
            Bytes(bytes),
            &Wish { logical_blocks: Some(logical_blocks.max(1)), reserve_blocks: None, guard: false, notes_blocks: 0 },
        );
        plan.is_ok_and(|geometry| geometry.data_blocks - geometry.reserve_blocks >= blocks)
    };
    let (mut least, mut most) = (0, 16 << 20);
    while !fits(most) {
        least = most;
        most = most.checked_mul(2).filter(|most| *most <= 1 << 60)?;
    }
    while most - least > 1 << 20 {
        let middle = least + (most - least) / 2;
        if fits(middle) { most = middle } else { least = middle }
    }
    Some(most.next_multiple_of(1 << 20))
}

struct Shown<F> {
    is_watched: bool,
    shown: Instant,
    unread: F,
}

impl<F: FnMut(&ScanError)> Listener for Shown<F> {
    fn progress(&mut self, bytes: u64) {
        if self.is_watched && self.shown.elapsed() > Duration::from_millis(200) {
            self.shown = Instant::now();
            eprint!("\r{} read   ", Size(bytes));
            let _ = std::io::stderr().flush();
        }
    }

    fn unread(&mut self, error: &ScanError) {
        (self.unread)(error);
    }
}

/// Estimates.
///
/// # Errors
/// When something that was named cannot be read.
pub fn run(arguments: &Arguments) -> Outcome {
    let stop = stopped_by_signals()?;
    let is_watched = std::io::stderr().is_terminal();
    let unread = first_shown::<ScanError>("not read: ", "more could not be read; it is counted only");
    let mut listener = Shown { is_watched, shown: Instant::now(), unread };
    let estimated = estimate(&arguments.paths, arguments.memory.0, &stop, &mut listener);
    if is_watched {
        eprint!("\r{:30}\r", "");
    }
    print(&report(arguments, &estimated.map_err(unscanned)?), Style::of(arguments.json));
    Ok(())
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count of blocks
fn report(arguments: &Arguments, found: &Estimate) -> Estimated {
    let mut kinds: Vec<Share> = found
        .kinds
        .iter()
        .filter(|(_, blocks)| blocks.written + blocks.zero > 0)
        .map(|(kind, blocks)| Share::of(Some(kind), blocks))
        .collect();
    kinds.sort_by_key(|share| std::cmp::Reverse(share.logical_bytes));
    let holders = found.all.holders.round() as u64;
    Estimated {
        paths: arguments.paths.clone(),
        files: found.files.files,
        unread: found.files.unread,
        all: Share::of(None, &found.all),
        error_percent: 200.0 * found.error,
        sampled: found.sampled,
        memory: Wanted::of((found.all.contents * INDEX_BYTES_THIRDS).div_ceil(3)),
        memory_little: Wanted::of(holders * INDEX_BYTES_LITTLE),
        store_bytes: least_store(holders, found.all.written + found.all.zero),
        kinds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_store_has_room_for_all_and_hardly_more() {
        for blocks in [1, 1000, 100_000, 10_000_000] {
            let bytes = least_store(blocks, 2 * blocks).expect("there is one");
            let room = |bytes| {
                let wish = Wish { logical_blocks: Some(2 * blocks), reserve_blocks: None, guard: false, notes_blocks: 0 };
                Geometry::plan(Bytes(bytes), &wish).map_or(0, |geometry| geometry.data_blocks - geometry.reserve_blocks)
            };
            assert!(room(bytes) >= blocks && (bytes == 16 << 20 || room(bytes - (2 << 20)) < blocks), "{blocks}: {bytes}");
        }
        assert_eq!(least_store(1 << 50, 1 << 51), None);
    }

    #[test]
    fn the_parts_add_up() {
        let share = Share::of(None, &Blocks { zero: 5, written: 200, contents: 150, holders: 100.0 });
        let percents = (share.duplicate_percent, share.packed_percent, share.saved_percent);
        assert_eq!(percents, (Some(25.0), Some(25.0), Some(50.0)));
        assert_eq!(Share::of(None, &Blocks::default()).saved_percent, None);
    }
}
