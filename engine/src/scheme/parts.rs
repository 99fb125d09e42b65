//! Parts of the commits of both schemes: the content that they rely on, and the map pages of their epoch.

use crate::contents::Contents;
use crate::format::page::{PageId, Region};
use crate::interface::IoId;
use crate::io::Io;
use crate::schedule::Task;
use crate::tables::{Access, Tables};
use std::collections::VecDeque;

/// The most map pages loading, and the most being written, at once.
const PAGES_IN_FLIGHT_MAX: usize = 64;

/// Whether the epoch that commits is durable now; or the operation that failed.
pub(crate) type Progress = Result<bool, &'static str>;

/// The result of a step of work on pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The work continues when an operation has ended.
    Nothing,
    /// The pages of an opening that has no memory for all records are flushed, or one of them cannot be read.
    Overflowed,
    /// The work is over: others may have waited for it.
    End,
}

/// The result of such a step, or the operation that failed.
pub(crate) type Step = Result<Reached, &'static str>;

/// The most pages of one kind that may be under way for a commit at once.
pub(super) fn pages_in_flight_max(tables: &Tables) -> usize {
    PAGES_IN_FLIGHT_MAX.min(tables.pages.waiting_max())
}

/// The content under way that an epoch relies on.
pub(crate) struct Content {
    /// Writes with a lower number belong to this epoch or an earlier one.
    horizon: IoId,
    /// The number of them that have not ended.
    left: u64,
}

impl Content {
    /// The content of an epoch that relies on none.
    #[cfg(test)]
    pub fn none() -> Self {
        Self { horizon: IoId(0), left: 0 }
    }

    /// All content that is under way now.
    pub fn under_way(io: &Io, contents: &Contents) -> Self {
        Self { horizon: io.horizon(), left: contents.writes_under_way() }
    }

    /// Notes that a write of content has ended.
    pub fn arrived(&mut self, io: IoId) {
        self.left -= u64::from(io < self.horizon);
    }

    /// Whether all of it has ended.
    pub fn is_there(&self) -> bool {
        self.left == 0
    }
}

/// The map pages of an epoch, by number: each is handed out once, when it is in memory.
pub(crate) struct MapPages {
    due: VecDeque<u64>,
    /// Pages that are being loaded, and those that were put off.
    loading: Vec<u64>,
    /// The pages of the round that has begun.
    round: Vec<u64>,
}

impl MapPages {
    pub fn new(due: VecDeque<u64>) -> Self {
        Self { due, loading: Vec::new(), round: Vec::new() }
    }

    /// Begins another round of all pages that are not handed out.
    pub fn begin_round(&mut self) {
        self.round = std::mem::take(&mut self.loading);
    }

    /// The next page that is in memory; none where the others have to be loaded. `Err`: one cannot be read.
    pub fn next(&mut self, io: &mut Io, tables: &mut Tables) -> Result<Option<PageId>, &'static str> {
        let most = pages_in_flight_max(tables);
        while let Some(number) = self.round.pop().or_else(|| self.due.pop_front()) {
            let id = PageId { region: Region::Map, index: number };
            match tables.ensure(io, id) {
                Access::Ready(_) => return Ok(Some(id)),
                Access::Unreadable => return Err("a read of a map page that has to change"),
                Access::Loading => {
                    tables.wait(io, id, Task::Commit);
                    self.loading.push(number);
                    if self.loading.len() >= most {
                        break;
                    }
                }
            }
        }
        Ok(None)
    }

    /// Puts off a page: it is handed out again.
    pub fn put_off(&mut self, id: PageId) {
        self.loading.push(id.index);
    }

    /// Ends the round. Returns whether all pages have been handed out.
    pub fn end_round(&mut self) -> bool {
        self.loading.append(&mut self.round);
        self.due.is_empty() && self.loading.is_empty()
    }
}
