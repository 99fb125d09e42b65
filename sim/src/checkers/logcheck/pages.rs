//! Checking pages that are written against the results of the records.

use super::model::{BLANK, Model, SectorId, bytes};
use crate::device::disk::{SimDisk, to_index};
use crate::ground::content::Shared;
use crate::ground::violation::{Violation, violation};
use onefold_engine::format::page::ENTRY_BYTES;
use onefold_engine::format::{FINGERPRINT_ENTRY_SIZE, FingerprintEntry, Kind, MAP_ENTRY_SIZE, PageId, REFS_UNKNOWN, Region};

impl Model {
    /// Checks a page that is written while this epoch is the last confirmed one: each sector holds what its tag says (L7).
    pub fn page_written(
        &mut self,
        id: PageId,
        content: &Shared,
        confirmed: u64,
        garbage_possible: bool,
        disk: &SimDisk,
    ) -> Result<(), Violation> {
        for i in 0..8 {
            let (entries, tag) = self.open(id, i, content)?;
            let at = (id.region, to_index(id.sector(i)));
            let what = || format!("sector {i} of {} page {}, written with tag {tag}", id.region.name(), id.index);
            if tag > confirmed {
                return Err(violation!("L7: {} while epoch {confirmed} is the last that more than its own units confirms", what()));
            }
            let sector = self.sector(at);
            if tag < sector.tag {
                return Err(violation!("L7: {}, has tag {} already", what(), sector.tag));
            }
            let is_newest = tag >= sector.last;
            let expected = match self.before.get(&at) {
                _ if is_newest => &sector.entries,
                Some((before, last)) if tag >= *last => before,
                _ => return Err(violation!("L7: {} was changed by epoch {} since", what(), sector.last)),
            };
            if entries == *bytes(expected) {
                continue;
            }
            let expected = *bytes(expected);
            let allowed = match id.region {
                Region::Refs => garbage_possible && self.is_recounted(at.1, &entries, &expected, is_newest),
                Region::Fingerprints => self.is_named(at.1, &entries, &expected, disk),
                _ => false,
            };
            if !allowed {
                let entry = first_difference(id.region, &entries, &expected);
                return Err(violation!("L7: {}, differs in entry {entry} from the result of the records", what()));
            }
            self.take_over(at, &entries, &expected, is_newest);
        }
        Ok(())
    }

    /// Takes over changes of a page that no record makes; they hold from now on (invariant 2).
    fn take_over(&mut self, at: SectorId, written: &[u8; ENTRY_BYTES], expected: &[u8; ENTRY_BYTES], is_newest: bool) {
        if is_newest {
            self.before.remove(&at);
            self.sector_mut(at).entries = Some(Box::new(*written));
            return;
        }
        if let Some((before, _)) = self.before.get_mut(&at) {
            *before = Some(Box::new(*written));
        }
        let size = entry_size(at.0);
        let newest = self.sector_mut(at).entries.get_or_insert_with(|| Box::new(BLANK));
        let entries = newest.chunks_exact_mut(size).zip(written.chunks_exact(size)).zip(expected.chunks_exact(size));
        for ((newest, now), then) in entries.filter(|((_, now), then)| now != then) {
            match at.0 {
                // The newest count falls by as much as the earlier one. An unknown count stays unknown.
                Region::Refs if newest[0] != REFS_UNKNOWN => newest[0] = newest[0].saturating_sub(then[0] - now[0]),
                // The last epoch may have removed the fingerprint.
                Region::Fingerprints if newest == then => newest.copy_from_slice(now),
                _ => {}
            }
        }
    }

    /// Returns whether counts fell, but to no less than the links of the state that the page is of: a recount did that.
    fn is_recounted(&self, sector: usize, written: &[u8; ENTRY_BYTES], expected: &[u8; ENTRY_BYTES], is_newest: bool) -> bool {
        let links = |pbn: usize| {
            let before = self.links_before.get(&(pbn as u64)).filter(|_| !is_newest);
            before.or(self.links.get(pbn)).copied()
        };
        let first = sector * ENTRY_BYTES;
        let fits = |(i, (&now, &then)): (usize, (&u8, &u8))| {
            now == then || (now < then && links(first + i).is_some_and(|links| u32::from(now) >= links))
        };
        written.iter().zip(expected).enumerate().all(fits)
    }

    /// Returns whether entries differ only where blocks of large epochs, or blocks that were deferred, got their fingerprints, and these
    /// are correct; or where blocks were found damaged, which [`objection`](crate::checkers::objection::objection) allows only if there is
    /// a reason.
    fn is_named(&self, sector: usize, written: &[u8; ENTRY_BYTES], expected: &[u8; ENTRY_BYTES], disk: &SimDisk) -> bool {
        let entry = |bytes: &[u8]| FingerprintEntry::decode(bytes.try_into().expect("an entry")).ok();
        let (now, then) = (written.chunks_exact(FINGERPRINT_ENTRY_SIZE), expected.chunks_exact(FINGERPRINT_ENTRY_SIZE));
        let first = (sector * (ENTRY_BYTES / FINGERPRINT_ENTRY_SIZE)) as u64;
        (first..).zip(now.zip(then)).all(|(pbn, (now, then))| {
            let both_name_it = || {
                let (now, then) = (entry(now)?, entry(then)?);
                let content = disk.cell(self.volume.block_of(pbn)).settled()?;
                // It may have got its fingerprint and been found damaged before its page was written.
                let is_whole = now.kind == Kind::Fingerprint || now.is_suspect() || now.is_apart();
                let is_upgrade = then.kind == Kind::Checksum && then.is_apart() == now.is_apart() && is_whole;
                Some(is_upgrade && self.volume.says(&now, content) && self.volume.says(&then, content))
            };
            let is_suspect = || Some(entry(now)? == entry(then)?.suspect());
            now == then || both_name_it() == Some(true) || is_suspect() == Some(true)
        })
    }
}

fn first_difference(region: Region, a: &[u8; ENTRY_BYTES], b: &[u8; ENTRY_BYTES]) -> String {
    let size = entry_size(region);
    let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0) / size;
    let of = |bytes: &[u8; ENTRY_BYTES]| bytes[at * size..][..size].to_vec();
    format!("{at} ({:?}, not {:?})", of(a), of(b))
}

/// Returns the bytes of an entry.
fn entry_size(region: Region) -> usize {
    match region {
        Region::Map => MAP_ENTRY_SIZE,
        Region::Fingerprints => FINGERPRINT_ENTRY_SIZE,
        Region::Refs | Region::Written => 1,
    }
}
