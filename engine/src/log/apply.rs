//! Committed effects enter the pages in memory; counts of what is not committed stand beside them.

use crate::engine::Engine;
use crate::tables::effect::Effect;
use crate::units::{Epoch, Pbn};

impl Engine {
    /// An effect of an epoch that is durable: it enters the pages in memory. What clients see of counts stays: what it links counted already, and
    /// what it unlinks, which goes to `unlinked`, counts until it is let go of.
    pub(super) fn commit_effect(&mut self, epoch: Epoch, effect: &Effect<'_>, unlinked: &mut Vec<Pbn>) {
        self.store.tables.committed().records.push(epoch, effect);
        for id in effect.pages() {
            if let Some(page) = self.store.tables.pages.get(id) {
                effect.replay(epoch, id, &mut page.content);
                page.unsaved = true;
            }
        }
        if let Some(first) = effect.to.pbn() {
            self.store.tables.beside.add(first, effect.blocks, -effect.gains());
        }
        if let Some(old) = effect.old {
            self.store.tables.beside.add(old, effect.blocks, 1);
            unlinked.extend((0..effect.blocks).map(|i| old + i));
        }
        if let Some(lbn) = effect.lbn.filter(|_| self.background.recount.running()) {
            for (i, block) in (0..effect.blocks).map(|i| (i, effect.part(i, 1))) {
                self.store.tables.window.relinked(lbn + i, block.old, block.to.pbn());
            }
        }
    }
}
