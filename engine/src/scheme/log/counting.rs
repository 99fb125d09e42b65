//! The ledger's account of the log's epochs ([`LogEpochs`]): whether their blocks could ride.
//!
//! 1. An epoch is counted when it is durable, if it wrote units.
//! 2. Its new blocks include those that died before it was sealed.

use super::limits::SMALL_BLOCKS_MAX;
use crate::ledger::LogEpochs;
use crate::tables::EpochRecords;
use crate::units::count;

/// Counts of an epoch that commits.
#[derive(Default)]
pub(crate) struct Counting {
    pub new_blocks: usize,
    /// Clients changed something in it.
    pub is_clients: bool,
    pub could_ride: bool,
    pub carriers: usize,
    pub riders: usize,
    pub flushes: u64,
    pub by_fua: bool,
}

impl Counting {
    pub fn of(epoch: &EpochRecords) -> Self {
        let is_clients = !(epoch.points.is_empty() && epoch.ranges.is_empty() && epoch.cancelled.is_empty());
        Self { new_blocks: epoch.new_blocks.len(), is_clients, ..Self::default() }
    }
}

impl Counting {
    /// Adds a durable epoch of this many units.
    pub fn enter(&self, all: &mut LogEpochs, units: usize) {
        let counts = match self {
            Self { is_clients: false, .. } => &mut all.removals,
            Self { new_blocks, .. } if *new_blocks > SMALL_BLOCKS_MAX => &mut all.large,
            Self { could_ride: true, .. } => &mut all.riding,
            _ => &mut all.bare,
        };
        counts.epochs += 1;
        counts.new_blocks += count(self.new_blocks);
        counts.riders += count(self.riders);
        counts.carriers += count(self.carriers);
        counts.plain += count(units - self.carriers);
        counts.flushes += self.flushes;
        counts.by_fua += u64::from(self.by_fua);
    }
}
