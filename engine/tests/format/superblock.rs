//! The superblock's encoding.

use super::{Page, encoded, eventful, fresh, guarded};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::log_tail::at as at_log_tail;
use onefold_engine::format::superblock::{
    FULL_WAIT_S_MAX, INCOMPATIBLE_APART, INCOMPATIBLE_DEFAULTS, MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MAX, at, at_extent,
};
use onefold_engine::format::{
    COUNTER_MAX, COUNTER_STOP, DELAY_MS_MAX, GUARD_AT, Geometry, GeometryError, StartSettings, Superblock, SuperblockError, Wish,
};
use onefold_engine::settings::{Compression, Settings};
use onefold_engine::units::{Bytes, Epoch, Lbn, Pbn};

/// Changes the page of a superblock, gives it a checksum that fits, and decodes it.
pub fn forged(s: &Superblock, change: impl FnOnce(&mut Page)) -> Result<Superblock, SuperblockError> {
    let mut page = encoded(s, 0);
    change(&mut page);
    let checksum = crc32c::crc32c(&page[..4092]);
    page[4092..].copy_from_slice(&checksum.to_le_bytes());
    Superblock::decode(&page, 0)
}

#[test]
fn superblocks_come_back() {
    for superblock in [fresh(), eventful(), guarded()] {
        for copy in 0..4 {
            assert_eq!(Superblock::decode(&encoded(&superblock, copy), copy), Ok(superblock.clone()));
        }
    }
}

#[test]
fn the_longest_label_and_the_fullest_tables_fit() {
    let mut s = fresh();
    s.label = "x".repeat(64);
    s.protected = (0..64).map(|i| onefold_engine::format::ProtectedRange { first: Lbn(i), blocks: 1, is_found: false }).collect();
    assert_eq!(Superblock::decode(&encoded(&s, 2), 2), Ok(s));
}

#[test]
fn other_pages_are_not_taken_for_superblocks() {
    assert_eq!(Superblock::decode(&[0; 4096], 0), Err(SuperblockError::NotOnefold));
    assert_eq!(Superblock::decode(&[0xff; 4096], 0), Err(SuperblockError::NotOnefold));
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let good = encoded(&eventful(), 1);
    for bit in 0..4096 * 8 {
        let mut page = good.clone();
        page[bit / 8] ^= 1 << (bit % 8);
        let error = Superblock::decode(&page, 1).expect_err("a flipped bit");
        if bit < 64 {
            assert_eq!(error, SuperblockError::NotOnefold);
        } else {
            assert!(matches!(error, SuperblockError::Checksum { .. }), "bit {bit}: {error}");
        }
    }
}

#[test]
fn another_version_is_refused_by_its_number() {
    let error = forged(&fresh(), |page| page[8] = 9).expect_err("another version");
    assert_eq!(error, SuperblockError::OtherVersion { found: 9 });
    assert!(error.to_string().contains("version is 9, this program knows version 4"), "{error}");
}

#[test]
fn a_copy_at_the_place_of_another_is_refused() {
    let error = Superblock::decode(&encoded(&fresh(), 2), 3).expect_err("misplaced");
    assert_eq!(error, SuperblockError::Misplaced { found: 2, expected: 3 });
}

#[test]
fn an_unknown_incompatible_feature_is_refused_others_are_not() {
    let mut s = fresh();
    s.features.compatible = 1 << 63;
    s.features.read_only = 1 << 62;
    assert_eq!(s.read_only_because(), 1 << 62);
    assert_eq!(Superblock::decode(&encoded(&s, 0), 0), Ok(s.clone()));
    s.features.incompatible = INCOMPATIBLE_APART << 1;
    let error = Superblock::decode(&encoded(&s, 0), 0);
    assert_eq!(error, Err(SuperblockError::UnknownFeatures { bits: 128, uuid: s.uuid, generation: 1 }));
}

#[test]
fn a_volume_of_another_uuid_remembers_the_one_that_it_was_made_with() {
    let made = fresh();
    let mut s = made.clone();
    s.set_uuid([9; 16]);
    assert_eq!(Superblock::decode(&encoded(&s, 1), 1), Ok(s.clone()));
    assert_eq!((s.uuid, s.origin, s.has_other_uuid()), ([9; 16], made.uuid, true));
    let error = forged(&made, |page| page[at::ORIGIN.offset] = 1);
    assert!(matches!(error, Err(SuperblockError::Reserved { offset, .. }) if offset == at::ORIGIN.offset), "{error:?}");
    s.set_uuid(made.uuid);
    assert_eq!(s, made);
}

/// A volume that was never given other ones looks as it did before there were any: every program of this version opens it.
#[test]
fn defaults_that_came_later_are_a_feature_of_the_volumes_that_have_them() {
    let made = fresh();
    let start = |change: fn(&mut StartSettings)| {
        let (mut s, mut settings) = (made.clone(), made.settings.clone());
        change(&mut settings);
        s.set_defaults(settings);
        s
    };
    let others: [fn(&mut StartSettings); 6] = [
        |start| start.memory_bytes = 2 << 20,
        |start| start.memory_bytes = MEMORY_BYTES_MAX,
        |start| start.compression = Compression::Carriers,
        |start| start.compression = Compression::Off,
        |start| start.full_wait_s = 0,
        |start| start.full_wait_s = FULL_WAIT_S_MAX,
    ];
    for change in others {
        let mut s = start(change);
        assert_eq!(s.features.incompatible, INCOMPATIBLE_DEFAULTS);
        assert_eq!(Superblock::decode(&encoded(&s, 1), 1), Ok(s.clone()));
        let error = forged(&s, |page| page[at::FEATURES_INCOMPATIBLE.offset] = 0);
        assert_eq!(error, Err(SuperblockError::UnknownValue { field: at::FEATURES_INCOMPATIBLE.name, value: 0 }));
        s.set_defaults(made.settings.clone());
        assert_eq!(s, made);
    }
    assert_eq!(start(|start| start.commit_period_ms = 7).features, made.features);
    let error = forged(&made, |page| page[at::FEATURES_INCOMPATIBLE.offset] = 32);
    assert_eq!(error, Err(SuperblockError::UnknownValue { field: at::FEATURES_INCOMPATIBLE.name, value: 32 }));
    // One superblock has one encoding: what the program does by itself is zero.
    let error = forged(&start(|start| start.full_wait_s = 1), |page| {
        page[at::MEMORY_BYTES.offset..][..8].copy_from_slice(&MEMORY_BYTES_DEFAULT.to_le_bytes());
    });
    assert!(matches!(error, Err(SuperblockError::Reserved { .. })), "{error:?}");
    for (field, value) in
        [(at::MEMORY_BYTES, (2 << 20) - 1), (at::MEMORY_BYTES, MEMORY_BYTES_MAX + 1), (at::FULL_WAIT_S, FULL_WAIT_S_MAX + 2)]
    {
        let error = forged(&start(|start| start.full_wait_s = 1), |page| {
            page[field.offset..][..field.width].copy_from_slice(&value.to_le_bytes()[..field.width]);
        });
        let is_refused = matches!(error, Err(SuperblockError::UnknownValue { .. } | SuperblockError::OutOfRange { .. }));
        assert!(is_refused, "{} {value}: {error:?}", field.name);
    }
}

#[test]
fn values_without_meaning_are_refused_by_name() {
    for (field, value) in [
        (at::BLOCK_BYTES, 1),
        (at::SECTOR_BYTES, 7),
        (at::STATE, 4),
        (at::ALGORITHM, 4),
        (at::PERSISTENCE, 2),
        (at::COMMIT_MODE, 2),
        (at::VERIFY_READS, 2),
        (at::VERIFY_DUPLICATES, 255),
        (at::DISCARD_FREED, 2),
        (at::COMPRESSION, 3),
        (at::EXTENT_COUNT, 65),
        (at::PROTECTED_COUNT, 65),
    ] {
        let error = forged(&fresh(), |page| {
            page[field.offset..][..field.width].fill(0);
            page[field.offset] = value;
        });
        assert_eq!(error, Err(SuperblockError::UnknownValue { field: field.name, value: u64::from(value) }));
    }
    let error = forged(&fresh(), |page| page[at::EXTENTS.offset + at_extent::KIND.offset] = 5);
    assert_eq!(error, Err(SuperblockError::UnknownValue { field: "extent kind", value: 5 }));
}

#[test]
fn places_outside_the_volume_are_refused() {
    let blocks = fresh().geometry.data_blocks;
    for field in [at::RECOUNT_POSITION, at::ALLOCATION_CURSOR] {
        let value = blocks + 1;
        let error = forged(&fresh(), |page| page[field.offset..][..8].copy_from_slice(&value.to_le_bytes()));
        assert_eq!(error, Err(SuperblockError::OutOfRange { field: field.name, value, limit: blocks }));
    }
    let error = forged(&eventful(), |page| page[at::PROTECTED.offset + 7] = 0xff).expect_err("a range far away");
    assert!(matches!(error, SuperblockError::OutOfRange { field: "PROTECTED", .. }), "{error}");
    let scrubbed = |page: &mut Page, part: u8, next: u64| {
        page[at::SCRUB_PART.offset] = part;
        page[at::SCRUB_NEXT.offset..][..8].copy_from_slice(&next.to_le_bytes());
    };
    for (part, limit) in [(1, 4), (6, blocks), (7, 0)] {
        let of = |next| forged(&fresh(), |page| scrubbed(page, part, next)).map(|_| ());
        assert_eq!(of(limit), Ok(()), "part {part}");
        assert_eq!(of(limit + 1), Err(SuperblockError::OutOfRange { field: "SCRUB_NEXT", value: limit + 1, limit }));
    }
    let error = forged(&fresh(), |page| scrubbed(page, 8, 0));
    assert_eq!(error, Err(SuperblockError::UnknownValue { field: "SCRUB_PART", value: 8 }));
    let error = forged(&fresh(), |page| scrubbed(page, 0, 1)).expect_err("no scrub has a next block");
    assert!(matches!(error, SuperblockError::Reserved { .. }), "{error}");
    let mut s = fresh();
    s.allocation_cursor = Pbn(blocks);
    assert_eq!(Superblock::decode(&encoded(&s, 0), 0), Ok(s), "the end itself is a place");
}

#[test]
fn counters_that_could_wrap_and_delays_without_end_are_refused() {
    for (field, limit) in [
        (at::GENERATION, COUNTER_MAX),
        (at::INCARNATION, COUNTER_MAX),
        (at::MOUNT_COUNT, COUNTER_MAX),
        (at::LAST_EPOCH, COUNTER_MAX),
        (at::LAST_LOG_SEQUENCE, COUNTER_MAX),
        (at::NONCRITICAL_DELAY_MS, DELAY_MS_MAX),
        (at::COMMIT_PERIOD_MS, DELAY_MS_MAX),
        (at::ANTICIPATION_MS, DELAY_MS_MAX),
    ] {
        let of = |value: u64| forged(&fresh(), |page| page[field.offset..][..8].copy_from_slice(&value.to_le_bytes())).map(|_| ());
        assert_eq!(of(limit), Ok(()), "{}", field.name);
        for value in [limit + 1, 1 << 63, u64::MAX - 1, u64::MAX] {
            assert_eq!(of(value), Err(SuperblockError::OutOfRange { field: field.name, value, limit }));
        }
    }
}

#[test]
fn a_guard_has_an_interval_within_its_bounds_and_a_place_of_its_own() {
    let of = |s: &Superblock, ms: u32| forged(s, |page| page[at::GUARD_MS.offset..][..4].copy_from_slice(&ms.to_le_bytes())).map(|_| ());
    let field = at::GUARD_MS.name;
    assert_eq!([1000, 60_000].map(|ms| of(&guarded(), ms)), [Ok(()), Ok(())]);
    for value in [0, 999] {
        assert_eq!(of(&guarded(), value), Err(SuperblockError::UnknownValue { field, value: value.into() }));
    }
    for value in [60_001, u32::MAX] {
        assert_eq!(of(&guarded(), value), Err(SuperblockError::OutOfRange { field, value: value.into(), limit: 60_000 }));
    }
    assert_eq!(of(&fresh(), 1000), Err(SuperblockError::OutOfRange { field, value: 1000, limit: 0 }), "no guard, and an interval");

    // Its first region begins behind the block; one that covers it is refused.
    assert_eq!(guarded().geometry.extents[0].offset, GUARD_AT + 4096);
    assert_eq!(fresh().geometry.extents[0].offset, GUARD_AT);
    let place = at::EXTENTS.offset + at_extent::OFFSET.offset;
    let error = forged(&guarded(), |page| page[place..][..8].copy_from_slice(&GUARD_AT.get().to_le_bytes()));
    assert!(matches!(error, Err(SuperblockError::Geometry(GeometryError::ExtentOverlaps { .. }))), "{error:?}");
}

#[test]
fn a_volume_is_used_up_when_one_of_its_counters_is() {
    assert_eq!(fresh().used_up(), None);
    let used_up = |change: fn(&mut Superblock, u64)| {
        [COUNTER_STOP - 1, COUNTER_STOP, COUNTER_MAX].map(|value| {
            let mut s = fresh();
            change(&mut s, value);
            s.used_up().map(|(name, _)| name)
        })
    };
    assert_eq!(used_up(|s, n| s.generation = n), [None, Some("GENERATION"), Some("GENERATION")]);
    assert_eq!(used_up(|s, n| s.incarnation = n), [None, Some("INCARNATION"), Some("INCARNATION")]);
    assert_eq!(used_up(|s, n| s.mount_count = n), [None, Some("MOUNT_COUNT"), Some("MOUNT_COUNT")]);
    assert_eq!(used_up(|s, n| s.last_epoch = Epoch(n)), [None, Some("LAST_EPOCH"), Some("LAST_EPOCH")]);
    assert_eq!(used_up(|s, n| s.last_log_sequence = n), [None, Some("LAST_LOG_SEQUENCE"), Some("LAST_LOG_SEQUENCE")]);
}

#[test]
fn reserved_bytes_are_zero() {
    let s = eventful();
    let used_extents = s.geometry.extents.len() * at_extent::LAYOUT.bytes;
    for offset in [
        at::RESERVED_SETTINGS.offset,
        at::RESERVED.offset,
        at::RESERVED.offset + at::RESERVED.width - 1,
        at::LOG_TAIL.offset + at_log_tail::PLACES.offset + 2 * 6,
        at::LOG_TAIL.offset + at_log_tail::RESERVED.offset,
        at::LOG_TAIL.offset + at::LOG_TAIL.width - 1,
        at::LABEL.offset + 63,
        at::LEDGER.offset + at::LEDGER.width - 1,
        at::EXTENTS.offset + used_extents,
        at::PROTECTED.offset + at::PROTECTED.width - 1,
    ] {
        let error = forged(&s, |page| page[offset] = 1);
        assert_eq!(error, Err(SuperblockError::Reserved { offset, found: 1, expected: 0 }));
    }
}

#[test]
fn a_label_that_is_not_text_is_refused() {
    let error = forged(&eventful(), |page| page[at::LABEL.offset + 4] = 0xff);
    assert_eq!(error, Err(SuperblockError::Label { valid_up_to: 4 }));
}

#[test]
fn a_region_table_that_is_not_sound_is_refused() {
    for (field, name) in [(at_extent::OFFSET, "offset"), (at_extent::LENGTH, "length"), (at_extent::INSTANCE, "instance")] {
        let error = forged(&fresh(), |page| page[at::EXTENTS.offset + field.offset + 3] = 0x77);
        assert!(matches!(error, Err(SuperblockError::Geometry(_))), "{name}: {error:?}");
    }
}

/// The map refuses neither number: the last map page of the largest volume has room for one more entry, and any map for none.
#[test]
fn a_volume_has_one_logical_block_at_the_least_and_no_more_than_there_can_be() {
    const MOST: u64 = 1 << 40;
    let wish = Wish { logical_blocks: Some(MOST), ..Wish::default() };
    let largest = Geometry::plan(Bytes(1 << 50), &wish).expect("a geometry");
    let largest = Superblock::new(largest, super::UUID, [7; 32], Algorithm::Blake3, &Settings::default());
    let of = |s: &Superblock, blocks: u64| {
        forged(s, |page| page[at::LOGICAL_BLOCKS.offset..][..8].copy_from_slice(&blocks.to_le_bytes())).map(|_| ())
    };
    let refused = |logical_blocks| Err(SuperblockError::Geometry(GeometryError::LogicalOutOfRange { logical_blocks, maximum: MOST }));
    assert_eq!([0, 1].map(|blocks| of(&fresh(), blocks)), [refused(0), Ok(())]);
    assert_eq!([MOST, MOST + 1].map(|blocks| of(&largest, blocks)), [Ok(()), refused(MOST + 1)]);
}

#[test]
fn the_key_never_shows() {
    let mut s = fresh();
    s.key.0 = *b"a key that nobody may ever see!!";
    let shown = format!("{s:?} {:#?} {:?}", s.key, s.fingerprinter());
    assert!(shown.contains("withheld") && !shown.contains("97, 32, 107") && !shown.contains("nobody"));
}

#[test]
#[should_panic(expected = "no label")]
fn a_label_with_a_zero_byte_is_a_bug() {
    let mut s = fresh();
    s.label = "a\0b".to_owned();
    let _ = encoded(&s, 0);
}
