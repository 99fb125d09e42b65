//! The settings in a superblock, with which a volume is opened unless its user says otherwise.

use super::fields::at;
use super::values::one_of;
use crate::format::refused::SuperblockError;
use crate::units::index;

/// The scheme that makes epochs durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitMode {
    /// The scheme of OrderMergeDedup: data and increments, links, decrements.
    #[default]
    Ordered,
    /// Records go to the carried log; pages are written lazily.
    Log,
}

impl CommitMode {
    const ALL: [Self; 2] = [Self::Ordered, Self::Log];

    /// Whether the volume has a log in this mode.
    #[must_use]
    pub const fn has_log(self) -> bool {
        matches!(self, Self::Log)
    }

    const fn number(self) -> u64 {
        match self {
            Self::Ordered => 0,
            Self::Log => 1,
        }
    }
}

/// The moment at which a write is acknowledged (OrderMergeDedup section 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// The write is acknowledged on admission; it is durable at the next flush, FUA or periodic commit.
    #[default]
    Weak,
    /// The write is acknowledged after its epoch's commit.
    Strong,
}

/// The settings with which a volume is opened unless its user says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartSettings {
    pub commit_mode: CommitMode,
    pub persistence: Persistence,
    pub noncritical_delay_ms: u64,
    pub commit_period_ms: u64,
    pub anticipation_ms: u64,
    pub verify_reads: bool,
    pub verify_duplicates: bool,
    pub discard_freed: bool,
}

impl StartSettings {
    pub(super) fn encode(&self, out: &mut [u8]) {
        at::COMMIT_MODE.set(out, self.commit_mode.number());
        at::PERSISTENCE.set(out, u64::from(self.persistence == Persistence::Strong));
        at::VERIFY_READS.set(out, u64::from(self.verify_reads));
        at::VERIFY_DUPLICATES.set(out, u64::from(self.verify_duplicates));
        at::DISCARD_FREED.set(out, u64::from(self.discard_freed));
        at::NONCRITICAL_DELAY_MS.set(out, self.noncritical_delay_ms);
        at::COMMIT_PERIOD_MS.set(out, self.commit_period_ms);
        at::ANTICIPATION_MS.set(out, self.anticipation_ms);
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let mode = one_of(at::COMMIT_MODE, bytes, &CommitMode::ALL.map(CommitMode::number))?;
        let flag = |field| one_of(field, bytes, &[0, 1]).map(|value| value == 1);
        Ok(Self {
            commit_mode: CommitMode::ALL[index(mode)],
            persistence: if flag(at::PERSISTENCE)? { Persistence::Strong } else { Persistence::Weak },
            noncritical_delay_ms: at::NONCRITICAL_DELAY_MS.get(bytes),
            commit_period_ms: at::COMMIT_PERIOD_MS.get(bytes),
            anticipation_ms: at::ANTICIPATION_MS.get(bytes),
            verify_reads: flag(at::VERIFY_READS)?,
            verify_duplicates: flag(at::VERIFY_DUPLICATES)?,
            discard_freed: flag(at::DISCARD_FREED)?,
        })
    }
}
