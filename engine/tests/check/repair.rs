//! The repair, on volumes that are harmed in one way each: what is damaged is repaired or lost by name, and everything else stays.

use crate::harms::{CARRIER, harms, used};
use crate::volume::{Block, MIB, Medium, Volume};
use onefold_engine::buffer::BufferMut;
use onefold_engine::check::{CheckSettings, Finding, ReadMedium};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::page::open;
use onefold_engine::format::{
    COUNTER_MAX, FingerprintEntry, Kind, LogTail, MapEntry, Opened, PageId, Places, REFS_UNKNOWN, Region, Superblock, unit,
};
use onefold_engine::interface::IoFailure;
use onefold_engine::repair::{Plan, RepairError, RepairMedium, carry_out, plan};
use onefold_engine::units::{BLOCK_SIZE, Bytes, Pbn};
use std::collections::BTreeMap;

const SETTINGS: CheckSettings = CheckSettings { memory_bytes: MIB, data: true };

/// A device that loses some of what it has not flushed when the power is cut: when no operation, write or flush, is left.
struct Cut<'a> {
    volume: &'a mut Volume,
    unflushed: Vec<(Bytes, Box<Block>)>,
    operations_left: u64,
    /// Every other write since the last flush reaches the medium, from this one on.
    survivors: usize,
}

impl ReadMedium for Cut<'_> {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        self.volume.medium.read(at, buffer)
    }
}

impl RepairMedium for Cut<'_> {
    fn write(&mut self, at: Bytes, block: &BufferMut) -> Result<(), IoFailure> {
        self.operation()?;
        self.unflushed.push((at, Box::new(*self.volume.medium.block(at))));
        self.volume.medium.make_readable(at);
        *self.volume.medium.block(at) = *block.block(0);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoFailure> {
        self.operation()?;
        self.unflushed.clear();
        Ok(())
    }
}

impl Cut<'_> {
    fn operation(&mut self) -> Result<(), IoFailure> {
        self.operations_left = self.operations_left.checked_sub(1).ok_or(IoFailure)?;
        Ok(())
    }

    /// Takes back some of what was not flushed.
    fn end(self) {
        let lost = self.unflushed.into_iter().enumerate().filter(|(i, _)| i % 2 == self.survivors).rev();
        lost.for_each(|(_, (at, before))| *self.volume.medium.block(at) = *before);
    }
}

/// Reads each logical block that is in use, as a client does; none where it is an error.
fn read(v: &mut Volume) -> BTreeMap<u64, Option<Block>> {
    let geometry = v.superblock.geometry.clone();
    let mut found = BTreeMap::new();
    for index in 0..geometry.pages(Region::Map) {
        let id = PageId { region: Region::Map, index };
        let opened = page(v, id);
        let first = geometry.first_lbn(id).get();
        for i in 0..800.min(usize::try_from(geometry.logical_blocks.saturating_sub(first)).unwrap()) {
            let is_damaged = opened.damaged & (1 << (i / 100)) != 0;
            let entry = if is_damaged { MapEntry::Lost } else { geometry.known(opened.content.map(i)) };
            let lbn = first + i as u64;
            match entry {
                MapEntry::Unmapped => {}
                MapEntry::Zero => drop(found.insert(lbn, Some([0; BLOCK_SIZE]))),
                MapEntry::Lost => drop(found.insert(lbn, None)),
                MapEntry::Block { pbn, slot } => drop(found.insert(lbn, block(v, pbn, slot))),
            }
        }
    }
    found
}

fn page(v: &mut Volume, id: PageId) -> Opened {
    let at = v.superblock.geometry.page_at(id);
    let written = id.region == Region::Written || {
        let (page_of_bits, bit) = v.superblock.geometry.written_of(id);
        page(v, page_of_bits).content.bit(bit)
    };
    open(&v.superblock.uuid, id, v.medium.block(at), written)
}

/// The content of a block or slot, if its entry proves it or there is none to compare it with.
fn block(v: &mut Volume, pbn: Pbn, slot: u8) -> Option<Block> {
    let (id, i) = v.superblock.geometry.fingerprint_of(pbn);
    let entry = page(v, id).content.fingerprint(i);
    let at = v.superblock.geometry.block_at(pbn);
    let bytes = *v.medium.block(at);
    if slot == 0 {
        return (entry.is_of(&v.superblock.fingerprinter(), &bytes) != Some(false)).then_some(bytes);
    }
    let is_it = entry.kind == Kind::Carrier && unit::is_authentic(&v.superblock.authenticator(), pbn, &bytes);
    let slots = unit::slots(&bytes).filter(|_| is_it)?;
    let mut out = [0; BLOCK_SIZE];
    slots[usize::from(slot) - 1].unpack(&bytes, &mut out).then_some(out)
}

/// The blocks whose count, where it is known, is below their links and their entry. Links that mean nothing count: a client that overwrites
/// one of them takes it from the count.
fn below_their_links(v: &mut Volume) -> Vec<u64> {
    let geometry = v.superblock.geometry.clone();
    let mut links: BTreeMap<Pbn, u64> = BTreeMap::new();
    for index in 0..geometry.pages(Region::Map) {
        let opened = page(v, PageId { region: Region::Map, index });
        (0..800).filter_map(|i| geometry.known(opened.content.map(i)).pbn()).for_each(|pbn| *links.entry(pbn).or_default() += 1);
    }
    for index in 0..geometry.pages_of_blocks(Region::Fingerprints) {
        let id = PageId { region: Region::Fingerprints, index };
        let opened = page(v, id);
        let named = (0..200).filter(|&i| !opened.content.fingerprint(i).is_none()).map(|i| geometry.first_pbn(id) + i as u64);
        named.for_each(|pbn| *links.entry(pbn).or_default() += 1);
    }
    let mut low = Vec::new();
    for (pbn, links) in links {
        let (id, i) = geometry.refs_of(pbn);
        let refs = page(v, id).content.refs(i);
        if refs != REFS_UNKNOWN && u64::from(refs) < links {
            low.push(pbn.get());
        }
    }
    low
}

fn findings(v: &mut Volume) -> Vec<Finding> {
    v.checked_with(SETTINGS).0
}

fn planned(v: &mut Volume, settings: &CheckSettings) -> (Plan, Vec<(u64, u64)>) {
    let (bytes, mut lost) = (Bytes(v.medium.bytes), Vec::new());
    let mut note = |finding| match finding {
        Finding::LostEntries { first, blocks } => lost.push((first.get(), blocks)),
        other => panic!("a plan names what is lost, and nothing else: {other}"),
    };
    let plan = plan(&mut v.medium, bytes, settings, &mut note).expect("a plan");
    assert_eq!(plan.lost, lost.iter().map(|(_, blocks)| blocks).sum::<u64>());
    (plan, lost)
}

/// Repairs, with the power cut after this number of writes and flushes. Returns what is lost by name, and whether it came to its end.
fn repair(v: &mut Volume, operations_left: u64, survivors: usize) -> (Vec<u64>, bool) {
    let (plan, lost) = planned(v, &SETTINGS);
    let mut cut = Cut { volume: v, unflushed: Vec::new(), operations_left, survivors };
    let done = carry_out(&mut cut, plan, &SETTINGS, &mut |_| ());
    cut.end();
    assert!(matches!(done, Ok(()) | Err(RepairError::Device)), "{done:?}");
    (lost.into_iter().flat_map(|(first, blocks)| first..first + blocks).collect(), done.is_ok())
}

#[test]
fn what_is_damaged_is_named_repaired_or_lost_by_name_and_the_rest_stays() {
    let before = read(&mut used());
    for (name, harm) in harms() {
        let mut v = used();
        harm(&mut v);
        assert_ne!(findings(&mut v), [], "{name}: the check sees nothing");
        let (lost, is_done) = repair(&mut v, u64::MAX, 0);
        assert!(is_done, "{name}");
        let rest: Vec<Finding> = findings(&mut v).into_iter().filter(|finding| !matches!(finding, Finding::LostEntries { .. })).collect();
        assert_eq!(rest, [], "{name}");
        assert!(planned(&mut v, &SETTINGS).0.is_empty(), "{name}: a second repair has something to do");
        for (lbn, found) in read(&mut v) {
            match found {
                None => assert!(lost.contains(&lbn), "{name}: {lbn} is lost, and was not named"),
                Some(found) => assert_eq!(Some(&Some(found)), before.get(&lbn), "{name}: {lbn} is other content"),
            }
        }
        let gone = before.keys().filter(|lbn| !lost.contains(lbn) && !read(&mut v).contains_key(lbn)).collect::<Vec<_>>();
        assert!(gone.is_empty(), "{name}: {gone:?} read as zeros");
        let in_use = lost.iter().filter(|lbn| before.contains_key(lbn)).count();
        assert!(in_use <= most_lost(&name), "{name}: {in_use} blocks in use are lost: {lost:?}");
    }
}

/// The most blocks in use that a kind of damage may cost.
fn most_lost(name: &str) -> usize {
    match name {
        // Pages that were never written are zeros, and then may be damage: those hold no block in use.
        _ if name.contains("of written") => 0,
        _ if name.contains("page 0 of map") => 16,
        _ if name.contains("page 1 of map") => 12,
        _ if name.contains("page 9 of map") => 1,
        _ if name.contains("block 20") => 3,
        _ if name.contains("block 60") => 2,
        _ if name.contains("block 21") => 0,
        _ if name.contains("in block") || name.contains("a link") || name == "the entry of other content" => 2,
        _ => 0,
    }
}

#[test]
fn a_repair_that_is_cut_off_anywhere_leaves_nothing_worse_and_can_be_repeated() {
    cut_off_anywhere(0);
}

/// The other half of the kinds of damage, beside the first.
#[test]
fn a_repair_of_other_damage_that_is_cut_off_anywhere_does_so_too() {
    cut_off_anywhere(1);
}

fn cut_off_anywhere(half: usize) {
    for (name, harm) in harms().into_iter().skip(half).step_by(2) {
        let mut harmed = used();
        harm(&mut harmed);
        let before = below_their_links(&mut harmed);
        let mut whole = harmed.clone();
        let (lost, _) = repair(&mut whole, u64::MAX, 0);
        let expected = (read(&mut whole), whole.checked_with(SETTINGS).1.counts);
        let mut tried: Vec<Medium> = Vec::new();
        for (operations, survivors) in (0..).flat_map(|operations| [(operations, 0), (operations, 1)]) {
            let mut v = harmed.clone();
            let (_, is_done) = repair(&mut v, operations, survivors);
            if is_done && survivors == 1 {
                assert!(tried.contains(&v.medium), "{name}: a repair that came to its end is not flushed");
                break;
            }
            if tried.contains(&v.medium) {
                continue;
            }
            tried.push(v.medium.clone());
            let worse: Vec<u64> = below_their_links(&mut v).into_iter().filter(|pbn| !before.contains(pbn)).collect();
            assert_eq!(worse, [], "{name}, cut off after {operations}, survivors {survivors}");
            let (later, _) = repair(&mut v, u64::MAX, 0);
            assert!(later.iter().all(|lbn| lost.contains(lbn)), "{name}, cut off after {operations}");
            let found = (read(&mut v), v.checked_with(SETTINGS).1.counts);
            assert_eq!(found.1, expected.1, "{name}, cut off after {operations}, survivors {survivors}");
            assert!(found.0 == expected.0, "{name}, cut off after {operations}, survivors {survivors}: other content");
        }
    }
}

#[test]
fn a_sound_volume_has_nothing_to_repair_and_one_that_must_not_be_written_is_refused() {
    let mut v = used();
    assert!(planned(&mut v, &SETTINGS).0.is_empty());
    let refused = |change: fn(&mut Superblock)| {
        let mut v = used();
        v.change_superblock(change);
        let bytes = Bytes(v.medium.bytes);
        plan(&mut v.medium, bytes, &SETTINGS, &mut |_| ()).expect_err("it is planned")
    };
    assert_eq!(refused(|s| s.clean = false), RepairError::NotClosed);
    let live = |s: &mut Superblock| {
        s.log_tail = Some(LogTail::of_new_log(0, vec![Places { first: Pbn(100), blocks: 2 }]));
        s.set_log_live(true);
    };
    assert_eq!(refused(live), RepairError::NotClosed);
    // Its next superblock but one would be none that a program accepts.
    assert_eq!(refused(|s| s.generation = COUNTER_MAX), RepairError::ReadOnly);
    assert_eq!(refused(|s| s.features.read_only = 1), RepairError::ReadOnly);
}

#[test]
fn a_plan_says_what_it_would_do_and_changes_nothing() {
    let mut v = used();
    v.set_fingerprint(CARRIER, FingerprintEntry::NONE);
    v.set_refs(20, 1);
    v.harm(Region::Map, 9, |page| page[1500] ^= 1);
    let before = findings(&mut v);
    let (plan, lost) = planned(&mut v, &SETTINGS);
    // The sector holds the entries 7400 to 7499; block 7000 is mapped from 7500.
    assert_eq!((lost, plan.lost), (vec![(7400, 100)], 100));
    assert_eq!((plan.entries_rebuilt, plan.entries_dropped, plan.counts, plan.superblock_copies), (1, 0, 1, 0));
    assert_eq!(plan.pages, 3, "a page of the map, one of entries, one of counts");
    assert_eq!(findings(&mut v), before);
}

#[test]
fn blocks_are_compared_only_where_that_is_wanted() {
    let mut v = used();
    let at = v.superblock.geometry.block_at(Pbn(3));
    v.medium.block(at)[9] ^= 1;
    assert!(planned(&mut v, &CheckSettings { data: false, ..SETTINGS }).0.is_empty());
    assert_eq!(planned(&mut v, &SETTINGS).1, [(1003, 1)]);
}

#[test]
fn more_damage_than_memory_can_hold_is_refused() {
    let mut v = used();
    for pbn in 2000..4100 {
        v.set_fingerprint(pbn, FingerprintEntry::of(Fingerprint([1; 20])));
        v.set_refs(pbn, 1);
    }
    let bytes = Bytes(v.medium.bytes);
    let refused = plan(&mut v.medium, bytes, &SETTINGS, &mut |_| ()).unwrap_err();
    assert_eq!(refused, RepairError::TooMuch { blocks: 2048 });
    assert!(plan(&mut v.medium, bytes, &CheckSettings { memory_bytes: 4 * MIB, ..SETTINGS }, &mut |_| ()).is_ok());
}

#[test]
fn a_count_that_no_window_saw_whole_is_right_all_the_same() {
    let mut v = used();
    v.set_refs(20, 1);
    v.set_refs(7000, 77);
    let settings = CheckSettings { memory_bytes: 16_000, data: false };
    let (plan, _) = planned(&mut v, &settings);
    let mut cut = Cut { volume: &mut v, unflushed: Vec::new(), operations_left: u64::MAX, survivors: 0 };
    carry_out(&mut cut, plan, &settings, &mut |_| ()).expect("a repair");
    assert_eq!(findings(&mut v), []);
}
