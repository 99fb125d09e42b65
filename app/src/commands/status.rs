//! `status`: shows the condition of a volume.

use crate::attachment::find::{all_died, find};
use crate::attachment::glance;
use crate::attachment::questions;
use crate::attachment::record::Record;
use crate::device::Slowed;
use crate::exit::{Failed, Outcome};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, Watch};
use crate::runtime::condition::{Adaptation, Condition, PartUse};
use crate::volume;
use onefold_engine::format::Superblock;
use onefold_engine::units::BLOCK_BYTES;
use serde::Serialize;
use std::path::PathBuf;
use uuid::Uuid;

/// Show the condition of a volume
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    volume: String,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    watch: Watch,
}

#[derive(Debug, Serialize)]
struct Status {
    /// The current path of the backing store.
    path: PathBuf,
    /// A file that was deleted while it is attached: its content goes when it is detached.
    deleted: bool,
    /// The process that serves, where the volume is attached.
    pid: Option<u32>,
    attached: Option<Attached>,
    /// The attachment whose processes have all died, where the volume is not attached again.
    died: Option<Record>,
    /// The facts on the medium; of an attached volume, those of the last update.
    volume: Option<OnMedium>,
    /// The reason why its server did not answer.
    #[serde(skip)]
    unanswered: Option<Failed>,
}

#[derive(Debug, Serialize)]
struct Attached {
    #[serde(flatten)]
    record: Record,
    /// The condition; none where the server does not answer.
    condition: Option<Condition>,
    /// The program that serves it, if that can be found out. It may be an older one than is installed now.
    program: Option<PathBuf>,
}

/// The facts of a superblock.
#[derive(Debug, Serialize)]
pub struct OnMedium {
    pub uuid: String,
    pub label: String,
    pub algorithm: &'static str,
    pub logical_bytes: u64,
    pub data_bytes: u64,
    pub reserve_bytes: u64,
    /// The sector size as clients see it.
    pub sector_bytes: u32,
    pub device_bytes: u64,
    pub clean: bool,
    pub garbage_possible: bool,
    pub generation: u64,
    pub mount_count: u64,
    /// The interval of the guard block's writes, of a guarded volume.
    pub guard_ms: Option<u32>,
}

impl From<&Superblock> for OnMedium {
    fn from(s: &Superblock) -> Self {
        Self {
            uuid: Uuid::from_bytes(s.uuid).to_string(),
            label: s.label.clone(),
            algorithm: s.algorithm.name(),
            logical_bytes: s.geometry.logical_blocks * BLOCK_BYTES,
            data_bytes: s.geometry.data_blocks * BLOCK_BYTES,
            reserve_bytes: s.geometry.reserve_blocks * BLOCK_BYTES,
            sector_bytes: s.sector_bytes,
            device_bytes: s.geometry.device_bytes.get(),
            clean: s.clean,
            garbage_possible: s.garbage_possible,
            generation: s.generation,
            mount_count: s.mount_count,
            guard_ms: s.is_guarded().then_some(s.guard_ms),
        }
    }
}

impl OnMedium {
    /// Returns rows for tables.
    #[must_use]
    pub fn rows(&self, table: Table) -> Table {
        table
            .row_if("label", Some(&self.label).filter(|label| !label.is_empty()))
            .row("uuid", &self.uuid)
            .row("logical size", Size(self.logical_bytes))
            .row("data", format!("{}, {} of it reserve", Size(self.data_bytes), Size(self.reserve_bytes)))
            .row("sector for clients", format!("{} bytes", self.sector_bytes))
            .row("fingerprints", self.algorithm)
    }
}

/// Formats an interval of whole seconds, as a guarded volume has it.
#[must_use]
pub fn every(interval_ms: u32) -> String {
    format!("every {} s", interval_ms / 1000)
}

/// Describes in a line how a store is slowed.
pub fn slowed(slowed: &Slowed) -> String {
    let Slowed { model, commands, model_us_mean, late_us_mean, overslept_us_mean, .. } = slowed;
    format!(
        "to {model}: {commands} commands of {model_us_mean:.0} us, and {overslept_us_mean:.1} us by sleeping, \
         {late_us_mean:.1} us by the store"
    )
}

impl Report for Status {
    const NAME: &'static str = "status";

    fn failure(self) -> Option<Failed> {
        self.unanswered
    }

    fn table(&self) -> Table {
        let mut table =
            Table::new().row("backing store", format!("{}{}", self.path.display(), if self.deleted { " (deleted)" } else { "" }));
        if let Some(medium) = &self.volume {
            table = medium.rows(table);
        }
        let interval = self.volume.as_ref().and_then(|medium| medium.guard_ms).map(every);
        let Some(Attached { record, condition, program }) = &self.attached else {
            return table.row_if("guard", interval).row_if("state", self.volume.as_ref().map(|medium| self.detached(medium)));
        };
        table = table.row("attached at", &record.location);
        let Some(condition) = condition else {
            return table.row_if("guard", interval).row("state", "no answer");
        };
        let beats = condition.guard.as_ref().map(|guard| format!("{}, {} writes", every(guard.interval_ms), guard.writes));
        let guard = beats.or(interval);
        table = table
            .row("state", in_words(condition))
            .row("size for clients", Size(condition.bytes))
            .row("server", format!("pid {}", condition.pid))
            .row_if("supervisor", Some(record.process.pid).filter(|&pid| pid != condition.pid).map(|pid| format!("pid {pid}")))
            .row_if("program", program.as_ref().map(|program| program.display()))
            .row("I/O", &condition.io)
            .row_if("guard", guard)
            .row_if("adapted to", condition.adaptation.as_ref().map(Adaptation::in_a_line))
            .row_if("slowed", condition.slowed.as_ref().map(slowed));
        condition.notices.iter().fold(memory(table, &condition.memory), |table, notice| table.line(format!("notice: {notice}")))
    }
}

/// Adds the memory of each part.
#[must_use]
pub fn memory(table: Table, parts: &[PartUse]) -> Table {
    let row = |part: &PartUse| {
        let sizes = [part.used_bytes, part.peak_bytes, part.limit_bytes].map(|bytes| Size(bytes).to_string());
        [vec![part.part.clone()], sizes.to_vec()].concat()
    };
    let table = table.line("").grid(&["memory", "used", "peak", "share"], parts.iter().map(row).collect());
    if parts.iter().any(|part| part.peak_bytes > part.limit_bytes) {
        return table.line("A part exceeds its share where one request is larger than it, and where memory is needed to free some.");
    }
    table
}

impl Status {
    /// Describes the state of a volume that nobody serves.
    fn detached(&self, medium: &OnMedium) -> String {
        match (&self.died, medium.clean, medium.garbage_possible) {
            (Some(died), false, _) => format!(
                "died: all processes that served {} have ended, and what uses it fails. What was synced is safe. Unmount what is mounted \
                 from it, and attach the volume again",
                died.location
            ),
            (None, false, _) => "detached, not closed in order: the next attach recovers".to_owned(),
            (_, true, false) => "detached, clean".to_owned(),
            (_, true, true) => "detached, clean; some space is garbage until the next attach has recounted it".to_owned(),
        }
    }
}

/// Describes the state of an attached volume.
fn in_words(condition: &Condition) -> String {
    match condition.store.as_ref().map_or(0, |store| store.missing_bytes) {
        0 => condition.reason.as_ref().map_or_else(|| condition.state.clone(), |why| format!("{} ({why})", condition.state)),
        missing => format!(
            "{}: the file is {} shorter than when it was attached, and what lay there is lost. Copy what can still be read, detach, and \
             restore the file from a backup",
            condition.state,
            Size(missing)
        ),
    }
}

/// Shows the condition; without an answer of the server, what is known without it.
///
/// # Errors
/// When there is no such volume, or its server does not answer.
pub fn run(arguments: &Arguments) -> Outcome {
    arguments.watch.report(Style::of(arguments.json), || status(&arguments.volume))
}

fn status(name: &str) -> Outcome<Status> {
    let found = find(name)?;
    let mut unanswered = None;
    let mut attached = match found.attached {
        None => None,
        Some(record) => {
            let condition = questions::condition(&record).map_err(|failed| unanswered = Some(failed)).ok();
            let pid = condition.as_ref().map(|condition| condition.pid);
            let program = pid.and_then(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok());
            Some(Attached { record, condition, program })
        }
    };
    let store = attached.as_ref().and_then(|attached| attached.condition.as_ref()?.store.clone());
    let (path, deleted) = store.map_or((found.path, false), |store| (store.path, store.is_deleted));
    let volume = match &attached {
        Some(attached) if attached.record.is_passthrough || deleted => None,
        // Its store may not answer, and the condition is to be seen all the same.
        Some(_) => glance::superblock(&path),
        None => Some(volume::peek(&path)?.superblock),
    };
    let volume = volume.as_ref().map(OnMedium::from);
    if let (Some(attached), Some(volume)) = (&mut attached, &volume) {
        // It may have grown since it was attached.
        attached.record.logical_bytes = Some(volume.logical_bytes);
    }
    let pid = attached.as_ref().and_then(|attached| attached.condition.as_ref()).map(|condition| condition.pid);
    let died = match (&attached, &volume) {
        (None, Some(volume)) => all_died()?.into_iter().find(|record| record.id == volume.uuid),
        _ => None,
    };
    Ok(Status { path, deleted, pid, attached, died, volume, unanswered })
}
