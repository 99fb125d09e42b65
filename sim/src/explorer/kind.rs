//! Kinds of runs, and their options.

use crate::explorer::options::{Modes, Options};
use fastrand::Rng;
use onefold_engine::format::CommitMode;

/// The subject of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A volume is formatted over another, and the power is lost.
    Formatting,
    /// Something on the device is damaged.
    Spoiling,
    /// Something among the units of large epochs is damaged.
    SpoilingLargeEpochs,
    /// Blocks rot, a life finds it, and the next one writes their content anew.
    Rotting,
    /// The volume fills.
    Filling,
    /// A device call fails (A5).
    Failing,
    LargeEpochs,
    /// There are few crashes.
    Long,
    /// A refs page is evicted within an epoch, and read again.
    TurningPagesOut,
    InLittleMemory,
    /// The index finds few duplicates when they are written.
    OutOfLine,
    /// The volume grows, and is used on.
    Growing,
    /// Something rots below a volume that is served, and a scrub mends it.
    Scrubbing,
    /// A killed volume is changed or repaired while nobody serves it.
    Offline,
    Crashing,
}

impl Kind {
    pub const ALL: [Self; 15] = [
        Self::Formatting,
        Self::Spoiling,
        Self::SpoilingLargeEpochs,
        Self::Rotting,
        Self::Filling,
        Self::Failing,
        Self::LargeEpochs,
        Self::Long,
        Self::TurningPagesOut,
        Self::InLittleMemory,
        Self::OutOfLine,
        Self::Growing,
        Self::Scrubbing,
        Self::Offline,
        Self::Crashing,
    ];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Formatting => "formatting",
            Self::Spoiling => "spoiling",
            Self::SpoilingLargeEpochs => "spoiling large epochs",
            Self::Rotting => "rotting",
            Self::Filling => "filling",
            Self::Failing => "failing",
            Self::LargeEpochs => "large epochs",
            Self::Long => "long",
            Self::TurningPagesOut => "turning pages out",
            Self::InLittleMemory => "in little memory",
            Self::OutOfLine => "out of line",
            Self::Growing => "growing",
            Self::Scrubbing => "scrubbing",
            Self::Offline => "offline",
            Self::Crashing => "crashing",
        }
    }

    /// Draws a run.
    #[must_use]
    pub fn draw(modes: Modes, rng: &mut Rng) -> (Self, Options) {
        let options = Options::draw_in(modes, rng);
        match rng.u8(0..16) {
            0 if rng.bool() => (Self::Offline, options),
            0 => (Self::Formatting, options),
            // Drawn from a copy, so that no other run changes.
            7 if rng.clone().u8(..) < 128 => {
                let options = if rng.bool() { options.out_of_line(rng) } else { options };
                (Self::Rotting, options.rotting())
            }
            7 => (Self::Spoiling, options),
            8 | 10 => (Self::Filling, options.filling()),
            9 => (Self::Failing, options.filling()),
            1..=3 => (Self::Failing, options),
            5 if options.settings.commit_mode == CommitMode::Log && rng.bool() => {
                (Self::SpoilingLargeEpochs, options.with_large_epochs(rng))
            }
            4 | 5 if modes.log() => (Self::LargeEpochs, options.with_large_epochs(rng)),
            4 if rng.u8(..) < 96 => (Self::LargeEpochs, options.with_large_epochs(rng)),
            4 => (Self::Long, options),
            5 => (Self::TurningPagesOut, options.turning_pages_out(rng)),
            6 | 11 => (Self::InLittleMemory, options.in_little_memory(rng)),
            13 if rng.bool() => (Self::Scrubbing, options),
            12 | 13 => (Self::OutOfLine, options.out_of_line(rng)),
            15 if rng.bool() => (Self::Growing, options.filling()),
            15 => (Self::Growing, options),
            _ => (Self::Crashing, options),
        }
    }
}
