//! The steps of a commit and of other work, as they are seen on the device.

/// The place where the engine is, as seen on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    Opening,
    Idle,
    Content,
    Refs,
    Flush1,
    Links,
    Flush2,
    NonCritical,
    Recount,
    Reclaim,
    Closing,
    Format,
    Grow,
}

impl Step {
    /// All steps, in the order of tables.
    pub const ALL: [Self; 13] = [
        Self::Opening,
        Self::Idle,
        Self::Content,
        Self::Refs,
        Self::Flush1,
        Self::Links,
        Self::Flush2,
        Self::NonCritical,
        Self::Recount,
        Self::Reclaim,
        Self::Closing,
        Self::Format,
        Self::Grow,
    ];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Idle => "idle",
            Self::Content => "content",
            Self::Refs => "refs",
            Self::Flush1 => "flush 1",
            Self::Links => "links",
            Self::Flush2 => "flush 2",
            Self::NonCritical => "non-critical",
            Self::Recount => "recount",
            Self::Reclaim => "reclaim",
            Self::Closing => "closing",
            Self::Format => "format",
            Self::Grow => "growth",
        }
    }
}
