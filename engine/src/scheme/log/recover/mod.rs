//! Opening: what the log holds is read, and the log goes on behind it.
//!
//! 1. The walk is read, its end found (L2), what may not have been flushed compared (L5); then its records are live, and pages are put
//!    right as they are loaded. Nothing else is read before that.
//! 2. The new incarnation is durable before any unit of it (L3).
//! 3. After a crash the new incarnation's first unit is written and flushed before the first write is admitted and before any page is
//!    written (L4): it says where the log ended and what was dropped. A log that ends so already gets none, so that crashes of recoveries
//!    do not fill it: the superblock says then that nothing from before this opening counts behind.
//! 4. What counts and may not have been flushed, units and content, is written again, and flushed before the closing unit says that it is:
//!    a block that the device was told to forget, and whose write was lost, may read as its new content once, and as something else the
//!    next time.
//! 5. Of a log with damage only what is proved is served (`store/proved.rs`), and the volume is read-only.
//! 6. Records that are more than memory is meant for enter pages while the walk is read, as far as they count for certain (`spill.rs`).

mod adopt;
mod condensed;
mod doubts;
mod limits;
mod progress;
mod read;
mod reading;
mod replay;
mod settle;
mod spill;
mod telling;
mod walk;
#[cfg(test)]
mod walk_tests;

pub(crate) use doubts::holds;
pub(crate) use limits::Limits;
pub(crate) use walk::Walk;

use super::Log;
use crate::format::anchor::Anchor;
use crate::format::entry::Kind;
use crate::interface::{Class, Notice};
use crate::io::{Arrived, IoFor, READ_RETRIES};
use crate::store::Store;
use crate::tables::Unchained;
use crate::units::{Bytes, Epoch, Time};
use doubts::Doubting;
use reading::{Read, Reading};
use settle::Settling;
use std::collections::BTreeMap;
use telling::Telling;

/// The log is a damaged one.
pub(crate) struct Damaged {
    /// Its records count up to this epoch.
    pub last: Epoch,
    /// What is left of it, if anything.
    pub log: Option<Box<Log>>,
}

/// What an opening has come to.
pub(crate) enum Found {
    /// It goes on when something has ended.
    Nothing,
    /// The log as it is to go on, or, for the time of a spill, as much of it as was read.
    Log(Box<Log>),
}

/// How far an opening is; or that the log is damaged.
pub(crate) type Opened = Result<Found, Damaged>;

/// A log that is being opened, or the opening of a volume that has none.
pub(crate) struct Opening {
    state: State,
    /// Units that were read.
    units_read: u64,
    telling: Telling,
    /// Records that entered pages (`spill.rs`).
    spilled: u64,
    /// Failed reads, by where the block lies.
    failures: BTreeMap<Bytes, u8>,
}

/// Each state is consumed by the step that ends it.
enum State {
    Reading(Reading),
    /// The walk stands still, while pages are written.
    Spilling(Reading),
    Doubting(Doubting),
    /// The log is read.
    Settling(Settling),
}

impl Default for State {
    fn default() -> Self {
        Self::Settling(Settling::default())
    }
}

impl Opening {
    fn new(state: State, now: Time) -> Self {
        Self { state, units_read: 0, telling: Telling::from(now), spilled: 0, failures: BTreeMap::new() }
    }

    /// Of a volume without a log that could hold anything.
    pub fn without_log(store: &Store) -> Self {
        Self::new(State::default(), store.io.now)
    }

    /// Of a live log, from this anchor on.
    pub fn of_live_log(store: &Store, anchor: Anchor) -> Self {
        let walk = Walk::new(anchor, Limits::of(&store.medium.superblock));
        Self::new(State::Reading(Reading::new(walk)), store.io.now)
    }

    /// Of a log that was closed, behind this anchor; with the log.
    pub fn of_closed_log(store: &mut Store, anchor: Anchor) -> (Self, Box<Log>) {
        let ended = Walk::new(anchor, Limits::of(&store.medium.superblock)).end();
        let mut opening = Self::without_log(store);
        let log = opening.adopt(store, ended, Unchained::default(), &Default::default(), Vec::new(), false);
        (opening, log)
    }

    /// Goes on with reading.
    ///
    /// # Errors
    /// When the log is damaged.
    pub fn go_on(&mut self, store: &mut Store) -> Opened {
        match std::mem::take(&mut self.state) {
            State::Reading(mut reading) => match reading.go_on(store) {
                Read::Waits => Ok(self.wait(State::Reading(reading))),
                Read::Full => Ok(Found::Log(self.begin_spill(store, reading))),
                Read::End => self.walk_is_read(store, reading),
            },
            State::Doubting(mut doubting) => {
                let is_done = doubting.is_done(store);
                Ok(if is_done { Found::Log(self.doubts_are_over(store, doubting)) } else { self.wait(State::Doubting(doubting)) })
            }
            state @ (State::Spilling(_) | State::Settling(_)) => Ok(self.wait(state)),
        }
    }

    /// It goes on when something has ended.
    fn wait(&mut self, state: State) -> Found {
        self.state = state;
        Found::Nothing
    }

    /// A block that was asked for has arrived: a unit, content that may not have been flushed, or a page that may hold the epoch of such
    /// content.
    ///
    /// # Errors
    /// As [`Self::go_on`].
    pub fn arrived(&mut self, store: &mut Store, what: IoFor, arrived: Arrived) -> Opened {
        if arrived.result.is_err() {
            return self.read_again(store, what);
        }
        match (&mut self.state, what) {
            (State::Reading(reading), IoFor::ReadForScan { unit: which, pbn }) => {
                reading.arrived(store, which, pbn, arrived.buffer);
                self.units_read += 1;
                self.tell_progress(store);
            }
            (State::Doubting(doubting), IoFor::ReadForVerification { pbn, name }) => doubting.content_arrived(store, pbn, name, arrived),
            (State::Doubting(doubting), IoFor::PageForVerification(id)) => doubting.page_arrived(store, id, &arrived.buffer),
            _ => {}
        }
        self.go_on(store)
    }

    /// A read failed: it is tried again, twice for each block. What cannot be read may be what was acknowledged last, so it is no end.
    fn read_again(&mut self, store: &mut Store, what: IoFor) -> Opened {
        let (at, digest, class) = match &what {
            IoFor::ReadForScan { pbn, .. } => (store.geometry.block_at(*pbn), false, Class::Log),
            IoFor::ReadForVerification { pbn, name } => (store.geometry.block_at(*pbn), name.kind == Kind::Fingerprint, Class::Data),
            IoFor::PageForVerification(id) => (store.geometry.page_at(*id), false, id.region.into()),
            _ => return Ok(Found::Nothing),
        };
        let failures = self.failures.entry(at).or_default();
        *failures += 1;
        if *failures > READ_RETRIES {
            store.io.notice(Notice::Damage { what: "the log cannot be read", at: at.0 });
            // Nothing is replayed: what cannot be read may be anything.
            return Err(Damaged { last: Epoch(0), log: None });
        }
        store.io.read(what, at, 1, digest, class);
        Ok(Found::Nothing)
    }

    /// Whether no unit is left to be found that could say more.
    pub fn is_end_known(&self) -> bool {
        !matches!(self.state, State::Reading(_) | State::Spilling(_))
    }

    /// Bytes of the records that were read so far and are not handed over, for the account of memory.
    pub fn bytes(&self) -> u64 {
        match &self.state {
            State::Reading(Reading { live, .. }) | State::Doubting(Doubting { live, .. }) => live.bytes(),
            State::Spilling(_) | State::Settling(_) => 0,
        }
    }

    /// What comes behind the reading, once that is over.
    pub fn settling(&mut self) -> Option<&mut Settling> {
        if let State::Settling(settling) = &mut self.state { Some(settling) } else { None }
    }

    /// Whether the places are chosen: an end of a checkpoint is one that it waits for.
    pub fn is_ready(&mut self) -> bool {
        self.settling().is_some_and(|settling| settling.is_ready)
    }
}
