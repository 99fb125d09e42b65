//! Finding a volume by its name: a path, a label, a UUID, where it is attached, or its name in /etc/onefold.
//!
//! 1. A name that exists as a path, or that holds a slash, is never taken for another one; if it is also one in /etc/onefold, it is
//!    refused. A name in /etc/onefold goes before a label, and what it names is no path without a slash. A mount point stands for its
//!    device.
//! 2. A label or UUID finds an attached volume first, then one seen before, then one on a block device. A name that fits several volumes is
//!    refused.

use super::configured::{self, Configured};
use super::directory::run_directory;
use super::known;
use super::record::{self, Places, Record};
use super::session;
use crate::device::measure::identity_of;
use crate::exit::{Exit, Failed, Outcome};
use crate::volume::peek;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

/// A volume that a user named.
#[derive(Clone, Debug)]
pub struct Found {
    /// The absolute path of its backing store; of an attached one, its path at that time or now.
    pub path: PathBuf,
    /// The record of its attachment, if it is attached.
    pub attached: Option<Record>,
}

/// The time that a dying server may take to be gone.
const DYING: Duration = Duration::from_millis(500);

impl Found {
    /// Returns the record of the attachment, if it lasts: a server that was killed a moment ago gets the time to be gone.
    ///
    /// # Errors
    /// When the directory of records cannot be found.
    pub fn lasting(&self) -> Outcome<Option<&Record>> {
        let directory = run_directory()?;
        Ok(self.attached.as_ref().filter(|record| !session::wait_end(&Places::of(&directory, &record.id).lock, DYING)))
    }
}

/// Finds the volume that `name` names.
///
/// # Errors
/// When there is none, or several fit.
pub fn find(name: &str) -> Outcome<Found> {
    let configured = configured::named(name)?;
    if Path::new(name).exists() && configured.is_some() {
        let message = format!("'{name}' is a file here, and a name in {}", configured::directory().display());
        return Err(Failed::new(Exit::Usage, message).next(format!("Write ./{name} for the file, or go to another folder.")));
    }
    configured.map_or_else(|| find_volume(name), |configured| find_configured(&configured))
}

/// Finds the volume of a file in /etc/onefold, whatever lies in the current folder.
///
/// # Errors
/// When there is none, or several fit.
pub fn find_configured(configured: &Configured) -> Outcome<Found> {
    let volume = &configured.volume;
    if volume.contains('/') { find_volume(volume) } else { find_by_label(volume, &record::by_life(&run_directory()?)?.0) }
}

fn find_volume(name: &str) -> Outcome<Found> {
    let (records, _) = record::by_life(&run_directory()?)?;
    if let Some(record) = records.iter().find(|r| r.location == name) {
        return Ok(Found { path: record.path.clone(), attached: Some(record.clone()) });
    }
    if name.contains('/') || Path::new(name).exists() {
        return by_path(Path::new(name), &records);
    }
    if let Some(record) = last_name(Path::new(name)).and_then(|last| records.iter().find(|r| r.path == last)) {
        return Ok(Found { path: record.path.clone(), attached: Some(record.clone()) });
    }
    find_by_label(name, &records)
}

/// Finds a volume by its label or UUID.
fn find_by_label(name: &str, records: &[Record]) -> Outcome<Found> {
    let uuid = Uuid::parse_str(name).ok().map(|uuid| uuid.to_string());
    let fits = |id: Option<&str>, label: Option<&str>| label == Some(name) || (uuid.is_some() && id == uuid.as_deref());
    let mut found: Vec<Found> = records
        .iter()
        .filter(|r| fits(r.uuid.as_deref(), r.label.as_deref()))
        .map(|r| Found { path: r.path.clone(), attached: Some(r.clone()) })
        .collect();
    if found.is_empty() {
        let fitting = |path: &PathBuf| {
            peek(path).is_ok_and(|chosen| {
                let id = Uuid::from_bytes(chosen.superblock.uuid).to_string();
                fits(Some(&id), Some(&chosen.superblock.label))
            })
        };
        let paths = known::paths().into_iter().filter(fitting).chain(block_devices().into_iter().filter(fitting));
        let mut paths: Vec<PathBuf> = paths.filter_map(|path| path.canonicalize().ok()).collect();
        paths.sort();
        paths.dedup();
        found = paths.into_iter().map(|path| Found { path, attached: None }).collect();
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failed::new(Exit::NotFound, format!("no volume is called '{name}'"))
            .next("Name it by its path, or look at `onefold list --all`.")),
        _ => {
            let paths: Vec<String> = found.iter().map(|f| f.path.display().to_string()).collect();
            Err(Failed::new(Exit::NotFound, format!("'{name}' names several volumes: {}", paths.join(", "))).next("Name it by its path."))
        }
    }
}

fn by_path(path: &Path, records: &[Record]) -> Outcome<Found> {
    use std::io::ErrorKind;
    let looked = path.canonicalize().and_then(|absolute| Ok((absolute.metadata()?, absolute)));
    let (meta, absolute) = match looked {
        Ok(looked) => looked,
        Err(error) => {
            // A store that was deleted or renamed while it is attached has no other name any more.
            let gone = last_name(path).and_then(|last| records.iter().find(|r| r.path == last));
            return match (gone, error.kind()) {
                (Some(record), _) => Ok(Found { path: record.path.clone(), attached: Some(record.clone()) }),
                (None, ErrorKind::NotFound) => Err(Failed::new(Exit::NotFound, format!("{}: {error}", path.display()))),
                (None, _) => Err(Failed::system(path.display(), error)),
            };
        }
    };
    if let Some(record) = records.iter().find(|r| meta.is_dir() && is_mounted_from(&absolute, &r.location)) {
        return Ok(Found { path: record.path.clone(), attached: Some(record.clone()) });
    }
    if meta.is_dir() {
        return Err(Failed::new(Exit::NotFound, format!("{} is a directory, and a volume is a file or a block device", path.display()))
            .next("Name one by its path, label or UUID; `onefold list --all` shows those that were seen before."));
    }
    // The identity decides, not the name at the time of the attachment.
    let store = identity_of(&meta);
    if let Some(record) = records.iter().find(|r| Path::new(&r.location) == absolute) {
        return Ok(Found { path: record.path.clone(), attached: Some(record.clone()) });
    }
    let attached = records.iter().find(|r| r.store.map_or(r.path == absolute, |known| known == store)).cloned();
    Ok(Found { path: absolute, attached })
}

/// Whether a folder is where the file system of this block device is mounted.
fn is_mounted_from(folder: &Path, device: &str) -> bool {
    let (Ok(here), Ok(device)) = (folder.metadata(), Path::new(device).metadata()) else { return false };
    let above = folder.parent().and_then(|above| above.metadata().ok());
    here.dev() == device.rdev() && above.is_none_or(|above| above.dev() != here.dev())
}

/// Returns the absolute path of a file that is missing, if its directory exists.
fn last_name(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let directory = absolute.parent()?.canonicalize().ok()?;
    Some(directory.join(absolute.file_name()?))
}

/// Returns the record of a volume that must be attached.
///
/// # Errors
/// When no volume has that name, or it is not attached.
pub fn attached(name: &str) -> Outcome<Record> {
    let Found { path, attached } = find(name)?;
    attached.ok_or_else(|| {
        Failed::new(Exit::NotFound, format!("{} is not attached", path.display())).next("`onefold list` shows what is attached.")
    })
}

/// Returns the records of all attached volumes, in the order in which they were attached.
///
/// # Errors
/// When the directory of records cannot be read.
pub fn all_attached() -> Outcome<Vec<Record>> {
    let (mut alive, _) = record::by_life(&run_directory()?)?;
    alive.sort_by(|a, b| (a.since, &a.location).cmp(&(b.since, &b.location)));
    Ok(alive)
}

/// Returns the block devices of this machine whose size is not zero.
#[must_use]
pub fn block_devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/sys/class/block").map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let has_size = |path: PathBuf| std::fs::read_to_string(path.join("size")).is_ok_and(|size| size.trim() != "0");
    entries.iter().filter(|entry| has_size(entry.path())).map(|entry| Path::new("/dev").join(entry.file_name())).collect()
}
