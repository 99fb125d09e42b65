//! The gathering of candidates: of the skipped buffer, and of the ranges that somebody asked for.

use super::{OutOfLine, OutOfLineStage};
use crate::format::geometry::Geometry;
use crate::format::page::PageId;
use crate::index::{NamedLbn, ToCompare};
use crate::io::Io;
use crate::pool::{Medium, Parts, Pool};
use crate::schedule::Blocked;
use crate::tables::Tables;
use crate::units::{Pbn, count, low_half};

/// LBNs that one turn gathers.
const LBNS_A_STEP: usize = 256;

impl OutOfLine {
    /// Looks up the fingerprints of LBNs that have none yet, until there is no room for more candidates.
    pub(super) fn gather(&mut self, parts: &mut Parts) {
        for _ in 0..LBNS_A_STEP {
            if let Some((candidate, low)) = self.batch.last_named().filter(|_| self.is_setting_aside) {
                match self.set_aside(&mut parts.pool, candidate, low) {
                    Ok(()) => self.batch.remove_last_named(),
                    Err(page) => return self.wait(parts, page, 1),
                }
                continue;
            }
            let next = self.asked.first().or_else(|| self.batch.next_unnamed());
            let Some(lbn) = next.filter(|_| self.has_room_for_candidate(&parts.pool.geometry)) else {
                return if self.is_setting_aside {
                    self.end_batch(&mut parts.pool.io, &mut parts.volume.to_compare, &mut parts.pool.medium)
                } else {
                    self.begin_sweep(&mut parts.pool.io, &parts.pool.tables, &mut parts.volume.to_compare, &mut parts.pool.medium)
                };
            };
            let is_settled = parts.pool.tables.overlay(lbn).is_none();
            let blank = is_settled.then(|| parts.pool.tables.map_page(&mut parts.pool.io, lbn)).filter(|&(_, is_blank)| is_blank);
            let end = blank.map_or(lbn + 1, |(page_end, _)| page_end);
            if blank.is_none() {
                match parts.pool.durable_place(lbn, &self.known) {
                    Ok(Some(((pbn, _), fp))) => {
                        if let Err(page) = self.add_candidate(&mut parts.pool, self.batch.layout.entry(lbn, &fp), pbn) {
                            return self.wait(parts, page, 1);
                        }
                    }
                    Ok(None) => match parts.pool.deferred(lbn) {
                        Ok(Some(pbn)) if self.unnamed != Some(pbn) => return self.read_unnamed(parts, pbn),
                        Ok(_) => {}
                        Err(page) => return self.wait(parts, page, 1),
                    },
                    Err(Blocked::Page(page)) => return self.wait(parts, page, 1),
                    Err(Blocked::Carrier(pbn)) => return self.read_carriers(parts, [pbn]),
                    Err(_) => return self.wait_for_room(&parts.pool.io, &mut parts.pool.tables, &parts.pool.settings),
                }
            }
            if self.asked.first().is_some() { self.asked.remove_below(end) } else { self.batch.remove_unnamed(end) }
        }
        parts.pool.io.schedule.ask_for_background();
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
    fn end_batch(&mut self, io: &mut Io, to_compare: &mut ToCompare, medium: &mut Medium) {
        self.sieve.await_all();
        self.stage = OutOfLineStage::Idle;
        self.end_if_compared(io, to_compare, medium);
        io.schedule.ask_for_background();
    }

    fn begin_sweep(&mut self, io: &mut Io, tables: &Tables, to_compare: &mut ToCompare, medium: &mut Medium) {
        self.forget_left(tables);
        self.candidates.sort_unstable();
        self.candidates.dedup();
        self.looked_up += count(self.candidates.len());
        self.stage = OutOfLineStage::Sweep(Pbn(0));
        if self.candidates.is_empty() {
            self.end_sweep(io, to_compare, medium);
        }
        io.schedule.ask_for_background();
    }
}
