//! The ledger: exact counts of what was sent to the device, and of what clients sent to us.

use crate::format::unit::{UnitKind, UnitWriter};
use crate::interface::Class;
use crate::units::{BLOCK_BYTES, count};

/// Counts of one class of device operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub commands: u64,
    pub bytes: u64,
    /// Aligned 4 KiB of the device that were touched, each time.
    pub units: u64,
}

/// Everything since the volume was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Writes by [`Class`].
    pub written: [Count; 7],
    /// Reads by [`Class`].
    pub read: [Count; 7],
    pub device_flushes: u64,
    /// Of the writes, those that were durable when they had completed, with no flush.
    pub device_fua_writes: u64,
    pub device_discards: u64,
    pub device_discarded_bytes: u64,
    /// 4 KiB units that clients wrote, and the bytes and requests.
    pub client_units: u64,
    pub client_bytes: u64,
    pub client_writes: u64,
    pub client_read_bytes: u64,
    pub client_reads: u64,
    pub client_flushes: u64,
    pub client_discards: u64,
    /// Of the client units: found as duplicates; all zero; stored as new blocks; unchanged (the LBN already held it).
    pub duplicates: u64,
    pub zeroes: u64,
    pub new_blocks: u64,
    pub unchanged: u64,
    /// Epochs by what sealed them: whoever first waited for it (a flush, a FUA request, a request under strong persistence), the timer,
    /// memory or space.
    pub epochs_flush: u64,
    pub epochs_fua: u64,
    pub epochs_strong: u64,
    pub epochs_timer: u64,
    pub epochs_pressure: u64,
    /// Contents whose block had reached its limit of links.
    pub overflows: u64,
    pub reclaimed_blocks: u64,
    pub cache_hits: u64,
    pub units: Units,
    pub log_epochs: LogEpochs,
}

/// The log's epochs that wrote units, by what could ride in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEpochs {
    /// Of up to 64 new blocks, one of which at least came to [`RIDES_BYTES_MAX`] or less.
    pub riding: EpochCounts,
    /// Of up to 64 new blocks, none of which did, or none at all.
    pub bare: EpochCounts,
    /// Of more than 64.
    pub large: EpochCounts,
    /// Of no client: fingerprints went.
    pub removals: EpochCounts,
}

/// A block that comes to so few bytes finds room in a carrier beside its epoch's records, unless they are many.
pub const RIDES_BYTES_MAX: usize = 3500;

/// What the epochs of one kind were and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochCounts {
    pub epochs: u64,
    /// Blocks born in them, and how many of those lay in slots of their units.
    pub new_blocks: u64,
    pub riders: u64,
    pub plain: u64,
    pub carriers: u64,
    /// Those that stand between their content, their units and their durability.
    pub flushes: u64,
    /// Epochs that one FUA write made durable, and no flush.
    pub by_fua: u64,
}

/// What the units hold that the log's epochs were written in, packs among them. Units that an opening writes are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Without slots.
    pub plain: u64,
    /// With slots.
    pub carriers: u64,
    /// Slots only, of large epochs.
    pub packs: u64,
    /// Blocks of clients in the slots, and the bytes that they come to there.
    pub packed_blocks: u64,
    pub packed_bytes: u64,
    /// Bytes of all these units that hold nothing.
    pub padding_bytes: u64,
}

impl Units {
    /// A unit is filled.
    pub(crate) fn filled(&mut self, kind: UnitKind, writer: &UnitWriter) {
        let (slots, bytes) = writer.packed();
        let units = match (kind, slots) {
            (UnitKind::Pack, _) => &mut self.packs,
            (_, 0) => &mut self.plain,
            _ => &mut self.carriers,
        };
        *units += 1;
        self.packed_blocks += count(slots);
        self.packed_bytes += count(bytes);
        self.padding_bytes += count(writer.room_left());
    }
}

impl Ledger {
    /// Counts a write command.
    pub fn wrote(&mut self, class: Class, bytes: u64) {
        let c = &mut self.written[class as usize];
        c.commands += 1;
        c.bytes += bytes;
        c.units += bytes.div_ceil(BLOCK_BYTES);
    }

    /// Counts a read command.
    pub fn read(&mut self, class: Class, blocks: u64) {
        let c = &mut self.read[class as usize];
        c.commands += 1;
        c.bytes += blocks * BLOCK_BYTES;
        c.units += blocks;
    }

    /// Epochs that someone waited for.
    #[must_use]
    pub fn epochs_wanted(&self) -> u64 {
        self.epochs_flush + self.epochs_fua + self.epochs_strong
    }

    /// All epochs.
    #[must_use]
    pub fn epochs(&self) -> u64 {
        self.epochs_wanted() + self.epochs_timer + self.epochs_pressure
    }

    /// All units written to the device.
    #[must_use]
    pub fn device_units(&self) -> u64 {
        self.written.iter().map(|c| c.units).sum()
    }
}
