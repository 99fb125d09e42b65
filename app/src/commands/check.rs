//! `check`: reads a volume that is not attached and recounts everything; it changes nothing unless it is to repair.

mod arguments;
mod reading;
mod repair;

pub use arguments::Arguments;

use super::offline::Medium;
use crate::attachment::find::{Found, find};
use crate::device::backing::{Access, Backing, PATIENCE};
use crate::exit::{Exit, Failed, Outcome};
use crate::heartbeat::look_first;
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use onefold_engine::check::{self, CheckSettings, Finding, MEMORY_BYTES_MIN, Severity};
use onefold_engine::units::{BLOCK_BYTES, Bytes};
use reading::{LISTED_MAX, Progress};
use serde::Serialize;
use std::path::PathBuf;
use uuid::Uuid;

#[derive(Debug, Serialize)]
struct Checked {
    path: PathBuf,
    uuid: String,
    label: String,
    /// No damage was found. Garbage that a crash explains is no damage.
    sound: bool,
    clean: bool,
    damage: u64,
    /// Whether a repair would change anything of it: what is lost already stays so until it is written or discarded.
    repairable: bool,
    garbage: u64,
    notes: u64,
    counts: Counts,
    /// The first thousand findings.
    findings: Vec<Line>,
    passes: u64,
    bytes_read: u64,
    /// Whether the content of blocks was compared with their fingerprints.
    content_read: bool,
}

#[derive(Debug, Serialize)]
struct Counts {
    mapped: u64,
    zero: u64,
    extents: u64,
    unmapped: u64,
    lost: u64,
    unique: u64,
    shared: u64,
    kept: u64,
    garbage: u64,
    unknown: u64,
    free: u64,
    compared: u64,
    not_comparable: u64,
}

#[derive(Debug, Serialize)]
struct Line {
    kind: &'static str,
    severity: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lbn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pbn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    /// The total by which counts are too high, where the finding is garbage. A recount returns exactly that.
    excess: Option<u64>,
}

impl Line {
    fn of(finding: &Finding) -> Self {
        let (lbn, pbn, blocks) = match *finding {
            Finding::LinkOutOfRange { lbn, pbn } => (Some(lbn.get()), Some(pbn.get()), None),
            Finding::LostEntries { first, blocks } | Finding::UnknownEntries { first, blocks } => (Some(first.get()), None, Some(blocks)),
            Finding::RefsUnknown { first, blocks } => (None, Some(first.get()), Some(blocks)),
            Finding::RefsTooLow { pbn, .. }
            | Finding::LinkToFree { pbn, .. }
            | Finding::FingerprintOnFree { pbn }
            | Finding::SlotOfNoCarrier { pbn }
            | Finding::LinkToCarrier { pbn }
            | Finding::ContentDiffers { pbn }
            | Finding::UnreadableBlock { pbn } => (None, Some(pbn.get()), None),
            Finding::Garbage { blocks, .. } => (None, None, Some(blocks)),
            _ => (None, None, None),
        };
        let excess = if let Finding::Garbage { excess, .. } = finding { Some(*excess) } else { None };
        Self { kind: finding.name(), severity: severity(finding.severity()), message: finding.to_string(), lbn, pbn, blocks, excess }
    }
}

const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Garbage => "garbage",
        Severity::Damage => "damage",
    }
}

impl Report for Checked {
    const NAME: &'static str = "check";

    fn table(&self) -> Table {
        let blocks = |n: u64| Size(n * BLOCK_BYTES);
        let c = &self.counts;
        let mut table = Table::new()
            .row("backing store", self.path.display())
            .row("closed in order", if self.clean { "yes" } else { "no" })
            .row("logical blocks", format!("{} mapped, {} zero, {} never written, {} lost", c.mapped, c.zero, c.unmapped, c.lost))
            .row(
                "data",
                format!("{} unique, {} shared, {} kept, {} free", blocks(c.unique), blocks(c.shared), blocks(c.kept), blocks(c.free)),
            )
            .row("extents", extents(c))
            .row("read", format!("{}; the map {} times", Size(self.bytes_read), self.passes));
        if c.compared > 0 {
            table = table.row("compared", format!("{} blocks; {} have nothing to compare with", c.compared, c.not_comparable));
        }
        for line in &self.findings {
            table = table.line(format!("{}: {}", line.severity, line.message));
        }
        let listed = self.findings.len() as u64;
        let all = self.damage + self.garbage + self.notes;
        if all > listed {
            table = table.line(format!("and {} more", all - listed));
        }
        if self.sound && !self.content_read {
            table = table.line("The content of blocks was not looked at; --data compares it with its fingerprints.");
        }
        let whole = if self.content_read { "The volume is sound." } else { "The metadata of the volume are sound." };
        if !self.sound {
            let advice = if self.repairable {
                format!("`onefold check --data --repair {}` shows what a repair would give up, and asks.", self.path.display())
            } else {
                "Nothing is left to repair: only writing or discarding what is lost ends that. A copy may have its files.".to_owned()
            };
            let names = format!(
                "Attached, and with its file systems mounted, `onefold scrub {}` names the files that have lost content.",
                self.path.display()
            );
            return table.line("The volume is DAMAGED.").line(advice).line(names);
        }
        if self.garbage == 0 {
            return table.line(whole);
        }
        table.line(format!("{whole} Some space is garbage; a recount gives it back while the volume is attached."))
    }
}

/// Collects findings.
struct Listener {
    lines: Vec<Line>,
    /// The findings that no repair changes.
    lasting: u64,
    progress: Progress,
}

impl check::Listener for Listener {
    fn finding(&mut self, finding: Finding) {
        self.lasting += u64::from(matches!(finding, Finding::LostEntries { .. }));
        if self.lines.len() < LISTED_MAX {
            self.lines.push(Line::of(&finding));
        }
    }

    fn progress(&mut self, done: Bytes, total: Bytes) {
        self.progress.show(done, total);
    }
}

/// Checks.
///
/// # Errors
/// When the volume is in use, or there is none. Findings are no error but an exit code.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    if arguments.memory.0 < MEMORY_BYTES_MIN {
        return Err(Failed::new(Exit::Usage, format!("--memory {}: at least {} are needed", arguments.memory, Size(MEMORY_BYTES_MIN))));
    }
    if arguments.repair {
        return repair::run(arguments);
    }
    let Found { path, .. } = find(&arguments.volume)?;
    let backing = Backing::open_patiently(&path, Access::Read, PATIENCE)?;
    look_first(&backing)?;
    let length = Bytes(backing.facts().length);
    let settings = CheckSettings { memory_bytes: arguments.memory.0, data: arguments.data };
    let mut listener = Listener { lines: Vec::new(), lasting: 0, progress: Progress::new() };
    let report = check::check(&mut Medium(&backing), length, &settings, &mut listener).map_err(|error| {
        let failed = Failed::from(error);
        Failed { message: format!("{}: {}", path.display(), failed.message), ..failed }
    })?;
    listener.progress.end();
    let checked = Checked {
        path,
        uuid: Uuid::from_bytes(report.superblock.uuid).to_string(),
        label: report.superblock.label.clone(),
        sound: report.is_sound(),
        clean: report.superblock.clean,
        damage: report.damage,
        repairable: report.damage > listener.lasting,
        garbage: report.garbage,
        notes: report.notes,
        counts: counts(&report.counts),
        findings: listener.lines,
        passes: report.passes,
        bytes_read: report.bytes_read.get(),
        content_read: arguments.data,
    };
    print(&checked, Style::of(arguments.json));
    Ok(if checked.sound { Exit::Done } else { Exit::Damaged })
}

fn extents(c: &Counts) -> String {
    let mean =
        Some(c.mapped).filter(|&mapped| mapped > 0).map(|mapped| format!(", of {} in the mean", Size(mapped * BLOCK_BYTES / c.extents)));
    format!("{}{}", c.extents, mean.unwrap_or_default())
}

fn counts(c: &check::Counts) -> Counts {
    Counts {
        mapped: c.mapped,
        extents: c.extents,
        zero: c.zero,
        unmapped: c.unmapped,
        lost: c.lost,
        unique: c.unique,
        shared: c.shared,
        kept: c.fingerprint_only,
        garbage: c.garbage,
        unknown: c.unknown,
        free: c.free,
        compared: c.compared,
        not_comparable: c.not_comparable,
    }
}
