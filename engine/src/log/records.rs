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
        Record::Closing { .. } | Record::Later { .. } => {}
    }
}

/// The record of a piece of a committed effect, as a condensed unit has it.
///
/// # Panics
/// When no record says that: a bug of whoever made the effect.
pub(super) fn record_of(piece: &Effect) -> Record {
    let Effect { lbn, blocks, to, old, name } = *piece;
    let olds = || vec![OldRun { first: old, blocks }];
    match (lbn, to, name) {
        (Some(lbn), MapEntry::Block { pbn, slot: 0 }, Name::Of(name)) => Record::New { lbn, pbn, old, name },
        (Some(lbn), MapEntry::Block { pbn, slot: 0 }, Name::Lost) => Record::Extent { lbn, pbn, olds: olds() },
        (Some(lbn), to, Name::None) if blocks == 1 => Record::Link { lbn, to, old },
        (Some(lbn), MapEntry::Zero | MapEntry::Unmapped, Name::None) => Record::Clear { lbn, to, olds: olds() },
        (None, MapEntry::Block { pbn, slot: 0 }, Name::Of(entry)) => Record::Carrier { pbn, authenticator: entry.value },
        (None, _, Name::Removed) => Record::Removed { pbn: old.expect("what goes is an entry of a block") },
        _ => panic!("no record does {piece:?}"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::{FingerprintEntry, Kind};

    /// A copy does what the effect did.
    #[test]
    fn the_record_of_an_effect_has_that_effect() {
        let entry = |kind| Name::Of(FingerprintEntry { kind, ..FingerprintEntry::NONE });
        let block = |slot| MapEntry::Block { pbn: Pbn(20), slot };
        let of = |to, old, name| Effect { lbn: Some(Lbn(7)), blocks: 1, to, old, name };
        let run = |to, old, name| Effect { blocks: 5, ..of(to, old, name) };
        let effects = [
            of(block(0), Some(Pbn(3)), entry(Kind::Fingerprint)),
            of(block(0), None, entry(Kind::Checksum)),
            of(block(0), Some(Pbn(3)), Name::None),
            of(block(15), None, Name::None),
            of(MapEntry::Zero, None, Name::None),
            of(MapEntry::Unmapped, Some(Pbn(3)), Name::None),
            run(MapEntry::Zero, Some(Pbn(3)), Name::None),
            run(MapEntry::Unmapped, None, Name::None),
            run(block(0), Some(Pbn(3)), Name::Lost),
            of(block(0), None, Name::Lost),
            Effect { lbn: None, ..of(block(0), None, entry(Kind::Carrier)) },
            Effect { lbn: None, ..of(MapEntry::Unmapped, Some(Pbn(3)), Name::Removed) },
        ];
        for effect in effects {
            let mut again = Vec::new();
            effects_of(&record_of(&effect), &mut |effect| again.push(effect));
            assert_eq!(again, [effect]);
        }
    }
}
