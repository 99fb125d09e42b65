//! Finding a volume by its name: a path, a label, a UUID, where it is attached, or its name in /etc/onefold.
//!
//! 1. A name that exists as a path, or that holds a slash, is never taken for another one; if it is also one in /etc/onefold, it is
//!    refused. A name in /etc/onefold goes before a label, and what it names is no path without a slash. A mount point stands for its
//!    device.
//! 2. A label or UUID finds an attached volume first, then one seen before, then one to which a link of udev leads, then one on any block
//!    device. A name that fits several volumes is refused.
//! 3. No device that never answers keeps anybody who does not name it: what is seen first ends the search, and the rest is read by
//!    [`glance`], within a time.

use super::configured::{self, Configured};
use super::directory::run_directory;
use super::glance::{self, Glance};
use super::known;
use super::record::{self, Places, Record};
use super::session;
use super::strays::restore_files;
use super::udev;
use crate::device::measure::identity_of;
use crate::exit::{Exit, Failed, Outcome};
use onefold_engine::format::Superblock;
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
    let looked = || configured.as_ref().map_or_else(|| find_volume(name), find_configured);
    match looked() {
        Ok(found) if found.attached.is_some() => Ok(found),
        // It may be attached without its files.
        _ if restore_files(&run_directory()?) => looked(),
        other => other,
    }
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
    let (mut found, silent) = search(name, records);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 if silent.is_empty() => Err(Failed::new(Exit::NotFound, format!("no volume is called '{name}'"))
            .next("Name it by its path, or look at `onefold list --all`.")),
        0 => Err(Failed::new(Exit::NotFound, format!("no volume is called '{name}', but {} did not answer", listed(&silent)))
            .next("Name it by its path if it is there, or try again when the device works.")),
        _ => {
            let paths: Vec<PathBuf> = found.into_iter().map(|found| found.path).collect();
            Err(Failed::new(Exit::NotFound, format!("'{name}' names several volumes: {}", listed(&paths))).next("Name it by its path."))
        }
    }
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns the volumes with this label or UUID: the attached ones; otherwise those among the paths that were seen before, then among
/// udev's links, and last on any block device. Also returns the paths that have not answered.
fn search(name: &str, records: &[Record]) -> (Vec<Found>, Vec<PathBuf>) {
    let uuid = Uuid::parse_str(name).ok().map(|uuid| uuid.to_string());
    let fits = |id: Option<&str>, label: Option<&str>| label == Some(name) || (uuid.is_some() && id == uuid.as_deref());
    let attached = records.iter().filter(|r| fits(r.uuid.as_deref(), r.label.as_deref()));
    let mut found: Vec<Found> = attached.map(|r| Found { path: r.path.clone(), attached: Some(r.clone()) }).collect();
    let mut silent = Vec::new();
    let is_it = |superblock: &Superblock| fits(Some(&Uuid::from_bytes(superblock.uuid).to_string()), Some(&superblock.label));
    let stages: [&dyn Fn() -> Vec<PathBuf>; 3] = [&known::paths, &|| udev::links(name), &block_devices];
    for paths in stages {
        if !found.is_empty() {
            break;
        }
        let (paths, is_silent) = fitting(paths(), is_it);
        found = paths.into_iter().map(|path| Found { path, attached: None }).collect();
        silent.extend(is_silent);
    }
    (found, silent)
}

/// Returns the volumes at these paths that fit, each once, and the paths that have not answered.
fn fitting(paths: Vec<PathBuf>, is_it: impl Fn(&Superblock) -> bool) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    for (path, seen) in std::iter::zip(&paths, glance::look(&paths, &is_it)) {
        match seen {
            Glance::Volume(path, superblock) if is_it(&superblock) => found.push(path),
            Glance::Silent => silent.push(path.clone()),
            _ => {}
        }
    }
    found.sort();
    found.dedup();
    (found, silent)
}

/// Checks that no other volume than the one at `path` has this label, since a name that fits several is of no use. An empty label is none.
///
/// # Errors
/// When another volume has it.
pub fn check_label_is_free(label: &str, path: &Path) -> Outcome {
    if label.is_empty() {
        return Ok(());
    }
    let (found, _) = search(label, &record::by_life(&run_directory()?)?.0);
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    match found.into_iter().find(|found| found.path != path) {
        None => Ok(()),
        Some(other) => Err(Failed::new(Exit::Usage, format!("--label {label}: {} has that label already", other.path.display()))
            .next("Choose another one: a volume is attached by its label only where no other has it.")),
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

/// Returns the records of attachments whose processes have all died.
///
/// # Errors
/// When the directory of records cannot be read.
pub fn all_died() -> Outcome<Vec<Record>> {
    Ok(record::by_life(&run_directory()?)?.1)
}

/// Returns the block devices of this machine whose size is not zero.
#[must_use]
pub fn block_devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/sys/class/block").map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let has_size = |path: PathBuf| std::fs::read_to_string(path.join("size")).is_ok_and(|size| size.trim() != "0");
    entries.iter().filter(|entry| has_size(entry.path())).map(|entry| Path::new("/dev").join(entry.file_name())).collect()
}
