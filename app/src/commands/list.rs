//! `list`: shows what is attached, and what is known.

use crate::attachment::directory::run_directory;
use crate::attachment::find::{Found, block_devices, find};
use crate::attachment::glance::{self, Glance};
use crate::attachment::known;
use crate::attachment::record::{self, Record, clear_dead};
use crate::attachment::strays::restore_files;
use crate::attachment::whereabouts::Whereabouts;
use crate::exit::Outcome;
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, Watch, complain};
use crate::volume::peek;
use onefold_engine::format::Superblock;
use onefold_engine::units::BLOCK_BYTES;
use serde::Serialize;
use std::path::PathBuf;
use uuid::Uuid;

/// List attached volumes
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only these, attached or not: path, label, UUID, or where it is attached.
    #[arg(value_name = "VOLUME", conflicts_with = "all")]
    volumes: Vec<String>,
    /// Volumes that are not attached, too: those seen before, and those on block devices.
    #[arg(long)]
    all: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    watch: Watch,
}

#[derive(Debug, Serialize)]
struct List {
    volumes: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    /// The current path of an attached volume, whatever it was when it was attached.
    path: PathBuf,
    /// A file that was deleted while it is attached: its content goes when it is detached.
    deleted: bool,
    label: Option<String>,
    uuid: Option<String>,
    /// The block device or NBD URI, where it is attached.
    location: Option<String>,
    /// The process in charge: the supervisor, or a server in the foreground that has none.
    pid: Option<u32>,
    passthrough: bool,
    /// The size as clients see it; none of a bare store.
    logical_bytes: Option<u64>,
}

impl Report for List {
    const NAME: &'static str = "list";

    fn table(&self) -> Table {
        if self.volumes.is_empty() {
            return Table::new().line("No volume is attached.");
        }
        let dash = || "-".to_owned();
        let row = |line: &Line| {
            let name = line.label.clone().or_else(|| line.uuid.clone()).unwrap_or_else(|| "(passthrough)".to_owned());
            let state =
                line.location.clone().unwrap_or_else(|| line.logical_bytes.map_or_else(dash, |bytes| format!("- ({})", Size(bytes))));
            let path = format!("{}{}", line.path.display(), if line.deleted { " (deleted)" } else { "" });
            vec![name, path, state, line.pid.map_or_else(dash, |pid| pid.to_string())]
        };
        Table::new().grid(&["volume", "backing store", "attached at", "supervisor"], self.volumes.iter().map(row).collect())
    }
}

/// Lists.
///
/// # Errors
/// When the directory of records cannot be read.
pub fn run(arguments: &Arguments) -> Outcome {
    arguments
        .watch
        .report(Style::of(arguments.json), || if arguments.volumes.is_empty() { list(arguments.all) } else { these(&arguments.volumes) })
}

fn these(names: &[String]) -> Outcome<List> {
    let line = |name: &String| {
        let Found { path, attached } = find(name)?;
        match attached {
            Some(record) => Ok(attached_lines(vec![record]).remove(0)),
            None => peek(&path).map(|chosen| Line::of_detached(path, chosen.superblock)),
        }
    };
    Ok(List { volumes: names.iter().map(line).collect::<Outcome<_>>()? })
}

fn list(all: bool) -> Outcome<List> {
    let directory = run_directory()?;
    let _ = restore_files(&directory);
    let (alive, dead) = record::by_life(&directory)?;
    for record in dead {
        if clear_dead(&directory, &record.id) {
            complain(format_args!("onefold: the server of {} died; `onefold attach` serves it again", record.path.display()));
        }
    }
    let mut volumes = attached_lines(alive);
    if all {
        let mut paths: Vec<PathBuf> = known::paths().into_iter().chain(block_devices()).collect();
        paths.sort();
        paths.dedup();
        paths.retain(|path| volumes.iter().all(|line| line.path != *path));
        let mut detached = Vec::new();
        for (path, seen) in std::iter::zip(&paths, glance::look(&paths, |_| false)) {
            match seen {
                Glance::Volume(path, superblock) => detached.push(Line::of_detached(path, *superblock)),
                Glance::Silent => complain(format_args!("onefold: {} does not answer, and is not listed", path.display())),
                Glance::NoVolume | Glance::Missing => {}
            }
        }
        detached.sort_by(|a, b| a.path.cmp(&b.path));
        detached.dedup_by(|a, b| a.path == b.path);
        detached.retain(|line| volumes.iter().all(|attached| attached.path != line.path));
        volumes.extend(detached);
    }
    Ok(List { volumes })
}

/// Returns the lines of attached volumes. One may have grown since it was attached, or have a store that does not answer.
fn attached_lines(records: Vec<Record>) -> Vec<Line> {
    let places: Vec<Whereabouts> = records.iter().map(Whereabouts::of).collect();
    let paths: Vec<PathBuf> = places.iter().map(|place| place.path.clone()).collect();
    let seen = glance::look(&paths, |_| false);
    let lines = records.into_iter().zip(places).zip(seen);
    lines.map(|((record, place), seen)| Line::of(record, place, seen)).collect()
}

impl Line {
    fn of(record: Record, Whereabouts { path, is_deleted, .. }: Whereabouts, seen: Glance) -> Self {
        let now = match seen {
            Glance::Volume(_, superblock) if !record.is_passthrough && !is_deleted => {
                Some(superblock.geometry.logical_blocks * BLOCK_BYTES)
            }
            _ => None,
        };
        Self {
            path,
            deleted: is_deleted,
            label: record.label,
            uuid: record.uuid,
            location: Some(record.location),
            pid: Some(record.process.pid),
            passthrough: record.is_passthrough,
            logical_bytes: now.or(record.logical_bytes),
        }
    }

    fn of_detached(path: PathBuf, superblock: Superblock) -> Self {
        Self {
            path,
            deleted: false,
            label: Some(superblock.label).filter(|label| !label.is_empty()),
            uuid: Some(Uuid::from_bytes(superblock.uuid).to_string()),
            location: None,
            pid: None,
            passthrough: false,
            logical_bytes: Some(superblock.geometry.logical_blocks * BLOCK_BYTES),
        }
    }
}
