//! Keeps what was found damaged: the entries of suspects become durable, in rounds.
//!
//! 1. A round takes the blocks that were found so far, changes their entries, writes the pages, and ends when a flush has covered them. Its
//!    own flush is that of a superblock's update; that of a commit will do as well.
//! 2. In mode `log` a page is written while all that it holds is confirmed. Then its tag keeps older records from taking the change back.

use crate::schedule::Task;
use crate::scheme::Scheme;
use crate::store::Store;
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
    pub fn go_on(&mut self, store: &mut Store, scheme: &mut Scheme) {
        while store.io.may_mark() {
            if self.round.is_none() {
                let found = store.contents.suspects.take_unmarked();
                self.round = found.map(|(unmarked, find)| Round { find, unmarked, relies_on: None, has_changed: false });
            }
            let Some(round) = &mut self.round else { return };
            if !round.is_durable(store, scheme) {
                return;
            }
            let waited = store.contents.suspects.keep(round.find);
            store.io.schedule.ready.extend(waited);
            self.round = None;
        }
    }
}

impl Round {
    /// Goes on. Returns whether all of it is durable.
    fn is_durable(&mut self, store: &mut Store, scheme: &mut Scheme) -> bool {
        self.change_entries(store);
        self.has_changed |= !store.contents.suspects.pages.is_empty();
        store.send_marked_pages();
        if !self.unmarked.is_empty() {
            return false;
        }
        if !store.contents.suspects.pages.is_empty() {
            scheme.confirm(store);
            return false;
        }
        let relies_on = *self.relies_on.get_or_insert(if self.has_changed { store.io.durability.now() } else { 0 });
        let is_durable = relies_on <= store.io.durability.mark;
        if !is_durable && !store.medium.is_busy {
            scheme.update_superblock(store);
        }
        is_durable
    }

    fn change_entries(&mut self, store: &mut Store) {
        let mut waits = 0;
        self.unmarked.retain(|&pbn| {
            if waits >= store.tables.pages.waiting_max() {
                return true;
            }
            match store.mark_suspect(pbn) {
                Ok(is_done) => !is_done,
                Err(page) => {
                    store.tables.wait(&mut store.io, page, Task::Mark);
                    waits += 1;
                    true
                }
            }
        });
    }
}
