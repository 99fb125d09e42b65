//! The ledger's account of the log's epochs, by what could ride in them ([`LogEpochs`]).
//!
//! 1. An epoch is counted when it is durable, if it wrote units.
//! 2. Its new blocks are all that were born in it, those too that died before it was sealed.

use super::limits::SMALL_BLOCKS_MAX;
use crate::ledger::LogEpochs;
use crate::tables::Epoch as Records;
use crate::units::count;

/// What is known of an epoch on its way.
#[derive(Default)]
pub(crate) struct Counting {
    pub births: usize,
    /// Clients changed something in it.
    pub is_clients: bool,
    pub could_ride: bool,
    pub carriers: usize,
    pub riders: usize,
    pub flushes: u64,
    pub by_fua: bool,
}

impl Counting {
    pub fn of(epoch: &Records) -> Self {
        let is_clients = !(epoch.points.is_empty() && epoch.ranges.is_empty() && epoch.cancelled.is_empty());
        Self { births: epoch.births.len(), is_clients, ..Self::default() }
    }
}

impl Counting {
    /// An epoch of so many units is durable.
    pub fn enter(&self, all: &mut LogEpochs, units: usize) {
        let counts = match self {
            Self { is_clients: false, .. } => &mut all.removals,
            Self { births, .. } if *births > SMALL_BLOCKS_MAX => &mut all.large,
            Self { could_ride: true, .. } => &mut all.riding,
            _ => &mut all.bare,
        };
        counts.epochs += 1;
        counts.new_blocks += count(self.births);
        counts.riders += count(self.riders);
        counts.carriers += count(self.carriers);
        counts.plain += count(units - self.carriers);
        counts.flushes += self.flushes;
        counts.by_fua += u64::from(self.by_fua);
    }
}
