//! The pages that a scrub is reading, and the page whose write it waits for.

use crate::format::page::PageId;

/// The condition of a page before a scrub reads it.
pub(crate) enum PageCondition {
    /// The page with its *written* bit has to be loaded first.
    Needs(PageId),
    /// It is being written.
    IsWritten,
    /// The medium has it; `written` is its bit. One that was never written has to be blank: after a crash nothing else may tell.
    ToRead { written: bool },
}

/// The condition of a page as a scrub has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageFound {
    Sound,
    Damaged,
    /// It was written since the read began, so what was read proves nothing.
    Overtaken,
}

/// The progress of the awaited write of a page.
pub(crate) enum AwaitedWrite {
    UnderWay,
    /// The page holds what is not confirmed yet.
    Unconfirmed,
    /// It has completed, with this number or a lower one.
    Completed(u64),
}

/// The neighbouring pages that a scrub is reading, at most 64, and the page whose write it waits for.
#[derive(Default)]
pub(super) struct Scrubbed {
    pub first: Option<PageId>,
    /// Bit i is set if page i was written meanwhile.
    pub overtaken: u64,
    /// The page, and the number of the first write of it that has completed since.
    pub awaited: Option<(PageId, Option<u64>)>,
    /// It goes out as soon as more is confirmed: a page that each epoch changes has only this moment.
    pub awaits_confirmation: bool,
}

impl Scrubbed {
    /// Begins to read pages, from this one on.
    pub fn begin(&mut self, first: PageId) {
        (self.first, self.overtaken) = (Some(first), 0);
    }

    /// Notes that a page is being written.
    pub fn is_written(&mut self, id: PageId) {
        let Some(first) = self.first.filter(|first| first.region == id.region && first.index <= id.index) else { return };
        self.overtaken |= u32::try_from(id.index - first.index).ok().and_then(|i| 1_u64.checked_shl(i)).unwrap_or(0);
    }

    /// Notes that a write of a page has completed, with this number.
    pub fn has_completed(&mut self, id: PageId, stamp: u64) {
        if let Some((_, completed)) = self.awaited.as_mut().filter(|(awaited, _)| *awaited == id) {
            completed.get_or_insert(stamp);
        }
    }

    /// Waits for the next write of a page.
    pub fn wait_for(&mut self, id: PageId) {
        self.awaited = Some((id, None));
    }

    /// Waits for a confirmation before that, or for none.
    pub fn wait_for_confirmation(&mut self, waits: bool) {
        self.awaits_confirmation = waits;
    }
}
