//! What a walk has found becomes the log of the volume.

use super::doubts::Doubting;
use super::reading::Contents;
use super::settle::Settling;
use super::walk::{Ended, Taken};
use super::{Damaged, Opening, State};
use crate::map::Map;
use crate::scheme::log::copies::Segments;
use crate::scheme::log::{Log, Walked};
use crate::space::Use;
use crate::store::Store;
use crate::tables::{Committed, Epoch as Records, Unchained};
use crate::units::{Epoch, Pbn};
use std::collections::BTreeSet;

impl Opening {
    /// All is compared: what the walk found is the log, but for what was lost.
    pub(super) fn doubts_are_over(&mut self, store: &mut Store, doubting: Doubting) -> Box<Log> {
        let Doubting { ended, live, units, right: mut again, wrong, .. } = doubting;
        again.extend(units);
        self.adopt(store, ended, live, &wrong, again, true)
    }

    /// What the walk found is what the log holds, but for records that name `wrong` blocks. `again`: what counts, though nobody knows that
    /// it was flushed.
    pub(super) fn adopt(
        &mut self,
        store: &mut Store,
        mut ended: Ended,
        mut live: Unchained,
        wrong: &BTreeSet<Pbn>,
        again: Contents,
        crashed: bool,
    ) -> Box<Log> {
        let mut log = Log::new(ended.end + 1);
        ended.replay(wrong, &mut |epoch, effect| live.push(epoch, effect));
        let mut live = live.chained();
        log.has_spilled = self.spilled > 0;
        let superblock = &mut store.medium.superblock;
        let (since, before) = superblock.anchor.as_ref().map_or((0, Epoch(0)), |anchor| (anchor.condensed.since, anchor.epoch));
        live.condensed_upto(before);
        log.walk = ended.units.iter().map(|&Taken { pbn, incarnation, epoch, .. }| Walked { pbn, incarnation, epoch }).collect();
        log.segments = Segments::read(since, ended.condensed.clone());
        log.places = ended.come.iter().copied().collect();
        let used = |unit: &Taken| (unit.pbn, if unit.is_carrier { Use::Carrier } else { Use::Plain });
        let mut blocks: Map<Pbn, Use> = ended.units.iter().map(used).collect();
        blocks.extend(ended.condensed.iter().chain(&ended.come).map(|&pbn| (pbn, Use::Plain)));
        store.space.of_scheme = blocks;
        // A log that says nothing needs it too: what lies at its next place may be no unit now, and one the next time.
        // Where no place is named there is no next one.
        log.is_cut_off = ended.come.is_empty();
        let needs_closing = crashed && !ended.is_closed() && !log.is_cut_off;
        let vouched = if needs_closing { ended.epoch } else { ended.vouched };
        store.tables.committed = Some(Committed::new(live, ended.epoch, vouched));
        let closing = needs_closing.then(|| ended.closing(wrong));
        self.state = State::Settling(Settling::new(closing, ended.is_closed(), again));
        let last = superblock.last_epoch.max(ended.epoch_seen);
        superblock.last_epoch = last;
        store.tables.open = Records::new(last + 1);
        Box::new(log)
    }

    /// What the log says up to the hole is live, for what can be proved with it. An epoch may go on in a condensed unit that is not there,
    /// and a unit that names what the volume does not have, or a block twice, says nothing that could be believed.
    pub(super) fn adopt_damaged(&mut self, store: &mut Store, mut ended: Ended, mut live: Unchained) -> Damaged {
        let mut last = ended.epoch;
        if ended.condensed_missing.is_some() || ended.outside.is_some() || ended.twice().is_some() {
            (live, last) = (Unchained::default(), Epoch(0));
        }
        if last > Epoch(0) {
            ended.replay(&BTreeSet::new(), &mut |epoch, effect| live.push(epoch, effect));
        }
        store.tables.committed = Some(Committed::new(live.chained(), last, last));
        Damaged { last, log: Some(Box::new(Log::new(ended.end + 1))) }
    }
}
