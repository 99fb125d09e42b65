//! The reasons why there is no repair.

use crate::format::OpenError;
use crate::interface::IoFailure;

/// The reason why there is no repair.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepairError {
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its log, or a recount, comes first.
    #[error("the volume was not closed in order")]
    NotClosed,
    /// A counter has reached its limit, or a program must know a feature before it writes.
    #[error("the volume can be read, but not written")]
    ReadOnly,
    /// More blocks than there is memory for are not what their entries say.
    #[error("more than {blocks} blocks are damaged")]
    TooMuch { blocks: usize },
    #[error("the device failed")]
    Device,
}

impl From<IoFailure> for RepairError {
    fn from(_: IoFailure) -> Self {
        Self::Device
    }
}
