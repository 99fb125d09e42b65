//! Updates of the superblock.
//!
//! 1. One update is under way at a time. It writes one copy at the front and one at the end; the other pair stays whole.
//! 2. The content of an update is fixed when the update begins.
//! 3. Before each update the server reads both front copies. If another server has written one, this server fails for good, as by A5, and
//!    writes nothing more, so that the other's superblock is not lost. A server writes both front copies when it opens, in two updates, and
//!    one of them with each later update.
//! 4. Each update has the lifetime ledger of the moment at which it begins; a crash loses what was counted since. If nothing else asks for
//!    an update, one is written after a number of units that clients have written.
//! 5. If the front copies cannot be read, the update is written without this check. A copy that cannot be decoded is overwritten.

use super::{Medium, Pool};
use crate::buffer::BufferMut;
use crate::format::{FRONT_COPIES, Lifetime, Superblock, copies, pair_of};
use crate::interface::{Class, IoFailure, Notice};
use crate::io::Stage;
use crate::io::{Io, IoFor};
use crate::ledger::Ledger;
use crate::units::{BLOCK_SIZE, Bytes, Pbn};

/// The pairs of copies, which updates write in turn.
const PAIRS: u8 = 2;

impl Pool {
    /// Begins an update.
    pub fn write_superblock(&mut self) {
        let front = self.medium.begin_update(&self.io, self.space.newest());
        self.io.read(IoFor::SuperblockRead, front, FRONT_COPIES, false, Class::Superblock);
    }
}

impl Medium {
    /// Composes the next update, for an engine that has last allocated this block. Returns where the front copies begin.
    fn begin_update(&mut self, io: &Io, newest: Pbn) -> Bytes {
        debug_assert!(!self.is_busy, "superblock updates go one at a time");
        self.is_busy = true;
        let found = &self.superblock.lifetime;
        self.updates.lived_before.get_or_insert_with(|| found.clone());
        let lifetime = self.lifetime(&io.ledger);
        self.superblock.begin_update(lifetime, newest);
        (self.updates.client_units, self.updates.is_asked) = (io.ledger.client_units, false);
        self.updates.marks_apart = self.superblock.marks_apart();
        let places = copies(self.superblock.geometry.device_bytes);
        for copy in pair_of(self.superblock.generation) {
            let mut buffer = io.buffer(1);
            self.superblock.encode(copy, buffer.block_mut(0));
            self.updates.due.push((places[copy], buffer.freeze().slice(0, 1)));
        }
        places[0]
    }

    /// Notes that the update is durable.
    pub fn update_is_durable(&mut self) {
        if self.updates.marks_apart && !self.is_marked_apart {
            // The first update has reached one pair of copies, the next one reaches the other: whichever survives has the mark.
            self.updates.marked += 1;
            self.is_marked_apart = self.updates.marked == PAIRS;
            self.updates.is_asked |= !self.is_marked_apart;
        }
    }

    /// Whether an update is due for the ledger alone, because clients have written much since the last one, or somebody has asked for it.
    pub fn is_ledger_update_due(&self, io: &Io, units_max: u64) -> bool {
        let units = io.ledger.client_units.saturating_sub(self.updates.client_units);
        let is_wanted = units >= units_max || self.updates.is_asked;
        is_wanted && !self.is_busy && !io.has_failed() && io.stage() == Stage::Serving
    }

    /// The generation of the last superblock whose update has ended.
    pub fn saved_generation(&self) -> u64 {
        self.superblock.generation - u64::from(self.is_busy)
    }

    /// The ledger of everything since the volume was created.
    pub fn lifetime(&self, ledger: &Ledger) -> Lifetime {
        let mut lifetime = self.updates.lived_before.as_ref().unwrap_or(&self.superblock.lifetime).clone();
        for (total, count) in lifetime.classes.iter_mut().zip(ledger.written) {
            total.add(count.units, count.bytes, count.commands);
        }
        lifetime.add(ledger.client_units, ledger.device_flushes);
        lifetime
    }

    /// The notice to send if another server has written one of the front copies, which were read.
    pub fn other_server(&self, front: &BufferMut, result: Result<(), IoFailure>) -> Option<Notice> {
        let other = (0..FRONT_COPIES).filter(|_| result.is_ok()).find_map(|copy| self.others_copy(copy, front.block(copy)))?;
        let is_formatted = other.origin != self.superblock.origin;
        Some(Notice::OtherServer { generation: other.generation, incarnation: other.incarnation, is_formatted })
    }

    /// Sends the copies of the update.
    pub fn send_update(&mut self, io: &mut Io) {
        let due = std::mem::take(&mut self.updates.due);
        let generation = self.superblock.generation;
        let [front, _] = pair_of(generation);
        self.updates.written[front] = Some((generation, Box::new(*due[0].1.block(0))));
        for (at, copy) in due {
            self.writes_left += 1;
            io.write(IoFor::Superblock, at, vec![copy], Class::Superblock);
        }
    }

    /// Drops the update, because the volume has failed.
    pub fn drop_update(&mut self) {
        self.updates.due.clear();
    }

    /// The superblock in a front copy, if another server has written it.
    fn others_copy(&self, copy: usize, found: &[u8; BLOCK_SIZE]) -> Option<Superblock> {
        let own = self.updates.written[copy].as_ref();
        if own.is_some_and(|(_, own)| **own == *found) {
            return None;
        }
        let other = Superblock::decode(found, copy).ok()?;
        let is_of_this_volume = other.origin == self.superblock.origin;
        let is_others = match own {
            // An older copy was not written since this server's own: the device has lost that.
            Some((generation, _)) => !is_of_this_volume || other.generation >= *generation,
            // Before this server has written this copy, an older one may be there, even of another volume. `self.superblock` has the
            // generation of the update under way.
            None => is_of_this_volume && other.generation >= self.superblock.generation,
        };
        is_others.then_some(other)
    }
}
