//! A unit names the codec of its slots.

use super::Page;
use super::unit::{header, refused, sealed};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::codec::{Codec, compress};
use onefold_engine::format::unit::{self, UnitWriter, at};
use onefold_engine::units::BLOCK_SIZE;

#[test]
fn a_unit_names_the_codec_of_its_slots() {
    let block = [7; BLOCK_SIZE];
    let data = compress(&block, BLOCK_SIZE).expect("it compresses");
    let writer = || {
        let mut writer = UnitWriter::new(Vec::new());
        assert_eq!(writer.push_slot(Fingerprint::of_digest(&[1; 20]), &data), Some(1));
        writer
    };
    let (page, _) = sealed(writer(), &header());
    let slots = unit::slots(&page).expect("it has a table of slots");
    let mut content = [0; BLOCK_SIZE];
    assert_eq!(slots[0].codec, Codec::Zstd);
    assert!(slots[0].unpack(&page, &mut content) && content == block);
    // The codec is unknown: neither the unit nor its slots are read with another one.
    let other = |page: &mut Page| page[at::FLAGS.offset] |= 0x10;
    assert!(refused(writer(), other));
    let mut page = page;
    other(&mut page);
    assert_eq!(unit::slots(&page), None);
}
