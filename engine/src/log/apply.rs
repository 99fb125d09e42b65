//! Committed effects enter the pages in memory; counts of what is not committed stand beside them.

use super::effect::Effect;
use crate::engine::Engine;
use crate::format::entry::REFS_UNKNOWN;
use crate::units::{Epoch, Pbn};

impl Engine {
    /// The count of a block as clients' work so far has it. Its refs page is in memory.
    pub(crate) fn refs_now(&mut self, pbn: Pbn) -> u8 {
        let (id, at) = self.medium.geometry.refs_of(pbn);
        let committed = self.tables.pages.expect(id).content.refs(at);
        self.with_pending(pbn, committed)
    }

    /// The same, where the committed count is known. What the medium says may be less than what is taken from it: then nothing is known.
    pub(crate) fn with_pending(&self, pbn: Pbn, committed: u8) -> u8 {
        if committed == REFS_UNKNOWN {
            return committed;
        }
        u8::try_from(i16::from(committed).saturating_add(self.tables.beside.get(pbn))).unwrap_or(REFS_UNKNOWN)
    }

    /// An effect of an epoch that is durable: it enters the pages in memory. What clients see of counts stays: what it links counted already, and
    /// what it unlinks, which goes to `unlinked`, counts until it is let go of.
    pub(super) fn commit_effect(&mut self, epoch: Epoch, effect: &Effect<'_>, unlinked: &mut Vec<Pbn>) {
        self.scheme.log.as_mut().expect("effects are the log's").live.push(epoch, effect);
        for id in effect.pages() {
            if let Some(page) = self.tables.pages.get(id) {
                effect.replay(epoch, id, &mut page.content);
                page.unsaved = true;
            }
        }
        if let Some(first) = effect.to.pbn() {
            self.tables.beside.add(first, effect.blocks, -effect.gains());
        }
        if let Some(old) = effect.old {
            self.tables.beside.add(old, effect.blocks, 1);
            unlinked.extend((0..effect.blocks).map(|i| old + i));
        }
        if let Some(lbn) = effect.lbn.filter(|_| self.background.recount.running()) {
            for (i, block) in (0..effect.blocks).map(|i| (i, effect.part(i, 1))) {
                self.background.recount.relinked(lbn + i, block.old, block.to.pbn());
            }
        }
    }
}
