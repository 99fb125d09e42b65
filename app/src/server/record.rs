//! The record of an attached volume: a small JSON file, written whole when it is served and removed when it is not.

use super::plan::{FrontendPlan, Plan};
use super::process::Process;
use crate::exit::{Failed, Outcome};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Which front-end serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrontendKind {
    Nbd,
    Fuse,
}

/// One attached volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// UUID of a volume; `bare-…` where a backing store is passed through.
    pub id: String,
    /// None where it is passed through.
    pub uuid: Option<String>,
    pub label: Option<String>,
    /// The backing store, absolute.
    pub path: PathBuf,
    pub process: Process,
    pub frontend: FrontendKind,
    /// NBD URI or block device.
    pub location: String,
    pub is_passthrough: bool,
    pub is_read_only: bool,
    /// Seconds since 1970.
    pub since: u64,
}

/// Where things of `id` lie in `directory`.
#[derive(Clone, Debug)]
pub struct Places {
    pub record: PathBuf,
    pub control: PathBuf,
    pub socket: PathBuf,
    pub log: PathBuf,
    /// How the last server ended.
    pub end: PathBuf,
    /// What was promised to clients and is not durable yet.
    pub ring: PathBuf,
}

impl Places {
    /// By the names that everybody expects.
    #[must_use]
    pub fn of(directory: &Path, id: &str) -> Self {
        let with = |extension| directory.join(format!("{id}.{extension}"));
        Self {
            record: with("json"),
            control: with("control"),
            socket: with("sock"),
            log: with("log"),
            end: with("end"),
            ring: with("ring"),
        }
    }
}

impl Record {
    /// The record of what `process` serves by `plan` at `location`.
    #[must_use]
    pub fn of(plan: &Plan, process: Process, location: String) -> Self {
        Self {
            id: plan.id.clone(),
            uuid: plan.uuid.clone(),
            label: plan.label.clone(),
            path: plan.path.clone(),
            process,
            frontend: match plan.frontend {
                FrontendPlan::Nbd { .. } => FrontendKind::Nbd,
                FrontendPlan::Fuse => FrontendKind::Fuse,
            },
            location,
            is_passthrough: plan.options.passthrough,
            is_read_only: plan.options.read_only,
            since: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        }
    }

    /// Writes it in place of an older one, at once.
    ///
    /// # Errors
    /// When the directory does not take it.
    ///
    /// # Panics
    /// Never: a record is plain data.
    pub fn store(&self, place: &Path) -> Outcome {
        let fresh = place.with_extension("new");
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)
            .and_then(|mut file| file.write_all(&serde_json::to_vec_pretty(self).expect("a record is plain data")))
            .and_then(|()| fs::rename(&fresh, place));
        written.map_err(|e| Failed::system(format!("cannot write {}", place.display()), e))
    }

    /// Whether its process still serves.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.process.is_alive()
    }
}

/// All records in `directory`, dead ones too, by path. Files that are none are passed over.
///
/// # Errors
/// When the directory cannot be read.
pub fn all(directory: &Path) -> Outcome<Vec<Record>> {
    let entries = fs::read_dir(directory).map_err(|e| Failed::system(format!("cannot read {}", directory.display()), e))?;
    let mut records: Vec<Record> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok())
        .collect();
    records.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(records)
}

/// Removes what a dead server left.
pub fn clear(directory: &Path, id: &str) {
    let places = Places::of(directory, id);
    for path in [places.record, places.control, places.socket] {
        let _ = fs::remove_file(path);
    }
}
