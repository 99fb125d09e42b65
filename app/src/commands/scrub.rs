//! `scrub`: reads everything that an attached volume has on its device, and compares it with its checks.

use super::awaited::{self, Progress};
use super::damaged_names::DamagedNames;
use crate::attachment::control::{OrderScrub, ServerRequest};
use crate::attachment::find::{Found, find};
use crate::attachment::questions;
use crate::attachment::record::Record;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use crate::runtime::scrub_counts::{blocks, found, name};
use crate::runtime::volume_counts::{Scrub, VolumeCounts};
use onefold_engine::format::superblock::ScrubPart;
use onefold_engine::units::{BLOCK_BYTES, count};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const RATE: Size = Size(16 << 20);
const RATE_MIN: u64 = 64 << 10;
/// The time that a store has to take an order, and the time between two looks.
const KEPT_WITHIN: Duration = Duration::from_secs(20);
const KEPT_PAUSE: Duration = Duration::from_millis(20);

/// Read everything that a volume has on its device, and find what is damaged
///
/// A card that wears out returns other bytes than were written, and nobody notices before somebody reads them. A scrub reads all content
/// and all metadata of an attached volume while clients use it. Damaged content is named and never served; metadata that memory still
/// has is written again, and counts as mended when the device has it durably. Ends with 6 if something is damaged, or was given up before
/// and is lost.
///
/// If this command is ended, the scrub goes on; so it does after a restart of the server, from where it was.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    volume: String,
    /// Read at most this much in a second; 16M if it is not given, and after a pause as before it.
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    rate: Option<Size>,
    /// Rest until it is resumed.
    #[arg(long, conflicts_with_all = ["resume", "cancel", "status"])]
    pause: bool,
    /// Go on after a pause, and wait for the end.
    #[arg(long, conflicts_with_all = ["cancel", "status"])]
    resume: bool,
    /// End it, and forget how far it was.
    #[arg(long, conflicts_with = "status")]
    cancel: bool,
    /// Show how far it is, and what the last one found, and begin nothing.
    #[arg(long)]
    status: bool,
    /// Do not wait for the end.
    #[arg(long)]
    no_wait: bool,
    /// Do not look for the files that have lost content.
    #[arg(long)]
    no_names: bool,
    /// Look for them this long at most, in a file system that cannot say itself whose a block is.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, conflicts_with = "no_names")]
    names_within: u32,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn rate(typed: &str) -> Result<Size, String> {
    let size: Size = typed.parse()?;
    if size.0 < RATE_MIN { Err(format!("a scrub reads at least {} in a second", Size(RATE_MIN))) } else { Ok(size) }
}

#[derive(Debug, Serialize)]
struct Scrubbed {
    path: PathBuf,
    #[serde(flatten)]
    scrub: Scrub,
    /// The holders of what was found damaged; none where nothing was, or nobody wants them.
    #[serde(flatten)]
    names: Option<DamagedNames>,
}

impl Report for Scrubbed {
    const NAME: &'static str = "scrub";

    fn table(&self) -> Table {
        let scrub = &self.scrub;
        let table = Table::new()
            .row("backing store", self.path.display())
            .row("scrub", in_a_line(scrub))
            .row("read", Size(scrub.read_blocks * BLOCK_BYTES))
            .row("damaged", blocks(scrub.damaged_blocks))
            .row("mended", blocks(scrub.mended_blocks))
            .row_if("lost", Some(scrub.lost_blocks).filter(|lost| *lost > 0).map(|lost| format!("{}, given up before", blocks(lost))));
        let row = |found: &crate::runtime::volume_counts::Found| {
            vec![found.part.clone(), found.number.to_string(), if found.is_mended { "written again" } else { "damaged" }.to_owned()]
        };
        let found: Vec<_> = scrub.found.iter().map(row).collect();
        let table = if found.is_empty() { table } else { table.line("").grid(&["part", "block", "is"], found) };
        self.names.iter().fold(table, |table, names| names.add_to(table))
    }
}

/// Says in a line how far a scrub is, or how the last one ended.
#[must_use]
pub fn in_a_line(scrub: &Scrub) -> String {
    let read = format!("{} read of about {} in use", Size(scrub.read_blocks * BLOCK_BYTES), Size(scrub.in_use_blocks * BLOCK_BYTES));
    let found = found(scrub.damaged_blocks, scrub.mended_blocks, scrub.lost_blocks);
    match scrub {
        Scrub { is_paused: true, .. } => format!("paused, {read}: {found} so far"),
        Scrub { is_under_way: true, kib_per_second, .. } => {
            format!("{read}, at most {} a second: {found} so far", Size(u64::from(*kib_per_second) << 10))
        }
        Scrub { ended_scrubs: 0, .. } => "none yet".to_owned(),
        _ => format!("ended: {found}"),
    }
}

/// Gives the order, waits, and shows how far the scrub is.
///
/// # Errors
/// When the volume is not attached or has nothing to scrub, when its server does not answer, and when something is damaged.
pub fn run(arguments: &Arguments) -> Outcome {
    let Found { path, attached } = find(&arguments.volume)?;
    let Some(record) = attached else {
        return Err(Failed::new(Exit::NotFound, format!("{} is not attached", path.display())).next(format!(
            "`onefold check --data {}` reads a volume that is not attached; `onefold attach` attaches it.",
            path.display()
        )));
    };
    let before = state(&record)?;
    if let Some(order) = order(arguments, &before, &record)? {
        state_of_working(&record)?;
        questions::ask(&record, &ServerRequest::Scrub(order))?;
        wait_until_kept(&record)?;
        let is_awaited = matches!(order, OrderScrub::Begin { .. } | OrderScrub::Resume) && !arguments.no_wait;
        if is_awaited {
            wait(&record, before.ended_scrubs)?;
        }
    }
    let scrub = state(&record)?;
    let failed = what_to_do(&record, &scrub);
    let is_damaged = scrub.damaged_blocks > 0 || scrub.lost_blocks > 0;
    let patience = Duration::from_secs(arguments.names_within.into());
    let names = (is_damaged && !arguments.no_names).then(|| {
        let (listed, damaged) = content(&scrub);
        DamagedNames::of(&record, &listed, damaged, patience)
    });
    print(&Scrubbed { path: record.path.clone(), scrub, names }, Style::of(arguments.json));
    failed.map_or(Ok(()), Err)
}

/// The blocks of content that a scrub has listed as damaged, and the number of them that there may be: those that it has found, but for the
/// pieces of other parts that it lists.
fn content(scrub: &Scrub) -> (BTreeSet<u64>, u64) {
    let data = name(ScrubPart::Data);
    let (listed, others): (Vec<_>, Vec<_>) = scrub.found.iter().filter(|found| !found.is_mended).partition(|found| found.part == data);
    (listed.iter().map(|found| found.number).collect(), scrub.damaged_blocks.saturating_sub(count(others.len())))
}

/// The way out, if something is damaged or lost.
fn what_to_do(record: &Record, scrub: &Scrub) -> Option<Failed> {
    let path = record.path.display();
    let are = |number: u64| if number == 1 { "1 block is".to_owned() } else { format!("{number} blocks are") };
    if scrub.damaged_blocks > 0 {
        let next = format!(
            "Copy what is dear to you. Then detach: `onefold check --data --repair {path}` names the logical blocks that are lost, and \
             asks before it gives them up."
        );
        return Some(Failed::new(Exit::Damaged, format!("{path}: {} damaged", are(scrub.damaged_blocks))).next(next));
    }
    if scrub.lost_blocks > 0 {
        let next = format!(
            "Reads of lost blocks fail until they are written or discarded: restore the files that cannot be read, and let `fstrim` \
             discard the rest. Detached, `onefold check {path}` names the blocks."
        );
        return Some(
            Failed::new(Exit::Damaged, format!("{path}: {} lost, of damage that was found before", are(scrub.lost_blocks))).next(next),
        );
    }
    None
}

fn order(arguments: &Arguments, before: &Scrub, record: &Record) -> Outcome<Option<OrderScrub>> {
    let none = |what: &str| {
        let message = format!("{what}: no scrub of {} is under way", record.path.display());
        Failed::new(Exit::State, message).next(format!("`onefold scrub {}` begins one.", record.path.display()))
    };
    let begin = |rate: Size| OrderScrub::Begin { kib_per_second: u32::try_from(rate.0 >> 10).unwrap_or(u32::MAX) };
    match arguments {
        Arguments { status: true, .. } => Ok(None),
        Arguments { pause: true, .. } if !before.is_under_way => Err(none("--pause")),
        Arguments { resume: true, .. } if !before.is_under_way => Err(none("--resume")),
        Arguments { cancel: true, .. } if !before.is_under_way => Err(none("--cancel")),
        Arguments { pause: true, .. } => Ok(Some(OrderScrub::Pause)),
        // One that is under way goes on at the new rate.
        Arguments { resume: true, rate: Some(rate), .. } => Ok(Some(begin(*rate))),
        Arguments { resume: true, .. } => Ok(Some(OrderScrub::Resume)),
        Arguments { cancel: true, .. } => Ok(Some(OrderScrub::Cancel)),
        _ => Ok(Some(begin(arguments.rate.unwrap_or(RATE)))),
    }
}

fn counts(record: &Record) -> Outcome<VolumeCounts> {
    let nothing =
        || Failed::new(Exit::State, format!("{} is attached with --passthrough: nothing of it has a check", record.path.display()));
    questions::counts(record)?.volume.ok_or_else(nothing)
}

fn state(record: &Record) -> Outcome<Scrub> {
    Ok(counts(record)?.scrub)
}

fn state_of_working(record: &Record) -> Outcome<Scrub> {
    Ok(awaited::of_working(record, counts(record)?)?.scrub)
}

/// Waits until the order is durable: from then on a kill does not take it back.
fn wait_until_kept(record: &Record) -> Outcome {
    let asked = Instant::now();
    while !state_of_working(record)?.is_order_kept {
        if asked.elapsed() >= KEPT_WITHIN {
            let path = record.path.display();
            return Err(Failed::new(Exit::System, format!("{path}: the order holds, but its store has not taken it yet"))
                .next(format!("`onefold status {path}` says what the store waits for. If the server is killed first, order it again.")));
        }
        std::thread::sleep(KEPT_PAUSE);
    }
    Ok(())
}

/// Waits until one more scrub has ended than before, and says how far it is.
fn wait(record: &Record, ended_before: u32) -> Outcome {
    let before = state(record)?.read_blocks;
    awaited::wait(&format!("onefold scrub --resume {}", record.path.display()), || {
        let now = state_of_working(record)?;
        Ok(match now {
            // Somebody has cancelled it, or its server was killed before the order was durable.
            Scrub { is_under_way: false, ended_scrubs, .. } if ended_scrubs == ended_before => return Err(vanished(record)),
            Scrub { is_under_way: false, .. } => Progress::Over,
            Scrub { is_paused: true, .. } => Progress::Paused,
            _ => Progress::UnderWay {
                line: in_a_line(&now),
                done: now.read_blocks.saturating_sub(before),
                left: now.in_use_blocks.saturating_sub(now.read_blocks),
            },
        })
    })
}

fn vanished(record: &Record) -> Failed {
    let path = record.path.display();
    Failed::new(Exit::System, format!("{path}: the scrub was cancelled, or its server ended before it had begun: nothing is known"))
        .next(format!("`onefold scrub {path}` begins another."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_and_what_it_found() {
        let of = Scrub { all_blocks: 200, in_use_blocks: 10, ..Scrub::default() };
        assert_eq!(in_a_line(&of), "none yet");
        let under_way = Scrub { is_under_way: true, done_blocks: 50, read_blocks: 3, kib_per_second: 1024, ..of.clone() };
        assert_eq!(in_a_line(&under_way), "12 KiB read of about 40 KiB in use, at most 1 MiB a second: no damage so far");
        let paused = Scrub { is_paused: true, damaged_blocks: 1, ..under_way };
        assert_eq!(in_a_line(&paused), "paused, 12 KiB read of about 40 KiB in use: 1 block damaged so far");
        let ended = Scrub { ended_scrubs: 1, damaged_blocks: 2, mended_blocks: 1, ..of };
        assert_eq!(in_a_line(&ended), "ended: 2 blocks damaged, 1 block mended");
        let lost = Scrub { lost_blocks: 4, ..ended };
        assert_eq!(in_a_line(&Scrub { damaged_blocks: 0, mended_blocks: 0, ..lost }), "ended: 4 blocks lost before");
    }

    /// Nobody asks whose a page of metadata is, so none of them is missing among the names.
    #[test]
    fn damaged_metadata_are_no_content() {
        let of = |part, number, is_mended| crate::runtime::volume_counts::Found { part: name(part).to_owned(), number, is_mended };
        let found = vec![of(ScrubPart::Data, 7, false), of(ScrubPart::Map, 3, false), of(ScrubPart::Data, 9, true)];
        let scrub = Scrub { damaged_blocks: 2, found, ..Scrub::default() };
        assert_eq!(content(&scrub), (BTreeSet::from([7]), 1));
    }

    #[test]
    fn a_rate_has_a_least() {
        assert_eq!(rate("64K").map(|size| size.0), Ok(64 << 10));
        assert!(rate("63K").unwrap_err().contains("at least 64 KiB"));
        assert!(rate("fast").is_err());
    }
}
