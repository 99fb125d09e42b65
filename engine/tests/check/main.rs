//! The offline check, on volumes that are harmed in one way each.

mod harms;
mod properties;
mod reads;
mod repair;
mod unflushed;
mod volume;

use onefold_engine::check::{Cause, CheckSettings, Counts, Finding, Severity};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::page::seal;
use onefold_engine::format::{
    Compacted, CopyState, FingerprintEntry, Kind, LogTail, MapEntry, OpenError, PageId, Region, SuperblockError, copies,
};
use onefold_engine::units::{Bytes, Epoch, Lbn, Pbn};
use volume::{MIB, Volume, used};

fn with(harm: impl FnOnce(&mut Volume)) -> Vec<Finding> {
    let mut v = used();
    harm(&mut v);
    v.findings()
}

#[test]
fn a_new_volume_is_all_free() {
    let mut v = Volume::new(36 * MIB);
    let (findings, report) = v.checked_with(CheckSettings { memory_bytes: MIB, data: true });
    assert_eq!(findings, []);
    let g = &v.superblock.geometry;
    assert_eq!(report.counts, Counts { free: g.data_blocks, unmapped: g.logical_blocks, ..Counts::default() });
    assert!(report.is_sound());
}

#[test]
fn a_used_volume_is_counted() {
    let mut v = used();
    let (findings, report) = v.checked_with(CheckSettings { memory_bytes: MIB, data: true });
    assert_eq!(findings, []);
    let g = &v.superblock.geometry;
    let expected = Counts {
        mapped: 17,
        extents: 4,
        zero: 10,
        lost: 0,
        unmapped: g.logical_blocks - 27,
        unique: 14,
        shared: 1,
        fingerprint_only: 1,
        garbage: 0,
        unknown: 0,
        free: g.data_blocks - 16,
        compared: 15,
        not_comparable: 1,
    };
    assert_eq!(report.counts, expected);
    let (_, report) = v.checked_with(CheckSettings { memory_bytes: MIB, data: false });
    assert_eq!(report.counts.compared, 0);
}

#[test]
fn a_damaged_sector_is_found_in_each_region() {
    let cases = [(Region::Refs, 1, 8), (Region::Fingerprints, 35, 280), (Region::Map, 9, 72), (Region::Written, 0, 0)];
    for (region, page, sector) in cases {
        let findings = with(|v| v.harm(region, page, |bytes| bytes[77] ^= 1));
        assert!(findings.contains(&Finding::DamagedSectors { region, first: sector, sectors: 1 }), "{}: {findings:?}", region.name());
    }
}

#[test]
fn damage_of_a_table_does_not_accuse_the_others() {
    // Refs: nothing else is wrong.
    let refs = with(|v| v.harm(Region::Refs, 0, |bytes| bytes[0] ^= 1));
    assert_eq!(refs, [Finding::DamagedSectors { region: Region::Refs, first: 0, sectors: 1 }]);
    // Fingerprints: the counts may include them or not.
    let fingerprints = with(|v| v.harm(Region::Fingerprints, 0, |bytes| bytes[0] ^= 1));
    assert_eq!(fingerprints, [Finding::DamagedSectors { region: Region::Fingerprints, first: 0, sectors: 1 }]);
    // Map: the links that stood there are missing from the counts, and damage explains it.
    let map = with(|v| v.harm(Region::Map, 0, |bytes| bytes[0] ^= 1));
    assert_eq!(
        map,
        [
            Finding::DamagedSectors { region: Region::Map, first: 0, sectors: 1 },
            Finding::UnknownEntries { first: Lbn(0), blocks: 100 },
            Finding::Garbage { blocks: 4, excess: 6, cause: Cause::Damage },
        ]
    );
}

/// A sector of the map describes a hundred logical blocks.
#[test]
fn the_blocks_whose_entries_are_damaged_are_named_as_runs() {
    let unknown = |harm: fn(&mut Volume)| -> Vec<(u64, u64)> {
        let run = |finding: Finding| match finding {
            Finding::UnknownEntries { first, blocks } => Some((first.get(), blocks)),
            _ => None,
        };
        with(harm).into_iter().filter_map(run).collect()
    };
    assert_eq!(unknown(|v| v.harm(Region::Map, 0, |bytes| (bytes[700], bytes[1300], bytes[2600]) = (9, 9, 9))), [(100, 200), (500, 100)]);
    // The last one is not described as a whole.
    let end = used().superblock.geometry.logical_blocks;
    let page = end / 800;
    assert_ne!(end % 100, 0);
    let last = unknown(|v| v.harm(Region::Map, v.superblock.geometry.logical_blocks / 800, |bytes| bytes.fill(0xaa)));
    assert_eq!(last, [(page * 800, end - page * 800)]);
}

#[test]
fn a_zeroed_page_is_damage_only_if_it_was_written() {
    let zeroed = with(|v| v.harm(Region::Map, 9, |bytes| bytes.fill(0)));
    assert_eq!(zeroed[0], Finding::DamagedSectors { region: Region::Map, first: 72, sectors: 8 });
    // Page 4 was never written.
    assert_eq!(with(|v| v.harm(Region::Map, 4, |bytes| bytes.fill(0))), []);
    // Zeros in `written` itself are never believed.
    let written = with(|v| v.harm(Region::Written, 0, |bytes| bytes[512..1024].fill(0)));
    assert_eq!(written, [Finding::DamagedSectors { region: Region::Written, first: 1, sectors: 1 }]);
}

#[test]
fn a_page_at_the_place_of_another_is_damage() {
    let findings = with(|v| {
        let at = v.page_at(Region::Fingerprints, 35);
        let bytes = *v.medium.block(at);
        v.harm(Region::Fingerprints, 0, |page| *page = bytes);
    });
    assert_eq!(findings, [Finding::DamagedSectors { region: Region::Fingerprints, first: 0, sectors: 8 }]);
}

#[test]
fn unreadable_pages_are_found_and_their_neighbours_read() {
    let findings = with(|v| {
        let at = v.page_at(Region::Fingerprints, 3);
        v.medium.make_unreadable(at);
        v.medium.make_unreadable(at + 4096);
        // A neighbour in the same piece.
        v.set_refs(200, 9);
    });
    assert_eq!(
        findings,
        [
            Finding::UnreadablePages { region: Region::Fingerprints, first: 3, pages: 2 },
            Finding::Garbage { blocks: 1, excess: 9, cause: Cause::None },
        ]
    );
}

#[test]
fn a_count_below_the_links_is_the_worst() {
    assert_eq!(with(|v| v.set_refs(20, 3)), [Finding::RefsTooLow { pbn: Pbn(20), refs: 3, links: 4 }]);
    assert_eq!(with(|v| v.set_refs(20, 0)), [Finding::LinkToFree { pbn: Pbn(20), links: 3 }]);
    assert_eq!(with(|v| v.set_refs(21, 0)), [Finding::FingerprintOnFree { pbn: Pbn(21) }]);
    let found = with(|v| v.set_map(3, MapEntry::Block { pbn: Pbn(20), slot: 0 }));
    assert_eq!(found, [Finding::RefsTooLow { pbn: Pbn(20), refs: 4, links: 5 }]);
}

#[test]
fn a_count_above_the_links_is_garbage_if_a_crash_explains_it() {
    let (places, compacted) = (Vec::new(), Compacted::default());
    let log_tail = LogTail { compacted, ..LogTail::of_new_log(0, places) };
    let harmed = |clean: bool, garbage_possible: bool, live: bool| {
        with(|v| {
            v.set_refs(20, 9);
            v.set_refs(3000, 2);
            v.change_superblock(|s| {
                (s.clean, s.garbage_possible) = (clean, garbage_possible);
                s.log_tail = live.then(|| log_tail.clone());
                s.set_log_live(live);
            });
        })
    };
    let finding = |cause| [Finding::Garbage { blocks: 2, excess: 7, cause }];
    assert_eq!(harmed(false, false, false), finding(Cause::Crash));
    assert_eq!(harmed(true, true, false), finding(Cause::Crash));
    assert_eq!(harmed(true, false, false), finding(Cause::None));
    // Replay of a live log is exact.
    assert_eq!(harmed(false, true, true), finding(Cause::Crash));
    assert_eq!(harmed(false, false, true), finding(Cause::None));
    assert_eq!(finding(Cause::Crash)[0].severity(), Severity::Garbage);
    assert_eq!(finding(Cause::None)[0].severity(), Severity::Damage);
}

#[test]
fn garbage_blocks_are_counted_as_such() {
    let mut v = used();
    v.set_refs(3000, 2);
    v.set_refs(20, 9);
    let (_, report) = v.checked_with(CheckSettings { memory_bytes: MIB, data: false });
    assert_eq!((report.counts.garbage, report.counts.shared), (1, 1));
}

#[test]
fn entries_without_a_meaning_are_found() {
    let mut v = used();
    let beyond = v.superblock.geometry.data_blocks;
    let last_lbn = v.superblock.geometry.logical_blocks;
    assert_eq!(
        with(|v| v.set_map(100, MapEntry::Block { pbn: Pbn(beyond), slot: 0 })),
        [Finding::LinkOutOfRange { lbn: Lbn(100), pbn: Pbn(beyond) }]
    );
    // Slots and carriers belong to features that are off.
    let slot = with(|v| v.set_map(100, MapEntry::Block { pbn: Pbn(1), slot: 3 }));
    assert_eq!(slot, [Finding::BadEntry { region: Region::Map, entry: 100 }]);
    let carrier = FingerprintEntry { kind: Kind::Carrier, value: Fingerprint([0; 20]) };
    let found = with(|v| v.set_fingerprint(400, carrier));
    assert_eq!(found, [Finding::BadEntry { region: Region::Fingerprints, entry: 400 }]);
    // Beyond the ends.
    let (map, i) = (PageId { region: Region::Map, index: last_lbn / 800 }, usize::try_from(last_lbn % 800).unwrap());
    assert_eq!(
        with(|v| v.change_page(map, |page| page.set_map(i, MapEntry::Zero))),
        [Finding::BadEntry { region: Region::Map, entry: last_lbn }]
    );
    let (refs, i) = (PageId { region: Region::Refs, index: beyond / 4000 }, usize::try_from(beyond % 4000).unwrap());
    assert_eq!(with(|v| v.change_page(refs, |page| page.set_refs(i, 1))), [Finding::BadEntry { region: Region::Refs, entry: beyond }]);
    let (id, i) = (PageId { region: Region::Fingerprints, index: beyond / 200 }, usize::try_from(beyond % 200).unwrap());
    let entry = FingerprintEntry::of(Fingerprint([1; 20]));
    assert_eq!(
        with(|v| v.change_page(id, |page| page.set_fingerprint(i, entry))),
        [Finding::BadEntry { region: Region::Fingerprints, entry: beyond }]
    );
    let written = PageId { region: Region::Written, index: 0 };
    assert_eq!(
        with(|v| v.change_page(written, |page| page.set_bit(31_999, true))),
        [Finding::BadEntry { region: Region::Written, entry: 31_999 }]
    );
    assert_eq!(v.findings(), []);
}

/// Bytes that no encoder gives, in a sector whose check is right.
#[test]
fn reserved_bytes_in_a_sound_sector_are_found() {
    for (region, page, entry) in [(Region::Map, 9, 7200), (Region::Fingerprints, 35, 7000)] {
        let findings = with(|v| {
            let id = PageId { region, index: page };
            let at = v.page_at(region, page);
            let mut content = onefold_engine::format::page::open(&v.superblock.uuid, id, v.medium.block(at), true).content;
            // A count of 9 in the first byte is map value 9, and a fingerprint of kind none that is not zero.
            if region == Region::Fingerprints {
                content.set_fingerprint(0, FingerprintEntry::NONE);
                v.set_map(7500, MapEntry::Unmapped);
                v.set_refs(7000, 0);
            }
            content.set_refs(0, 9);
            seal(&v.superblock.uuid, id, &mut content, v.medium.block(at));
        });
        assert_eq!(findings, [Finding::BadEntry { region, entry }]);
    }
}

#[test]
fn traces_of_older_damage_are_reported_as_runs() {
    let findings = with(|v| {
        (100..110).for_each(|lbn| v.set_map(lbn, MapEntry::Lost));
        v.set_map(2000, MapEntry::Lost);
        (3990..4010).for_each(|pbn| v.set_refs(pbn, 255));
    });
    assert_eq!(
        findings,
        [
            Finding::LostEntries { first: Lbn(100), blocks: 10 },
            Finding::LostEntries { first: Lbn(2000), blocks: 1 },
            Finding::RefsUnknown { first: Pbn(3990), blocks: 20 },
        ]
    );
}

#[test]
fn lost_links_explain_garbage() {
    for lose in [MapEntry::Lost, MapEntry::Block { pbn: Pbn(1 << 30), slot: 0 }, MapEntry::Block { pbn: Pbn(20), slot: 1 }] {
        let findings = with(|v| v.set_map(0, lose));
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[1], Finding::Garbage { blocks: 1, excess: 1, cause: Cause::Damage });
    }
}

#[test]
fn no_tag_is_newer_than_the_last_epoch() {
    let tagged = |last_epoch| {
        with(|v| {
            v.change_superblock(|s| s.last_epoch = last_epoch);
            v.change_page(PageId { region: Region::Map, index: 0 }, |page| page.set_tag(3, 17));
            v.change_page(PageId { region: Region::Refs, index: 0 }, |page| page.set_tag(1, 16));
        })
    };
    let finding = |region, sector, tag| Finding::UnexpectedTag { region, sector, tag };
    assert_eq!(tagged(Epoch(17)), []);
    assert_eq!(tagged(Epoch(16)), [finding(Region::Map, 3, 17)]);
    assert_eq!(tagged(Epoch(0)), [finding(Region::Map, 3, 17), finding(Region::Refs, 1, 16)]);
}

#[test]
fn contents_are_compared_when_asked_for() {
    let harm = |v: &mut Volume| {
        for pbn in [0, 5, 21, 22, 24, 7000] {
            let at = v.superblock.geometry.block_at(Pbn(pbn));
            v.medium.block(at)[4000] ^= 1;
        }
    };
    let differs = |pbn| Finding::ContentDiffers { pbn: Pbn(pbn) };
    // Block 24 has nothing to compare with.
    assert_eq!(with(harm), [0, 5, 21, 22, 7000].map(differs));
    let mut v = used();
    harm(&mut v);
    assert_eq!(v.checked_with(CheckSettings { memory_bytes: MIB, data: false }).0, []);
    // A block that the flash lost reads as zeros.
    let zeroed = with(|v| {
        let at = v.superblock.geometry.block_at(Pbn(3));
        v.medium.block(at).fill(0);
    });
    assert_eq!(zeroed, [differs(3)]);
}

#[test]
fn unreadable_blocks_are_found_and_their_neighbours_compared() {
    let findings = with(|v| {
        let at = |pbn| v.superblock.geometry.block_at(Pbn(pbn));
        let (four, five) = (at(4), at(5));
        v.medium.make_unreadable(four);
        v.medium.block(five)[0] ^= 1;
    });
    assert_eq!(findings, [Finding::UnreadableBlock { pbn: Pbn(4) }, Finding::ContentDiffers { pbn: Pbn(5) }]);
}

#[test]
fn superblock_copies_are_looked_at() {
    let torn = |clean: bool| {
        with(|v| {
            v.change_superblock(|s| s.clean = clean);
            let [_, at, ..] = copies(Bytes(36 * MIB));
            v.medium.block(at)[3000] ^= 1;
        })
    };
    for (clean, severity) in [(false, Severity::Note), (true, Severity::Damage)] {
        let findings = torn(clean);
        assert!(matches!(findings[..], [Finding::SuperblockCopy { copy: 1, state: CopyState::Bad(SuperblockError::Checksum { .. }), .. }]));
        assert_eq!(findings[0].severity(), severity);
    }
    let gone = with(|v| {
        let [.., at] = copies(Bytes(36 * MIB));
        v.medium.make_unreadable(at);
    });
    assert_eq!(gone, [Finding::SuperblockCopy { copy: 3, state: CopyState::Unreadable, torn: false }]);
}

#[test]
fn what_is_no_volume_is_an_error() {
    let mut v = used();
    copies(Bytes(36 * MIB)).into_iter().for_each(|at| v.medium.block(at).fill(0));
    assert_eq!(v.open_error(), OpenError::NotOnefold);
    let mut v = used();
    v.medium.bytes = 35 * MIB;
    assert_eq!(v.open_error(), OpenError::DeviceTooSmall { volume_bytes: 36 * MIB, device_bytes: 35 * MIB });
}

#[test]
fn a_larger_device_is_no_finding() {
    assert_eq!(with(|v| v.medium.bytes = 40 * MIB), []);
}

/// The same findings, whatever the memory: with little of it, the map is gone through several times.
#[test]
fn many_passes_find_what_one_does() {
    let mut v = Volume::new(2560 * MIB);
    let blocks = v.superblock.geometry.data_blocks;
    for (i, pbn) in [0, 5, 259_999, 260_000, 260_001, 500_000, blocks - 1].into_iter().enumerate() {
        v.store(pbn, Kind::Fingerprint);
        // From far away, and twice.
        v.link(i as u64 * 100_000, pbn);
        v.link(i as u64 * 3 + 1, pbn);
    }
    v.set_refs(260_001, 2);
    v.set_refs(500_000, 7);
    v.set_map(400, MapEntry::Lost);
    v.harm(Region::Map, 250, |bytes| bytes[0] ^= 1);
    let (one, large) = v.checked_with(CheckSettings { memory_bytes: 64 * MIB, data: true });
    assert!(v.medium.longest_read <= 1 << 20);
    v.medium.longest_read = 0;
    let (many, small) = v.checked_with(CheckSettings { memory_bytes: 0, data: true });
    assert!(v.medium.longest_read <= 128 << 10, "little memory, short reads");
    assert_eq!((large.passes, small.passes), (1, 3));
    assert_eq!(one, many);
    assert_eq!(large.counts, small.counts);
    let expected = [
        Finding::DamagedSectors { region: Region::Map, first: 2000, sectors: 1 },
        Finding::LostEntries { first: Lbn(400), blocks: 1 },
        Finding::UnknownEntries { first: Lbn(200_000), blocks: 100 },
        Finding::RefsTooLow { pbn: Pbn(260_001), refs: 2, links: 3 },
        Finding::Garbage { blocks: 2, excess: 5, cause: Cause::Damage },
    ];
    let mut sorted = one;
    sorted.sort_by_key(|f| expected.iter().position(|e| e == f));
    assert_eq!(sorted, expected);
    // The second and third pass read the few map pages with links only.
    assert!(small.bytes_read.get() - large.bytes_read.get() < 64 * 4096);
}
