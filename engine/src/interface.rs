//! What goes into the engine and what comes out: events in, actions out, and nothing else.
//!
//! 1. Each request gets exactly one [`Reply`]; each I/O action exactly one event with its [`IoId`].
//! 2. The runtime may carry out the actions of a step in any order and complete them in any order; where order matters, the engine waits
//!    for a completion before it asks for more (R1 to R5).
//! 3. Fingerprints are computed outside, on the thread that received the bytes.

pub use crate::class::Class;

use crate::buffer::{Buffer, BufferMut, Slice};
use crate::fingerprint::{Digest, Fingerprint};
use crate::units::{Bytes, Epoch, Lbn, Pbn, Time};

/// A client's request, numbered by the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A device operation, numbered by the engine in the order of issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
}

/// What a client says of the data (Using Hints, section 3). None acts yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    #[default]
    None,
    NoDedup,
    Prefetch,
}

/// A client's request.
#[derive(Clone, Debug)]
pub struct Request {
    pub id: RequestId,
    pub op: Op,
    /// First byte; a multiple of 512.
    pub offset: Bytes,
    /// A multiple of 512; 0 for a flush only.
    pub length: Bytes,
    /// What a write brings.
    pub payload: Option<Payload>,
    /// Reply only when this request is durable.
    pub fua: bool,
    pub hint: Hint,
}

/// The bytes of a write, laid out as the volume's blocks: byte k of frame j is byte k of block `offset / 4096 + j`.
/// A write that begins inside a block leaves the first bytes of frame 0 unused.
#[derive(Clone, Debug)]
pub struct Payload {
    pub buffer: Buffer,
    /// One for each frame; [`Digest::Partial`] where the write does not cover the whole block.
    pub digests: Vec<Digest>,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A write, flush, discard or write-zeroes is done, as durable as it was asked to be.
    Done,
    /// What a read found: its bytes, in order.
    Data(Vec<Segment>),
    Failed(Failure),
}

/// A stretch of bytes that a read returns.
#[derive(Clone, Debug)]
pub enum Segment {
    Zeroes { bytes: u64 },
    Data { slice: Slice, start: usize, bytes: usize },
}

/// Why a request failed, as a front-end passes it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The device failed, or the content is known to be damaged (EIO).
    Io,
    /// No free block is left and none can be made (ENOSPC).
    NoSpace,
    /// No free block is left now: the request is to be sent again after [`Action::Retry`]. Only where the front-end said that it can
    /// ([`retries_when_full`](crate::settings::Settings::retries_when_full)).
    Full,
    /// The volume went read-only after a failed write or flush (A5), or was opened so (EROFS).
    ReadOnly,
    /// Out of range or misaligned (EINVAL).
    Invalid,
}

/// A device operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFailure;

/// What the engine wants done.
#[derive(Debug)]
pub enum Action {
    /// Fill `buffer` from the device at `at` (both multiples of 4096). With `digest`, the digests of its frames come along with the
    /// completion.
    Read {
        io: IoId,
        at: Bytes,
        buffer: BufferMut,
        digest: bool,
        class: Class,
    },
    /// Write the slices one behind the other at `at`. With `fua` these bytes, and nothing else, are durable when it has completed: asked of
    /// devices that take it ([`device_takes_fua`](crate::settings::Settings::device_takes_fua)).
    Write {
        io: IoId,
        at: Bytes,
        data: Vec<Slice>,
        class: Class,
        fua: bool,
    },
    Flush {
        io: IoId,
    },
    /// Tell the device that it may forget these bytes. Whether it does is its own affair.
    Discard {
        io: IoId,
        at: Bytes,
        length: Bytes,
    },
    /// Compute the digest of one block that the engine put together.
    Digest {
        io: IoId,
        block: Slice,
    },
    /// Compress one new block, as [`compress`](crate::format::codec::compress) does, to at most
    /// [`SLOT_DATA_MAX`](crate::format::unit::SLOT_DATA_MAX) bytes.
    Compress {
        io: IoId,
        block: Slice,
    },
    Reply {
        request: RequestId,
        reply: Reply,
    },
    /// Send [`Event::Tick`] at that time. A later `Wake` replaces an earlier one.
    Wake {
        at: Time,
    },
    Notice(Notice),
    /// Requests that were answered [`Failure::Full`] may find room now, or have waited long enough: they are to be sent again.
    Retry,
    /// Put these into the ring, in order, before any later action (`promise.rs`).
    Remember(Vec<Promise>),
    /// Everything up to this epoch is durable: drop its promises before any later action, and keep these traces of it.
    Forget {
        epoch: Epoch,
        traces: Traces,
    },
    /// What the last server had promised, if anything, is durable: its ring may go, a new one begins.
    Recalled,
    /// The answer to [`Event::Close`]: everything is durable and the volume marked clean (or, after a failure, as good as it gets).
    Closed {
        clean: bool,
    },
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    Request(Request),
    /// A read ended; the buffer comes back, with digests where they were asked for.
    Read {
        io: IoId,
        buffer: BufferMut,
        digests: Vec<Digest>,
        result: Result<(), IoFailure>,
    },
    Written {
        io: IoId,
        result: Result<(), IoFailure>,
    },
    Flushed {
        io: IoId,
        result: Result<(), IoFailure>,
    },
    Discarded {
        io: IoId,
        result: Result<(), IoFailure>,
    },
    Digested {
        io: IoId,
        digest: Digest,
    },
    /// None where the block does not come to so few bytes.
    Compressed {
        io: IoId,
        data: Option<Vec<u8>>,
    },
    /// Time has passed.
    Tick,
    /// What room the store's file system has, where the store is a file with holes; told again and again.
    StoreRoom(StoreRoom),
    /// Another server has claimed the volume (decision 0086): this one fails for good, as by A5, and writes nothing more.
    Ousted,
    /// The guard block could not be read or written: as any failed operation of the device (A5).
    GuardFailed,
    /// The volume is about to be detached: writes that wait for room fail at once, and so does each further one that finds none.
    EndWaiting,
    /// Commit everything, mark the volume clean, then [`Action::Closed`]. No request comes after it.
    Close,
}

/// The room below a store that takes its space as it is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRoom {
    /// Little is left: what nobody uses is given back.
    pub is_short: bool,
    /// So many new blocks of clients may be written until the next word, which comes soon. 0: none, so that what is under way has room.
    pub blocks: u64,
}

impl Default for StoreRoom {
    /// As though there were no end of it.
    fn default() -> Self {
        Self { is_short: false, blocks: u64::MAX }
    }
}

/// What an acknowledged weak operation means.
#[derive(Clone, Debug)]
pub enum Promised {
    /// The LBN holds the content of this block, which is on the device; or, of a carrier, that of this slot. `proof` is its fingerprint: a
    /// device that has failed since may hold something else there.
    Link { lbn: Lbn, pbn: Pbn, slot: u8, proof: Fingerprint },
    /// The LBN holds this block, which may be nowhere else.
    Content { lbn: Lbn, content: Slice },
    /// The LBN holds zeros.
    Zero { lbn: Lbn },
    /// `first..end` is unmapped.
    Unmap { first: Lbn, end: Lbn },
}

/// A promise, and the epoch that makes it good.
#[derive(Clone, Debug)]
pub struct Promise {
    pub epoch: Epoch,
    pub what: Promised,
}

/// What a durable epoch left on the medium. A store that was set back to an older copy of itself does not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// The log reaches this sequence.
    Log { sequence: u64 },
    /// A sector of the map, counted from the region's first, has this sum.
    Map { sector: u64, sum: u32 },
}

/// The traces of the last durable epoch: the medium has one of them. None: it left none since the volume was opened.
pub type Traces = [Option<Trace>; 2];

/// What a server leaves to the next one, where the device that clients hold outlives it.
#[derive(Clone, Debug, Default)]
pub struct Legacy {
    /// What it had acknowledged and is not known to be durable, in order.
    pub promises: Vec<Promised>,
    pub traces: Traces,
}

/// Something that its owner should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A write or flush failed: read-only from here on (A5).
    WentReadOnly { what: &'static str },
    /// Another server has written a superblock, of this generation and opening: read-only from here on. It may have formatted the store.
    OtherServer { generation: u64, incarnation: u64, is_formatted: bool },
    /// A server of another host has claimed the volume: read-only from here on.
    Ousted,
    /// A counter of the volume has come to its end: read-only from here on (`counters.rs`).
    CountersUsedUp,
    /// Damage that no crash explains (P6).
    Damage { what: &'static str, at: u64 },
    /// A thin volume fills: percent of the data blocks in use, at 80 and every 5 above.
    Filling { percent: u64, unpacked: Option<Unpacked> },
    /// A write finds no room: writes that need some wait as long as this, or fail at once (0).
    Full { wait_ms: u64 },
    /// They have waited long enough: such writes fail (ENOSPC) from here on.
    NoSpace { waited_ms: u64 },
    /// There is room again.
    RoomAgain,
    /// The log is being read, and that takes long: now and then.
    Opening(Progress),
    /// Serving: reads are answered from now on.
    Serving,
    /// The index holds again what the fingerprint table names (or as much as fits): so many entries. So many blocks that a crash had left
    /// without a whole name have it again, and so many were seen that still have none; where it goes on, the rest is named behind the
    /// recount.
    IndexRefilled { entries: u64, named: u64, unnamed: u64, goes_on: bool },
    /// Mode `log` was asked for, and there is no free block for it: mode `ordered` until the next opening.
    NoRoomForLog,
    /// This many acknowledged writes of the last server are lost: nothing on the device proves them, or they cannot be kept.
    AcknowledgedLost { writes: u64 },
    /// The store lacks what the last server had made durable: it was set back to an older copy, or has lost it.
    SetBack,
    /// Excess counts left by a crash were returned.
    Recounted { blocks: u64 },
}

/// How far the reading of a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Units of the log that were read, and how many there are at the most as far as is known: only the last one tells which is the last.
    pub units: u64,
    pub units_most: u64,
    /// What their records do, counted by runs; and how many of these are on pages already, because memory is meant for fewer.
    pub records: u64,
    pub records_on_pages: u64,
}

/// Blocks that clients' content would take if none lay in slots: at least and at most; of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    pub least: u64,
    pub most: u64,
    pub of: u64,
}
