//! `check --repair`, on a real volume whose files are harmed.

mod common;

use common::home::Home;
use common::nbd_client::*;
use onefold_engine::format::{UnitKind, choose, unit};
use onefold_engine::units::{Bytes, Pbn};
use serde_json::Value;
use std::collections::BTreeMap;

const IMAGE: &str = "disk.img";
const BLOCK: usize = 4096;
const BLOCKS: usize = 600;

/// Content that compresses and content that does not, in turns of 50 blocks.
fn content(block: usize) -> Vec<u8> {
    let mut state = block as u64 + 1;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    match block / 50 % 2 {
        0 => (0..BLOCK).map(|_| noise()).collect(),
        _ => format!("line of block {block}\n").into_bytes().into_iter().cycle().take(BLOCK).collect(),
    }
}

/// A closed volume with that content.
fn written(home: &Home, options: &[&str]) {
    home.says(0, &[&["create", IMAGE, "--size", "64M"], options].concat());
    let socket = home.attach(IMAGE, &[]);
    let mut client = Client::ready_for(&socket, true, "");
    for block in 0..BLOCKS {
        client.write(0, (block * BLOCK) as u64, &content(block)).unwrap();
        if block % 20 == 19 {
            client.command(FLUSH, 0, 0, 0).unwrap();
        }
    }
    drop(client);
    home.says(0, &["detach", IMAGE]);
}

/// Changes bytes of the backing file.
fn harm(home: &Home, at: usize, change: impl FnOnce(&mut [u8])) {
    let mut bytes = home.read(IMAGE);
    change(&mut bytes[at..at + BLOCK]);
    home.write(IMAGE, bytes);
}

/// The place of a region.
fn region(home: &Home, name: &str) -> usize {
    let dump = home.json(&["dump", IMAGE]);
    let extents = dump["superblock"]["extents"].as_array().or(dump["extents"].as_array()).expect("extents").clone();
    let extent = extents.iter().find(|extent| extent["region"] == name).expect("the region");
    usize::try_from(extent["at"].as_u64().expect("a place")).unwrap()
}

/// Reads all content. Returns the blocks that cannot be read; all others have to be as they were written.
fn unreadable(home: &Home) -> Vec<usize> {
    let socket = home.attach(IMAGE, &[]);
    let mut failed = Vec::new();
    for block in 0..BLOCKS {
        let mut client = Client::ready_for(&socket, true, "");
        match client.read((block * BLOCK) as u64, BLOCK as u32) {
            Ok(bytes) => assert!(bytes == content(block), "block {block} is other content"),
            Err(_) => failed.push(block),
        }
    }
    home.says(0, &["detach", IMAGE]);
    failed
}

/// The logical blocks that a repair names as lost.
fn lost(report: &Value) -> Vec<usize> {
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let runs = report["lost_runs"].as_array().unwrap();
    runs.iter().flat_map(|run| number(&run["first_lbn"])..number(&run["first_lbn"]) + number(&run["blocks"])).collect()
}

#[test]
fn damaged_metadata_is_made_anew_and_nothing_is_lost_with_it() {
    for mode in ["log", "ordered"] {
        let home = Home::new();
        written(&home, &["--commit-mode", mode]);
        for name in ["refs", "fingerprints"] {
            let at = region(&home, name);
            harm(&home, at, |page| page.iter_mut().for_each(|byte| *byte ^= 0x55));
        }
        let copy = home.read(IMAGE).len() - BLOCK;
        harm(&home, copy, |page| page.fill(0));
        assert!(home.says(6, &["check", "--data", IMAGE]).contains("DAMAGED"));

        let before = home.read(IMAGE);
        let plan = home.says(6, &["check", "--repair", IMAGE]);
        assert!(plan.contains("1 of 4 copies") && plan.contains("Nothing has been changed.") && plan.contains("--yes"), "{plan}");
        assert!(home.read(IMAGE) == before, "a plan has changed the volume");
        let done: Value = serde_json::from_str(&home.says(0, &["check", "--repair", "--yes", "--json", IMAGE])).unwrap();
        assert_eq!((done["done"].as_bool(), done["lost"].as_u64()), (Some(true), Some(0)), "{done:#}");
        let has_packs = mode == "log";
        assert_eq!(done["entries_rebuilt"].as_u64() > Some(0), has_packs, "{done:#}");
        assert!(home.says(0, &["check", "--repair", IMAGE]).contains("There is nothing to repair."));
        assert_eq!(home.json(&["check", "--data", IMAGE])["sound"].as_bool(), Some(true));
        assert!(unreadable(&home).is_empty());
        assert_eq!(home.json(&["check", "--data", IMAGE])["sound"].as_bool(), Some(true), "and it is as good as any other");
    }
}

#[test]
fn what_nothing_describes_any_more_is_lost_by_name() {
    let home = Home::new();
    written(&home, &[]);
    // Entries 100 to 199, and a block of data.
    let map = region(&home, "map");
    harm(&home, map, |page| page[512..1024].fill(0xaa));
    let pbn = home.json(&["dump", IMAGE, "--lbn", "300"])["leads_to"]["pbn"].as_u64();
    let data = region(&home, "data") + usize::try_from(pbn.expect("a block")).unwrap() * BLOCK;
    harm(&home, data, |block| block[2000] ^= 1);
    let checked = home.says(6, &["check", IMAGE]);
    assert!(checked.contains("the 100 logical blocks LBN 100 to LBN 199 hold") && checked.contains("check --data --repair"), "{checked}");
    let report: Value = serde_json::from_str(&home.says(6, &["check", "--repair", "--data", "--yes", "--json", IMAGE])).unwrap();
    let lost = lost(&report);
    assert!((100..200).chain([300]).all(|lbn| lost.contains(&lbn)) && lost.len() < 120, "{lost:?}");
    assert_eq!(unreadable(&home), lost, "what is lost is an error, and nothing else is");
    let checked = home.says(6, &["check", "--data", IMAGE]);
    assert!(checked.contains("are lost; writing or discarding them heals them"), "{checked}");
    assert!(!checked.contains("--repair") && checked.contains("Nothing is left to repair"), "{checked}");
    let again = home.says(0, &["check", "--repair", IMAGE]);
    assert!(again.contains(&format!("{} logical blocks", lost.len())) && again.contains("nothing to repair"), "{again}");

    // A scrub tells of them. Writing heals.
    let socket = home.attach(IMAGE, &[]);
    let (_, complaint) = home.expect(6, &["scrub", IMAGE, "--rate", "1G"]);
    assert!(complaint.contains(&format!("{} blocks are lost", lost.len())), "{complaint}");
    assert_eq!(home.json(&["stats", IMAGE])["scrub"]["lost_blocks"].as_u64(), Some(lost.len() as u64));
    let mut client = Client::ready_for(&socket, true, "");
    lost.iter().for_each(|&block| client.write(0, (block * BLOCK) as u64, &content(block)).unwrap());
    assert!(home.says(0, &["scrub", IMAGE, "--rate", "1G"]).contains("no damage"));
    drop(client);
    home.says(0, &["detach", IMAGE]);
    assert_eq!(home.json(&["check", "--data", IMAGE])["sound"].as_bool(), Some(true));
    assert!(unreadable(&home).is_empty());
}

/// The units of the log, by sequence, and where they lie.
fn units(home: &Home) -> BTreeMap<u64, usize> {
    let bytes = home.read(IMAGE);
    let block = |at: usize| -> &[u8; BLOCK] { bytes[at..at + BLOCK].try_into().unwrap() };
    let front = [Some(block(0)), Some(block(BLOCK)), None, None];
    let superblock = choose(front, Bytes(bytes.len() as u64)).expect("a volume").into_service();
    let authenticator = superblock.authenticator();
    let blocks = (0..superblock.geometry.data_blocks).map(|pbn| (Pbn(pbn), superblock.geometry.block_at(Pbn(pbn)).get() as usize));
    let unit = |(pbn, at)| unit::open(&authenticator, pbn, block(at)).map(|unit| (unit.header.kind, unit.header.sequence, at));
    blocks.filter_map(unit).filter(|(kind, ..)| *kind == UnitKind::Log).map(|(_, sequence, at)| (sequence, at)).collect()
}

#[test]
fn a_damaged_log_is_cut_and_what_is_left_is_what_it_was() {
    const WRITTEN: std::ops::Range<usize> = 20..90;
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "64M"]);
    let socket = home.attach(IMAGE, &[]);
    let mut client = Client::ready_for(&socket, true, "");
    for block in WRITTEN {
        client.write(0, (block * BLOCK) as u64, &content(block)).unwrap();
        client.command(FLUSH, 0, 0, 0).unwrap();
    }
    home.kill(IMAGE);
    drop(client);
    // Each write has its own unit: the last ones are those of the last blocks.
    let (_, at) = units(&home).into_iter().nth_back(9).expect("ten units");
    harm(&home, at, |block| block[100] ^= 1);
    let plan = home.says(6, &["check", IMAGE, "--repair"]);
    assert!(plan.contains("cut off before its damage: unit") && plan.contains("Nothing has been changed."), "{plan}");
    let report: Value = serde_json::from_str(&home.says(6, &["check", "--repair", "--yes", "--json", IMAGE])).unwrap();
    let (first, hole) = (WRITTEN.end - 9, WRITTEN.end - 10);
    assert_eq!(lost(&report), (first..WRITTEN.end).collect::<Vec<_>>(), "what units behind the damage name");
    let socket = home.attach(IMAGE, &[]);
    for block in WRITTEN {
        let read = Client::ready_for(&socket, true, "").read((block * BLOCK) as u64, BLOCK as u32);
        match read {
            Ok(bytes) if block == hole => assert!(bytes == vec![0; BLOCK], "it is as it was before"),
            Ok(bytes) => assert!(block < hole && bytes == content(block), "block {block}"),
            Err(_) => assert!(block >= first, "block {block} cannot be read"),
        }
    }
    let mut client = Client::ready_for(&socket, true, "");
    for block in hole..WRITTEN.end {
        client.write(0, (block * BLOCK) as u64, &content(block)).unwrap();
    }
    drop(client);
    home.says(0, &["detach", IMAGE]);
    assert_eq!(home.json(&["check", "--data", IMAGE])["sound"].as_bool(), Some(true));
}

#[test]
fn a_repair_refuses_what_is_in_use_was_not_closed_or_is_no_volume() {
    let home = Home::new();
    written(&home, &[]);
    home.complaint(2, &["check", IMAGE, "--yes"], "--repair");
    home.complaint(2, &["check", IMAGE, "--repair", "--memory", "1K"], "--memory 1 KiB: at least 1 MiB");
    home.complaint(3, &["check", "nowhere", "--repair"], "nowhere");
    let socket = home.attach(IMAGE, &[]);
    home.complaint(4, &["check", IMAGE, "--repair", "--yes"], "attached");
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 0, &content(7)).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    drop(client);
    home.kill(IMAGE);
    home.complaint(6, &["check", IMAGE, "--repair", "--yes"], "was not closed in order");
    home.attach(IMAGE, &[]);
    home.says(0, &["detach", IMAGE]);
    assert!(home.says(0, &["check", IMAGE, "--repair", "--yes"]).contains("There is nothing to repair."));
}
