//! Tags of sectors.

use crate::format::page::SECTORS;
use crate::format::{Opened, PageContent, Superblock};

/// Gives damaged sectors, and those with the tag of an epoch that never was, a tag that they can have. Returns whether there was one.
pub(super) fn put_tags_right(superblock: &Superblock, opened: &Opened, content: &mut PageContent) -> bool {
    let newest = superblock.last_epoch.get();
    let is_wrong = |&sector: &usize| !opened.is_sound(sector) || opened.content.tag(sector) > newest;
    let wrong: Vec<usize> = (0..SECTORS).filter(is_wrong).collect();
    // Mode ordered has no tags.
    let tag = if superblock.log_tail.is_some() { newest } else { 0 };
    wrong.iter().for_each(|&sector| content.set_tag(sector, tag));
    !wrong.is_empty()
}
