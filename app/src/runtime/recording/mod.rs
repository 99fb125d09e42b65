//! Recording the requests of clients, as a trace (docs/tracing.md).
//!
//! 1. A client never waits for it: requests are reported to a [`tap`], whose ring is bounded, and those that find no room are counted as a
//!    gap.
//! 2. A [`recorder`] on a thread of its own, of idle priority, makes the fingerprints of content, unless the volume has made them anyway.
//! 3. All memory is charged to [`Part::Requests`]: [`FIXED_BYTES`] for as long as a recording runs, and the content that waits. Together
//!    they are at most half of that part, so the largest request always finds room beside them.
//! 4. There is one recording at a time. It ends on request, when it cannot be written any more, or with its target.

pub mod entry;
pub mod idle;
pub mod key;
pub mod line;
pub mod recorder;
pub mod tap;

#[cfg(test)]
mod tests;

use crate::exit::{Exit, Failed};
use crate::files::of_io;
use crate::memory::pool::Pool;
use entry::{LastGap, NAME_BYTES, Wants};
use key::Key;
use line::{Line, Listener};
use onefold_engine::fingerprint::{Algorithm, Fingerprinter};
use onefold_engine::memory::Part;
use onefold_engine::units::{BLOCK_BYTES, Bytes, index};
use onefold_trace::header::Header;
use onefold_trace::recording::{RecordingError, WRITER_BYTES, Writer};
use recorder::{Recorder, Tally};
use rtrb::RingBuffer;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tap::Tap;

/// The smallest number of requests that the ring has room for.
const RING_REQUESTS: usize = 4096;
/// The number of bytes of waiting content for which the ring has room for one request more.
const BYTES_A_REQUEST: u64 = 1024;
/// The charge for the writer of the trace, for rings and for the thread, whatever is recorded.
pub const FIXED_BYTES: u64 = WRITER_BYTES as u64 + OWN_BYTES as u64;
/// The part of it for rings, stacks, and fingerprints of the requests that are processed together.
const OWN_BYTES: usize = 1 << 20;
/// The size of one request in the rings.
const ENTRY_BYTES: usize = size_of::<entry::Entry>() + size_of::<entry::Content>();
const _: () = assert!(RING_REQUESTS * ENTRY_BYTES + STACK_BYTES < OWN_BYTES * 7 / 8, "what is charged holds the rings and the stack");
/// The limit of a volume's own digests in the ring: more than those of its largest request, many times over.
const NAMED_BYTES: u64 = 256 << 10;
/// The stack of the recorder's thread.
const STACK_BYTES: usize = 256 << 10;

/// The choice of content's fingerprints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Naming {
    /// Those of the volume, where they have a key; otherwise BLAKE3 with a new key that nobody keeps.
    Own,
    /// BLAKE3 with this key.
    Keyed(Key),
    /// MD5, without key.
    Md5,
    /// SHA-1, without key.
    Sha1,
}

/// The order for a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The file of the trace, a new one; absolute where another process is asked.
    pub file: PathBuf,
    pub naming: Naming,
    /// The time after which what was written is synced.
    pub sync_after: Duration,
}

/// The reason why a recording cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("a recording is under way already")]
    Busy,
    /// The `--memory` is below the least with which a recording can be made.
    #[error("there is too little memory to record")]
    Memory { memory_bytes: u64 },
    #[error("the volume is being detached")]
    Closing,
    #[error("the system refused a thread or random numbers: {0}")]
    System(io::Error),
    #[error(transparent)]
    File(#[from] RecordingError),
    #[error("the recorder failed; its log has more")]
    Failed,
}

/// A recording under way; [`Recording::end`] ends it, and so does its drop.
pub struct Recording {
    tap: Arc<Tap>,
    thread: Option<JoinHandle<Result<Tally, RecordingError>>>,
    last_gap: LastGap,
    about: About,
    _taken: Taken,
    _charge: Charge,
}

/// The facts about a recording as it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its name, as users type it.
    pub algorithm: String,
    /// The key's identity; none where the fingerprints have no key.
    pub key_id: Option<String>,
    /// The fingerprints are those that the volume makes, and sizes are left unknown: content is not read again.
    pub fingerprints_of_volume: bool,
}

/// Frees the tap's place for the next recording.
struct Taken(Arc<Tap>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}

/// Memory that is charged to requests.
struct Charge {
    pool: Arc<Pool>,
    blocks: usize,
}

impl Charge {
    /// Waits until requests have left this much memory.
    fn take(pool: &Arc<Pool>, bytes: u64) -> Result<Self, RecordError> {
        let blocks = index(bytes.div_ceil(BLOCK_BYTES));
        pool.charge_request(blocks).map_err(|_| RecordError::Closing)?;
        Ok(Self { pool: pool.clone(), blocks })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.pool.refund_request(self.blocks);
    }
}

impl Recording {
    /// Begins a recording of the requests that pass `tap`. Waits until requests have left the memory for it.
    ///
    /// # Errors
    /// When another one is under way, `--memory` is too small, or the file cannot be made.
    pub fn begin(tap: &Arc<Tap>, order: &Order) -> Result<Self, RecordError> {
        if tap.is_taken.swap(true, Ordering::AcqRel) {
            return Err(RecordError::Busy);
        }
        let taken = Taken(tap.clone());
        let fingerprinter = fingerprinter(tap.fingerprinter.as_ref(), &order.naming)?;
        let fingerprints_of_volume = tap.fingerprinter.as_ref().is_some_and(|own| own.agrees_with(&fingerprinter));
        let wants = if fingerprints_of_volume { Wants::Names } else { Wants::Bytes };
        let room = room(tap.pool.accountant().limit(Part::Requests) / 2, tap.pool.request_bytes_max(), wants)?;
        let charge = Charge::take(&tap.pool, room.charged)?;
        let algorithm = fingerprinter.algorithm();
        let about = About { algorithm: algorithm.name().to_owned(), key_id: fingerprinter.key_id(), fingerprints_of_volume };
        let origin_ns = line::monotonic_ns();
        let header = Header {
            algorithm: Some(algorithm),
            width: NAME_BYTES,
            key_id: about.key_id.clone(),
            clock: "monotonic".to_owned(),
            origin_ns,
            device_bytes: Some(Bytes(tap.bytes)),
            ..Header::default()
        };
        let writer = Writer::create(&order.file, &header, order.sync_after)?;
        let (send, entries) = RingBuffer::new(room.requests);
        let (spend, spent) = RingBuffer::new(room.requests);
        let is_asleep = Arc::new(AtomicBool::new(false));
        let last_gap = Arc::new(Mutex::new(None));
        let recorder = Recorder::new(entries, spend, writer, fingerprinter, is_asleep.clone(), last_gap.clone());
        let thread = std::thread::Builder::new().name("recorder".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || recorder.run()).map_err(RecordError::System)?;
        let listener = Listener { thread: thread.thread().clone(), is_asleep };
        tap.open(Line::new(send, spent, wants, origin_ns, room.held_max, listener));
        Ok(Self { tap: tap.clone(), thread: Some(thread), last_gap, about, _taken: taken, _charge: charge })
    }

    /// Returns the facts about it as it began.
    #[must_use]
    pub const fn about(&self) -> &About {
        &self.about
    }

    /// Whether it ended by itself, which is a failure.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it; every reported request is in the trace then.
    ///
    /// # Errors
    /// The reason why it could not be written to its end. The blocks that were written before are sound.
    pub fn end(mut self) -> Result<Tally, RecordError> {
        self.stop()
    }

    fn stop(&mut self) -> Result<Tally, RecordError> {
        let Some(thread) = self.thread.take() else { return Err(RecordError::Failed) };
        let mut rest = self.tap.close(&self.last_gap);
        while !thread.is_finished() {
            rest.iter_mut().for_each(line::Spent::release);
            std::thread::sleep(Duration::from_millis(1));
        }
        thread.join().map_err(|_| RecordError::Failed)?.map_err(RecordError::from)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.thread.is_some() {
            drop(self.stop());
        }
    }
}

/// Returns the fingerprinter that is asked for, where content has one of its `own` or none.
///
/// # Errors
/// When the system refuses random numbers.
pub fn fingerprinter(own: Option<&Fingerprinter>, naming: &Naming) -> Result<Fingerprinter, RecordError> {
    let own = own.filter(|own| own.key_id().is_some());
    Ok(match (naming, own) {
        (Naming::Own, Some(own)) => own.clone(),
        (Naming::Own, None) => {
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|e| RecordError::System(io::Error::other(e)))?;
            Fingerprinter::new(Algorithm::Blake3, key)
        }
        (Naming::Keyed(key), _) => Fingerprinter::new(Algorithm::Blake3, key.0),
        (Naming::Md5, _) => Fingerprinter::new(Algorithm::Md5, [0; 32]),
        (Naming::Sha1, _) => Fingerprinter::new(Algorithm::Sha1, [0; 32]),
    })
}

/// Returns the failure of a command that wanted a recording.
#[must_use]
pub fn failed(error: RecordError, order: &Order) -> Failed {
    let message = error.to_string();
    match error {
        RecordError::Busy => Failed::new(Exit::InUse, message).next("Only one can be made at a time; end that one first."),
        RecordError::Closing => Failed::new(Exit::InUse, message),
        RecordError::Memory { memory_bytes } => {
            Failed::new(Exit::Refused, message).next(format!("Attach it with `--memory {}M` or more.", memory_bytes.div_ceil(1 << 20)))
        }
        RecordError::File(RecordingError::Exists { .. }) => {
            Failed::new(Exit::Refused, message).next("Give another name with `--out`, or remove what is there.")
        }
        RecordError::File(RecordingError::Io { ref source, .. }) if !order.file.exists() => Failed::new(of_io(source), message),
        RecordError::File(_) => {
            Failed::new(Exit::System, message).next(format!("What was recorded before is in {}.", order.file.display()))
        }
        RecordError::System(_) | RecordError::Failed => Failed::new(Exit::System, message),
    }
}

/// The division of a recording's memory, in bytes except for the requests.
struct Room {
    /// The charge as it begins: all but the buffers that wait, which were charged when they were taken for requests.
    charged: u64,
    /// The limit of content that may wait.
    held_max: u64,
    /// The number of requests that the rings take.
    requests: usize,
}

/// Divides at most `bytes`, where requests have up to `request_bytes_max`.
fn room(bytes: u64, request_bytes_max: u64, wants: Wants) -> Result<Room, RecordError> {
    let held_min = if wants == Wants::Bytes { request_bytes_max } else { NAMED_BYTES };
    if FIXED_BYTES + held_min > bytes {
        // A quarter of all memory is for requests, and the largest of them has up to a quarter of that.
        let memory_bytes = if wants == Wants::Bytes { 16 * FIXED_BYTES } else { 8 * (FIXED_BYTES + NAMED_BYTES) };
        return Err(RecordError::Memory { memory_bytes });
    }
    if wants == Wants::Names {
        return Ok(Room { charged: FIXED_BYTES + NAMED_BYTES, held_max: NAMED_BYTES, requests: RING_REQUESTS });
    }
    let left = bytes - FIXED_BYTES;
    let requests = index(left / (BYTES_A_REQUEST + ENTRY_BYTES as u64)).max(RING_REQUESTS);
    let rings = ((requests - RING_REQUESTS) * ENTRY_BYTES) as u64;
    Ok(Room { charged: FIXED_BYTES + rings, held_max: left - rings, requests })
}
