//! What commits of both schemes are made of: the content that they rely on, and the map pages of their epoch.

use crate::format::page::{PageId, Region};
use crate::interface::IoId;
use crate::schedule::Task;
use crate::store::Store;
use crate::tables::Access;
use std::collections::VecDeque;

/// The most map pages loading, and the most being written, at once.
const PAGES_IN_FLIGHT_MAX: usize = 64;

/// Whether the epoch that commits is durable now; or what has failed.
pub(crate) type Progress = Result<bool, &'static str>;

/// What a step of work that makes the pages up to date has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// It goes on when something has ended.
    Nothing,
    /// The pages of an opening that has no place for all records are flushed, or one of them cannot be read.
    Spilled,
    /// It is over: whoever waited for it goes on.
    End,
}

/// What such a step has come to, or what has failed.
pub(crate) type Step = Result<Reached, &'static str>;

/// How many pages of one kind may be under way for a commit at once.
pub(super) fn pages_in_flight_max(store: &Store) -> usize {
    PAGES_IN_FLIGHT_MAX.min(store.tables.pages.waiting_max())
}

/// Content that an epoch relies on, as far as it is under way.
pub(crate) struct Content {
    /// Writes with a lower number belong to this epoch or an earlier one.
    horizon: IoId,
    /// How many of them have not ended.
    left: u64,
}

impl Content {
    /// Of an epoch that relies on none.
    #[cfg(test)]
    pub fn none() -> Self {
        Self { horizon: IoId(0), left: 0 }
    }

    /// All that is under way now.
    pub fn under_way(store: &Store) -> Self {
        Self { horizon: store.io.horizon(), left: store.contents.in_flight }
    }

    /// A write of content has ended.
    pub fn arrived(&mut self, io: IoId) {
        self.left -= u64::from(io < self.horizon);
    }

    /// Whether all of it has ended.
    pub fn is_there(&self) -> bool {
        self.left == 0
    }
}

/// The map pages of an epoch, by their numbers: each is handed out once, when it is in memory.
pub(crate) struct MapPages {
    due: VecDeque<u64>,
    /// Those on their way into memory, and those that were put off.
    loading: Vec<u64>,
    /// Those of the round that has begun.
    again: Vec<u64>,
}

impl MapPages {
    pub fn new(due: VecDeque<u64>) -> Self {
        Self { due, loading: Vec::new(), again: Vec::new() }
    }

    /// All that are not handed out are tried once more.
    pub fn begin_round(&mut self) {
        self.again = std::mem::take(&mut self.loading);
    }

    /// The next page that is in memory; none where the others have to come first. `Err`: one cannot be read.
    pub fn next(&mut self, store: &mut Store) -> Result<Option<PageId>, &'static str> {
        let most = pages_in_flight_max(store);
        while let Some(number) = self.again.pop().or_else(|| self.due.pop_front()) {
            let id = PageId { region: Region::Map, index: number };
            match store.tables.ensure(&mut store.io, id) {
                Access::Ready(_) => return Ok(Some(id)),
                Access::Unreadable => return Err("a read of a map page that has to change"),
                Access::Loading => {
                    store.tables.wait(&mut store.io, id, Task::Commit);
                    self.loading.push(number);
                    if self.loading.len() >= most {
                        break;
                    }
                }
            }
        }
        Ok(None)
    }

    /// A page that was handed out is to be handed out again.
    pub fn put_off(&mut self, id: PageId) {
        self.loading.push(id.index);
    }

    /// Whether all have been handed out.
    pub fn end_round(&mut self) -> bool {
        self.loading.append(&mut self.again);
        self.due.is_empty() && self.loading.is_empty()
    }
}
