//! The interface of the engine: events go in, actions come out, and nothing else.
//!
//! 1. Each request gets exactly one [`Reply`]; each I/O action exactly one event with its [`IoId`].
//! 2. The runtime may carry out and complete the actions of a step in any order. Where order matters, the engine waits for a completion
//!    before it asks for more (R1 to R5).
//! 3. Fingerprints are computed outside, on the thread that received the bytes.

pub use crate::adaptation::Allowance;
pub use crate::class::Class;
pub use crate::orders::{Deduplicate, ScrubOrder, StoreRoom};
pub use crate::policy::{Policies, Policy};

use crate::buffer::{Buffer, BufferMut, Slice};
use crate::fingerprint::Digest;
use crate::format::ProtectedRange;
use crate::format::entry::FingerprintEntry;
use crate::units::{Bytes, Epoch, Lbn, Pbn, Time};

/// A client's request, numbered by the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A device operation, numbered by the engine in the order of issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
    /// Asks what the bytes are made of.
    Extents,
}

/// A client's request.
#[derive(Clone, Debug)]
pub struct Request {
    pub id: RequestId,
    pub op: Op,
    /// First byte; a multiple of 512.
    pub offset: Bytes,
    /// A multiple of 512. Only a flush has 0.
    pub length: Bytes,
    /// The bytes of a write.
    pub payload: Option<Payload>,
    /// The reply waits until this request is durable.
    pub fua: bool,
    /// The policies of its blocks.
    pub policies: Policies,
}

/// The bytes of a write in the layout of the volume's blocks: byte k of frame j is byte k of block `offset / 4096 + j`.
/// If a write begins inside a block, the first bytes of frame 0 are unused.
#[derive(Clone, Debug)]
pub struct Payload {
    pub buffer: Buffer,
    /// One for each frame: [`Digest::Partial`] if the write does not cover the whole block.
    pub digests: Vec<Digest>,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A write, flush, discard or write-zeroes is done, and as durable as was asked for.
    Done,
    /// The bytes of a read, in order.
    Data(Vec<Segment>),
    /// The extents of the first of the bytes that were asked for, in order, at least one. The others have to be asked for again.
    Extents(Vec<Extent>),
    Failed(Failure),
}

/// Neighbouring bytes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub bytes: u64,
    pub kind: ExtentKind,
}

/// The content of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// They are mapped to nothing, and read as zeros.
    Hole,
    /// Zeros that somebody wrote. They take no block.
    Zeroes,
    /// The content of these blocks, one after the other, or of slots in them.
    Data { first: Pbn, last: Pbn },
    /// A read of them fails.
    Damaged,
}

/// A stretch of bytes that a read returns.
#[derive(Clone, Debug)]
pub enum Segment {
    Zeroes { bytes: u64 },
    Data { slice: Slice, start: usize, bytes: usize },
}

impl ExtentKind {
    /// The kind of an extent of this kind and one of kind `next` behind it, if the two are one: data goes on in the next block, or in the
    /// same one, of which both are slots.
    #[must_use]
    pub fn with(self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Data { first, last }, Self::Data { first: next, last: end }) => {
                (next == last || next == last + 1).then_some(Self::Data { first, last: end })
            }
            _ => (self == next).then_some(self),
        }
    }
}

/// The reason why a request failed, for the front-end to pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The device failed, or the content is known to be damaged (EIO).
    Io,
    /// No free block is left and none can be made (ENOSPC).
    NoSpace,
    /// No free block is left now. The front-end sends the request again after [`Action::Retry`]. Only used if it can do so
    /// ([`retries_when_full`](crate::settings::Facts::retries_when_full)).
    Full,
    /// The volume is read-only, after a failed write or flush (A5) or because it was opened so (EROFS).
    ReadOnly,
    /// The request is out of range or misaligned (EINVAL).
    Invalid,
}

/// A device operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFailure;

/// An instruction of the engine to the runtime.
#[derive(Debug)]
pub enum Action {
    /// Fill `buffer` from the device at `at` (both multiples of 4096). With `digest`, the completion has the digests of its frames. With
    /// `is_idle`, nobody waits for it: the device may serve others first.
    Read {
        io: IoId,
        at: Bytes,
        buffer: BufferMut,
        digest: bool,
        is_idle: bool,
        class: Class,
    },
    /// Write the slices one after the other at `at`. With `fua` these bytes, and no others, are durable on completion: only used for
    /// devices that take it ([`device_takes_fua`](crate::settings::Facts::device_takes_fua)).
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
    /// Tell the device that these bytes are unused. The device may ignore it. With `fill`, the store is a file: write zeros there, so that
    /// its host has written at these bytes, and make that durable, so that no later flush has to.
    Discard {
        io: IoId,
        at: Bytes,
        length: Bytes,
        fill: bool,
    },
    /// Compute the digest of one block that the engine merged.
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
    /// Send [`Event::Tick`] at this time. A later `Wake` replaces an earlier one.
    Wake {
        at: Time,
    },
    Notice(Notice),
    /// Send all requests again that were answered [`Failure::Full`]: there may be room now, or they have waited long enough.
    Retry,
    /// Append these to the acknowledgement journal, in order, before any later action (`answers/promise.rs`).
    Remember(Vec<Promise>),
    /// Drop the entries of the journal up to this epoch, which is durable, before any later action, and keep these traces of it.
    Forget {
        epoch: Epoch,
        traces: Traces,
    },
    /// Drop the journal of the last server, since its entries are durable. A new journal begins.
    Replayed,
    /// The answer to [`Event::Close`]. `clean`: everything is durable and the volume marked clean. Otherwise something has failed.
    Closed {
        clean: bool,
    },
}

/// An event that the runtime reports to the engine.
#[derive(Debug)]
pub enum Event {
    Request(Request),
    /// A read has ended. The buffer comes back, with digests if they were asked for.
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
    /// A discard has ended, or a filling with zeros. Neither promises anything: if it failed, nothing was discarded or filled.
    Discarded {
        io: IoId,
        result: Result<(), IoFailure>,
    },
    Digested {
        io: IoId,
        digest: Digest,
    },
    /// `data` is none if the block does not compress to so few bytes.
    Compressed {
        io: IoId,
        data: Option<Vec<u8>>,
    },
    /// Time has passed.
    Tick,
    /// The room in the store's file system, if the store is a sparse file. The runtime reports it repeatedly.
    StoreRoom(StoreRoom),
    /// Another server has claimed the volume (decision 0086): this one goes read-only for good, as by A5, and writes nothing more.
    Ousted,
    /// The guard block could not be read or written, or the notes not be written. It counts as a failed operation of the device (A5).
    StoreFailed,
    /// Somebody asks for work out of line.
    Deduplicate(Deduplicate),
    /// These ranges hold copies that a file system keeps on purpose, and no others that somebody found. Their blocks stay apart from now
    /// on.
    Protect(Vec<ProtectedRange>),
    /// Somebody asks for a scrub.
    Scrub(ScrubOrder),
    /// The machine can afford this much deduplication from now on.
    Allowance(Allowance),
    /// The index has this much memory from now on, but no more than its share. It is rebuilt.
    IndexMemory(Bytes),
    /// Write the lifetime ledger to the medium soon: another server is about to take over.
    SaveLedger,
    /// The volume will be detached soon: writes that wait for room fail at once, and so do further ones that find none.
    EndWaiting,
    /// The volume is to be closed: the engine commits everything, marks it clean, and answers [`Action::Closed`]. No request follows.
    Close,
}

/// The effect of a weak operation that was acknowledged.
#[derive(Clone, Debug)]
pub enum Promised {
    /// The LBN means the content of this block, or of this slot of a carrier, which is on the device. `proof` is its fingerprint, or
    /// its checksum: a device that has failed since may hold something else there.
    Link { lbn: Lbn, pbn: Pbn, slot: u8, proof: FingerprintEntry },
    /// The LBN means this content, which may be stored nowhere else.
    Content { lbn: Lbn, content: Slice },
    /// The LBN means zeros.
    Zero { lbn: Lbn },
    /// `first..end` is unmapped.
    Unmap { first: Lbn, end: Lbn },
}

/// An entry of the acknowledgement journal, and the epoch that makes it durable.
#[derive(Clone, Debug)]
pub struct Promise {
    pub epoch: Epoch,
    pub what: Promised,
}

/// A trace that a durable epoch left on the medium. A store that was set back to an older copy of itself lacks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// The log has a unit of this sequence number.
    Log { sequence: u64 },
    /// This sector of the map, counted from the first of the region, has this sum.
    Map { sector: u64, sum: u32 },
}

/// The traces of the last durable epoch: the medium has at least one of them. Both are none if no epoch became durable yet.
pub type Traces = [Option<Trace>; 2];

/// The state that a server leaves to the next one, if the device that clients hold outlives it.
#[derive(Clone, Debug, Default)]
pub struct Legacy {
    /// Acknowledged operations that are not known to be durable, in order.
    pub promises: Vec<Promised>,
    pub traces: Traces,
}

/// A report to the owner of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A write or flush failed: read-only from here on (A5).
    WentReadOnly { what: &'static str },
    /// Another server has written a superblock, of this generation and incarnation: read-only from here on. It may have formatted the
    /// store.
    OtherServer { generation: u64, incarnation: u64, is_formatted: bool },
    /// A server of another host has claimed the volume: read-only from here on.
    Ousted,
    /// A counter of the volume has reached its maximum: read-only from here on (`pool/counters.rs`).
    CountersUsedUp,
    /// There is damage that no crash explains (P6).
    Damage { what: &'static str, at: u64 },
    /// The device had lost a copy of what memory still has, which is written again, durably.
    Mended { what: &'static str, at: u64 },
    /// A scrub has ended. It found `damaged` pieces of 4 KiB, and came to `lost` logical blocks; `mended` other pieces are durably
    /// whole again.
    Scrubbed { damaged: u64, mended: u64, lost: u64 },
    /// A thin volume fills: this percentage of its data blocks is in use. It is reported at 80 and every 5 above.
    Filling { percent: u64, unpacked: Option<Unpacked> },
    /// A write finds no room. Writes that need some wait for this time, or fail at once (0).
    /// `on_host`: the store has no room, whatever the volume has.
    Full { wait_ms: u64, on_host: bool },
    /// Writes have waited for room this long, and fail (ENOSPC) from here on.
    NoSpace { waited_ms: u64, on_host: bool },
    /// There is room again.
    RoomAgain,
    /// The log is still being read. This is reported repeatedly while an opening takes long.
    Opening(Progress),
    /// The volume serves: reads are answered from now on.
    Serving,
    /// The index is rebuilt from the fingerprint table, and has this number of entries. `named` blocks that a crash had left without a
    /// whole fingerprint have it again, and `unnamed` blocks still have none. `goes_on`: a second pass after the recount gives it to the
    /// rest.
    IndexRebuilt { entries: u64, named: u64, unnamed: u64, goes_on: bool },
    /// Mode `log` was asked for, but there is no free block for a log: the mode is `ordered` until the next opening.
    NoRoomForLog,
    /// This number of acknowledged writes of the last server is lost: nothing on the device proves them, or they cannot be kept.
    AcknowledgedLost { writes: u64 },
    /// The store lacks data that the last server had made durable: it was set back to an older copy, or has lost them.
    SetBack,
    /// Excess counts of this number of links were returned, which a crash had left.
    Recounted { blocks: u64 },
}

/// The progress of an opening that reads a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Units of the log that were read, and the most that there may be: only the last unit shows that it is the last.
    pub units: u64,
    pub units_most: u64,
    /// Changes by their records, counted by runs, and how many of these were written to pages already, to free memory.
    pub records: u64,
    pub records_on_pages: u64,
}

/// The number of blocks, at least and at most, that clients' content would take if none lay in slots; `of` is the number of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    pub least: u64,
    pub most: u64,
    pub of: u64,
}
