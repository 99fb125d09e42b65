//! The choice among the four copies of the superblock.

use super::{MIB, Page, UUID, encoded, fresh, geometry};
use onefold_engine::format::copies::COPIES;
use onefold_engine::format::{Chosen, CopyState, OpenError, Superblock, SuperblockError, choose, copies, end_copies, pair_of};
use onefold_engine::units::Bytes;

const DEVICE: Bytes = Bytes(64 * MIB);

type Copies = [Option<Page>; COPIES];

fn all(s: &Superblock) -> Copies {
    [0, 1, 2, 3].map(|i| Some(encoded(s, i)))
}

fn of_generation(generation: u64) -> Superblock {
    Superblock { generation, ..fresh() }
}

/// Writes the pair of an update.
fn update(copies: &mut Copies, s: &Superblock) {
    pair_of(s.generation).into_iter().for_each(|i| copies[i] = Some(encoded(s, i)));
}

fn chosen(pages: &Copies, device_bytes: Bytes) -> Result<Chosen, OpenError> {
    choose(std::array::from_fn(|i| pages[i].as_deref()), device_bytes)
}

fn generation(pages: &Copies) -> u64 {
    chosen(pages, DEVICE).expect("a volume").superblock.generation
}

#[test]
fn copies_lie_at_both_ends() {
    assert_eq!(copies(Bytes(16 * MIB)), [0, 4096, 16 * MIB - 8192, 16 * MIB - 4096].map(Bytes));
    assert_eq!(copies(Bytes(16 * MIB + 4095)), copies(Bytes(16 * MIB)));
}

#[test]
fn updates_alternate_between_the_pairs() {
    for generation in 1..5 {
        let [front, end] = pair_of(generation);
        assert!(front < 2 && end >= 2);
        assert!(!pair_of(generation + 1).contains(&front) && !pair_of(generation + 1).contains(&end));
    }
}

#[test]
fn the_newest_counts_whatever_else_is_torn() {
    let mut pages = all(&of_generation(1));
    for generation_now in 2..6 {
        update(&mut pages, &of_generation(generation_now));
        assert_eq!(generation(&pages), generation_now);
        // Any one copy of the four may be gone.
        for gone in 0..COPIES {
            let mut fewer = pages.clone();
            fewer[gone] = None;
            assert_eq!(generation(&fewer), generation_now);
        }
        // The pair just written may be torn: then the update before it counts.
        let mut torn = pages.clone();
        pair_of(generation_now).into_iter().for_each(|i| torn[i].as_mut().expect("a page")[3000] ^= 1);
        assert_eq!(generation(&torn), generation_now - 1);
        // Both of either end may be gone.
        for gone in [[0, 1], [2, 3]] {
            let mut fewer = pages.clone();
            gone.into_iter().for_each(|i| fewer[i] = None);
            assert_eq!(generation(&fewer), generation_now);
        }
    }
}

/// After a format all copies have one generation; after an update that was cut off, or damage, any of them may be missing.
#[test]
fn the_first_update_of_an_opening_leaves_a_copy_that_is_found() {
    let mut updated = all(&of_generation(1));
    (2..4).for_each(|generation| update(&mut updated, &of_generation(generation)));
    let mut updated_again = updated.clone();
    update(&mut updated_again, &of_generation(4));
    for (whole, device) in [all(&of_generation(1)), updated, updated_again].iter().flat_map(|w| [(w, DEVICE), (w, Bytes(96 * MIB))]) {
        for sound in 1..16usize {
            let mut pages: Copies = std::array::from_fn(|i| if sound & (1 << i) == 0 { None } else { whole[i].clone() });
            let Ok(before) = chosen(&pages, device) else {
                assert!(sound & 3 == 0 && device != DEVICE, "copies {sound:#b}");
                continue;
            };
            let newest = before.superblock.generation;
            let serving = before.into_service();
            assert!((newest..newest + 2).contains(&serving.generation));
            pair_of(serving.generation + 1).into_iter().for_each(|i| pages[i] = None);
            let both = [[0, 2], [1, 3]].into_iter().all(|pair| pair.into_iter().any(|i| sound & (1 << i) != 0));
            let left = chosen(&pages, device).unwrap_or_else(|error| panic!("copies {sound:#b}: {error}"));
            assert!(both || left.superblock.generation == newest, "copies {sound:#b}");
        }
    }
}

#[test]
fn each_copy_has_its_state() {
    let mut pages = all(&of_generation(1));
    update(&mut pages, &of_generation(2));
    pages[1] = None;
    pages[3].as_mut().expect("a page")[100] ^= 1;
    let states = chosen(&pages, DEVICE).expect("a volume").states;
    assert_eq!(states[0], CopyState::Sound { generation: 2 });
    assert_eq!(states[1], CopyState::Unreadable);
    assert_eq!(states[2], CopyState::Sound { generation: 2 });
    assert!(matches!(states[3], CopyState::Bad(SuperblockError::Checksum { .. })));
}

#[test]
fn another_volumes_copies_do_not_compete() {
    let mut pages = all(&of_generation(3));
    let other = Superblock { uuid: [9; 16], ..of_generation(1000) };
    pages[2] = Some(encoded(&other, 2));
    let Chosen { superblock, states } = chosen(&pages, DEVICE).expect("a volume");
    assert_eq!((superblock.uuid, superblock.generation), (UUID, 3));
    assert_eq!(states[2], CopyState::Foreign { uuid: [9; 16] });
}

#[test]
fn on_a_larger_device_the_end_is_where_the_superblock_says() {
    let pages = all(&of_generation(1));
    let front = [pages[0].as_deref(), pages[1].as_deref()];
    let larger = Bytes(100 * MIB);
    assert_eq!(end_copies(front, larger), [64 * MIB - 8192, 64 * MIB - 4096].map(Bytes));
    assert_eq!(end_copies([None, None], larger), [100 * MIB - 8192, 100 * MIB - 4096].map(Bytes));
    assert!(chosen(&pages, larger).is_ok());
}

#[test]
fn an_end_copy_of_another_size_does_not_count() {
    let mut pages = all(&of_generation(1));
    let longer = Superblock { geometry: geometry(65 * MIB), ..of_generation(2) };
    pages[2] = Some(encoded(&longer, 2));
    let Chosen { superblock, states } = chosen(&pages, DEVICE).expect("a volume");
    assert_eq!(superblock.generation, 1);
    assert_eq!(states[2], CopyState::Elsewhere { device_bytes: Bytes(65 * MIB) });
}

#[test]
fn a_smaller_device_is_an_error_with_both_sizes() {
    let error = chosen(&all(&fresh()), Bytes(63 * MIB)).expect_err("too small");
    assert_eq!(error, OpenError::DeviceTooSmall { volume_bytes: 64 * MIB, device_bytes: 63 * MIB });
    assert!(chosen(&all(&fresh()), Bytes(4096)).is_err());
}

#[test]
fn what_is_not_there_is_told_apart() {
    assert_eq!(chosen(&[None, None, None, None], DEVICE), Err(OpenError::Unreadable));
    assert_eq!(
        chosen(&[None, None, None, None], Bytes(100)),
        Err(OpenError::NotOnefold),
        "no device's fault: there is no room for a volume"
    );
    let zeros = [0; COPIES].map(|_| Some(Box::new([0; 4096])));
    assert_eq!(chosen(&zeros, DEVICE), Err(OpenError::NotOnefold));
    let mut damaged = all(&fresh());
    damaged.iter_mut().flatten().for_each(|page| page[2000] ^= 1);
    let error = chosen(&damaged, DEVICE).expect_err("damaged");
    assert!(error.to_string().starts_with("all four superblocks are damaged; the first: its checksum is"), "{error}");
}

fn with_version(page: &mut Page, version: u8) {
    page[8] = version;
    let checksum = crc32c::crc32c(&page[..4092]);
    page[4092..].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn another_version_is_refused_even_beside_sound_copies() {
    let mut pages = all(&of_generation(5));
    with_version(pages[3].as_mut().expect("a page"), 9);
    assert_eq!(chosen(&pages, DEVICE), Err(OpenError::OtherVersion { found: 9 }));
}

#[test]
fn a_newer_copy_with_unknown_features_is_not_ignored() {
    let mut newer = of_generation(6);
    newer.features.incompatible = 128;
    let mut pages = all(&of_generation(5));
    update(&mut pages, &newer);
    assert_eq!(chosen(&pages, DEVICE), Err(OpenError::UnknownFeatures { bits: 128 }));
    // An older one has been overtaken: the feature was given up.
    update(&mut pages, &of_generation(7));
    assert_eq!(generation(&pages), 7);
}
