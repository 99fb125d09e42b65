//! Updates of the superblock.
//!
//! 1. They go one at a time, each to one copy at the front and one at the end; the other pair stays whole.
//! 2. What an update says is fixed when it begins.
//! 3. Before it writes, the server reads both front copies. Where another server has written one, this server fails for good, as by A5, and writes
//!    nothing more: the other's superblock is not lost. A server writes both front copies when it opens, in two updates, and one of them with each
//!    later update.
//! 4. Each update carries the lifetime ledger as it is when the update begins: a crash takes of it what was counted since. Where nothing else asks for
//!    an update, clients' writes do, after so many units of theirs.
//! 5. Where the front copies cannot be read, the update is written without this check. A copy that cannot be decoded is overwritten.

use crate::buffer::{BufferMut, Slice};
use crate::engine::Engine;
use crate::format::{FRONT_COPIES, Lifetime, Superblock, copies, pair_of};
use crate::interface::{Class, IoFailure, Notice};
use crate::io::FlushFor;
use crate::io::IoFor;
use crate::io::Stage;
use crate::units::{BLOCK_SIZE, Bytes};

/// The update under way, and the front copies that this server has written.
#[derive(Default)]
pub(crate) struct Updates {
    /// What waits for the front copies to be read.
    due: Vec<(Bytes, Slice)>,
    /// The last of this opening, by copy, with its generation.
    written: [Option<(u64, Box<[u8; BLOCK_SIZE]>)>; FRONT_COPIES],
    /// The lifetime ledger that this server found, before its first update.
    lived_before: Option<Lifetime>,
    /// What clients had written when the last one began.
    client_units: u64,
}

impl Engine {
    /// Begins an update.
    pub(crate) fn write_superblock(&mut self) {
        debug_assert!(!self.store.medium.is_busy, "superblock updates go one at a time");
        self.store.medium.is_busy = true;
        self.store.medium.superblock.generation += 1;
        let found = &self.store.medium.superblock.lifetime;
        self.store.medium.updates.lived_before.get_or_insert_with(|| found.clone());
        self.store.medium.superblock.lifetime = self.lifetime();
        self.store.medium.superblock.allocation_cursor = self.store.space.newest;
        self.store.medium.updates.client_units = self.store.io.ledger.client_units;
        let places = copies(self.store.medium.superblock.geometry.device_bytes);
        for copy in pair_of(self.store.medium.superblock.generation) {
            let mut buffer = self.store.io.buffer(1);
            self.store.medium.superblock.encode(copy, buffer.block_mut(0));
            self.store.medium.updates.due.push((places[copy], buffer.freeze().slice(0, 1)));
        }
        self.store.io.read(IoFor::SuperblockRead, places[0], FRONT_COPIES, false, Class::Superblock);
    }

    /// Begins an update for the ledger alone, where clients have written much since the last one.
    pub(crate) fn update_for_ledger(&mut self) {
        let units = self.store.io.ledger.client_units - self.store.medium.updates.client_units;
        if units < self.store.settings.ledger_units_max
            || self.store.medium.is_busy
            || self.store.io.failed
            || self.store.io.stage != Stage::Serving
        {
            return;
        }
        if self.scheme.log.is_some() {
            self.vouch();
        } else {
            self.write_superblock();
        }
    }

    /// Everything since the volume was created.
    pub(crate) fn lifetime(&self) -> Lifetime {
        let mut lifetime = self.store.medium.updates.lived_before.as_ref().unwrap_or(&self.store.medium.superblock.lifetime).clone();
        for (total, count) in lifetime.classes.iter_mut().zip(&self.store.io.ledger.written) {
            total.units = total.units.saturating_add(count.units);
            total.bytes = total.bytes.saturating_add(count.bytes);
            total.commands = total.commands.saturating_add(count.commands);
        }
        lifetime.client_write_units = lifetime.client_write_units.saturating_add(self.store.io.ledger.client_units);
        lifetime.device_flushes = lifetime.device_flushes.saturating_add(self.store.io.ledger.device_flushes);
        lifetime
    }

    /// The front copies have been read: the update is written, unless they are another server's.
    pub(crate) fn superblock_read(&mut self, front: &BufferMut, result: Result<(), IoFailure>) {
        let other = (0..FRONT_COPIES).filter(|_| result.is_ok()).find_map(|copy| self.others_copy(copy, front.block(copy)));
        if let Some(other) = other {
            self.fail_with(Notice::OtherServer {
                generation: other.generation,
                incarnation: other.incarnation,
                is_formatted: other.uuid != self.store.medium.superblock.uuid,
            });
        }
        let due = std::mem::take(&mut self.store.medium.updates.due);
        if self.store.io.failed {
            return self.superblock_flushed();
        }
        let generation = self.store.medium.superblock.generation;
        let [front, _] = pair_of(generation);
        self.store.medium.updates.written[front] = Some((generation, Box::new(*due[0].1.block(0))));
        for (at, copy) in due {
            self.store.medium.writes_left += 1;
            self.store.io.write(IoFor::Superblock, at, vec![copy], Class::Superblock);
        }
    }

    /// What stands in a front copy, where another server has written it.
    fn others_copy(&self, copy: usize, found: &[u8; BLOCK_SIZE]) -> Option<Superblock> {
        let own = self.store.medium.updates.written[copy].as_ref();
        if own.is_some_and(|(_, own)| **own == *found) {
            return None;
        }
        let other = Superblock::decode(found, copy).ok()?;
        let is_of_this_volume = other.uuid == self.store.medium.superblock.uuid;
        let is_others = match own {
            // What is older has not been written since: the device has lost this server's own.
            Some((generation, _)) => !is_of_this_volume || other.generation >= *generation,
            // Before this server has written a copy, an older one may be there, even of another volume. (The update under way has its generation.)
            None => is_of_this_volume && other.generation >= self.store.medium.superblock.generation,
        };
        is_others.then_some(other)
    }

    /// Both copies have been sent and have come down.
    pub(crate) fn superblock_written(&mut self) {
        if self.store.medium.writes_left == 0 && !self.store.io.failed {
            self.store.io.flush(FlushFor::Superblock);
        }
        if self.store.io.failed {
            self.superblock_flushed();
        }
    }
}
