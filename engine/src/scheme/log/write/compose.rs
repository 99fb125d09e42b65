//! Composes and sends the units of an epoch.
//!
//! 1. Carriers come first, and take as many records as they have room for; plain units take the rest. Records keep their order.
//! 2. Units whose places lie side by side are sent in one write. After power loss any subset of them may survive.
//! 3. Every unit names the unit that was flushed last when it was composed, and the places of those behind it: two or more.

use crate::buffer::Slice;
use crate::format::entry::Kind;
use crate::format::places::Places;
use crate::format::record::Record;
use crate::format::unit::{CARRIER_PLACES_MAX, UnitKind, UnitWriter};
use crate::interface::Class;
use crate::io::IoFor;
use crate::pool::Pool;
use crate::scheme::log::Log;
use crate::scheme::log::commit::Commit;
use crate::scheme::log::compress::Rider;
use crate::scheme::log::places::runs;
use crate::scheme::log::sealed::number_of;
use crate::space::PendingBlock;
use crate::units::{Pbn, count};

impl Log {
    /// Composes the units of the committing epoch and sends them to the next places.
    pub(super) fn send_units(&mut self, commit: &mut Commit, pool: &mut Pool, riders: Vec<Vec<Rider>>) {
        let writers = self.compose_units(commit, riders);
        let (sent, units) = (writers.len(), number_of(&writers));
        commit.sent(sent, self.flushed);
        let fua = sent == 1 && commit.fua_is_enough(&pool.io, &pool.settings);
        commit.counts.by_fua = fua;
        let (epoch, content_flushed) = (pool.tables.committing().number, commit.is_large);
        let mut blocks = Vec::with_capacity(sent);
        for (unit, (writer, is_carrier)) in (0..units).zip(writers) {
            pool.io.ledger.units.filled(UnitKind::Log, &writer);
            let (pbn, block, authenticator) = self.next_unit(pool, writer, epoch, (unit, units), content_flushed);
            if is_carrier {
                let held = Some(block.clone());
                let pending =
                    PendingBlock { kind: Kind::Carrier, fingerprint: authenticator, epoch: epoch.get(), content: held, waits: true };
                pool.space.pending.insert(pbn, pending);
                commit.carriers.push((pbn, authenticator));
            }
            blocks.push((pbn, block));
        }
        write_units(pool, blocks, fua);
    }

    /// The filled units, and whether each is a carrier.
    fn compose_units(&self, commit: &Commit, riders: Vec<Vec<Rider>>) -> Vec<(UnitWriter, bool)> {
        let mut records = commit.records.iter().cloned();
        let mut rest = records.next();
        let mut riders = riders.into_iter();
        let mut writers = Vec::new();
        loop {
            let these = riders.next();
            if these.is_none() && rest.is_none() {
                return writers;
            }
            let mut writer = UnitWriter::new(self.places_behind(writers.len(), these.is_some()));
            for rider in these.iter().flatten() {
                let slot = writer.push_slot(rider.fingerprint, &rider.data);
                assert!(slot.is_some(), "the plan left room for every slot");
            }
            rest = fill(&mut writer, rest, &mut records);
            writers.push((writer, these.is_some()));
        }
    }

    /// Places that follow the n-th unit after the next.
    pub fn places_behind(&self, n: usize, is_carrier: bool) -> Vec<Places> {
        let mut places = runs(self.places.iter().skip(n + 1).copied());
        if is_carrier {
            places.truncate(CARRIER_PLACES_MAX);
        }
        places
    }

    /// Continues after a write of units at neighbouring places. `good`: they are on the device.
    pub fn units_written(&mut self, pool: &mut Pool, units: usize, carriers: Vec<Pbn>, good: bool) {
        for pbn in carriers {
            let in_flight = pool.space.pending.get_mut(pbn).and_then(|pending| Some((pending.content.take()?, pending.waits)));
            let (content, waits) = in_flight.expect("a carrier in flight is pending, and has its content");
            if !good {
                continue;
            }
            // Otherwise a duplicate of content that rides in it would read it back.
            pool.contents.cache.fill_written(pbn, content.block(0));
            if !waits {
                pool.space.forget_pending(pbn);
            }
        }
        if let Some(commit) = &mut self.commit {
            commit.units_written(units);
            pool.tables.commit_may_go_on(&mut pool.io);
        }
    }
}

/// Writes units, and, at an opening, content that is written again with them.
pub fn write_units(pool: &mut Pool, blocks: Vec<(Pbn, Slice)>, fua: bool) {
    pool.write_blocks(blocks, Class::Log, |space, first, units| {
        let is_carrier = |pbn: &Pbn| space.pending.get(*pbn).is_some_and(|pending| pending.kind == Kind::Carrier);
        let carriers = (0..count(units)).map(|i| first + i).filter(is_carrier).collect();
        IoFor::Units { units, carriers, fua }
    });
}

/// Puts as many records into a unit as it holds. Returns the first that does not fit, or the rest of it.
fn fill(writer: &mut UnitWriter, first: Option<Record>, others: &mut impl Iterator<Item = Record>) -> Option<Record> {
    let mut next = first;
    while let Some(record) = next {
        if let Some(rest) = writer.push(record) {
            return Some(rest);
        }
        next = others.next();
    }
    None
}
