//! The questions that a server answers on its control socket (`control.rs`).

use crate::growth::Order as GrowthOrder;
use crate::hints::rule::{Act, Rule};
use crate::runtime::extents::ExtentCounts;
use crate::runtime::links::LinkSearch;
use crate::runtime::recording::Order;
use onefold_engine::interface::{Deduplicate, ScrubOrder};
use onefold_engine::units::Lbn;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A question to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "ask")]
pub enum ServerRequest {
    Status,
    Stats,
    /// Go on with a count of extents. The answer is how far it is.
    Extents(ExtentCounts),
    /// Go on with a search for the bytes that lie in some blocks.
    Links(LinkSearch),
    /// The answer is a list of the blocks of content that were found damaged.
    Damaged,
    /// End all waiting for room: the client is about to flush the device, and the flush waits for those writes.
    EndWaiting,
    /// An order for the work out of line.
    Deduplicate(OrderOutOfLine),
    Scrub(OrderScrub),
    /// An order for the rules of hints.
    Hints(HintOrder),
    /// A program says what is to be done with a file that it has opened. The answer is whether the file lies on this volume: see
    /// docs/hints-library.md.
    HintFile {
        device: DeviceNumber,
        inode: u64,
        act: Act,
        #[serde(default)]
        path: Option<PathBuf>,
    },
    /// Give the index this much memory, within its share.
    IndexMemory {
        bytes: u64,
    },
    /// Commit, mark the volume clean, and end. The server answers when it begins to.
    Detach,
    /// Give way to a server of another program, which the supervisor starts. The server answers when it begins to.
    Upgrade(Upgrade),
    /// Give way to a server that grows the volume before it opens it. The server answers when it begins to.
    Grow(GrowthOrder),
    /// Let the kernel know how large the volume is, if it keeps its size in mind.
    AnnounceSize,
    /// Record the requests of clients until the one who asked ends it, or goes away. The first answer comes when recording has begun.
    Record(Order),
    /// Note in the recording that a phase begins.
    Mark {
        phase: String,
    },
}

impl ServerRequest {
    /// Whether the question may be asked again where nobody knows if a server that died has heard it.
    pub(super) fn changes_nothing(&self) -> bool {
        matches!(self, Self::Status | Self::Stats | Self::Extents(_) | Self::Links(_) | Self::Damaged)
    }
}

/// The version of what the processes of an attachment hand over to each other: command lines, plans, descriptors and the acknowledgement
/// journal. Programs of other versions cannot take over from each other.
pub const HANDOVER_VERSION: u32 = 2;

/// The program to which a server gives way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgrade {
    pub program: PathBuf,
    /// Its [`HANDOVER_VERSION`], and the version of the format that it can use.
    pub handover_version: u32,
    pub format_version: u32,
}

/// An order for the work out of line, in LBNs: `first` is the first one, `end` the one behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "order")]
pub enum OrderOutOfLine {
    Range { first: u64, end: u64 },
    Pause,
    Resume,
}

/// The number of a file's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNumber {
    pub major: u32,
    pub minor: u32,
}

/// An order for the rules of hints, which the volume keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "order")]
pub enum HintOrder {
    /// The answer is a list of their numbers.
    Add {
        rules: Vec<Rule>,
    },
    Remove {
        numbers: Vec<u32>,
    },
    /// Spare files that are compressed already another compression, or not.
    SpareCompressed {
        spares: bool,
    },
}

/// An order for the scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "order")]
pub enum OrderScrub {
    Begin { kib_per_second: u32 },
    Pause,
    Resume,
    Cancel,
}

impl From<OrderScrub> for ScrubOrder {
    fn from(order: OrderScrub) -> Self {
        match order {
            OrderScrub::Begin { kib_per_second } => Self::Begin { kib_per_second },
            OrderScrub::Pause => Self::Pause,
            OrderScrub::Resume => Self::Resume,
            OrderScrub::Cancel => Self::Cancel,
        }
    }
}

impl From<OrderOutOfLine> for Deduplicate {
    fn from(order: OrderOutOfLine) -> Self {
        match order {
            OrderOutOfLine::Range { first, end } => Self::Range { first: Lbn(first), end: Lbn(end) },
            OrderOutOfLine::Pause => Self::Pause,
            OrderOutOfLine::Resume => Self::Resume,
        }
    }
}
