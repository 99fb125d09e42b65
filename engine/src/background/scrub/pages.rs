//! The pages of metadata.

use super::run::{Expects, LookResult, Run};
use super::{PIECES_A_STEP, Scrub};
use crate::format::page::{PageId, Region};
use crate::format::superblock::ScrubPart;
use crate::interface::Notice;
use crate::io::Arrived;
use crate::schedule::Task;
use crate::store::Store;
use crate::tables::PageCondition;
use crate::units::{BLOCK_BYTES, count};

impl Scrub {
    /// Reads the next pages of a region, or passes over those that are being written.
    pub(super) fn read_pages(&mut self, store: &mut Store, region: Region, next: u64) {
        let Some(part) = ScrubPart::ALL.into_iter().find(|part| part.region() == Some(region)) else { return };
        let all = store.geometry.pages(region);
        let most = self.run_max(next);
        let (mut first, mut written) = (next, Vec::new());
        for i in next..all.min(next + PIECES_A_STEP) {
            let id = PageId { region, index: i };
            let has_run = !written.is_empty();
            let goes_on = || store.geometry.page_at(PageId { region, index: i - 1 }) + BLOCK_BYTES == store.geometry.page_at(id);
            if has_run && (count(written.len()) == most || !goes_on()) {
                break;
            }
            match store.tables.condition_of(&mut store.io, id) {
                PageCondition::ToRead { written: bit } => written.push(bit),
                PageCondition::IsWritten | PageCondition::Needs(_) if has_run => break,
                PageCondition::IsWritten => first = i + 1,
                PageCondition::Needs(bits) => {
                    self.advance_if_any(store, next, first);
                    self.waits = true;
                    return store.tables.wait(&mut store.io, bits, Task::Scrub);
                }
            }
        }
        self.advance_if_any(store, next, first);
        if !written.is_empty() {
            let (id, pieces) = (PageId { region, index: first }, count(written.len()));
            store.tables.scrub_reads(id);
            let at = store.geometry.page_at(id);
            self.read(store, Run { part, first, pieces, expects: Expects::Pages { written } }, at, region.into());
        }
    }

    /// Advances if there is nothing to read before piece `first`.
    pub(super) fn advance_if_any(&mut self, store: &mut Store, next: u64, first: u64) {
        if first > next {
            self.advance(store, first);
        }
    }

    pub(super) fn judge_pages(store: &Store, written: &[bool], arrived: &Arrived) -> LookResult {
        if arrived.result.is_err() {
            return LookResult::Bad(0);
        }
        let is_sound = |i: usize| store.tables.is_sound_on_medium(i, arrived.buffer.block(i), written[i]);
        (0..written.len()).find(|&i| !is_sound(i)).map_or(LookResult::Sound, |i| LookResult::Bad(count(i)))
    }

    /// Counts the lost blocks of map pages that are sound.
    pub(super) fn count_lost(&mut self, store: &mut Store, run: &Run, arrived: &Arrived) {
        let Expects::Pages { written } = &run.expects else { return };
        let first = PageId { region: Region::Map, index: run.first };
        if run.part.region() != Some(first.region) {
            return;
        }
        let pages = written.iter().enumerate();
        let lost: u64 = pages.map(|(i, &written)| store.tables.lost_blocks(first.after(count(i)), arrived.buffer.block(i), written)).sum();
        self.lost += lost;
        if let Some(progress) = &mut store.medium.superblock.scrub {
            progress.lost = progress.lost.saturating_add(u32::try_from(lost).unwrap_or(u32::MAX));
        }
    }

    /// Writes a damaged page again, or reports it. Returns whether it is written again.
    pub(super) fn mend_page(store: &mut Store, part: ScrubPart, index: u64) -> bool {
        let Some(region) = part.region() else { return false };
        let id = PageId { region, index };
        let is_mended = store.tables.mend(&mut store.io, id);
        if is_mended {
            let at = store.geometry.page_at(id).0;
            store.io.notice(Notice::Mended { what: "a metadata page had damaged sectors", at });
        }
        is_mended
    }
}
