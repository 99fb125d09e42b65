//! The effects of records on entries.

use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry};
use crate::format::record::{OldRun, Record};
use crate::map::Map;
use crate::tables::effect::{Effect, EntryChange};
use crate::units::{Lbn, Pbn, index};

/// Passes on each effect of a record, in order.
pub(crate) fn effects_of(record: &Record, push: &mut dyn FnMut(Effect<'_>)) {
    let one = |lbn: Option<Lbn>, to: MapEntry, old: Option<Pbn>, name: EntryChange<'static>| Effect { lbn, blocks: 1, to, old, name };
    match record {
        Record::New { lbn, pbn, old, name } => push(one(Some(*lbn), MapEntry::Block { pbn: *pbn, slot: 0 }, *old, EntryChange::Of(*name))),
        Record::Link { lbn, to, old } => push(one(Some(*lbn), *to, *old, EntryChange::None)),
        Record::Removed { pbn, blocks } => {
            push(Effect { blocks: *blocks, ..one(None, MapEntry::Unmapped, Some(*pbn), EntryChange::Removed) })
        }
        Record::Extent { lbn, pbn, olds, shorts, is_apart } => runs(*lbn, olds, &mut |lbn, i, old| {
            let to = MapEntry::Block { pbn: *pbn + i, slot: 0 };
            let shorts = &shorts[index(i)..index(i + old.blocks)];
            let name = if *is_apart { EntryChange::ShortApart(shorts) } else { EntryChange::Short(shorts) };
            push(Effect { lbn: Some(lbn), blocks: old.blocks, to, old: old.first, name });
        }),
        Record::NewRun { lbn, pbn, olds } => runs(*lbn, olds, &mut |lbn, i, old| {
            let to = MapEntry::Block { pbn: *pbn + i, slot: 0 };
            push(Effect { lbn: Some(lbn), blocks: old.blocks, to, old: old.first, name: EntryChange::Counted });
        }),
        Record::Clear { lbn, to, olds } => runs(*lbn, olds, &mut |lbn, _, old| {
            push(Effect { lbn: Some(lbn), blocks: old.blocks, to: *to, old: old.first, name: EntryChange::None });
        }),
        Record::Carrier { pbn, authenticator } => push(entry_of_carrier(*pbn, *authenticator)),
        Record::NewLink { lbn, to, old } => push(one(Some(*lbn), *to, *old, EntryChange::Counted)),
        Record::Closing { .. } | Record::Later { .. } => {}
    }
}

/// Entries of new carriers and packs of an epoch, each until the first link to it comes: the two are one effect then, which takes less
/// memory than two.
#[derive(Default)]
pub(super) struct PendingEntries(Map<Pbn, FingerprintEntry>);

impl PendingEntries {
    /// Adds a carrier, which is itself the record of its entry.
    pub fn of_carrier(&mut self, pbn: Pbn, authenticator: Fingerprint) {
        self.0.insert(pbn, FingerprintEntry { kind: Kind::Carrier, value: authenticator });
    }

    /// Passes on each effect of the epoch's next record.
    pub fn effects_of(&mut self, record: &Record, push: &mut dyn FnMut(Effect<'_>)) {
        if let Record::Carrier { pbn, authenticator } = record {
            return self.of_carrier(*pbn, *authenticator);
        }
        effects_of(record, &mut |effect| match effect.to {
            MapEntry::Block { pbn, slot } if slot > 0 && effect.name == EntryChange::None => {
                let name = self.0.remove(&pbn).map_or(EntryChange::None, EntryChange::Of);
                push(Effect { name, ..effect });
            }
            _ => push(effect),
        });
    }

    /// Passes on the entries without a link, at the end of the epoch.
    pub fn rest(&mut self, push: &mut dyn FnMut(Effect<'_>)) {
        let mut rest: Vec<_> = self.0.drain().collect();
        rest.sort_unstable_by_key(|(pbn, _)| *pbn);
        rest.into_iter().for_each(|(pbn, entry)| push(entry_of_carrier(pbn, entry.value)));
    }
}

/// The entry of a carrier or pack.
fn entry_of_carrier(pbn: Pbn, authenticator: Fingerprint) -> Effect<'static> {
    let entry = FingerprintEntry { kind: Kind::Carrier, value: authenticator };
    Effect { lbn: None, blocks: 1, to: MapEntry::Block { pbn, slot: 0 }, old: None, name: EntryChange::Of(entry) }
}

/// The record with the effect of `piece` on map and refs, whose fingerprints are on their pages already: its copy would otherwise set or
/// remove these again, if not for the tags. `None` where no record has that effect.
pub(super) fn record_of(piece: &Effect<'_>) -> Option<Record> {
    let Effect { lbn, blocks, to, old, name } = *piece;
    let olds = || vec![OldRun { first: old, blocks }];
    Some(match (lbn, to, name) {
        (Some(lbn), MapEntry::Block { .. }, EntryChange::Counted) if blocks == 1 => Record::NewLink { lbn, to, old },
        (Some(lbn), MapEntry::Block { pbn, slot: 0 }, EntryChange::Counted) => Record::NewRun { lbn, pbn, olds: olds() },
        (Some(lbn), to, EntryChange::None) if blocks == 1 && to != MapEntry::Lost => Record::Link { lbn, to, old },
        (Some(lbn), MapEntry::Zero | MapEntry::Unmapped, EntryChange::None) => Record::Clear { lbn, to, olds: olds() },
        (None, MapEntry::Unmapped, EntryChange::None) => Record::Removed { pbn: old?, blocks },
        _ => return None,
    })
}

/// Visits each run of old blocks as a whole, even if it has several parts in the record: its first LBN, the distance of that from the
/// record's first LBN, and the run.
fn runs(lbn: Lbn, olds: &[OldRun], visit: &mut dyn FnMut(Lbn, u64, OldRun)) {
    let mut done = 0;
    for parts in olds.chunk_by(|part, next| part.first.map(|first| first + part.blocks) == next.first) {
        let run = OldRun { first: parts[0].first, blocks: parts.iter().map(|part| part.blocks).sum() };
        visit(lbn + done, done, run);
        done += run.blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy has the same effect on map and refs, and none on fingerprints but those that are not on their pages.
    #[test]
    fn the_record_of_what_links_do_does_the_same() {
        let block = |slot| MapEntry::Block { pbn: Pbn(20), slot };
        let of = |to, old, name| Effect { lbn: Some(Lbn(7)), blocks: 1, to, old, name };
        let run = |to, old, name| Effect { blocks: 5, ..of(to, old, name) };
        let entry = |kind| EntryChange::Of(FingerprintEntry { kind, ..FingerprintEntry::NONE });
        let effects = [
            of(block(0), Some(Pbn(3)), entry(Kind::Fingerprint)),
            of(block(0), None, entry(Kind::Checksum)),
            of(block(2), Some(Pbn(3)), entry(Kind::Carrier)),
            of(block(0), Some(Pbn(3)), EntryChange::None),
            of(block(15), None, EntryChange::None),
            of(MapEntry::Zero, None, EntryChange::None),
            of(MapEntry::Unmapped, Some(Pbn(3)), EntryChange::None),
            run(MapEntry::Zero, Some(Pbn(3)), EntryChange::None),
            run(MapEntry::Unmapped, None, EntryChange::None),
            run(block(0), Some(Pbn(3)), EntryChange::Short(&[1, 2, 3, 4, 5])),
            of(block(0), None, EntryChange::Short(&[7])),
            Effect { lbn: None, ..of(MapEntry::Unmapped, Some(Pbn(3)), EntryChange::Removed) },
            Effect { lbn: None, ..run(MapEntry::Unmapped, Some(Pbn(3)), EntryChange::Removed) },
        ];
        for effect in effects {
            let (links, names) = effect.apart();
            let removal = names.filter(|names| names.name == EntryChange::Removed);
            let mut passed_on = 0;
            effects_of(&record_of(&links).expect("a record says that"), &mut |effect| {
                passed_on += 1;
                assert!(effect.apart() == (links, removal), "{effect:?} is not {links:?}");
            });
            assert_eq!(passed_on, 1);
        }
        assert_eq!(record_of(&of(MapEntry::Lost, None, EntryChange::None)), None);
        assert_eq!(record_of(&Effect { lbn: None, ..of(block(0), None, EntryChange::Counted) }), None);
    }

    #[test]
    fn a_new_carrier_is_one_effect_with_the_first_link_to_it() {
        let authenticator = |n| Fingerprint([n; 20]);
        let link = |lbn, pbn, slot| Record::Link { lbn: Lbn(lbn), to: MapEntry::Block { pbn: Pbn(pbn), slot }, old: None };
        let mut pending = PendingEntries::default();
        pending.of_carrier(Pbn(20), authenticator(1));
        let pack = |pbn, n| Record::Carrier { pbn: Pbn(pbn), authenticator: authenticator(n) };
        let mut effects = Vec::new();
        for record in [link(1, 9, 0), pack(30, 2), link(2, 30, 1), link(3, 20, 2), link(4, 20, 1), link(5, 8, 1), pack(40, 3)] {
            pending.effects_of(&record, &mut |effect| effects.push((effect.lbn.map(Lbn::get), effect.gains())));
        }
        pending.rest(&mut |effect| effects.push((effect.lbn.map(Lbn::get), effect.gains())));
        assert_eq!(effects, [(Some(1), 1), (Some(2), 2), (Some(3), 2), (Some(4), 1), (Some(5), 1), (None, 1)]);
    }
}
