//! The bits of *written*: damaged sectors say that every page was written, and pages that the repair writes get their bit.

use super::error::RepairError;
use super::tags::put_tags_right;
use super::write::{RepairMedium, Writer};
use crate::check::{Look, ReadMedium, Scan, Teller};
use crate::format::{Opened, PageContent, PageId, Region, Superblock};
use crate::units::index;
use std::collections::BTreeMap;

const fn page(index: u64) -> PageId {
    PageId { region: Region::Written, index }
}

/// Returns the pages with damaged sectors, with tags that cannot be, or with bits behind the last page's.
pub(super) fn damaged<M: ReadMedium>(medium: &mut M, superblock: &Superblock, teller: &mut Teller) -> Vec<u64> {
    let mut found = Vec::new();
    let mut scan = Scan::new(medium, superblock, 16);
    scan.pages(Region::Written, 0..superblock.geometry.pages(Region::Written), Look::Again, teller, &mut |_, id, opened| {
        if mend(superblock, id, opened).is_some() {
            found.push(id.index);
        }
    });
    found
}

/// The page as it will be, unless it stays as it is.
fn mend(superblock: &Superblock, id: PageId, opened: &Opened) -> Option<PageContent> {
    let mut content = opened.content.clone();
    let is_behind = |&bit: &usize| superblock.geometry.page_of_written(id, bit).is_none();
    (0..index(Region::Written.entries_per_page())).filter(is_behind).for_each(|bit| content.set_bit(bit, false));
    let has_other_tags = put_tags_right(superblock, opened, &mut content);
    (has_other_tags || content != opened.content).then_some(content)
}

fn read<M: ReadMedium>(medium: &mut M, superblock: &Superblock, id: PageId) -> Opened {
    let mut mute = |_| ();
    Scan::new(medium, superblock, 1).page(id, &mut Teller::new(&mut mute, 0), Look::Again, |_, _| ())
}

/// Writes these pages as they will be.
pub(super) fn write<M: RepairMedium>(
    medium: &mut M,
    superblock: &Superblock,
    pages: &[u64],
    writer: &mut Writer,
) -> Result<(), RepairError> {
    for &index in pages {
        let opened = read(medium, superblock, page(index));
        if let Some(mut content) = mend(superblock, page(index), &opened) {
            writer.page(medium, page(index), &mut content)?;
        }
    }
    Ok(())
}

/// Sets the bits of the pages that were written and flushed.
pub(super) fn set<M: RepairMedium>(medium: &mut M, superblock: &Superblock, writer: &mut Writer) -> Result<(), RepairError> {
    let mut by_page: BTreeMap<PageId, Vec<usize>> = BTreeMap::new();
    for &id in writer.written.iter().filter(|id| id.region != Region::Written) {
        let (page, bit) = superblock.geometry.written_of(id);
        by_page.entry(page).or_default().push(bit);
    }
    for (id, bits) in by_page {
        let mut content = read(medium, superblock, id).content;
        if bits.iter().all(|&bit| content.bit(bit)) {
            continue;
        }
        bits.into_iter().for_each(|bit| content.set_bit(bit, true));
        writer.page(medium, id, &mut content)?;
    }
    Ok(())
}
