//! The gathering of candidates: of the skipped buffer, and of the ranges that somebody asked for.

use super::{OutOfLine, OutOfLineStage};
use crate::format::geometry::Geometry;
use crate::format::page::PageId;
use crate::index::{NamedLbn, Uncompared};
use crate::io::Io;
use crate::schedule::Blocked;
use crate::store::{Medium, Pool, Store};
use crate::tables::Tables;
use crate::units::{Pbn, count, low_half};

/// LBNs that one turn gathers.
const LBNS_A_STEP: usize = 256;

impl OutOfLine {
    /// Looks up the fingerprints of LBNs that have none yet, until there is no room for more candidates.
    pub(super) fn gather(&mut self, store: &mut Store) {
        for _ in 0..LBNS_A_STEP {
            if let Some((candidate, low)) = self.batch.last_named().filter(|_| self.is_setting_aside) {
                match self.set_aside(&mut store.pool, candidate, low) {
                    Ok(()) => self.batch.remove_last_named(),
                    Err(page) => return self.wait(store, page, 1),
                }
                continue;
            }
            let next = self.asked.first().or_else(|| self.batch.next_unnamed());
            let Some(lbn) = next.filter(|_| self.has_room_for_candidate(&store.pool.geometry)) else {
                return if self.is_setting_aside {
                    self.end_batch(&mut store.pool.io, &mut store.volume.uncompared, &mut store.pool.medium)
                } else {
                    self.begin_sweep(&mut store.pool.io, &store.pool.tables, &mut store.volume.uncompared, &mut store.pool.medium)
                };
            };
            let is_settled = store.pool.tables.overlay(lbn).is_none();
            let blank = is_settled.then(|| store.pool.tables.map_page(&mut store.pool.io, lbn)).filter(|&(_, is_blank)| is_blank);
            let end = blank.map_or(lbn + 1, |(page_end, _)| page_end);
            if blank.is_none() {
                match store.pool.durable_place(lbn, &self.known) {
                    Ok(Some(((pbn, _), fp))) => {
                        if let Err(page) = self.add_candidate(&mut store.pool, self.batch.layout.entry(lbn, &fp), pbn) {
                            return self.wait(store, page, 1);
                        }
                    }
                    Ok(None) => match store.pool.deferred(lbn) {
                        Ok(Some(pbn)) if self.unnamed != Some(pbn) => return self.read_unnamed(store, pbn),
                        Ok(_) => {}
                        Err(page) => return self.wait(store, page, 1),
                    },
                    Err(Blocked::Page(page)) => return self.wait(store, page, 1),
                    Err(Blocked::Carrier(pbn)) => return self.read_carriers(store, [pbn]),
                    Err(_) => return self.wait_for_room(&store.pool.io, &mut store.pool.tables, &store.pool.settings),
                }
            }
            if self.asked.first().is_some() { self.asked.remove_below(end) } else { self.batch.remove_unnamed(end) }
        }
        store.pool.io.schedule.ask_for_background();
    }

    fn has_room_for_candidate(&self, geometry: &Geometry) -> bool {
        if self.is_setting_aside { !self.is_pass_full(geometry) } else { self.candidates.len() < self.batch.named_max() }
    }

    /// Adds a candidate of which this block is meant. `Err`: this page has to be read first.
    fn add_candidate(&mut self, pool: &mut Pool, candidate: NamedLbn, pbn: Pbn) -> Result<(), PageId> {
        if self.is_setting_aside {
            return self.set_aside(pool, candidate, low_half(pbn.0));
        }
        self.candidates.reserve_exact(self.batch.named_max().saturating_sub(self.candidates.len()));
        self.candidates.push(candidate);
        Ok(())
    }

    /// Sets a candidate aside. Where there is no room, it is compared by a sweep, with what is left of its batch.
    fn set_aside(&mut self, pool: &mut Pool, candidate: NamedLbn, low: u32) -> Result<(), PageId> {
        match self.sieve.set_aside(pool, candidate, low) {
            Ok(()) => Ok(()),
            Err(Blocked::Page(page)) => Err(page),
            Err(_) => {
                self.is_setting_aside = false;
                self.candidates = self.batch.take_named();
                self.candidates.push(candidate);
                Ok(())
            }
        }
    }

    /// Ends a batch that was set aside.
    fn end_batch(&mut self, io: &mut Io, uncompared: &mut Uncompared, medium: &mut Medium) {
        self.sieve.await_all();
        self.stage = OutOfLineStage::Idle;
        self.end_if_compared(io, uncompared, medium);
        io.schedule.ask_for_background();
    }

    fn begin_sweep(&mut self, io: &mut Io, tables: &Tables, uncompared: &mut Uncompared, medium: &mut Medium) {
        self.forget_left(tables);
        self.candidates.sort_unstable();
        self.candidates.dedup();
        self.looked_up += count(self.candidates.len());
        self.stage = OutOfLineStage::Sweep(Pbn(0));
        if self.candidates.is_empty() {
            self.end_sweep(io, uncompared, medium);
        }
        io.schedule.ask_for_background();
    }
}
