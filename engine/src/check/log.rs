//! The live log of a volume that was not closed: its records go before the content of pages.

use super::finding::Finding;
use super::medium::ReadMedium;
use crate::buffer::BufferMut;
use crate::format::entry::FingerprintEntry;
use crate::format::unit::open;
use crate::format::{Opened, PageId, Superblock};
use crate::scheme::log::recover::{Limits, Scan, holds};
use crate::tables::{Live, UnlinkedRecords};
use crate::units::{Epoch, Pbn, count};
use std::collections::BTreeSet;
use std::fmt;

/// The log, as replay would have it.
pub struct LiveLog {
    pub(super) live: Live,
    /// No page is newer.
    pub(super) epoch: Epoch,
    pub(super) bytes_read: u64,
}

impl fmt::Debug for LiveLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveLog").field("records", &self.live.len()).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl LiveLog {
    /// The log of a volume whose pages hold everything.
    pub(super) fn none(superblock: &Superblock) -> Self {
        Self { live: Live::new(0), epoch: superblock.last_epoch, bytes_read: 0 }
    }

    /// A log with these records, which count up to `epoch`.
    pub(crate) const fn of(live: Live, epoch: Epoch) -> Self {
        Self { live, epoch, bytes_read: 0 }
    }

    /// The epoch up to which its records count.
    pub(crate) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The pages that its records change.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageId> + use<> {
        self.live.pages(self.epoch)
    }

    /// Makes a page that was read from the medium the page as it would be after the next opening. Returns whether the log changes it.
    pub fn put_right(&self, id: PageId, opened: &mut Opened) -> bool {
        let touches = self.live.touches(id);
        if touches {
            self.live.apply(self.epoch, id, &mut opened.content);
            opened.gets_records();
        }
        touches
    }
}

/// Reads the log of a volume, if it has a live one.
///
/// # Errors
/// When a part of it that was flushed is not there, cannot be read, or names what the volume does not have, or a block twice.
pub fn read_log(medium: &mut dyn ReadMedium, superblock: &Superblock) -> Result<LiveLog, Finding> {
    let mut found = LiveLog::none(superblock);
    let Some(log_tail) = superblock.log_tail.clone().filter(|_| superblock.is_log_live()) else { return Ok(found) };
    let auth = superblock.authenticator();
    let mut block = BufferMut::zeroed(1);
    let mut scan = Scan::new(log_tail, Limits::of(superblock));
    let mut live = UnlinkedRecords::default();
    while let Some((which, pbn)) = scan.ask() {
        medium.read(superblock.geometry.block_at(pbn), block.bytes_mut()).map_err(|_| Finding::UnreadableBlock { pbn })?;
        found.bytes_read += count(block.bytes().len());
        scan.arrived(which, pbn, open(&auth, pbn, block.block(0)), &mut |epoch, effect| live.push(epoch, effect));
    }
    let mut ended = scan.end();
    if let Some(pbn) = ended.missing_compacted {
        return Err(Finding::CompactedUnitMissing { pbn });
    }
    if let Some(sequence) = ended.missing {
        return Err(Finding::LogUnitMissing { sequence });
    }
    if let Some(sequence) = ended.outside {
        return Err(Finding::LogUnitOutOfRange { sequence });
    }
    if let Some(pbn) = ended.block_used_twice() {
        return Err(Finding::LogPlaceTwice { pbn });
    }
    let mut wrong: BTreeSet<Pbn> = BTreeSet::new();
    for (pbn, name) in ended.unverified() {
        medium.read(superblock.geometry.block_at(pbn), block.bytes_mut()).map_err(|_| Finding::UnreadableBlock { pbn })?;
        found.bytes_read += count(block.bytes().len());
        if !is(superblock, &name, &block) {
            wrong.insert(pbn);
        }
    }
    for id in ended.pages_naming(&wrong) {
        let at = superblock.geometry.page_at(id);
        found.bytes_read += count(block.bytes().len());
        // A page that cannot be read is reported when it is judged.
        if medium.read(at, block.bytes_mut()).is_ok() && holds(&superblock.origin, id, block.block(0), ended.epoch) {
            wrong.clear();
            break;
        }
    }
    ended.replay(&wrong, &mut |epoch, effect| live.push(epoch, effect));
    found.live = live.chained();
    found.epoch = ended.epoch;
    Ok(found)
}

/// Whether a block holds the content that its record names.
fn is(superblock: &Superblock, name: &FingerprintEntry, block: &BufferMut) -> bool {
    name.is_of(&superblock.fingerprinter(), block.block(0)) == Some(true)
}
