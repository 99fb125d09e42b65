//! Numbers that nobody means, put where a volume keeps numbers, and every check made right again: what whoever has the image can do to it.
//! Used by
//! `./dev hostile` on images and by the fuzz targets on volumes in memory.
//!
//! 1. A change is one of: a number of the superblock, of its log tail or its tables, in some or all copies; entries and tags of a page; the
//!    header, the records or the slots of a unit, its authenticator made with the volume's key.
//! 2. Numbers are drawn from the edges: of their field, of the format, of this very volume.

use onefold_engine::format::layout::Field;
use onefold_engine::format::page::{self, SECTORS, seal};
use onefold_engine::format::superblock::{MAGIC, at, at_class, at_extent, at_range};
use onefold_engine::format::{
    COUNTER_MAX, COUNTER_STOP, DELAY_MS_MAX, Geometry, MapEntry, OldRun, PBN_MAX, PageId, Record, Region, Superblock, UnitWriter, copies,
    log_tail, places, unit,
};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, Lbn, Pbn, index};

pub type Page = [u8; BLOCK_SIZE];

/// Where numbers come from.
pub trait Draw {
    /// Any number.
    fn draw(&mut self) -> u64;

    /// One below `n`, which is not 0.
    fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }
}

/// A volume that is made another.
pub trait Medium {
    fn bytes(&self) -> u64;
    fn read(&self, at: u64) -> Page;
    fn write(&mut self, at: u64, page: &Page);
}

const EDGES: [u64; 20] = [
    0,
    1,
    2,
    16,
    255,
    1 << 12,
    1 << 16,
    1 << 31,
    1 << 32,
    1 << 36,
    PBN_MAX.get(),
    1 << 40,
    1 << 48,
    1 << 56,
    DELAY_MS_MAX,
    COUNTER_STOP,
    COUNTER_MAX,
    1 << 63,
    u64::MAX / BLOCK_BYTES,
    u64::MAX,
];

/// A number at an edge, near one of these, or any.
pub fn number(draw: &mut dyn Draw, near: &[u64]) -> u64 {
    let base = match draw.below(8) {
        0..=2 => EDGES[index(draw.below(EDGES.len() as u64))],
        3..=6 if !near.is_empty() => near[index(draw.below(near.len() as u64))],
        _ => draw.draw(),
    };
    let by = [0, 0, 0, 1, 1, u64::MAX, u64::MAX, 2, u64::MAX - 1];
    base.wrapping_add(by[index(draw.below(by.len() as u64))])
}

/// Numbers that mean something on this volume.
fn near(superblock: &Superblock) -> Vec<u64> {
    let Geometry { device_bytes, data_blocks, logical_blocks, reserve_blocks, .. } = superblock.geometry;
    let mut near = vec![device_bytes.get(), data_blocks, logical_blocks, reserve_blocks, superblock.generation, superblock.incarnation];
    near.extend([superblock.last_epoch.get(), superblock.last_log_sequence]);
    if let Some(log_tail) = &superblock.log_tail {
        near.extend([log_tail.sequence, log_tail.epoch.get(), log_tail.incarnation, log_tail.sequence + data_blocks]);
    }
    near
}

/// The newest superblock that is sound.
pub fn newest(medium: &dyn Medium) -> Option<Superblock> {
    let pages = copies(Bytes(medium.bytes())).map(|at| medium.read(at.get()));
    let sound = pages.iter().enumerate().filter_map(|(copy, page)| Superblock::decode(page, copy).ok());
    sound.max_by_key(|superblock| superblock.generation)
}

/// Makes one to three changes. What they are, for people.
pub fn craft(medium: &mut dyn Medium, draw: &mut dyn Draw) -> Vec<String> {
    let Some(superblock) = newest(medium) else { return Vec::new() };
    (0..=draw.below(3)).map(|_| change(medium, &superblock, draw)).collect()
}

fn change(medium: &mut dyn Medium, superblock: &Superblock, draw: &mut dyn Draw) -> String {
    match draw.below(16) {
        0..=7 => change_superblock(medium, superblock, draw),
        8..=11 => change_page(medium, superblock, draw),
        _ => change_unit(medium, superblock, draw),
    }
}

/// A field of the superblock, or one within its log tail or its tables: its name, and where it lies.
fn field(draw: &mut dyn Draw) -> (String, Field) {
    let within = |table: Field, bytes: usize, i: u64, of: &[Field], draw: &mut dyn Draw| {
        let field = of[index(draw.below(of.len() as u64))];
        let offset = table.offset + bytes * index(i) + field.offset;
        (format!("{} {i} {}", table.name, field.name), Field { offset, ..field })
    };
    match draw.below(8) {
        0..=2 => {
            let fields = at::LAYOUT.fields;
            let field = fields[index(draw.below(fields.len() as u64))];
            (field.name.to_owned(), field)
        }
        3..=5 => {
            let (name, inner) = within(at::LOG_TAIL, 0, 0, log_tail::at::LAYOUT.fields, draw);
            if inner.width <= 8 {
                return (name, inner);
            }
            // A table of runs: the first of them are the ones in use.
            let table = Field { name: "runs", ..inner };
            within(table, places::PLACES_BYTES, draw.below(4), places::at::LAYOUT.fields, draw)
        }
        6 => within(at::EXTENTS, at_extent::LAYOUT.bytes, draw.below(6), at_extent::LAYOUT.fields, draw),
        _ if draw.below(2) == 0 => within(at::PROTECTED, at_range::LAYOUT.bytes, draw.below(3), at_range::LAYOUT.fields, draw),
        _ => within(at::LEDGER, at_class::LAYOUT.bytes, draw.below(8), at_class::LAYOUT.fields, draw),
    }
}

fn set(bytes: &mut [u8], field: Field, value: u64) {
    let width = field.width.min(8);
    bytes[field.offset..][..width].copy_from_slice(&value.to_le_bytes()[..width]);
}

/// Gives a superblock the checksum that its bytes have.
pub fn check_superblock(page: &mut Page) {
    let checksum = crc32c::crc32c(&page[..at::CHECKSUM.offset]);
    set(page, at::CHECKSUM, checksum.into());
}

/// Changes one number of the superblock.
pub fn change_superblock(medium: &mut dyn Medium, superblock: &Superblock, draw: &mut dyn Draw) -> String {
    let (name, field) = field(draw);
    let before = {
        let mut page = [0; BLOCK_SIZE];
        superblock.encode(0, &mut page);
        let mut wide = [0; 8];
        let width = field.width.min(8);
        wide[..width].copy_from_slice(&page[field.offset..][..width]);
        u64::from_le_bytes(wide)
    };
    let value = number(draw, &[near(superblock), vec![before; 4]].concat());
    // All copies, one pair, or one.
    let which = match draw.below(8) {
        0 => draw.below(16),
        1 => [0b0101, 0b1010][index(draw.below(2))],
        _ => 0b1111,
    };
    let ends = [superblock.geometry.device_bytes, Bytes(medium.bytes())];
    for places in ends.map(copies) {
        for (copy, at) in places.into_iter().enumerate() {
            let mut page = medium.read(at.get());
            if which & (1 << copy) != 0 && page.starts_with(&MAGIC) {
                set(&mut page, field, value);
                check_superblock(&mut page);
                medium.write(at.get(), &page);
            }
        }
    }
    format!("superblock {name} {value:#x} in copies {which:#06b}")
}

fn change_page(medium: &mut dyn Medium, superblock: &Superblock, draw: &mut dyn Draw) -> String {
    let geometry = &superblock.geometry;
    let region = Region::ALL[index(draw.below(4))];
    // The first pages hold what was written.
    let id = PageId { region, index: draw.below(geometry.pages(region).min(3)) };
    let at = geometry.page_at(id).get();
    let mut bytes = medium.read(at);
    let mut content = page::open(&superblock.uuid, id, &bytes, false).content;
    let entries = region.entries_per_page();
    let near = near(superblock);
    let what = match draw.below(4) {
        0 => {
            let (sector, tag) = (index(draw.below(SECTORS as u64)), number(draw, &near));
            (0..SECTORS).filter(|&s| s == sector || tag % 2 == 0).for_each(|sector| content.set_tag(sector, tag));
            format!("tag {tag:#x} of sector {sector}")
        }
        1 => {
            let byte = draw.draw().to_le_bytes()[0];
            let byte = [byte, 0, 1, 2, 0xff, 0xfe][index(draw.below(6))];
            (0..4000).for_each(|i| content.set_refs(i, byte));
            format!("all bytes {byte:#x}")
        }
        2 if region == Region::Map => {
            let to = MapEntry::Block { pbn: Pbn(number(draw, &near).min(PBN_MAX.get())), slot: draw.draw().to_le_bytes()[0] % 16 };
            let to = [to, MapEntry::Block { pbn: Pbn(draw.below(4)), slot: 0 }, MapEntry::Lost][index(draw.below(3))];
            let first = draw.below(entries);
            let many = [1, 2, 800][index(draw.below(3))];
            (first..(first + many).min(entries)).for_each(|i| content.set_map(index(i), to));
            format!("entries from {first} on, {many} of them, {to:?}")
        }
        _ => {
            let changed: Vec<(u64, u8)> =
                (0..=draw.below(6)).map(|_| (draw.below(4000).min(draw.below(4000)), draw.draw().to_le_bytes()[0])).collect();
            changed.iter().for_each(|&(i, byte)| content.set_refs(index(i), byte));
            format!("bytes {changed:?}")
        }
    };
    seal(&superblock.uuid, id, &mut content, &mut bytes);
    medium.write(at, &bytes);
    format!("{} page {}: {what}", region.name(), id.index)
}

/// A unit that lies somewhere in the data region.
fn some_unit(medium: &dyn Medium, superblock: &Superblock, draw: &mut dyn Draw) -> Option<(Pbn, Page)> {
    let blocks = superblock.geometry.data_blocks;
    let begin = draw.below(blocks);
    let pbns = (begin..blocks).chain(0..begin).map(Pbn);
    pbns.map(|pbn| (pbn, medium.read(superblock.geometry.block_at(pbn).get()))).find(|(_, page)| page.starts_with(&unit::MAGIC))
}

fn change_unit(medium: &mut dyn Medium, superblock: &Superblock, draw: &mut dyn Draw) -> String {
    let Some((pbn, mut page)) = some_unit(medium, superblock, draw) else { return change_page(medium, superblock, draw) };
    let near = near(superblock);
    let fields = unit::at::LAYOUT.fields;
    let what = match (draw.below(3), unit::parse(&page)) {
        (0, Some(parsed)) => {
            let record = record(superblock, &near, draw);
            let mut writer = UnitWriter::new(parsed.places.clone());
            for slot in &parsed.slots {
                let _ = writer.push_slot(slot.fingerprint, &page[slot.at.clone()]);
            }
            let what = format!("{record:?}");
            if writer.push(record).is_none() {
                parsed.records.into_iter().for_each(|record| drop(writer.push(record)));
                let _ = writer.seal(&superblock.authenticator(), &parsed.header, pbn, &mut page);
            }
            what
        }
        (1, _) => {
            let (at, byte) = (unit::at::LAYOUT.bytes + index(draw.below(200)), draw.draw().to_le_bytes()[0]);
            page[at] = byte;
            format!("byte {at} {byte:#x}")
        }
        _ => {
            // All but the magic, and the authenticator, which is made anew.
            let field = fields[1 + index(draw.below(fields.len() as u64 - 2))];
            let value = number(draw, &near);
            set(&mut page, field, value);
            format!("{} {value:#x}", field.name)
        }
    };
    superblock.authenticator().sign(pbn, &mut page);
    medium.write(superblock.geometry.block_at(pbn).get(), &page);
    format!("unit at {pbn}: {what}")
}

/// A record that a unit can have, whatever it says.
fn record(superblock: &Superblock, near: &[u64], draw: &mut dyn Draw) -> Record {
    let Geometry { data_blocks, logical_blocks, .. } = superblock.geometry;
    let lbn = Lbn(number(draw, near) % (2 * logical_blocks));
    let pbn = Pbn(number(draw, near) % (2 * data_blocks));
    let old = [None, Some(Pbn(number(draw, near) % (data_blocks + 2)))][index(draw.below(2))];
    let blocks = number(draw, near) % (2 * logical_blocks) + 1;
    let blocks = blocks.min(PBN_MAX.get() - old.map_or(0, Pbn::get));
    let slot = draw.draw().to_le_bytes()[0] % 16;
    match draw.below(6) {
        0 => Record::Link { lbn, to: MapEntry::Block { pbn, slot }, old },
        1 => Record::Clear { lbn, to: MapEntry::Unmapped, olds: vec![OldRun { first: old, blocks }] },
        2 => Record::Clear { lbn: Lbn(0), to: MapEntry::Zero, olds: vec![OldRun { first: None, blocks: logical_blocks }] },
        3 => Record::Removed { pbn, blocks: blocks.min(PBN_MAX - pbn + 1) },
        4 => Record::Closing { first: number(draw, near).clamp(1, COUNTER_MAX), lost: vec![pbn] },
        _ => Record::Closing { first: 0, lost: Vec::new() },
    }
}
