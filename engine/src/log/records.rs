//! What a record says, as effects on entries.

use super::effect::{Effect, Name};
use super::units::birth_of_carrier;
use crate::format::entry::MapEntry;
use crate::format::record::{OldRun, Record};
use crate::units::{Lbn, Pbn};

/// Hands over each effect of a record, in order.
pub(crate) fn effects_of(record: &Record, push: &mut dyn FnMut(Effect)) {
    let one = |lbn: Option<Lbn>, to: MapEntry, old: Option<Pbn>, name: Name| Effect { lbn, blocks: 1, to, old, name };
    match record {
        Record::New { lbn, pbn, old, name } => push(one(Some(*lbn), MapEntry::Block { pbn: *pbn, slot: 0 }, *old, Name::Of(*name))),
        Record::Link { lbn, to, old } => push(one(Some(*lbn), *to, *old, Name::None)),
        Record::Removed { pbn } => push(one(None, MapEntry::Unmapped, Some(*pbn), Name::Removed)),
        Record::Extent { lbn, pbn, olds } => runs(*lbn, olds, &mut |lbn, i, old| {
            push(Effect {
                lbn: Some(lbn),
                blocks: old.blocks,
                to: MapEntry::Block { pbn: *pbn + i, slot: 0 },
                old: old.first,
                name: Name::Lost,
            });
        }),
        Record::Clear { lbn, to, olds } => runs(*lbn, olds, &mut |lbn, _, old| {
            push(Effect { lbn: Some(lbn), blocks: old.blocks, to: *to, old: old.first, name: Name::None });
        }),
        Record::Carrier { pbn, authenticator } => push(birth_of_carrier(*pbn, *authenticator)),
        Record::Closing { .. } => {}
    }
}

/// Each run of old blocks: its first LBN, how far from the record's first that is, and the run.
fn runs(lbn: Lbn, olds: &[OldRun], visit: &mut dyn FnMut(Lbn, u64, OldRun)) {
    let mut done = 0;
    for old in olds {
        visit(lbn + done, done, *old);
        done += old.blocks;
    }
}
