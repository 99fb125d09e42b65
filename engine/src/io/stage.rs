//! How far the service of the volume has come.

/// Where the service stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Created,
    /// Waiting for the flush of R8, then for the superblock.
    Opening,
    /// What the last server had promised is applied and committed.
    Recalling,
    Serving,
    /// Epochs are committed, what is waiting settles.
    ClosingEpochs,
    /// Pages go out; then a flush.
    ClosingPages,
    ClosingPagesFlush,
    /// *Written* bits are set, their pages go out; then a flush.
    ClosingBits,
    ClosingBitsFlush,
    ClosingSuperblock,
    Closed,
}

impl Stage {
    pub fn is_before_service(self) -> bool {
        matches!(self, Self::Created | Self::Opening | Self::Recalling)
    }

    pub fn commits(self) -> bool {
        matches!(self, Self::Recalling | Self::Serving | Self::ClosingEpochs)
    }

    pub fn is_closing(self) -> bool {
        !matches!(self, Self::Created | Self::Opening | Self::Recalling | Self::Serving)
    }

    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Created | Self::Opening | Self::Recalling => Some("opening"),
            Self::Serving | Self::ClosingEpochs => None,
            Self::ClosingPages | Self::ClosingPagesFlush | Self::ClosingBits | Self::ClosingBitsFlush | Self::ClosingSuperblock => {
                Some("closing")
            }
            Self::Closed => Some("closed"),
        }
    }
}
