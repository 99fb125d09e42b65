//! Keeps what was found damaged: the entries of suspects become durable, in rounds.
//!
//! 1. A round takes the blocks that were found so far, changes their entries, writes the pages, and ends when a flush has covered them. Its
//!    own flush is that of a superblock's update; that of a commit will do as well.
//! 2. In mode `log` a page is written while all that it holds is confirmed. Then its tag keeps older records from taking the change back.

use crate::pool::Pool;
use crate::schedule::Task;
use crate::scheme::Scheme;
use crate::units::Pbn;
use std::collections::BTreeSet;

/// The marking of suspects, and how far it is.
#[derive(Default)]
pub(crate) struct Marking {
    round: Option<Round>,
}

/// The finds that are being made durable.
struct Round {
    /// The last of them.
    find: u64,
    /// The blocks whose entries are not changed yet.
    unmarked: BTreeSet<Pbn>,
    /// The number of the write that has to be durable, when all pages are written.
    relies_on: Option<u64>,
    /// Some page was changed.
    has_changed: bool,
}

impl Marking {
    /// Goes on as far as possible.
    #[cold]
    pub fn mark_some(&mut self, pool: &mut Pool, scheme: &mut Scheme) {
        while pool.io.may_mark() {
            if self.round.is_none() {
                let found = pool.contents.suspects.take_unmarked();
                self.round = found.map(|(unmarked, find)| Round { find, unmarked, relies_on: None, has_changed: false });
            }
            let Some(round) = &mut self.round else { return };
            if !round.is_durable(pool, scheme) {
                return;
            }
            let waited = pool.contents.suspects.keep(round.find);
            pool.io.schedule.extend(waited);
            self.round = None;
        }
    }
}

impl Round {
    /// Goes on. Returns whether all of it is durable.
    fn is_durable(&mut self, pool: &mut Pool, scheme: &mut Scheme) -> bool {
        self.change_entries(pool);
        self.has_changed |= !pool.contents.suspects.pages.is_empty();
        pool.send_marked_pages();
        if !self.unmarked.is_empty() {
            return false;
        }
        if !pool.contents.suspects.pages.is_empty() {
            scheme.confirm(pool);
            return false;
        }
        let relies_on = *self.relies_on.get_or_insert(if self.has_changed { pool.io.durability.now() } else { 0 });
        let is_durable = relies_on <= pool.io.durability.mark();
        if !is_durable && !pool.medium.is_busy() {
            scheme.update_superblock(pool);
        }
        is_durable
    }

    fn change_entries(&mut self, pool: &mut Pool) {
        let mut waits = 0;
        self.unmarked.retain(|&pbn| {
            if waits >= pool.tables.pages.waiting_max() {
                return true;
            }
            match pool.mark_suspect(pbn) {
                Ok(is_done) => !is_done,
                Err(page) => {
                    pool.tables.wait(&mut pool.io, page, Task::Mark);
                    waits += 1;
                    true
                }
            }
        });
    }
}
