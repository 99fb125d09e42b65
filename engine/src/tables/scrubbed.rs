//! The pages that a scrub is reading.

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

/// The neighbouring pages that a scrub is reading, at most 64.
#[derive(Default)]
pub(super) struct PagesRead {
    pub first: Option<PageId>,
    /// Bit i is set if page i was written meanwhile.
    pub overtaken: u64,
}

impl PagesRead {
    /// Notes that a page is being written.
    pub fn is_written(&mut self, id: PageId) {
        let Some(first) = self.first.filter(|first| first.region == id.region && first.index <= id.index) else { return };
        self.overtaken |= u32::try_from(id.index - first.index).ok().and_then(|i| 1_u64.checked_shl(i)).unwrap_or(0);
    }
}
