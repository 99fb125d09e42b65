//! `check --repair`: shows what a repair would do, and does it when the user agrees.

use super::arguments::Arguments;
use super::reading::{LISTED_MAX, Progress};
use crate::attachment::find::{Found, find};
use crate::commands::offline::{Writable, change, failed};
use crate::exit::{Exit, Outcome};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, complain, print};
use onefold_engine::check::{CheckSettings, Finding, Listener};
use onefold_engine::repair::{Plan, carry_out, plan};
use onefold_engine::units::{BLOCK_BYTES, Bytes};
use serde::Serialize;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, Serialize)]
struct Repaired {
    path: PathBuf,
    /// Whether the plan was carried out; there may have been nothing to do.
    done: bool,
    /// The damage of the log, before which it is cut off.
    log: Option<String>,
    superblock_copies: u64,
    pages: u64,
    entries_dropped: u64,
    entries_rebuilt: u64,
    counts: u64,
    /// Logical blocks that are lost with it.
    lost: u64,
    /// Logical blocks that were lost before.
    lost_before: u64,
    /// The first thousand runs of them.
    lost_runs: Vec<LostRun>,
    /// Whether the content of blocks was compared with their fingerprints.
    content_read: bool,
    #[serde(skip)]
    is_empty: bool,
}

#[derive(Debug, Serialize)]
struct LostRun {
    first_lbn: u64,
    blocks: u64,
}

impl Report for Repaired {
    const NAME: &'static str = "repair";

    fn table(&self) -> Table {
        let table = Table::new().row("backing store", self.path.display());
        let before = Some(self.lost_before).filter(|before| *before > 0);
        let before = before.map(|before| format!("{before} logical blocks ({}); `onefold check` names them", Size(before * BLOCK_BYTES)));
        let table = table.row_if("lost before", before);
        if self.is_empty {
            let table = table.line("There is nothing to repair.");
            let unread = "The content of blocks was not looked at; --data does, and gives up what is damaged.";
            return if self.content_read { table } else { table.line(unread) };
        }
        let superblock = match self.superblock_copies {
            0 => "all 4 copies can be used; they are written anew".to_owned(),
            unusable => format!("{unusable} of 4 copies cannot be used; all are written anew"),
        };
        let mut table = table
            .row_if("log", self.log.as_ref().map(|damage| format!("cut off before its damage: {damage}")))
            .row("superblock", superblock)
            .row("metadata", format!("{} of pages are written anew", Size(self.pages * BLOCK_BYTES)))
            .row("fingerprints", format!("{} dropped, {} made anew of their carriers", self.entries_dropped, self.entries_rebuilt))
            .row("counts", format!("{} counted anew", self.counts))
            .row("lost", format!("{} logical blocks ({})", self.lost, Size(self.lost * BLOCK_BYTES)));
        for LostRun { first_lbn, blocks } in &self.lost_runs {
            table = table.line(format!("lost: {blocks} logical blocks from LBN {first_lbn} on, byte {}", first_lbn * BLOCK_BYTES));
        }
        let listed: u64 = self.lost_runs.iter().map(|run| run.blocks).sum();
        if self.lost > listed {
            table = table.line(format!("lost: and {} more", self.lost - listed));
        }
        if self.log.is_some() {
            table = table
                .line("Blocks that only the missing part of the log named are as they were before, and nothing tells which these are.");
        }
        table.line(match (self.done, self.lost) {
            (false, _) => "Nothing has been changed.",
            (true, 0) => "The volume is repaired.",
            (true, _) => "The volume is repaired. Reads of what is lost fail until it is written or discarded.",
        })
    }
}

/// Keeps what is lost by name.
struct Lost {
    runs: Vec<LostRun>,
    progress: Progress,
}

impl Listener for Lost {
    fn finding(&mut self, finding: Finding) {
        if let (Finding::LostEntries { first, blocks }, true) = (finding, self.runs.len() < LISTED_MAX) {
            self.runs.push(LostRun { first_lbn: first.get(), blocks });
        }
    }

    fn progress(&mut self, done: Bytes, total: Bytes) {
        self.progress.show(done, total);
    }
}

/// Plans a repair, shows it, and carries it out if the user agrees.
///
/// # Errors
/// When the volume is in use, was not closed, or cannot be written. What is lost is no error but an exit code.
pub(super) fn run(arguments: &Arguments) -> Outcome<Exit> {
    let Found { path, .. } = find(&arguments.volume)?;
    change(&path, arguments.buffered, |medium| repair(arguments, &path, medium))
}

fn repair(arguments: &Arguments, path: &Path, medium: &mut Writable<'_>) -> Outcome<Exit> {
    let settings = CheckSettings { memory_bytes: arguments.memory.0, data: arguments.data };
    let device_bytes = medium.bytes();
    let mut lost = Lost { runs: Vec::new(), progress: Progress::new() };
    let planned = plan(medium, device_bytes, &settings, &mut lost).map_err(|error| failed(path, error))?;
    lost.progress.end();
    let mut report = repaired(path, &planned, lost.runs, arguments.data);
    let style = Style::of(arguments.json);
    if planned.is_empty() {
        print(&report, style);
        return Ok(Exit::Done);
    }
    if !arguments.yes {
        print(&report, style);
        // A program reads one report.
        if arguments.json || !is_wanted(&planned) {
            return Ok(Exit::Damaged);
        }
    }
    let mut lost = Lost { runs: Vec::new(), progress: Progress::new() };
    carry_out(medium, planned, &settings, &mut lost).map_err(|error| failed(path, error))?;
    lost.progress.end();
    report.done = true;
    print(&report, style);
    Ok(if report.lost == 0 { Exit::Done } else { Exit::Damaged })
}

fn repaired(path: &Path, plan: &Plan, lost_runs: Vec<LostRun>, content_read: bool) -> Repaired {
    Repaired {
        path: path.to_path_buf(),
        done: false,
        log: plan.cut().map(ToString::to_string),
        superblock_copies: plan.superblock_copies,
        pages: plan.pages,
        entries_dropped: plan.entries_dropped,
        entries_rebuilt: plan.entries_rebuilt,
        counts: plan.counts,
        lost: plan.lost,
        lost_before: plan.lost_before,
        lost_runs,
        content_read,
        is_empty: plan.is_empty(),
    }
}

/// Asks on the terminal. Where there is none, tells what to type.
fn is_wanted(plan: &Plan) -> bool {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        complain("--yes repairs it");
        return false;
    }
    let loss = if plan.lost > 0 { " What is lost cannot be had back by another repair." } else { "" };
    eprint!("Repair?{loss} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut typed = String::new();
    let is_read = std::io::stdin().lock().read_line(&mut typed).is_ok();
    is_read && matches!(typed.trim(), "y" | "Y" | "yes")
}
