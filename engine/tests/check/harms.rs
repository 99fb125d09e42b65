//! A volume with some of everything, and damage of every kind to every region of it.

use crate::volume::{self, Block, Volume, content};
use onefold_engine::fingerprint::{Digest, Fingerprint};
use onefold_engine::format::codec::compress;
use onefold_engine::format::page::seal;
use onefold_engine::format::{
    FingerprintEntry, Kind, MapEntry, PageContent, PageId, REFS_UNKNOWN, Region, UnitHeader, UnitKind, UnitWriter, copies,
};
use onefold_engine::units::{Epoch, Pbn};
use std::sync::OnceLock;

/// The PBN of the carrier.
pub const CARRIER: u64 = 60;

/// The volume that each test harms.
pub fn used() -> Volume {
    static MADE: OnceLock<Volume> = OnceLock::new();
    MADE.get_or_init(made).clone()
}

/// Makes a volume with a carrier of two slots, too.
fn made() -> Volume {
    let mut v = volume::used();
    v.change_superblock(|s| s.set_slots());
    let mut writer = UnitWriter::new(Vec::new());
    let fingerprinter = v.superblock.fingerprinter();
    for slot in 1..=2 {
        let block = content(CARRIER + slot);
        let Digest::Of(name) = fingerprinter.digest(&block) else { panic!("no zeros") };
        assert_eq!(writer.push_slot(name, &compress(&block, 1000).expect("it compresses")).map(u64::from), Some(slot));
    }
    let header = UnitHeader {
        kind: UnitKind::Pack,
        incarnation: 0,
        sequence: 0,
        epoch: Epoch(0),
        unit: 0,
        units: 1,
        flushed_upto: 0,
        content_flushed: false,
    };
    let at = v.superblock.geometry.block_at(Pbn(CARRIER));
    let value = writer.seal(&v.superblock.authenticator(), &header, Pbn(CARRIER), v.medium.block(at));
    v.set_fingerprint(CARRIER, FingerprintEntry { kind: Kind::Carrier, value });
    v.add_refs(CARRIER, 1);
    for slot in 1..=2 {
        v.set_map(1100 + u64::from(slot), MapEntry::Block { pbn: Pbn(CARRIER), slot });
        v.add_refs(CARRIER, 1);
    }
    assert_eq!(v.findings(), []);
    v
}

/// Damage: its name, and what it does.
pub type Harm = (String, Box<dyn Fn(&mut Volume)>);

/// Damage of every kind to a page of every region that is in use.
pub fn harms() -> Vec<Harm> {
    let mut all: Vec<Harm> = Vec::new();
    let pages = [(Region::Written, 0), (Region::Refs, 0), (Region::Refs, 1), (Region::Fingerprints, 0), (Region::Fingerprints, 35)];
    for (region, index) in pages.into_iter().chain([(Region::Map, 0), (Region::Map, 1), (Region::Map, 9)]) {
        let name = |kind: &str| format!("{kind} in page {index} of {}", region.name());
        let mut of_page = |kind, harm: fn(&mut Block)| all.push((name(kind), Box::new(move |v: &mut Volume| v.harm(region, index, harm))));
        of_page("a flipped bit", |page| page[3] ^= 8);
        of_page("a sector of zeros", |page| page[..512].fill(0));
        of_page("zeros", |page| page.fill(0));
        of_page("noise", |page| page.iter_mut().zip(0_u64..).for_each(|(byte, i)| *byte = (i * i % 251) as u8));
        of_page("ones", |page| page.fill(0xff));
        of_page("a torn half", |page| page[2048..].fill(0xee));
        all.push((
            name("the page of another place"),
            Box::new(move |v| {
                let other = PageId { region, index: index + 1 };
                let (uuid, mut content) = (v.superblock.uuid, PageContent::empty());
                v.harm(region, index, |page| seal(&uuid, other, &mut content, page));
            }),
        ));
        all.push((name("an epoch that never was"), Box::new(move |v| v.change_page(PageId { region, index }, |page| page.set_tag(2, 99)))));
        all.push((
            name("an error of the device"),
            Box::new(move |v| {
                let at = v.page_at(region, index);
                v.medium.block(at).fill(0);
                v.medium.make_unreadable(at);
            }),
        ));
    }
    for copy in 0..4 {
        all.push((
            format!("copy {copy} of the superblock"),
            Box::new(move |v| {
                let at = copies(v.superblock.geometry.device_bytes)[copy];
                v.medium.block(at)[700] ^= 1;
            }),
        ));
    }
    all.push((
        "three copies of the superblock".to_owned(),
        Box::new(|v| copies(v.superblock.geometry.device_bytes)[1..].iter().for_each(|&at| v.medium.block(at).fill(0))),
    ));
    for pbn in [3, 20, 21, 22, CARRIER] {
        let mut of_block = |kind: &str, harm: fn(&mut Block)| {
            let harm = move |v: &mut Volume| {
                let at = v.superblock.geometry.block_at(Pbn(pbn));
                harm(v.medium.block(at));
            };
            all.push((format!("{kind} in block {pbn}"), Box::new(harm)));
        };
        of_block("a flipped bit", |block| block[4000] ^= 1);
        of_block("zeros", |block| block.fill(0));
        let unreadable = move |v: &mut Volume| {
            let at = v.superblock.geometry.block_at(Pbn(pbn));
            v.medium.make_unreadable(at);
        };
        all.push((format!("an error of the device in block {pbn}"), Box::new(unreadable)));
    }
    let mut of_entry = |kind: &str, harm: fn(&mut Volume)| all.push((kind.to_owned(), Box::new(harm)));
    of_entry("a count too low", |v| v.set_refs(20, 2));
    of_entry("a count too high", |v| v.set_refs(20, 9));
    of_entry("a count of 0", |v| v.set_refs(3, 0));
    of_entry("a count that is not known", |v| v.set_refs(3, REFS_UNKNOWN));
    of_entry("the count of an entry of a free block", |v| v.set_refs(21, 0));
    of_entry("a count too low of a carrier", |v| v.set_refs(CARRIER, 1));
    of_entry("a link beyond the data", |v| v.set_map(1003, MapEntry::Block { pbn: Pbn(1 << 30), slot: 0 }));
    of_entry("a link to a slot of a block", |v| v.set_map(1003, MapEntry::Block { pbn: Pbn(3), slot: 2 }));
    of_entry("a link to a slot that is not there", |v| v.set_map(1102, MapEntry::Block { pbn: Pbn(CARRIER), slot: 3 }));
    of_entry("a link to a carrier as a whole", |v| v.set_map(1101, MapEntry::Block { pbn: Pbn(CARRIER), slot: 0 }));
    of_entry("no entry of a carrier", |v| v.set_fingerprint(CARRIER, FingerprintEntry::NONE));
    of_entry("no entry of a carrier, and no count of one", |v| {
        v.set_fingerprint(CARRIER, FingerprintEntry::NONE);
        v.set_refs(CARRIER, 2);
    });
    of_entry("the entry of other content", |v| v.set_fingerprint(3, FingerprintEntry::of(Fingerprint([1; 20]))));
    of_entry("bits behind the last page's", |v| {
        v.change_page(PageId { region: Region::Written, index: 0 }, |page| page.set_bit(31_999, true));
    });
    all
}
