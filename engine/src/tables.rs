//! The tables of the volume as clients' work so far has them: pages in memory, and what the epochs say that have not entered them.

use crate::beside::CountsBeside;
use crate::epoch::Epoch;
use crate::memory::Accountant;
use crate::pages::Pages;
use crate::units::{Epoch as Number, Time};
use std::sync::Arc;

/// Map, refs, fingerprints.
pub(crate) struct Tables {
    pub pages: Pages,
    /// Writes of pages under way.
    pub page_writes: usize,
    /// When pages whose delay has passed are looked for next.
    pub writeback_at: Time,
    /// The epoch that fills.
    pub open: Epoch,
    /// In the log's mode: what epochs in memory add to the counts on the pages.
    pub beside: CountsBeside,
}

impl Tables {
    pub fn new(accountant: Arc<Accountant>, next: Number, now: Time) -> Self {
        Self { pages: Pages::new(accountant), page_writes: 0, writeback_at: now, open: Epoch::new(next), beside: CountsBeside::default() }
    }
}
