//! The ledger's account of the log's epochs, by what could ride in them ([`LogEpochs`]).
//!
//! 1. An epoch is counted when it is durable, if it wrote units.
//! 2. Its new blocks are all that were born in it, those too that died before it was sealed.

use super::units::SMALL_BLOCKS_MAX;
use crate::contents::Holding;
use crate::engine::Engine;
use crate::stats::RIDES_BYTES_MAX;
use crate::tables::Epoch as Records;
use crate::units::{Epoch, Pbn, count};

/// What is known of an epoch on its way.
#[derive(Default)]
pub(super) struct Counting {
    births: usize,
    /// Clients changed something in it.
    is_clients: bool,
    could_ride: bool,
    carriers: usize,
    riders: usize,
    pub flushes: u64,
    pub by_fua: bool,
}

impl Counting {
    pub fn of(epoch: &Records) -> Self {
        let is_clients = !(epoch.points.is_empty() && epoch.ranges.is_empty() && epoch.cancelled.is_empty());
        Self { births: epoch.births.len(), is_clients, ..Self::default() }
    }
}

impl Engine {
    /// It was decided what rides in the units of the committing epoch.
    pub(super) fn count_riders(&mut self, epoch: Epoch, carriers: &[Vec<Pbn>]) {
        let rides = |state: &Holding| matches!(state, Holding::Small(data) if data.len() <= RIDES_BYTES_MAX);
        let could_ride = self.store.contents.held.of(epoch).any(|(_, held)| rides(&held.state));
        let counts = &mut self.scheme.commit.as_mut().expect("units are a commit's").log.counts;
        (counts.could_ride, counts.carriers, counts.riders) = (could_ride, carriers.len(), carriers.iter().map(Vec::len).sum());
    }

    /// An epoch of so many units is durable.
    pub(super) fn count_epoch(&mut self, of: &Counting, units: usize) {
        let all = &mut self.store.io.ledger.log_epochs;
        let counts = match of {
            Counting { is_clients: false, .. } => &mut all.removals,
            Counting { births, .. } if *births > SMALL_BLOCKS_MAX => &mut all.large,
            Counting { could_ride: true, .. } => &mut all.riding,
            _ => &mut all.bare,
        };
        counts.epochs += 1;
        counts.new_blocks += count(of.births);
        counts.riders += count(of.riders);
        counts.carriers += count(of.carriers);
        counts.plain += count(units - of.carriers);
        counts.flushes += of.flushes;
        counts.by_fua += u64::from(of.by_fua);
    }
}
