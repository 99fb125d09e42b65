//! The pages of metadata.

use super::run::{Expects, LookResult, Run};
use super::{AGAIN_MS, Scrub};
use crate::format::geometry::Geometry;
use crate::format::page::{PageId, Region};
use crate::format::superblock::ScrubPart;
use crate::io::{Arrived, Io};
use crate::schedule::Task;
use crate::tables::{PageCondition, PageFound, Tables};
use crate::units::{BLOCK_BYTES, count, index};

impl Scrub {
    /// Reads the next pages of a region, up to one that is being written.
    pub(super) fn read_pages(&mut self, io: &mut Io, tables: &mut Tables, geometry: &Geometry, region: Region, next: u64) {
        let Some(part) = ScrubPart::ALL.into_iter().find(|part| part.region() == Some(region)) else { return };
        let end = geometry.pages(region).min(next + self.run_max(next));
        let mut written = Vec::new();
        for i in next..end {
            let id = PageId { region, index: i };
            let has_run = !written.is_empty();
            if has_run && geometry.page_at(PageId { region, index: i - 1 }) + BLOCK_BYTES != geometry.page_at(id) {
                break;
            }
            match tables.condition_of(io, id) {
                PageCondition::ToRead { written: bit } => written.push(bit),
                PageCondition::IsWritten | PageCondition::Needs(_) if has_run => break,
                PageCondition::IsWritten => return self.pause = Some(io.now().plus_ms(AGAIN_MS)),
                PageCondition::Needs(bits) => {
                    self.waits = true;
                    return tables.wait(io, bits, Task::Scrub);
                }
            }
        }
        if written.is_empty() {
            return;
        }
        let (id, pieces) = (PageId { region, index: next }, count(written.len()));
        tables.scrub_reads(id);
        let at = geometry.page_at(id);
        self.read(io, Run { part, first: next, pieces, expects: Expects::Pages { written } }, at, region.into());
    }

    pub(super) fn judge_pages(tables: &Tables, written: &[bool], arrived: &Arrived) -> LookResult {
        if arrived.result.is_err() {
            return LookResult::Bad(0);
        }
        let found = |i: usize| tables.found_on_medium(i, arrived.buffer.block(i), written[i]);
        let first = (0..written.len()).map(|i| (count(i), found(i))).find(|(_, found)| *found != PageFound::Sound);
        match first {
            None => LookResult::Sound,
            Some((i, PageFound::Overtaken)) => LookResult::Unproved(i),
            Some((i, _)) => LookResult::Bad(i),
        }
    }

    /// Counts the lost blocks of map pages that are sound: the first `sound` of the run.
    pub(super) fn count_lost(&mut self, tables: &Tables, run: &Run, sound: u64, arrived: &Arrived) {
        let Expects::Pages { written } = &run.expects else { return };
        let first = PageId { region: Region::Map, index: run.first };
        if run.part.region() != Some(first.region) {
            return;
        }
        let pages = written.iter().enumerate().take(index(sound));
        self.place.count_lost(pages.map(|(i, &written)| tables.lost_blocks(first.after(count(i)), arrived.buffer.block(i), written)).sum());
    }
}
