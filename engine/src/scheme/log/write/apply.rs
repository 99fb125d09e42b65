//! Committed effects enter the pages in memory; counts of epochs that are not committed stand beside them.

use crate::fingerprint::Fingerprint;
use crate::format::record::Record;
use crate::pool::Pool;
use crate::scheme::log::records::PendingEntries;
use crate::tables::effect::Effect;
use crate::units::{Epoch, Pbn};

/// Applies the records of a durable epoch, and the carriers among its units, to the pages in memory. Returns the blocks that lose a link,
/// once for each link.
pub(super) fn commit_records(pool: &mut Pool, epoch: Epoch, carriers: &[(Pbn, Fingerprint)], records: &[Record]) -> Vec<Pbn> {
    let mut unlinked = Vec::new();
    let mut pending = PendingEntries::default();
    for &(pbn, authenticator) in carriers {
        pending.of_carrier(pbn, authenticator);
        pool.space.carriers.changed(pbn, true);
        pool.end_pending(pbn, epoch.0);
    }
    for record in records {
        pending.effects_of(record, &mut |effect| commit_effect(pool, epoch, &effect, &mut unlinked));
        match record {
            Record::New { pbn, .. } => pool.end_pending(*pbn, epoch.0),
            Record::Carrier { pbn, .. } => {
                pool.space.carriers.changed(*pbn, true);
                pool.end_pending(*pbn, epoch.0);
            }
            Record::Extent { pbn, olds, .. } => {
                let blocks: u64 = olds.iter().map(|run| run.blocks).sum();
                pool.settle.insert_later((0..blocks).map(|i| *pbn + i).collect(), epoch.0);
            }
            _ => {}
        }
    }
    pending.rest(&mut |effect| commit_effect(pool, epoch, &effect, &mut unlinked));
    unlinked
}

/// Applies an effect. The counts that clients see stay: a new link was counted before, and an old one, which goes to `unlinked`, counts
/// until it is freed.
fn commit_effect(pool: &mut Pool, epoch: Epoch, effect: &Effect<'_>, unlinked: &mut Vec<Pbn>) {
    let tables = &mut pool.tables;
    tables.committed().records.push(epoch, effect);
    for id in effect.pages() {
        if let Some(page) = tables.pages.get(id) {
            effect.replay(epoch, id, &mut page.content);
            page.lacks_save();
        }
    }
    if let Some(first) = effect.to.pbn() {
        tables.pending_counts.add(first, effect.blocks, -effect.gains());
    }
    if let Some(old) = effect.old {
        tables.pending_counts.add(old, effect.blocks, 1);
        unlinked.extend((0..effect.blocks).map(|i| old + i));
    }
    if let Some(lbn) = effect.lbn.filter(|_| tables.window.is_counting()) {
        for (i, block) in (0..effect.blocks).map(|i| (i, effect.part(i, 1))) {
            tables.window.relinked(lbn + i, block.old, block.to.pbn());
        }
    }
}
