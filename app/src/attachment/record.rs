//! The record of an attached volume: a small JSON file, written whole when the volume is served and removed when it is not.
//!
//! The code trusts a record no further than it has to. It is the record of `id` only where it is called `id.json`, so it names no file
//! outside the directory. Its process is for people, and nobody ever signals it. Its loop device is removed only where it has the volume's
//! tag.

use super::plan::Plan;
use super::process::Process;
use super::session::{self, Session};
use crate::device::bottom::Bottom;
use crate::exit::{Failed, Outcome};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The largest file in the run directory.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The spare room: a few pages.
const SPARE_BYTES: u64 = 32 << 10;
/// The least that is of use: one small file.
const SPARE_BYTES_MIN: u64 = 4 << 10;
const SPARE: &str = "spare";

/// One attached volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The UUID of a volume; `bare-…` where a backing store is passed through.
    pub id: String,
    /// The UUID; none where a store is passed through.
    pub uuid: Option<String>,
    pub label: Option<String>,
    /// The absolute path of the backing store.
    pub path: PathBuf,
    /// The identity of the store, whatever its name.
    #[serde(default)]
    pub store: Option<(u64, u64)>,
    /// The size of a volume as clients see it.
    #[serde(default)]
    pub logical_bytes: Option<u64>,
    /// The process in charge: the supervisor, where there is one.
    pub process: Process,
    /// The name of the front-end that serves.
    pub frontend: String,
    /// The NBD URI or the block device.
    pub location: String,
    pub is_passthrough: bool,
    pub is_read_only: bool,
    /// The time of the attachment, in seconds since 1970.
    pub since: u64,
    /// The disks below the store, as they were before it was attached.
    #[serde(default)]
    pub bottom: Bottom,
}

/// The paths of everything of `id` in `directory`.
#[derive(Clone, Debug)]
pub struct Places {
    pub record: PathBuf,
    pub control: PathBuf,
    pub socket: PathBuf,
    pub log: PathBuf,
    /// The result of the last server.
    pub end: PathBuf,
    /// A link to the block device, which has another number each time.
    pub device: PathBuf,
    /// The acknowledgement journal: writes acknowledged to clients that are not durable yet.
    pub ring: PathBuf,
    /// The lock, which is held as long as the attachment lives.
    pub lock: PathBuf,
    /// The path of the program that the next server is, once, instead of the supervisor's own.
    pub program: PathBuf,
    /// The order to grow, which the next server carries out.
    pub growth: PathBuf,
    /// The end of the last growth.
    pub grown: PathBuf,
    /// The counts of the servers so far.
    pub counts: PathBuf,
    /// The socket on which a recorder that is a process of its own hears of phases.
    pub recorder: PathBuf,
    /// Room for the small files that a takeover writes: see [`write_small`].
    pub spare: PathBuf,
}

impl Places {
    /// Returns the paths with their usual names.
    #[must_use]
    pub fn of(directory: &Path, id: &str) -> Self {
        let with = |extension| directory.join(format!("{id}.{extension}"));
        Self {
            record: with("json"),
            control: with("control"),
            socket: with("sock"),
            log: with("log"),
            end: with("end"),
            device: with("device"),
            ring: with("ring"),
            lock: with("lock"),
            program: with("program"),
            recorder: with("marks"),
            spare: with(SPARE),
            growth: with("growth"),
            grown: with("grown"),
            counts: with("counts"),
        }
    }

    /// Whether any process of the attachment lives.
    #[must_use]
    pub fn are_alive(&self) -> bool {
        session::is_alive(&self.lock)
    }
}

impl Record {
    /// Returns the record of what `process` serves by `plan` at `location`.
    #[must_use]
    pub fn of(plan: &Plan, process: Process, location: String) -> Self {
        Self {
            id: plan.id.clone(),
            uuid: plan.uuid.clone(),
            label: plan.label.clone(),
            path: plan.path.clone(),
            store: Some(plan.store),
            logical_bytes: plan.logical_bytes,
            process,
            frontend: plan.frontend.name.clone(),
            location,
            is_passthrough: plan.options.passthrough,
            is_read_only: plan.options.read_only,
            since: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            bottom: plan.bottom.clone(),
        }
    }

    /// Opens the store, so that it stays while one server gives way to the next: a loop device below it that somebody has detached goes
    /// when nobody has it open any more. None where it cannot be opened.
    #[must_use]
    pub fn hold_store(&self) -> Option<fs::File> {
        fs::File::open(&self.path).ok()
    }

    /// Replaces an older record by this one, atomically.
    ///
    /// # Errors
    /// When the directory refuses the file.
    ///
    /// # Panics
    /// Never: a record is plain data.
    pub fn store(&self, place: &Path) -> Outcome {
        let fresh = place.with_extension("new");
        let text = serde_json::to_vec_pretty(self).expect("a record is plain data");
        let written = write_small(&fresh, &text).and_then(|()| fs::rename(&fresh, place));
        written.map_err(|e| Failed::system(format!("cannot write {}", place.display()), e))
    }
}

/// Takes the room for the small files that a takeover writes, so that a directory which has filled up meanwhile does not keep a volume from
/// its next server. Others, such as the log, may have grown while the room was in use; it is then what they have left.
///
/// # Errors
/// When not even a page is left.
pub fn keep_spare(places: &Places) -> Outcome {
    let take = |bytes| {
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&places.spare)?;
        Ok(rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?)
    };
    let mut bytes = SPARE_BYTES;
    let taken = loop {
        match take(bytes) {
            Err::<(), io::Error>(error) if error.kind() == io::ErrorKind::StorageFull && bytes > SPARE_BYTES_MIN => bytes /= 2,
            taken => break taken,
        }
    };
    taken.map_err(|e| Failed::system(format!("cannot make {}", places.spare.display()), e))
}

/// Writes a small file of an attachment, by the spare room where there is no other.
///
/// # Errors
/// When it cannot be written.
pub fn write_small(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let write = || {
        let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(bytes))
    };
    match write() {
        // All files of an attachment have its id for a stem.
        Err(error) if error.kind() == io::ErrorKind::StorageFull && fs::remove_file(path.with_extension(SPARE)).is_ok() => write(),
        written => written,
    }
}

/// Returns the content of a file of the run directory; none where it is no plain file, or larger than the limit.
#[must_use]
pub fn small_file(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    // Anything else there, such as a pipe, could keep its reader waiting forever.
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file).and_then(|_| fs::File::open(path).ok())?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (read as u64 <= FILE_BYTES_MAX).then_some(bytes)
}

/// Returns the record in this file, if there is one.
#[must_use]
pub fn parse(path: &Path, text: &[u8]) -> Option<Record> {
    let record: Record = serde_json::from_slice(text).ok()?;
    (path.file_stem()?.to_str()? == record.id).then_some(record)
}

/// Returns the record at this place, if there is one.
#[must_use]
pub fn look(place: &Path) -> Option<Record> {
    parse(place, &small_file(place)?)
}

/// Returns all records in `directory`, dead ones too, by path. Ignores other files.
///
/// # Errors
/// When the directory cannot be read.
pub fn all(directory: &Path) -> Outcome<Vec<Record>> {
    let entries = fs::read_dir(directory).map_err(|e| Failed::system(format!("cannot read {}", directory.display()), e))?;
    let mut records: Vec<Record> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter_map(|path| look(&path))
        .collect();
    records.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(records)
}

/// Returns the records in `directory` by path: those of attachments that live, and those of attachments that died.
///
/// # Errors
/// When the directory cannot be read.
pub fn by_life(directory: &Path) -> Outcome<(Vec<Record>, Vec<Record>)> {
    Ok(all(directory)?.into_iter().partition(|record| Places::of(directory, &record.id).are_alive()))
}

/// Removes the log of a server that has ended in order: nobody needs it any more.
pub fn forget_log(directory: &Path, id: &str) {
    let _ = fs::remove_file(Places::of(directory, id).log);
}

/// Removes the public files of an attachment. Its last process does so, or another process after it.
pub fn clear(directory: &Path, id: &str) {
    let places = Places::of(directory, id);
    let Places { record, control, socket, device, program, growth, grown, counts, recorder, spare, .. } = places;
    for path in [record, control, socket, device, program, growth, grown, counts, recorder, spare] {
        let _ = fs::remove_file(path);
    }
}

/// Removes what an attachment left that is over. Returns whether it is.
pub fn clear_dead(directory: &Path, id: &str) -> bool {
    let lock = Places::of(directory, id).lock;
    let Some(session) = Session::after(&lock) else { return false };
    clear(directory, id);
    session.remove(&lock);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, pid: u32) -> Record {
        Record {
            id: id.to_owned(),
            uuid: None,
            label: None,
            path: "/store".into(),
            store: None,
            logical_bytes: None,
            process: Process { pid, start_ticks: 0 },
            frontend: "nbd".to_owned(),
            location: "nbd+unix:///?socket=/s".to_owned(),
            is_passthrough: false,
            is_read_only: false,
            since: u64::MAX,
            bottom: Bottom::default(),
        }
    }

    fn found(directory: &Path) -> Vec<String> {
        all(directory).unwrap().into_iter().map(|record| record.id).collect()
    }

    #[test]
    fn a_record_is_called_by_its_id() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("run");
        fs::create_dir(&directory).unwrap();
        let outside = scratch.path().join("outside.json");
        fs::write(&outside, "somebody's").unwrap();
        record("good", 1).store(&directory.join("good.json")).unwrap();
        for id in ["../outside", "/etc/passwd", "", ".", "..", "good"] {
            record(id, 1).store(&directory.join("hostile.json")).unwrap();
            assert_eq!(found(&directory), ["good"], "{id}");
        }
        assert!(outside.exists());
    }

    #[test]
    fn what_is_no_record_is_passed_over() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("id.json");
        let text = serde_json::to_string(&record("id", 7)).unwrap();
        for pid in ["-1", "4294967296", "18446744073709551616", "1e9", "\"7\"", "null", "[7]", "7.5"] {
            fs::write(&place, text.replace("\"pid\":7", &format!("\"pid\":{pid}"))).unwrap();
            assert!(found(scratch.path()).is_empty(), "pid {pid}");
        }
        let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
        for text in ["", "{}", "null", &text[..text.len() - 1], &deep, &format!("{text}{}", " ".repeat(65 << 10))] {
            fs::write(&place, text).unwrap();
            assert!(found(scratch.path()).is_empty(), "{:.40}", text);
        }
        fs::remove_file(&place).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &place, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, 0)
            .unwrap();
        assert!(found(scratch.path()).is_empty(), "a pipe");
        fs::remove_file(&place).unwrap();
        fs::create_dir(&place).unwrap();
        assert!(found(scratch.path()).is_empty(), "a directory");
    }

    /// A record may name any process, such as one that runs.
    #[test]
    fn a_record_counts_as_long_as_its_attachment_lives() {
        let scratch = tempfile::tempdir().unwrap();
        let places = Places::of(scratch.path(), "id");
        for pid in [0, 1, std::process::id(), u32::MAX] {
            record("id", pid).store(&places.record).unwrap();
            let (alive, dead) = by_life(scratch.path()).unwrap();
            assert!(alive.is_empty() && dead.len() == 1, "{pid}");
            let session = Session::begin(&places.lock).unwrap();
            assert_eq!(by_life(scratch.path()).unwrap().0.len(), 1, "{pid}");
            assert!(!clear_dead(scratch.path(), "id") && places.record.exists());
            drop(session);
            assert!(clear_dead(scratch.path(), "id") && !places.record.exists() && !places.lock.exists());
        }
    }
}
