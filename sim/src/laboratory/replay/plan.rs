//! The parameters of a replay.

use crate::laboratory::flash::Flash;
use crate::laboratory::replay::scheme::{IndexLimits, Scheme};
use crate::laboratory::replay::streams::Hinting;
use onefold_engine::settings::Persistence;
use onefold_engine::units::BLOCK_BYTES;
use onefold_trace::model::Model;
use std::sync::Arc;

/// The parameters of a replay.
#[derive(Clone, Debug)]
pub struct Plan {
    pub scheme: Scheme,
    pub persistence: Persistence,
    pub model: Model,
    /// The flash whose times the device has instead of the model's. The measured phase begins with it as it is here, whatever the phases
    /// before have written and trimmed.
    pub flash: Option<Arc<Flash>>,
    /// Whether the measured phase begins with the flash as the phases before have left it, instead.
    pub keeps_flash: bool,
    /// The number of changes that may wait for their answers under strong persistence.
    pub outstanding_max: usize,
    /// The largest request, in bytes; a larger one is sent in pieces. A multiple of 4096; the volume's memory is another bound.
    pub request_bytes_max: u64,
    /// The number of reads that may wait for their answers.
    pub reads_max: usize,
    pub memory_bytes: u64,
    pub index: IndexLimits,
    /// The hints that requests bring.
    pub hinting: Hinting,
    /// Whether a change waits for the answers of all reads, as a copy does: it writes what it has read.
    pub is_copy: bool,
    /// Whether to read every block at the end, too. It takes as long as the replay.
    pub verify: bool,
}

impl Default for Plan {
    /// Plans the default settings of a volume, on a device that takes no time.
    fn default() -> Self {
        Self {
            scheme: Scheme::OrderedAnticipate,
            persistence: Persistence::Weak,
            model: onefold_trace::model::MODELS[0],
            flash: None,
            keeps_flash: false,
            outstanding_max: 32,
            request_bytes_max: u64::MAX,
            reads_max: usize::MAX,
            memory_bytes: onefold_engine::settings::Settings::default().memory_bytes,
            index: IndexLimits::default(),
            hinting: Hinting::default(),
            is_copy: false,
            verify: false,
        }
    }
}

impl Plan {
    /// Returns the number of changes that may wait for their answers; none if the persistence is weak and sets no limit.
    #[must_use]
    pub fn group_max(&self) -> Option<usize> {
        (self.persistence == Persistence::Strong).then_some(self.outstanding_max)
    }

    /// Returns the largest request in blocks, if the plan sets a limit.
    #[must_use]
    pub fn request_blocks_max(&self) -> Option<u64> {
        (self.request_bytes_max < u64::MAX).then_some(self.request_bytes_max / BLOCK_BYTES)
    }
}
