//! Descriptions of what a write changes, for histories.

use crate::device::volume::{BlockUse, Volume};
use crate::ground::content::{Content, name};
use onefold_engine::format::unit::parse;
use onefold_engine::format::{FingerprintEntry, MapEntry, Region};

/// The largest number of changes of one page that are described individually.
const WORDS_MAX: usize = 16;

/// Describes the change of a block.
#[must_use]
pub fn change(volume: &Volume, block: u64, old: &Content, new: &Content) -> String {
    match volume.place(block) {
        BlockUse::Superblock => "superblock".to_owned(),
        BlockUse::Unused => "unused block".to_owned(),
        BlockUse::Data(pbn) if parse(new.bytes()).is_some() => {
            let unit = parse(new.bytes()).expect("it is one");
            let h = unit.header;
            format!(
                "PBN {pbn} = unit {} of {}, {} of {}, incarnation {}, flushed up to {}, places {:?}, {:?}",
                h.sequence,
                h.epoch,
                h.unit + 1,
                h.units,
                h.incarnation,
                h.flushed_upto,
                unit.places,
                unit.records
            )
        }
        BlockUse::Data(pbn) => format!("PBN {pbn} = {}", name(new)),
        BlockUse::Page(id) => {
            let mut words = Vec::new();
            for sector in 0..8 {
                let (a, b) = (&old.sector(sector)[..500], &new.sector(sector)[..500]);
                let first = id.sector(sector) * id.region.entries_per_sector();
                match id.region {
                    Region::Refs => each(a, b, 1, |i, x, y| words.push(format!("refs[{}] {}>{}", first + i, x[0], y[0]))),
                    Region::Map => each(a, b, 5, |i, x, y| words.push(format!("map[{}] {}>{}", first + i, target(x), target(y)))),
                    Region::Fingerprints => each(a, b, 20, |i, x, y| words.push(format!("fp[{}] {}>{}", first + i, kind(x), kind(y)))),
                    Region::Written => each(a, b, 1, |i, x, y| words.push(format!("written[{}] {:08b}>{:08b}", first + i * 8, x[0], y[0]))),
                }
            }
            let more = words.len().saturating_sub(WORDS_MAX);
            words.truncate(WORDS_MAX);
            let and = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{} {}: {}{and}", id.region.name(), id.index, words.join(" "))
        }
    }
}

fn each(old: &[u8], new: &[u8], size: usize, mut tell: impl FnMut(u64, &[u8], &[u8])) {
    for (i, (a, b)) in old.chunks_exact(size).zip(new.chunks_exact(size)).enumerate() {
        if a != b {
            tell(i as u64, a, b);
        }
    }
}

fn target(bytes: &[u8]) -> String {
    match MapEntry::decode(bytes.try_into().expect("five bytes")) {
        Ok(MapEntry::Unmapped) => "-".to_owned(),
        Ok(MapEntry::Zero) => "zero".to_owned(),
        Ok(MapEntry::Lost) => "lost".to_owned(),
        Ok(MapEntry::Block { pbn, .. }) => pbn.get().to_string(),
        Err(_) => "?".to_owned(),
    }
}

fn kind(bytes: &[u8]) -> String {
    match FingerprintEntry::decode(bytes.try_into().expect("twenty bytes")) {
        Ok(entry) if entry.is_none() => "-".to_owned(),
        Ok(entry) => format!("{:?}", entry.kind),
        Err(_) => "?".to_owned(),
    }
}
