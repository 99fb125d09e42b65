//! The ledger: exact counts of what was sent to the device, and of what clients sent to us.

use crate::format::unit::{UnitKind, UnitWriter};
use crate::interface::Class;
use crate::policy::{STREAMS, Stream};
use crate::units::{BLOCK_BYTES, Bytes, count};

/// Counts of one class of device operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub commands: u64,
    pub bytes: u64,
    /// Aligned 4 KiB of the device that were touched, each time.
    pub units: u64,
}

/// All counts since the volume was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Writes by [`Class`].
    pub written: [Count; 7],
    /// Reads by [`Class`].
    pub read: [Count; 7],
    pub device_flushes: u64,
    /// The writes that were durable on completion, without a flush.
    pub device_fua_writes: u64,
    pub device_discards: u64,
    pub device_discarded_bytes: u64,
    /// The bytes of zeros that were written ahead for the stock of a store in a file; they count as written data, too.
    pub filled_bytes: u64,
    /// 4 KiB units, bytes and requests that clients wrote.
    pub client_units: u64,
    pub client_bytes: u64,
    pub client_writes: u64,
    pub client_read_bytes: u64,
    pub client_reads: u64,
    pub client_flushes: u64,
    pub client_discards: u64,
    /// Client units by their content: duplicates, all zero, new blocks, and unchanged (the LBN held it already).
    pub duplicates: u64,
    pub zeroes: u64,
    pub new_blocks: u64,
    pub unchanged: u64,
    /// The same by the stream that the blocks belong to.
    pub streams: [StreamCounts; STREAMS],
    /// New blocks that were deferred: they got a checksum, and no fingerprint.
    pub deferred: u64,
    /// New blocks of content that the index knows, but in a run that is too short to be linked to.
    pub filtered: u64,
    /// Epochs by what sealed them: the first request that waited (a flush, a FUA request, a request under strong persistence), the timer,
    /// or a lack of memory or space.
    pub epochs_flush: u64,
    pub epochs_fua: u64,
    pub epochs_strong: u64,
    pub epochs_timer: u64,
    pub epochs_pressure: u64,
    /// Duplicates whose block had reached its limit of links.
    pub overflows: u64,
    pub reclaimed_blocks: u64,
    pub cache_hits: u64,
    pub units: Units,
    pub log_epochs: LogEpochs,
}

/// Client units of one stream, by their content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    pub duplicates: u64,
    pub zeroes: u64,
    pub new_blocks: u64,
    pub unchanged: u64,
    /// The containers that were opened for it (`space/containers.rs`).
    pub containers: u64,
}

/// The place that a client's unit got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    Duplicate,
    Zero,
    New,
    Unchanged,
}

/// Writes of clients, as they are counted when they arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientWrites {
    pub requests: u64,
    pub bytes: u64,
    pub units: u64,
}

impl Ledger {
    /// A unit of a stream has its place.
    pub(crate) fn placed(&mut self, stream: Stream, placed: Placed) {
        let of_stream = &mut self.streams[stream.number()];
        let counts = match placed {
            Placed::Duplicate => [&mut self.duplicates, &mut of_stream.duplicates],
            Placed::Zero => [&mut self.zeroes, &mut of_stream.zeroes],
            Placed::New => [&mut self.new_blocks, &mut of_stream.new_blocks],
            Placed::Unchanged => [&mut self.unchanged, &mut of_stream.unchanged],
        };
        counts.into_iter().for_each(|count| *count += 1);
    }

    /// The units that were read from the device.
    pub(crate) fn read_units(&self) -> u64 {
        self.read.iter().map(|count| count.units).sum()
    }

    /// Writes have arrived.
    pub(crate) fn arrived(&mut self, writes: ClientWrites) {
        self.client_writes += writes.requests;
        self.client_bytes += writes.bytes;
        self.client_units += writes.units;
    }

    /// Writes go back to their sender, and will arrive again.
    pub(crate) fn sent_back(&mut self, writes: ClientWrites) {
        self.client_writes -= writes.requests;
        self.client_bytes -= writes.bytes;
        self.client_units -= writes.units;
    }

    /// Counts a write that is durable on completion, if this one is.
    pub(crate) fn wrote_durably(&mut self, is_durable: bool) {
        self.device_fua_writes += u64::from(is_durable);
    }

    /// Counts a flush of the device.
    pub(crate) fn flushed(&mut self) {
        self.device_flushes += 1;
    }

    /// Counts a discard that is sent to the device.
    pub(crate) fn discarded(&mut self, length: Bytes) {
        self.device_discards += 1;
        self.device_discarded_bytes += length.0;
    }

    /// Counts zeros that are written ahead for the stock of a store in a file.
    pub(crate) fn filled(&mut self, length: Bytes) {
        self.wrote(Class::Data, length.0);
        self.filled_bytes += length.0;
    }

    /// Counts a read of a client.
    pub(crate) fn client_read(&mut self, length: Bytes) {
        self.client_reads += 1;
        self.client_read_bytes += length.0;
    }

    /// Counts a flush of a client.
    pub(crate) fn client_flushed(&mut self) {
        self.client_flushes += 1;
    }

    /// Counts a discard of a client, or a request for zeroes.
    pub(crate) fn client_discarded(&mut self) {
        self.client_discards += 1;
    }

    /// Counts a look into the read cache.
    pub(crate) fn looked_in_cache(&mut self, is_hit: bool) {
        self.cache_hits += u64::from(is_hit);
    }

    /// Counts a new block that gets no fingerprint yet.
    pub(crate) fn deferred(&mut self) {
        self.deferred += 1;
    }

    /// Counts a duplicate in a run that is too short to be linked to.
    pub(crate) fn filtered(&mut self) {
        self.filtered += 1;
    }

    /// Counts a duplicate whose block takes no further link.
    pub(crate) fn overflowed(&mut self) {
        self.overflows += 1;
    }

    /// Counts a block whose fingerprint is removed.
    pub(crate) fn reclaimed(&mut self) {
        self.reclaimed_blocks += 1;
    }
}

/// The log's epochs that wrote units, by the content that could lie in these units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEpochs {
    /// Epochs of up to 64 new blocks, at least one of which compresses to [`RIDES_BYTES_MAX`] or less.
    pub riding: EpochCounts,
    /// Epochs of up to 64 new blocks, none of which does, or of no new block.
    pub bare: EpochCounts,
    /// Epochs of more than 64 new blocks.
    pub large: EpochCounts,
    /// Epochs without writes of clients: fingerprints were removed.
    pub removals: EpochCounts,
}

/// A block that compresses to this or less has room in a carrier beside its epoch's records, unless these are many.
pub const RIDES_BYTES_MAX: usize = 3500;

/// Counts of the epochs of one kind, and of what they wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochCounts {
    pub epochs: u64,
    /// Their new blocks, and how many of these lie in slots of their units.
    pub new_blocks: u64,
    pub riders: u64,
    pub plain: u64,
    pub carriers: u64,
    /// Flushes that they waited for, after their content or their units.
    pub flushes: u64,
    /// Epochs that one FUA write made durable, and no flush.
    pub by_fua: u64,
}

/// Counts of the units that epochs of the log were written in, including packs. Units that an opening writes do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Without slots.
    pub plain: u64,
    /// With slots.
    pub carriers: u64,
    /// Slots only, of large epochs.
    pub packs: u64,
    /// Blocks of clients in the slots, and their bytes there.
    pub packed_blocks: u64,
    pub packed_bytes: u64,
    /// Unused bytes of all these units.
    pub padding_bytes: u64,
}

impl Units {
    /// Counts a unit that is filled.
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

    /// The epochs that a request waited for.
    #[must_use]
    pub fn epochs_wanted(&self) -> u64 {
        self.epochs_flush + self.epochs_fua + self.epochs_strong
    }

    /// The number of all epochs.
    #[must_use]
    pub fn epochs(&self) -> u64 {
        self.epochs_wanted() + self.epochs_timer + self.epochs_pressure
    }

    /// The number of all units written to the device.
    #[must_use]
    pub fn device_units(&self) -> u64 {
        self.written.iter().map(|c| c.units).sum()
    }
}
