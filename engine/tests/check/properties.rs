//! Compares the check with a slow and obvious one, and feeds it arbitrary bytes.

use crate::volume::{MIB, Volume};
use onefold_engine::check::{Cause, CheckSettings, Finding};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::page::{SECTORS, seal};
use onefold_engine::format::{FingerprintEntry, PageContent, PageId, Region};
use onefold_engine::units::Pbn;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks near the edges of pages and groups.
fn pbn() -> impl Strategy<Value = u64> {
    proptest::sample::select(vec![0u64, 1, 24, 25, 199, 200, 499, 500, 3999, 4000, 4001, 7999, 8000])
}

fn lbn() -> impl Strategy<Value = u64> {
    proptest::sample::select(vec![0u64, 1, 2, 99, 100, 101, 799, 800, 801, 2000, 2001, 7000, 7001, 7002, 7003, 7004])
}

/// The findings of the slow and obvious check, which looks at each block by itself.
fn expected(map: &BTreeMap<u64, u64>, fingerprints: &BTreeSet<u64>, refs: &BTreeMap<u64, u8>) -> Vec<Finding> {
    let (mut findings, mut garbage) = (Vec::new(), (0, 0));
    for p in 0..9000 {
        let links = map.values().filter(|&&target| target == p).count() as u64;
        let fingerprint = u64::from(fingerprints.contains(&p));
        let counted = refs.get(&p).copied().unwrap_or(0);
        let pbn = Pbn(p);
        if counted == 255 {
            findings.push(Finding::RefsUnknown { first: pbn, blocks: 1 });
        } else if counted == 0 && links > 0 {
            findings.push(Finding::LinkToFree { pbn, links });
        } else if counted == 0 && fingerprint > 0 {
            findings.push(Finding::FingerprintOnFree { pbn });
        } else if u64::from(counted) < links + fingerprint {
            findings.push(Finding::RefsTooLow { pbn, refs: counted, links: links + fingerprint });
        } else if u64::from(counted) > links + fingerprint {
            garbage = (garbage.0 + 1, garbage.1 + u64::from(counted) - links - fingerprint);
        }
    }
    if garbage.0 > 0 {
        findings.push(Finding::Garbage { blocks: garbage.0, excess: garbage.1, cause: Cause::None });
    }
    findings
}

/// Splits runs of unknown counts into single blocks, and sorts the findings.
fn one_by_one(findings: Vec<Finding>) -> Vec<Finding> {
    let split = |finding| match finding {
        Finding::RefsUnknown { first, blocks } => (0..blocks).map(|i| Finding::RefsUnknown { first: first + i, blocks: 1 }).collect(),
        other => vec![other],
    };
    let mut all: Vec<Finding> = findings.into_iter().flat_map(split).collect();
    all.sort_by_key(|finding| format!("{finding:?}"));
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_finds_what_a_slow_and_obvious_check_finds(
        map in btree_map(lbn(), pbn(), 0..16),
        fingerprints in btree_set(pbn(), 0..8),
        wrong in btree_map(pbn(), any::<u8>(), 0..5),
    ) {
        let mut v = Volume::new(36 * MIB);
        for (&lbn, &pbn) in &map {
            v.link(lbn, pbn);
        }
        for &pbn in &fingerprints {
            v.set_fingerprint(pbn, FingerprintEntry::of(Fingerprint([1; 20])));
            v.add_refs(pbn, 1);
        }
        let mut refs: BTreeMap<u64, u8> = BTreeMap::new();
        map.values().chain(&fingerprints).for_each(|&pbn| *refs.entry(pbn).or_default() += 1);
        for (&pbn, &count) in &wrong {
            v.set_refs(pbn, count);
            refs.insert(pbn, count);
        }
        let (found, report) = v.checked_with(CheckSettings { memory_bytes: MIB, data: false });
        prop_assert_eq!(one_by_one(found), one_by_one(expected(&map, &fingerprints, &refs)));
        prop_assert_eq!(report.counts.mapped, map.len() as u64);
    }

    /// The sectors are sound and have any content: no decoder may rely on a valid checksum to mean valid content.
    #[test]
    fn no_content_makes_it_panic(
        pages in vec((proptest::sample::select(Region::ALL.to_vec()), 0..3u64, vec((0..800usize, any::<[u8; 5]>()), 0..200)), 1..6),
        torn in vec((proptest::sample::select(Region::ALL.to_vec()), 0..3u64, 0..SECTORS, any::<u8>()), 0..4),
    ) {
        let mut v = Volume::new(36 * MIB);
        for (region, index, bytes) in pages {
            let mut page = PageContent::empty();
            for (i, bytes) in bytes {
                bytes.iter().enumerate().for_each(|(k, &byte)| page.set_refs(i * 5 + k, byte));
            }
            let id = PageId { region, index: index % v.superblock.geometry.pages(region) };
            let at = v.superblock.geometry.page_at(id);
            seal(&v.superblock.uuid, id, &mut page, v.medium.block(at));
        }
        for (region, index, sector, byte) in torn {
            let index = index % v.superblock.geometry.pages(region);
            v.harm(region, index, |page| page[sector * 512..][..512].fill(byte));
        }
        v.findings();
    }
}
