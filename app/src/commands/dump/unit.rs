//! A unit of the log, decoded: what is in a block that this volume wrote for that place.

use crate::output::table::Table;
use onefold_engine::fingerprint::Digest;
use onefold_engine::format::{Kind, MapEntry, OldRun, Record, Slot, Superblock, UnitKind, unit};
use onefold_engine::units::{BLOCK_SIZE, Pbn};
use serde::Serialize;

/// A unit.
#[derive(Debug, Serialize)]
pub struct UnitStory {
    kind: &'static str,
    incarnation: u64,
    sequence: u64,
    epoch: u64,
    /// The number of the unit within its epoch, from 0.
    unit: u32,
    units: u32,
    flushed_upto: u64,
    content_flushed: bool,
    /// The first PBN and the number of blocks, in the order in which units fill them.
    places: Vec<(u64, u8)>,
    slots: Vec<SlotStory>,
    records: Vec<String>,
}

/// A client block in it.
#[derive(Debug, Serialize)]
pub struct SlotStory {
    slot: u8,
    fingerprint: String,
    /// The compressed size.
    bytes: usize,
    /// `agrees` or `differs`.
    content: &'static str,
    /// The number of logical blocks that link to it; none where they were not counted.
    links: Option<u64>,
}

impl UnitStory {
    /// Decodes the unit in these bytes, which were read from this place.
    pub fn of(superblock: &Superblock, pbn: Pbn, bytes: &[u8; BLOCK_SIZE]) -> Option<Self> {
        let unit = unit::open(&superblock.authenticator(), pbn, bytes)?;
        let header = &unit.header;
        Some(Self {
            kind: match (header.kind, unit.slots.is_empty()) {
                (UnitKind::Log, true) => "plain unit",
                (UnitKind::Log, false) => "carrier",
                (UnitKind::Pack, _) => "pack",
                (UnitKind::Compacted, _) => "compacted unit",
            },
            incarnation: header.incarnation,
            sequence: header.sequence,
            epoch: header.epoch.get(),
            unit: header.unit,
            units: header.units,
            flushed_upto: header.flushed_upto,
            content_flushed: header.content_flushed,
            places: unit.places.iter().map(|run| (run.first.get(), run.blocks)).collect(),
            slots: unit.slots.iter().zip(1..).map(|(slot, number)| SlotStory::of(superblock, bytes, slot, number)).collect(),
            records: unit.records.iter().map(text).collect(),
        })
    }

    /// Sets the number of links from the map to each slot: slot 0 is the block itself.
    pub fn set_links(&mut self, links: &[u64]) {
        self.slots.iter_mut().for_each(|slot| slot.links = links.get(usize::from(slot.slot)).copied());
    }

    /// Describes the slot with this number in a line.
    pub fn slot(&self, number: u8) -> Option<String> {
        let slot = self.slots.get(usize::from(number).checked_sub(1)?)?;
        Some(format!("{number} of {}: {} bytes, fingerprint {}, content {}", self.slots.len(), slot.bytes, slot.fingerprint, slot.content))
    }

    /// Adds all rows of the unit to a table of its block.
    pub fn rows(&self, table: Table) -> Table {
        let Self { kind, incarnation, sequence, epoch, unit, units, flushed_upto, .. } = self;
        let places: Vec<String> = self.places.iter().map(|(first, blocks)| format!("{first}+{blocks}")).collect();
        let flushed = if self.content_flushed { ", content flushed before it" } else { "" };
        let table = table
            .row("unit", format!("{kind}, sequence {sequence}, incarnation {incarnation}, number {} of {units} of epoch {epoch}", unit + 1))
            .row("flushed", format!("up to unit {flushed_upto}{flushed}"))
            .row("next places", if places.is_empty() { "none".to_owned() } else { places.join(" ") });
        let row = |slot: &SlotStory| {
            let links = slot.links.map_or_else(|| "-".to_owned(), |links| links.to_string());
            vec![slot.slot.to_string(), slot.fingerprint.clone(), slot.bytes.to_string(), slot.content.to_owned(), links]
        };
        let table = if self.slots.is_empty() {
            table
        } else {
            table.line("").grid(&["slot", "fingerprint", "bytes", "content", "links"], self.slots.iter().map(row).collect())
        };
        let records = self.records.iter().zip(1..).map(|(record, i)| vec![i.to_string(), record.clone()]).collect();
        if self.records.is_empty() { table } else { table.line("").grid(&["record", "says"], records) }
    }
}

impl SlotStory {
    fn of(superblock: &Superblock, bytes: &[u8; BLOCK_SIZE], slot: &Slot, number: u8) -> Self {
        let mut content = [0; BLOCK_SIZE];
        let is_right = slot.unpack(bytes, &mut content) && superblock.fingerprinter().digest(&content) == Digest::Of(slot.fingerprint);
        Self {
            slot: number,
            fingerprint: format!("{:?}", slot.fingerprint),
            bytes: slot.at.len(),
            content: if is_right { "agrees" } else { "differs" },
            links: None,
        }
    }
}

fn text(record: &Record) -> String {
    match record {
        Record::New { lbn, pbn, old, name } => {
            let kind = if name.kind == Kind::Fingerprint { "fingerprint" } else { "checksum" };
            format!("{lbn} means the new {pbn}, {kind} {:?}; before, {}", name.value, block(*old))
        }
        Record::Link { lbn, to, old } => format!("{lbn} means {}; before, {}", meaning(*to), block(*old)),
        Record::Extent { lbn, pbn, olds, .. } | Record::NewRun { lbn, pbn, olds } => {
            format!("{} blocks from {lbn} on mean new ones from {pbn} on; before, {}", length(olds), before(olds))
        }
        Record::Clear { lbn, to, olds } => format!("{} blocks from {lbn} on mean {}; before, {}", length(olds), meaning(*to), before(olds)),
        Record::Carrier { pbn, authenticator } => format!("the new {pbn} is a pack, authenticator {authenticator:?}"),
        Record::NewLink { lbn, to, old } => format!("{lbn} means {}, which is new; before, {}", meaning(*to), block(*old)),
        Record::Later { epochs } => format!("what follows is of an epoch later by {epochs}"),
        Record::Removed { pbn, blocks: 1 } => format!("the fingerprint entry of {pbn} goes"),
        Record::Removed { pbn, blocks } => format!("the fingerprint entries of {blocks} blocks from {pbn} on go"),
        Record::Closing { lost, .. } if lost.is_empty() => "the log was closed here after a crash; nothing was lost".to_owned(),
        Record::Closing { first, lost } => {
            let lost: Vec<String> = lost.iter().map(|pbn| pbn.get().to_string()).collect();
            format!(
                "the log was closed here after a crash; from unit {first} on, what names these new PBNs does not count: {}",
                lost.join(" ")
            )
        }
    }
}

fn length(olds: &[OldRun]) -> u64 {
    olds.iter().map(|run| run.blocks).sum()
}

fn block(pbn: Option<Pbn>) -> String {
    pbn.map_or_else(|| "none".to_owned(), |pbn| pbn.to_string())
}

fn before(olds: &[OldRun]) -> String {
    let run = |run: &OldRun| match run.first {
        Some(first) => format!("{first}+{}", run.blocks),
        None => format!("{} of none", run.blocks),
    };
    olds.iter().map(run).collect::<Vec<_>>().join(", ")
}

fn meaning(entry: MapEntry) -> String {
    match entry {
        MapEntry::Unmapped => "nothing".to_owned(),
        MapEntry::Zero => "zeros".to_owned(),
        MapEntry::Lost => "what is lost".to_owned(),
        MapEntry::Block { pbn, slot: 0 } => pbn.to_string(),
        MapEntry::Block { pbn, slot } => format!("{pbn}, slot {slot}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::fingerprint::{Algorithm, Fingerprint};
    use onefold_engine::format::codec;
    use onefold_engine::format::{FingerprintEntry, Geometry, Places, UnitHeader, UnitWriter, Wish};
    use onefold_engine::settings::Settings;
    use onefold_engine::units::{Bytes, Epoch, Lbn};

    #[test]
    fn a_carrier_is_told_whole() {
        let geometry = Geometry::plan(Bytes(32 << 20), &Wish::default()).unwrap();
        let superblock = Superblock::new(geometry, [5; 16], [6; 32], Algorithm::Blake3, &Settings::default());
        let content = [7; BLOCK_SIZE];
        let Digest::Of(fingerprint) = superblock.fingerprinter().digest(&content) else { panic!("it is not zero") };
        let data = codec::compress(&content, unit::SLOT_DATA_MAX).unwrap();
        let mut writer = UnitWriter::new(vec![Places { first: Pbn(101), blocks: 3 }]);
        assert_eq!((writer.push_slot(fingerprint, &data), writer.push_slot(Fingerprint([0; 20]), &data)), (Some(1), Some(2)));
        let name = FingerprintEntry::of(fingerprint);
        for record in [
            Record::Link { lbn: Lbn(4), to: MapEntry::Block { pbn: Pbn(100), slot: 1 }, old: Some(Pbn(9)) },
            Record::New { lbn: Lbn(5), pbn: Pbn(20), old: None, name },
            Record::Clear { lbn: Lbn(6), to: MapEntry::Unmapped, olds: vec![OldRun { first: Some(Pbn(30)), blocks: 2 }] },
        ] {
            assert_eq!(writer.push(record), None);
        }
        let header = UnitHeader {
            kind: UnitKind::Log,
            incarnation: 1,
            sequence: 8,
            epoch: Epoch(3),
            unit: 0,
            units: 1,
            flushed_upto: 7,
            content_flushed: false,
        };
        let mut page = [0; BLOCK_SIZE];
        let _ = writer.seal(&superblock.authenticator(), &header, Pbn(100), &mut page);
        assert!(UnitStory::of(&superblock, Pbn(99), &page).is_none(), "a copy elsewhere is no unit");
        let mut story = UnitStory::of(&superblock, Pbn(100), &page).unwrap();
        story.set_links(&[0, 2, 0]);
        let slots: Vec<_> = story.slots.iter().map(|slot| (slot.slot, slot.bytes, slot.content, slot.links)).collect();
        assert_eq!(slots, [(1, data.len(), "agrees", Some(2)), (2, data.len(), "differs", Some(0))]);
        assert_eq!(story.records[0], "LBN 4 means PBN 100, slot 1; before, PBN 9");
        assert_eq!(story.records[1], format!("LBN 5 means the new PBN 20, fingerprint {fingerprint:?}; before, none"));
        assert_eq!(story.records[2], "2 blocks from LBN 6 on mean nothing; before, PBN 30+2");
        assert!(story.slot(1).unwrap().starts_with(&format!("1 of 2: {} bytes", data.len())) && story.slot(3).is_none());
        let text = story.rows(Table::new()).to_string();
        assert!(text.contains("carrier, sequence 8, incarnation 1, number 1 of 1 of epoch 3") && text.contains("101+3"), "{text}");
    }
}
