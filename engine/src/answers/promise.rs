//! The promises that requests make when they are acknowledged.

use super::Answers;
use crate::ack_journal::{AckJournal, NamedContent, PendingPromise};
use crate::interface::{Promise, Promised, RequestId};
use crate::io::Stage;
use crate::pool::Pool;
use crate::tables::Wanted;
use crate::units::{Epoch, Lbn, Pbn};

impl Answers {
    /// Notes the promise of a request that maps an LBN to this slot of a block, from this epoch on.
    pub fn promise_block(
        &mut self,
        pool: &mut Pool,
        request: RequestId,
        epoch: Epoch,
        lbn: Lbn,
        (pbn, slot): (Pbn, u8),
        content: NamedContent<'_>,
    ) {
        if !pool.settings.facts.keeps_journal || pool.io.stage() == Stage::Replaying {
            return;
        }
        let (is_held_back, has_block, contents_max) = (
            pool.is_held_back(pbn),
            self.ack_journal.content_has_block(&pool.io, &pool.tables, &pool.space),
            self.ack_journal.contents_max(&pool.settings),
        );
        let is_in_doubt = AckJournal::is_in_doubt(&pool.space, &pool.medium, pbn, slot);
        // The carrier of a committing epoch may not become durable, so the promise cannot name it.
        let has_no_name = is_held_back || is_in_doubt && pool.space.is_of_scheme(pbn);
        let pending = self.pending(request);
        if pending.durable.is_some() {
            return;
        }
        if (is_held_back || is_in_doubt) && !has_block {
            pending.durable = Some(Wanted::Space);
            return;
        }
        if !has_no_name {
            if pool.space.pending.get(pbn).is_some_and(|block| block.content.is_some()) {
                pending.left += 1;
                self.content_waiters.entry(pbn).or_default().push(request);
            }
            return self.promise(pool, request, epoch, Promised::Link { lbn, pbn, slot, proof: content.name });
        }
        if !self.ack_journal.takes_content(epoch, pool.tables.open.number, contents_max) {
            self.pending(request).durable = Some(Wanted::Space);
            return;
        }
        self.promise(pool, request, epoch, Promised::Content { lbn, content: content.slice.clone() });
    }

    /// Notes a promise of a request, which the commit of this epoch will make durable.
    pub fn promise(&mut self, pool: &mut Pool, request: RequestId, epoch: Epoch, what: Promised) {
        if !pool.settings.facts.keeps_journal {
            return;
        }
        let order = self.ack_journal.next_order();
        if let Promised::Unmap { first, end } = what {
            // Writes to these LBNs that are not acknowledged yet are older, and their promises no longer count. So this promise has to be
            // in the journal from now on, although its own request may wait longer (FUA, or parts of blocks that are written).
            let committing = pool.tables.committing.iter().flat_map(|epoch| epoch.points.range(first, end));
            let overtaken: Vec<Lbn> = committing.map(|(lbn, _)| lbn).collect();
            self.ack_journal.overtake_all(overtaken, order);
            return self.ack_journal.remember(pool, vec![PendingPromise { order, promise: Promise { epoch, what } }]);
        }
        if let Some(pending) = self.pending.get_mut(&request).filter(|p| p.durable.is_none()) {
            pending.promises.push(PendingPromise { order, promise: Promise { epoch, what } });
        }
    }
}
