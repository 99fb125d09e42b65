//! The streams of a trace: the sizes that are assumed for them, and the hints that a replay gives for them.

use crate::laboratory::replay::planned::PlannedRequest;
use onefold_engine::interface::{Op, Policies, Policy};
use onefold_trace::record::Record;

/// The assumed compressed size of a block of a file system's journal or metadata, for a trace without sizes. File data are assumed not to
/// compress.
pub const ASSUMED_BYTES: u16 = 2048;
/// The stream of a file system's journal in the shipped traces.
pub const JOURNAL: &str = "J";
/// The stream of other metadata.
pub const METADATA: &str = "M";

/// Returns whether a stream is journal or metadata.
#[must_use]
pub fn is_metadata(stream: Option<&str>) -> bool {
    stream.is_some_and(|stream| [JOURNAL, METADATA].contains(&stream))
}

/// Gives blocks of journal and metadata a size if they have none.
#[must_use]
pub fn assume_sizes(mut record: Record) -> Record {
    if is_metadata(record.stream.as_deref()) {
        record.blocks.iter_mut().for_each(|block| block.compressed = block.compressed.or(Some(ASSUMED_BYTES)));
    }
    record
}

/// The policies that the requests of a replay bring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hinting {
    /// The policy of writes of journal and metadata.
    pub metadata: Policy,
    /// The policy of other writes.
    pub data: Policy,
    pub reads: Policy,
}

impl Hinting {
    /// Returns the policies of a request.
    #[must_use]
    pub fn of(&self, ask: &PlannedRequest) -> Policies {
        Policies::Same(match ask.op {
            Op::Write if is_metadata(ask.stream.as_deref()) => self.metadata,
            Op::Write => self.data,
            Op::Read => self.reads,
            _ => Policy::DEFAULT,
        })
    }
}
