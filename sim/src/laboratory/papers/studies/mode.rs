//! The modes of the replays.

use crate::laboratory::replay::timed::Timed;
use onefold_engine::settings::Persistence;

/// The moment when writes are acknowledged, and the number that may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Weak,
    /// Strong persistence, with up to 32 writes waiting.
    Strong,
    /// Strong persistence, with one write waiting at a time.
    Alone,
    /// Strong persistence, with requests of one block, of which 1, 4 or 32 wait.
    Blocks1,
    Blocks4,
    Blocks32,
}

impl Mode {
    /// The modes in which requests are as they were recorded, in the order of reports.
    pub const ALL: [Self; 3] = [Self::Weak, Self::Strong, Self::Alone];
    /// The modes with requests of one block.
    pub const OF_BLOCKS: [Self; 3] = [Self::Blocks1, Self::Blocks4, Self::Blocks32];

    /// Returns the persistence for the replay.
    #[must_use]
    pub const fn persistence(self) -> Persistence {
        match self {
            Self::Weak => Persistence::Weak,
            _ => Persistence::Strong,
        }
    }

    /// Returns the number of changes that may wait for their answers.
    #[must_use]
    pub const fn outstanding(self) -> usize {
        match self {
            Self::Weak | Self::Strong | Self::Blocks32 => 32,
            Self::Blocks4 => 4,
            Self::Alone | Self::Blocks1 => 1,
        }
    }

    /// Returns the largest request, in blocks, if there is a limit.
    #[must_use]
    pub const fn request_blocks_max(self) -> Option<u64> {
        match self {
            Self::Weak | Self::Strong | Self::Alone => None,
            Self::Blocks1 | Self::Blocks4 | Self::Blocks32 => Some(1),
        }
    }

    /// Returns the name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Strong => "strong, 32 outstanding",
            Self::Alone => "strong, 1 outstanding",
            Self::Blocks1 => "strong, requests of 4 KiB, 1 outstanding",
            Self::Blocks4 => "strong, requests of 4 KiB, 4 outstanding",
            Self::Blocks32 => "strong, requests of 4 KiB, 32 outstanding",
        }
    }

    /// Returns the name for identifiers of a page.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Strong => "strong",
            Self::Alone => "alone",
            Self::Blocks1 => "blocks-1",
            Self::Blocks4 => "blocks-4",
            Self::Blocks32 => "blocks-32",
        }
    }

    /// Returns whether a replay was made in this mode.
    #[must_use]
    pub fn is_of(self, timed: &Timed) -> bool {
        let outstanding = (self != Self::Weak).then(|| self.outstanding());
        (timed.report.outstanding, timed.report.request_blocks_max) == (outstanding, self.request_blocks_max())
    }
}
