//! The settings in a superblock, with which a volume is opened unless its user says otherwise.

use super::fields::{INCOMPATIBLE_DEFAULTS, at};
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

/// The blocks that the log compresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// None: every unit is plain.
    Off,
    /// New blocks of small epochs, into the units that record them.
    Carriers,
    /// These, and the new blocks of large epochs, several in one block.
    #[default]
    All,
}

impl Compression {
    /// The values by their number.
    const ALL: [Self; 3] = [Self::All, Self::Carriers, Self::Off];

    const fn number(self) -> u64 {
        match self {
            Self::All => 0,
            Self::Carriers => 1,
            Self::Off => 2,
        }
    }
}

/// The memory of a server, in bytes, where neither the volume nor its user says otherwise.
pub const MEMORY_BYTES_DEFAULT: u64 = 64 << 20;
/// The time that writes wait for room, in seconds, where neither the volume nor its user says otherwise.
pub const FULL_WAIT_S_DEFAULT: u64 = 60;

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
    pub compression: Compression,
    /// The memory of a server, in bytes.
    pub memory_bytes: u64,
    /// The time that writes wait for room in a full volume, in seconds; 0 has them fail at once.
    pub full_wait_s: u64,
}

/// The value of a field in which 0 stands for none.
fn given(value: u64) -> Option<u64> {
    Some(value).filter(|&value| value != 0)
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
        at::COMPRESSION.set(out, self.compression.number());
        at::MEMORY_BYTES.set(out, if self.memory_bytes == MEMORY_BYTES_DEFAULT { 0 } else { self.memory_bytes });
        at::FULL_WAIT_S.set(out, if self.full_wait_s == FULL_WAIT_S_DEFAULT { 0 } else { self.full_wait_s + 1 });
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
            compression: Compression::ALL[index(one_of(at::COMPRESSION, bytes, &Compression::ALL.map(Compression::number))?)],
            memory_bytes: given(at::MEMORY_BYTES.get(bytes)).unwrap_or(MEMORY_BYTES_DEFAULT),
            full_wait_s: given(at::FULL_WAIT_S.get(bytes)).map_or(FULL_WAIT_S_DEFAULT, |above| above - 1),
        })
    }

    /// The feature bits of these settings: those that came after the first programs of this version are zero in what a volume is made with,
    /// and a program that does not know them would not let them be anything else.
    pub(super) fn features(&self) -> u64 {
        let is_new =
            self.compression == Compression::All && self.memory_bytes == MEMORY_BYTES_DEFAULT && self.full_wait_s == FULL_WAIT_S_DEFAULT;
        if is_new { 0 } else { INCOMPATIBLE_DEFAULTS }
    }
}
