//! The stages of a volume, from its opening to its closing.

/// The stage of the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Created,
    /// Waits for the flush of R8, then for the superblock.
    Opening,
    /// Applies and commits the acknowledgement journal of the last server.
    Replaying,
    Serving,
    /// Commits epochs, and lets what waits enter its pages.
    ClosingEpochs,
    /// Writes pages; a flush follows.
    ClosingPages,
    ClosingPagesFlush,
    /// Sets *written* bits, and writes their pages; a flush follows.
    ClosingBits,
    ClosingBitsFlush,
    ClosingSuperblock,
    Closed,
}

impl Stage {
    pub fn is_before_service(self) -> bool {
        matches!(self, Self::Created | Self::Opening | Self::Replaying)
    }

    pub fn commits(self) -> bool {
        matches!(self, Self::Replaying | Self::Serving | Self::ClosingEpochs)
    }

    pub fn is_closing(self) -> bool {
        !matches!(self, Self::Created | Self::Opening | Self::Replaying | Self::Serving)
    }

    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Created | Self::Opening | Self::Replaying => Some("opening"),
            Self::Serving | Self::ClosingEpochs => None,
            Self::ClosingPages | Self::ClosingPagesFlush | Self::ClosingBits | Self::ClosingBitsFlush | Self::ClosingSuperblock => {
                Some("closing")
            }
            Self::Closed => Some("closed"),
        }
    }
}
