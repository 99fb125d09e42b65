//! Recordings, as they are asked for over the control socket.
//!
//! 1. A recording lives as long as the connection of whoever asked for it: it ends when that says no more, or goes away, or the server ends. So none
//!    is ever left running that nobody knows of.
//! 2. A server that ends lets a recording end first, and its summary be taken.

use super::control::Client;
use crate::exit::{Exit, Failed, Outcome};
use crate::runtime::recording::tap::Tap;
use crate::runtime::recording::{self, Naming, RecordError, Recording};
use onefold_engine::fingerprint::Algorithm;
use onefold_trace::folder::{FolderError, Rotation};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often it is looked at whether a recording is to end.
const LOOK: Duration = Duration::from_millis(50);
/// The longest that an ending server waits for a summary to be taken.
const PATIENCE: Duration = Duration::from_secs(20);

/// A key of fingerprints: 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(pub [u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(withheld)")
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0.iter().fold(Self::new(), |digits, byte| digits + &format!("{byte:02x}"))
    }
}

impl TryFrom<String> for Key {
    type Error = &'static str;

    fn try_from(digits: String) -> Result<Self, Self::Error> {
        let wrong = "a key is 64 hexadecimal digits";
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong);
        }
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or(wrong)?;
        }
        Ok(Self(key))
    }
}

/// How content is to be named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamedBy {
    /// The volume's own way, or a key that nobody keeps.
    Own,
    Key(Key),
    Md5,
    Sha1,
}

impl From<&NamedBy> for Naming {
    fn from(by: &NamedBy) -> Self {
        match by {
            NamedBy::Own => Self::Own,
            NamedBy::Key(key) => Self::Keyed(key.0),
            NamedBy::Md5 => Self::Unkeyed(Algorithm::Md5),
            NamedBy::Sha1 => Self::Unkeyed(Algorithm::Sha1),
        }
    }
}

/// What to record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Where the trace goes, absolute.
    pub folder: PathBuf,
    pub named_by: NamedBy,
    /// When a file of the trace is closed and the next one begun.
    pub file_records: u64,
    pub file_seconds: u64,
}

/// What can be said as a recording begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Begun {
    pub algorithm: String,
    /// None where the fingerprints have no key.
    pub key_id: Option<String>,
    /// The fingerprints are those that the volume makes; sizes by LZ4 are unknown then.
    pub fingerprints_of_volume: bool,
}

/// What was recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    pub records: u64,
    /// Blocks of 4 KiB that the recorded writes touched.
    pub blocks: u64,
    /// Requests that are missing.
    pub gaps: u64,
    /// Stretches of them.
    pub gap_stretches: u64,
    /// Size of the trace.
    pub bytes: u64,
}

/// Where recordings of one target are asked for.
pub struct Desk {
    tap: Arc<Tap>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_closing: bool,
    at_work: usize,
}

/// One who is at work at the desk.
struct AtWork<'a>(&'a Desk);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.state().at_work -= 1;
        self.0.changed.notify_all();
    }
}

impl Desk {
    /// The desk of what has this tap.
    #[must_use]
    pub fn new(tap: Arc<Tap>) -> Self {
        Self { tap, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records for a client: answers as it begins, and again when it is over.
    ///
    /// # Errors
    /// When the client went away.
    pub fn record(&self, order: &Order, client: &Client<'_>) -> io::Result<()> {
        self.state().at_work += 1;
        let _at_work = AtWork(self);
        let recording = match self.begin(order) {
            Ok(recording) => recording,
            Err(failed) => return client.answer(Err(failed)),
        };
        let about = recording.about();
        let begun =
            Begun { algorithm: about.algorithm.name().to_owned(), key_id: about.key_id.clone(), fingerprints_of_volume: about.hands_over };
        tracing::info!(folder = %order.folder.display(), "recording");
        // Who is gone already has nothing recorded: letting go of the recording ends it.
        client.answer(to_json(&begun))?;
        while !recording.is_over() && !self.state().is_closing && !client.is_done(LOOK)? {}
        let summary = recording.end().map_err(|error| failed(error, order)).inspect_err(|failed| tracing::error!("{}", failed.message));
        tracing::info!(?summary, "recorded");
        client.answer(summary.and_then(|tally| {
            let recording::recorder::Tally { records, blocks, missed, gaps, bytes } = tally;
            to_json(&Summary { records, blocks, gaps: missed, gap_stretches: gaps, bytes })
        }))
    }

    fn begin(&self, order: &Order) -> Outcome<Recording> {
        let rotation = Rotation { records: order.file_records.max(1), age: Some(Duration::from_secs(order.file_seconds.max(1))) };
        let wanted = recording::Order { folder: order.folder.clone(), naming: Naming::from(&order.named_by), rotation };
        if self.state().is_closing {
            return Err(failed(RecordError::Closing, order));
        }
        Recording::begin(&self.tap, wanted).map_err(|error| failed(error, order))
    }

    /// Writes down that a phase begins.
    ///
    /// # Errors
    /// When nothing is recorded, or the recorder is behind.
    pub fn mark(&self, phase: String) -> Outcome {
        if !self.tap.is_on() {
            return Err(Failed::new(Exit::NotFound, "nothing is being recorded").next("`onefold trace record` begins a recording."));
        }
        if self.tap.mark(phase) { Ok(()) } else { Err(Failed::new(Exit::System, "the recorder is behind").next("Try again.")) }
    }

    /// Ends a recording, and waits until its summary was taken. No other begins from now on.
    pub fn close(&self) {
        self.state().is_closing = true;
        let waited = self.changed.wait_timeout_while(self.state(), PATIENCE, |state| state.at_work > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

fn to_json(value: &impl Serialize) -> Outcome<serde_json::Value> {
    serde_json::to_value(value).map_err(|e| Failed::system("cannot answer", e))
}

fn failed(error: RecordError, order: &Order) -> Failed {
    let message = error.to_string();
    match error {
        RecordError::Busy => Failed::new(Exit::InUse, message).next("Only one can be made at a time; end that one first."),
        RecordError::Closing => Failed::new(Exit::InUse, message),
        RecordError::Memory { memory_bytes } => {
            Failed::new(Exit::Refused, message).next(format!("Attach it with `--memory {}M` or more.", memory_bytes.div_ceil(1 << 20)))
        }
        RecordError::Folder(FolderError::Exists { .. }) => {
            Failed::new(Exit::Refused, message).next("Give another name with `--out`, or remove what is there.")
        }
        RecordError::Folder(FolderError::Io { ref source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
            Failed::new(Exit::NotPermitted, message)
        }
        RecordError::Folder(_) => {
            Failed::new(Exit::System, message).next(format!("What was closed before is in {}.", order.folder.display()))
        }
        RecordError::System(_) | RecordError::Failed => Failed::new(Exit::System, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hexadecimal_and_never_shown() {
        let key = Key(std::array::from_fn(|i| u8::try_from(i).unwrap()));
        let digits = String::from(key.clone());
        assert!(digits.starts_with("000102") && Key::try_from(digits.clone()) == Ok(key.clone()));
        assert_eq!(format!("{key:?}"), "Key(withheld)");
        for wrong in ["", "00", &digits[1..], &format!("{digits}0"), &digits.replace('f', "g"), &"é".repeat(32)] {
            assert!(Key::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
