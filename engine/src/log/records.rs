//! What a record says, as effects on entries.

use super::effect::{Effect, Name};
use crate::Map;
use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry};
use crate::format::record::{OldRun, Record};
use crate::units::{Lbn, Pbn};

/// Hands over each effect of a record, in order.
pub(crate) fn effects_of(record: &Record, push: &mut dyn FnMut(Effect)) {
    let one = |lbn: Option<Lbn>, to: MapEntry, old: Option<Pbn>, name: Name| Effect { lbn, blocks: 1, to, old, name };
    match record {
        Record::New { lbn, pbn, old, name } => push(one(Some(*lbn), MapEntry::Block { pbn: *pbn, slot: 0 }, *old, Name::Of(*name))),
        Record::Link { lbn, to, old } => push(one(Some(*lbn), *to, *old, Name::None)),
        Record::Removed { pbn, blocks } => push(Effect { blocks: *blocks, ..one(None, MapEntry::Unmapped, Some(*pbn), Name::Removed) }),
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
        Record::Born { lbn, to, old } => push(one(Some(*lbn), *to, *old, Name::Counted)),
        Record::Closing { .. } | Record::Later { .. } => {}
    }
}

/// Entries of carriers and packs that are born in an epoch, until the first link to each has come: the two are one effect then, which takes less
/// memory than two.
#[derive(Default)]
pub(super) struct Births(Map<Pbn, FingerprintEntry>);

impl Births {
    /// A carrier is itself the record of its entry.
    pub fn of_carrier(&mut self, pbn: Pbn, authenticator: Fingerprint) {
        self.0.insert(pbn, FingerprintEntry { kind: Kind::Carrier, value: authenticator });
    }

    /// Hands over each effect of the epoch's next record.
    pub fn effects_of(&mut self, record: &Record, push: &mut dyn FnMut(Effect)) {
        if let Record::Carrier { pbn, authenticator } = record {
            return self.of_carrier(*pbn, *authenticator);
        }
        effects_of(record, &mut |effect| match effect.to {
            MapEntry::Block { pbn, slot } if slot > 0 && effect.name == Name::None => {
                let name = self.0.remove(&pbn).map_or(Name::None, Name::Of);
                push(Effect { name, ..effect });
            }
            _ => push(effect),
        });
    }

    /// The epoch is over: hands over what nothing links to.
    pub fn rest(&mut self, push: &mut dyn FnMut(Effect)) {
        let mut rest: Vec<_> = self.0.drain().collect();
        rest.sort_unstable_by_key(|(pbn, _)| *pbn);
        rest.into_iter().for_each(|(pbn, entry)| push(birth_of_carrier(pbn, entry.value)));
    }
}

/// The entry of a carrier or pack.
fn birth_of_carrier(pbn: Pbn, authenticator: Fingerprint) -> Effect {
    let entry = FingerprintEntry { kind: Kind::Carrier, value: authenticator };
    Effect { lbn: None, blocks: 1, to: MapEntry::Block { pbn, slot: 0 }, old: None, name: Name::Of(entry) }
}

/// The record that says what a piece does to map and refs, where its fingerprints are on their pages already: those of a run, and one that goes,
/// would be written there again, but for the tags. None where no record says that.
pub(super) fn record_of(piece: &Effect) -> Option<Record> {
    let Effect { lbn, blocks, to, old, name } = *piece;
    let olds = || vec![OldRun { first: old, blocks }];
    Some(match (lbn, to, name) {
        (Some(lbn), MapEntry::Block { .. }, Name::Counted) if blocks == 1 => Record::Born { lbn, to, old },
        (Some(lbn), MapEntry::Block { pbn, slot: 0 }, Name::Counted) => Record::Extent { lbn, pbn, olds: olds() },
        (Some(lbn), to, Name::None) if blocks == 1 && to != MapEntry::Lost => Record::Link { lbn, to, old },
        (Some(lbn), MapEntry::Zero | MapEntry::Unmapped, Name::None) => Record::Clear { lbn, to, olds: olds() },
        (None, MapEntry::Unmapped, Name::None) => Record::Removed { pbn: old?, blocks },
        _ => return None,
    })
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

    /// A copy does to map and refs what the effect did, and to fingerprints nothing that is not on their pages.
    #[test]
    fn the_record_of_what_links_do_does_the_same() {
        let block = |slot| MapEntry::Block { pbn: Pbn(20), slot };
        let of = |to, old, name| Effect { lbn: Some(Lbn(7)), blocks: 1, to, old, name };
        let run = |to, old, name| Effect { blocks: 5, ..of(to, old, name) };
        let entry = |kind| Name::Of(FingerprintEntry { kind, ..FingerprintEntry::NONE });
        let effects = [
            of(block(0), Some(Pbn(3)), entry(Kind::Fingerprint)),
            of(block(0), None, entry(Kind::Checksum)),
            of(block(2), Some(Pbn(3)), entry(Kind::Carrier)),
            of(block(0), Some(Pbn(3)), Name::None),
            of(block(15), None, Name::None),
            of(MapEntry::Zero, None, Name::None),
            of(MapEntry::Unmapped, Some(Pbn(3)), Name::None),
            run(MapEntry::Zero, Some(Pbn(3)), Name::None),
            run(MapEntry::Unmapped, None, Name::None),
            run(block(0), Some(Pbn(3)), Name::Lost),
            of(block(0), None, Name::Lost),
            Effect { lbn: None, ..of(MapEntry::Unmapped, Some(Pbn(3)), Name::Removed) },
            Effect { lbn: None, ..run(MapEntry::Unmapped, Some(Pbn(3)), Name::Removed) },
        ];
        for effect in effects {
            let (links, names) = effect.apart();
            let mut again = Vec::new();
            effects_of(&record_of(&links).expect("a record says that"), &mut |effect| again.push(effect));
            assert_eq!(again.iter().map(|effect| effect.apart().0).collect::<Vec<_>>(), [links]);
            let added = again[0].apart().1;
            assert!(added.is_none_or(|added| names.is_some_and(|names| names.name == added.name)), "{added:?}");
        }
        assert_eq!(record_of(&of(MapEntry::Lost, None, Name::None)), None);
        assert_eq!(record_of(&Effect { lbn: None, ..of(block(0), None, Name::Counted) }), None);
    }

    #[test]
    fn a_birth_is_one_effect_with_the_first_link_to_it() {
        let authenticator = |n| Fingerprint([n; 20]);
        let link = |lbn, pbn, slot| Record::Link { lbn: Lbn(lbn), to: MapEntry::Block { pbn: Pbn(pbn), slot }, old: None };
        let mut births = Births::default();
        births.of_carrier(Pbn(20), authenticator(1));
        let pack = |pbn, n| Record::Carrier { pbn: Pbn(pbn), authenticator: authenticator(n) };
        let mut said = Vec::new();
        for record in [link(1, 9, 0), pack(30, 2), link(2, 30, 1), link(3, 20, 2), link(4, 20, 1), link(5, 8, 1), pack(40, 3)] {
            births.effects_of(&record, &mut |effect| said.push((effect.lbn.map(Lbn::get), effect.gains())));
        }
        births.rest(&mut |effect| said.push((effect.lbn.map(Lbn::get), effect.gains())));
        assert_eq!(said, [(Some(1), 1), (Some(2), 2), (Some(3), 2), (Some(4), 1), (Some(5), 1), (None, 1)]);
    }
}
