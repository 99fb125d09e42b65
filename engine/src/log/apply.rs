//! Committed effects enter the pages in memory; counts of what is not committed stand beside them.

use super::effect::Effect;
use crate::engine::Engine;
use crate::format::entry::REFS_UNKNOWN;
use crate::units::{Epoch, Pbn};

impl Engine {
    /// The count of a block as clients' work so far has it. Its refs page is in memory.
    pub(crate) fn refs_now(&mut self, pbn: Pbn) -> u8 {
        let (id, at) = self.geometry.refs_of(pbn);
        let committed = self.pages.expect(id).content.refs(at);
        self.with_pending(pbn, committed)
    }

    /// The same, where the committed count is known.
    pub(crate) fn with_pending(&self, pbn: Pbn, committed: u8) -> u8 {
        if committed == REFS_UNKNOWN || self.pending.is_empty() {
            return committed;
        }
        let by = self.pending.get(&pbn).copied().unwrap_or(0);
        u8::try_from(i16::from(committed) + by).expect("a count stays within its byte")
    }

    pub(crate) fn add_pending(&mut self, pbn: Pbn, by: i16) {
        let pending = self.pending.entry(pbn).or_insert(0);
        *pending += by;
        if *pending == 0 {
            self.pending.remove(&pbn);
        }
    }

    /// An effect of an epoch that is durable: it enters the pages in memory. What clients see of counts stays: what it links counted already, and
    /// what it unlinks, which goes to `unlinked`, counts until it is let go of.
    pub(super) fn commit_effect(&mut self, epoch: Epoch, effect: &Effect, unlinked: &mut Vec<Pbn>) {
        self.log.as_mut().expect("effects are the log's").live.push(epoch, effect);
        for id in effect.pages() {
            if let Some(page) = self.pages.get(id) {
                effect.replay(epoch, id, &mut page.content);
                page.unsaved = true;
            }
        }
        for block in (0..effect.blocks).map(|i| effect.part(i, 1)) {
            let to = block.to.pbn();
            if let Some(pbn) = to {
                self.add_pending(pbn, -block.gains());
            }
            if let Some(lbn) = block.lbn {
                self.recount.relinked(lbn, block.old, to);
            }
            if let Some(old) = block.old {
                self.add_pending(old, 1);
                unlinked.push(old);
            }
        }
    }
}
