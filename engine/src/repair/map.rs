//! The pages of the map: those that change, and what is lost with them.

use super::error::RepairError;
use super::links::Reliable;
use super::tags::put_tags_right;
use super::write::{RepairMedium, Writer};
use crate::check::{Finding, Look, ReadMedium, Run, Teller};
use crate::format::{MapEntry, Opened, PageContent, PageId, Region};
use crate::units::{Lbn, count};

/// The damage of the map.
#[derive(Default)]
pub(super) struct Damaged {
    /// The pages that will change.
    pub(super) pages: Vec<u64>,
    /// The logical blocks that will be lost, and those that are already.
    pub(super) lost: u64,
    pub(super) lost_before: u64,
}

/// Returns what will change. The teller names the logical blocks that will be lost.
pub(super) fn damaged<M: ReadMedium>(medium: &mut M, reliable: &Reliable, teller: &mut Teller) -> Damaged {
    let geometry = &reliable.superblock.geometry;
    let (mut found, mut run) = (Damaged::default(), Run::default());
    let named = |first, blocks| Finding::LostEntries { first: Lbn(first), blocks };
    reliable.scan(medium, 16).pages(Region::Map, 0..geometry.pages(Region::Map), Look::Again, teller, &mut |teller, id, opened| {
        reliable.entries(id, opened, &mut |i, is_inside, _| found.lost_before += u64::from(is_inside && is_lost(opened, i)));
        let Some(mended) = mend(reliable, id, opened) else { return };
        found.pages.push(id.index);
        for i in mended.lost {
            run.push(geometry.first_lbn(id).get() + i, 1, teller, named);
            found.lost += 1;
        }
    });
    run.finish(teller, named);
    found
}

/// Whether an entry is stored as lost.
fn is_lost(opened: &Opened, i: usize) -> bool {
    opened.is_entry_sound(Region::Map, i) && opened.content.stored_map(i) == Ok(MapEntry::Lost)
}

/// Writes these pages as they will be.
pub(super) fn write<M: RepairMedium>(medium: &mut M, reliable: &Reliable, pages: &[u64], writer: &mut Writer) -> Result<(), RepairError> {
    let mut mute = |_| ();
    let mut teller = Teller::new(&mut mute, 0);
    for &page in pages {
        let id = PageId { region: Region::Map, index: page };
        let opened = reliable.scan(medium, 1).page(id, &mut teller, Look::Again, |_, _| ());
        if let Some(mut mended) = mend(reliable, id, &opened) {
            writer.page(medium, id, &mut mended.content)?;
        }
    }
    Ok(())
}

/// A page as it will be.
struct Mended {
    content: PageContent,
    /// The places of entries that will be lost and were not.
    lost: Vec<u64>,
}

/// The page as it will be, unless it stays as it is.
fn mend(reliable: &Reliable, id: PageId, opened: &Opened) -> Option<Mended> {
    let mut mended = Mended { content: opened.content.clone(), lost: Vec::new() };
    let mut changes = opened.damaged != 0;
    reliable.entries(id, opened, &mut |i, is_inside, left| {
        let is_damaged = !opened.is_entry_sound(Region::Map, i);
        let stored = opened.content.stored_map(i);
        if is_inside && left == MapEntry::Lost && !is_lost(opened, i) {
            mended.lost.push(count(i));
        }
        if is_damaged || stored != Ok(left) {
            mended.content.set_map(i, left);
            changes = true;
        }
    });
    changes |= put_tags_right(reliable.superblock, opened, &mut mended.content);
    changes.then_some(mended)
}
