//! The recount: reads all links of one window of blocks, then their counts, then goes on to the next window.

use super::content::Content;
use super::extents::Extents;
use super::finding::{Cause, Finding, Severity};
use super::judge::{Block, Judgement};
use super::links::Links;
use super::log::LiveLog;
use super::medium::ReadMedium;
use super::report::{Counts, Listener, Report};
use super::scan::{Look, Scan};
use super::settings::{CheckSettings, MEMORY_BYTES_MIN};
use super::tell::{Run, Teller};
use super::windows::{GROUP, Windows, groups};
use crate::format::page::SECTORS;
use crate::format::{FingerprintEntry, Kind, MapEntry, Opened, PageId, REFS_UNKNOWN, Region, Superblock};
use crate::units::{BLOCK_BYTES, Bytes, Lbn, Pbn, count, index};
use std::ops::Range;
use std::rc::Rc;

/// More than this is no faster.
const BUFFER_BYTES_MAX: u64 = 1 << 20;

pub(super) struct Recount<'a> {
    superblock: &'a Superblock,
    scan: Scan<'a>,
    teller: Teller<'a>,
    content: Option<Content>,
    counts: Counts,
    extents: Extents,
    /// Links to each block of the window.
    links: Vec<Links>,
    windows: Windows,
    linked: LinkedPages,
    /// Links that could not be read may be anywhere.
    links_lost: bool,
    lost: Run,
    unknown_entries: Run,
    unknown: Run,
    garbage: (u64, u64),
    passes: u64,
}

/// The map pages that have links at all, several to a bit where there are very many.
struct LinkedPages {
    bits: Vec<u64>,
    pages_per_bit: u64,
}

impl LinkedPages {
    fn new(pages: u64, bytes: u64) -> Self {
        let pages_per_bit = pages.div_ceil(bytes * 8).max(1);
        let words = pages.div_ceil(pages_per_bit).div_ceil(64);
        Self { bits: vec![0; index(words)], pages_per_bit }
    }

    fn set(&mut self, page: u64) {
        let bit = page / self.pages_per_bit;
        self.bits[index(bit / 64)] |= 1 << (bit % 64);
    }

    fn get(&self, page: u64) -> bool {
        let bit = page / self.pages_per_bit;
        self.bits[index(bit / 64)] & (1 << (bit % 64)) != 0
    }
}

impl<'a> Recount<'a> {
    pub(super) fn new(
        medium: &'a mut dyn ReadMedium,
        superblock: &'a Superblock,
        settings: &CheckSettings,
        listener: &'a mut dyn Listener,
    ) -> Self {
        let geometry = &superblock.geometry;
        // Half for counts, an eighth each for metadata, for blocks, for the linked pages, and for the entries that wait to be compared.
        let memory = settings.memory_bytes.max(MEMORY_BYTES_MIN);
        let buffer_pages = (memory / 8).min(BUFFER_BYTES_MAX) / BLOCK_BYTES;
        let windows = Windows::new(geometry.data_blocks, memory);
        let once: u64 = [Region::Written, Region::Refs, Region::Fingerprints].map(|r| geometry.pages(r)).iter().sum();
        let total = once + windows.passes() * geometry.pages(Region::Map) + if settings.data { geometry.data_blocks } else { 0 };
        Self {
            superblock,
            scan: Scan::new(medium, superblock, buffer_pages),
            teller: Teller::new(listener, total * BLOCK_BYTES),
            content: settings.data.then(|| Content::new(superblock, buffer_pages)),
            counts: Counts::default(),
            extents: Extents::default(),
            links: vec![Links::default(); index(windows.window_blocks())],
            windows,
            linked: LinkedPages::new(geometry.pages(Region::Map), memory / 8),
            links_lost: false,
            lost: Run::default(),
            unknown_entries: Run::default(),
            unknown: Run::default(),
            garbage: (0, 0),
            passes: 0,
        }
    }

    /// Puts the records of a live log before the content of pages.
    pub(super) fn take_log(&mut self, log: LiveLog) {
        self.scan.take_log(Rc::new(log));
    }

    /// Takes note that a live log cannot be read: links that it removes still count.
    pub(super) fn lose_log(&mut self, finding: Finding) {
        self.links_lost = true;
        self.tell(finding);
    }

    pub(super) fn tell(&mut self, finding: Finding) {
        self.teller.tell(finding);
    }

    /// Goes through everything.
    pub(super) fn run(mut self) -> Report {
        self.check_written();
        for window in self.windows.iter() {
            self.count_links(&window);
            for group in groups(&window) {
                self.judge_group(&window, &group);
            }
            self.passes += 1;
        }
        self.unknown.finish(&mut self.teller, refs_unknown);
        self.tell_garbage();
        Report {
            superblock: self.superblock.clone(),
            counts: self.counts,
            damage: self.teller.reported(Severity::Damage),
            garbage: self.teller.reported(Severity::Garbage),
            notes: self.teller.reported(Severity::Note),
            passes: self.passes,
            bytes_read: Bytes(self.scan.bytes_read()),
        }
    }

    fn tell_garbage(&mut self) {
        let (blocks, excess) = self.garbage;
        if blocks == 0 {
            return;
        }
        let s = self.superblock;
        // Replay of a live log is exact.
        let crashed = !s.clean && !s.is_log_live();
        let cause = if self.links_lost {
            Cause::Damage
        } else if s.garbage_possible || crashed {
            Cause::Crash
        } else {
            Cause::None
        };
        self.tell(Finding::Garbage { blocks, excess, cause });
    }

    /// Checks that the bits of *written* behind the last page's are not set.
    fn check_written(&mut self) {
        let geometry = &self.superblock.geometry;
        let pages = geometry.pages(Region::Written);
        self.scan.pages(Region::Written, 0..pages, Look::First, &mut self.teller, &mut |teller, id, opened| {
            if id.index + 1 == pages {
                let beyond =
                    (0..index(Region::Written.entries_per_page())).rev().take_while(|&b| geometry.page_of_written(id, b).is_none());
                beyond
                    .filter(|&b| opened.is_entry_sound(id.region, b) && opened.content.bit(b))
                    .for_each(|bit| teller.tell(bad_entry(id, bit)));
            }
        });
    }

    /// Counts the links from the map to one window of blocks. The first pass reports damage to the map itself.
    fn count_links(&mut self, window: &Range<u64>) {
        self.links.fill(Links::default());
        let pages = self.superblock.geometry.pages(Region::Map);
        if self.passes == 0 {
            self.count_links_of(0..pages, window);
            self.lost.finish(&mut self.teller, lost_entries);
            self.unknown_entries.finish(&mut self.teller, unknown_entries);
            return;
        }
        let mut page = 0;
        while page < pages {
            let end = (page..pages).find(|&p| !self.linked.get(p)).unwrap_or(pages);
            self.count_links_of(page..end, window);
            let next = (end..pages).find(|&p| self.linked.get(p)).unwrap_or(pages);
            self.teller.advance((next - end) * BLOCK_BYTES);
            page = next;
        }
    }

    fn count_links_of(&mut self, pages: Range<u64>, window: &Range<u64>) {
        let Self { superblock, scan, teller, counts, extents, links, linked, links_lost, lost, unknown_entries: unknown, .. } = self;
        let (geometry, has_slots) = (&superblock.geometry, superblock.has_slots());
        let look = if self.passes == 0 { Look::First } else { Look::Again };
        scan.pages(Region::Map, pages, look, teller, &mut |teller, id, opened| {
            let first = geometry.first_lbn(id).get();
            if look == Look::First {
                *links_lost |= opened.damaged != 0;
            }
            for sector in 0..SECTORS {
                let per_sector = Region::Map.entries_per_sector();
                let first_entry = count(sector) * per_sector;
                let first = first + first_entry;
                let entries = geometry.logical_blocks.saturating_sub(first).min(per_sector);
                if !opened.is_sound(sector) {
                    if look == Look::First {
                        counts.lost += entries;
                        let is_unknown = |i: &u64| opened.content.stored_map(index(first_entry + i)) == Ok(MapEntry::Lost);
                        (0..entries).filter(is_unknown).for_each(|i| unknown.push(first + i, 1, teller, unknown_entries));
                    }
                    continue;
                }
                for i in 0..per_sector {
                    let entry = opened.content.stored_map(index(first_entry + i));
                    let inside = i < entries;
                    let lbn = Lbn(first + i);
                    match entry {
                        Ok(MapEntry::Block { pbn, slot }) if inside && pbn.get() < geometry.data_blocks && (slot == 0 || has_slots) => {
                            linked.set(id.index);
                            if window.contains(&pbn.get()) {
                                links[index(pbn.get() - window.start)].add(slot);
                            }
                        }
                        _ if look == Look::Again => (),
                        Ok(MapEntry::Block { pbn, slot }) if inside && (slot == 0 || has_slots) => {
                            *links_lost = true;
                            teller.tell(Finding::LinkOutOfRange { lbn, pbn });
                        }
                        Ok(MapEntry::Unmapped | MapEntry::Zero) if inside => (),
                        Ok(MapEntry::Lost) if inside => {
                            *links_lost = true;
                            lost.push(lbn.get(), 1, teller, lost_entries);
                        }
                        Ok(MapEntry::Unmapped | MapEntry::Lost) => (),
                        _ => {
                            *links_lost = true;
                            teller.tell(Finding::BadEntry { region: Region::Map, entry: lbn.get() });
                        }
                    }
                    if look == Look::First && inside {
                        if let Ok(MapEntry::Block { pbn, .. }) = entry {
                            counts.extents += u64::from(extents.begins(lbn, pbn));
                        }
                        *match entry {
                            Ok(MapEntry::Unmapped) => &mut counts.unmapped,
                            Ok(MapEntry::Zero) => &mut counts.zero,
                            Ok(MapEntry::Block { .. }) => &mut counts.mapped,
                            Ok(MapEntry::Lost) | Err(_) => &mut counts.lost,
                        } += 1;
                    }
                }
            }
        });
    }

    /// Compares the counts and fingerprints of one refs page's blocks with their links.
    fn judge_group(&mut self, window: &Range<u64>, group: &Range<u64>) {
        let Self { superblock, scan, teller, content, counts, links, unknown, garbage, .. } = self;
        let geometry = &superblock.geometry;
        let Range { start: first, end } = *group;
        let (refs_page, _) = geometry.refs_of(Pbn(first));
        let refs = scan.page(refs_page, teller, Look::First, |teller, opened| {
            let beyond = index(end - first)..index(GROUP);
            beyond.filter(|&i| !matches!(opened.content.refs(i), 0 | REFS_UNKNOWN)).for_each(|i| teller.tell(bad_entry(refs_page, i)));
        });

        let pages = geometry.fingerprint_of(Pbn(first)).0.index..geometry.fingerprint_of(Pbn(end - 1)).0.index + 1;
        scan.pages(Region::Fingerprints, pages, Look::First, teller, &mut |teller, id, opened| {
            let page_first = geometry.first_pbn(id).get();
            for i in 0..index(Region::Fingerprints.entries_per_page()) {
                let pbn = Pbn(page_first + count(i));
                let entry = fingerprint(teller, id, opened, i, superblock.has_slots());
                if pbn.get() >= end {
                    if entry.is_some_and(|e| !e.is_none()) {
                        teller.tell(bad_entry(id, i));
                    }
                    continue;
                }
                let in_group = index(pbn.get() - first);
                let block = Block {
                    pbn,
                    links: links[index(pbn.get() - window.start)],
                    refs: refs.is_entry_sound(Region::Refs, in_group).then(|| refs.content.refs(in_group)),
                    fingerprint: entry,
                };
                block.count(counts);
                match block.judgement() {
                    Judgement::Sound => (),
                    Judgement::Unknown => unknown.push(pbn.get(), 1, teller, refs_unknown),
                    Judgement::Excess(excess) => *garbage = (garbage.0 + 1, garbage.1 + excess),
                    Judgement::Broken(finding) => teller.tell(finding),
                }
                match (entry.filter(|e| !e.is_none()), content.as_mut()) {
                    // Nothing needs its content, and nothing will: it was found damaged, and healed elsewhere or given up.
                    (Some(entry), _) if entry.is_suspect() && block.links.number() == 0 => (),
                    (Some(entry), Some(content)) => content.add(pbn, entry, block.links.slot_max()),
                    (None, _) if block.links.number() > 0 => counts.not_comparable += 1,
                    _ => (),
                }
            }
        });
        if let Some(content) = content {
            content.compare(scan, geometry, counts, teller);
        }
    }
}

/// A fingerprint entry, where its sector is sound. One without a meaning is reported, and not returned.
fn fingerprint(teller: &mut Teller, id: PageId, opened: &Opened, i: usize, has_slots: bool) -> Option<FingerprintEntry> {
    if !opened.is_entry_sound(id.region, i) {
        return None;
    }
    match opened.content.stored_fingerprint(i) {
        Ok(entry) if entry.kind != Kind::Carrier || has_slots => Some(entry),
        _ => {
            teller.tell(bad_entry(id, i));
            None
        }
    }
}

fn bad_entry(id: PageId, i: usize) -> Finding {
    Finding::BadEntry { region: id.region, entry: id.index * id.region.entries_per_page() + count(i) }
}

fn lost_entries(first: u64, blocks: u64) -> Finding {
    Finding::LostEntries { first: Lbn(first), blocks }
}

fn unknown_entries(first: u64, blocks: u64) -> Finding {
    Finding::UnknownEntries { first: Lbn(first), blocks }
}

fn refs_unknown(first: u64, blocks: u64) -> Finding {
    Finding::RefsUnknown { first: Pbn(first), blocks }
}
