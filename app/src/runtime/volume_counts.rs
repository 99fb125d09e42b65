//! The counts of a volume since it was attached, as reports show them.

pub use super::scrub_counts::{Found, Scrub};
use super::tally::Count;
use onefold_engine::interface::Class;
use onefold_engine::stats::{Ledger, OutOfLineCounts, Progress, Stats};
use onefold_engine::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

/// The counts of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VolumeCounts {
    pub ledger: Efficiency,
    pub space: Space,
    pub packing: Packing,
    pub dedup: Dedup,
    #[serde(default)]
    pub out_of_line: OutOfLine,
    #[serde(default)]
    pub scrub: Scrub,
    pub commits: Commits,
    /// The generation of the last superblock that is durable.
    #[serde(default)]
    pub saved_generation: u64,
    /// The work that the volume does for its own consistency at this moment.
    pub phase: String,
    /// Nothing is written any more: after a failure of the store, and for other reasons, too. Work that writes does not go on.
    #[serde(default)]
    pub has_failed: bool,
    #[serde(default)]
    pub is_read_only: bool,
    /// The progress of an opening that reads a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<Opening>,
}

/// The progress of the reading of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Opening {
    pub units: u64,
    /// The largest number of units, as far as is known.
    pub units_most: u64,
    pub records: u64,
    /// The number of those records that are on pages already, for want of memory.
    pub records_on_pages: u64,
}

/// Client writes, device writes and the least that would have done, in units of 4 KiB.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Efficiency {
    pub client_units: u64,
    pub device_units: u64,
    /// Each distinct block once, without metadata.
    pub ideal_units: u64,
    pub device_flushes: u64,
    /// The number of writes that replaced a write and a flush.
    pub device_fua_writes: u64,
    pub client_flushes: u64,
}

#[allow(clippy::cast_precision_loss)] // two digits are shown
impl Efficiency {
    /// Returns saved writes ÷ writes that duplicates could save: below 0 where metadata cost more than they saved; none while there were
    /// none.
    #[must_use]
    pub fn efficiency(&self) -> Option<f64> {
        let saved = |units: u64| (self.client_units as f64) - (units as f64);
        (self.client_units > self.ideal_units).then(|| saved(self.device_units) / saved(self.ideal_units))
    }

    /// Returns device ÷ client; none while nothing was written.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        ratio(self.device_units, self.client_units)
    }
}

#[allow(clippy::cast_precision_loss)] // two digits are shown
pub(super) fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

/// Clients' content, and its space.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Saved {
    /// The blocks that clients wrote and can read, each address once, without zeros.
    pub logical_bytes: u64,
    /// The blocks that hold them, with the units of the log that only record.
    pub physical_bytes: u64,
    /// The saved part of the logical bytes; none where there are none, below 0 where they take more than their size.
    pub percent: Option<f64>,
}

impl Saved {
    /// Returns the savings for these numbers of blocks.
    #[must_use]
    pub fn of(logical_blocks: u64, physical_blocks: u64) -> Self {
        let percent = ratio(physical_blocks, logical_blocks).map(|share| 100.0 * (1.0 - share));
        Self { logical_bytes: logical_blocks * BLOCK_BYTES, physical_bytes: physical_blocks * BLOCK_BYTES, percent }
    }
}

/// Returns the number of blocks for new content: those that are free or kept for their fingerprint alone, less the reserve.
#[must_use]
pub const fn available_blocks(idle_blocks: u64, reserve_blocks: u64) -> u64 {
    idle_blocks.saturating_sub(reserve_blocks)
}

/// The use of the data blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Space {
    pub data_blocks: u64,
    pub logical_blocks: u64,
    pub reserve_blocks: u64,
    /// Blocks with one link from the map.
    pub unique_blocks: u64,
    /// Blocks with several links.
    pub shared_blocks: u64,
    /// Blocks that are kept for their fingerprint alone.
    pub kept_blocks: u64,
    pub free_blocks: u64,
    /// Blocks of clients' content, each LBN once, without zeros; none where it is not known.
    pub mapped_blocks: Option<u64>,
    /// Blocks that clients have overwritten or discarded, durably, and that are still counted in these: of the mapped ones, and of the
    /// unique and shared ones that nothing else holds. A later commit subtracts them.
    pub unmapped_blocks: u64,
    pub freed_blocks: u64,
    /// Units without slots that the log keeps, and blocks that it keeps for coming units; none where there is no log.
    pub log_unit_blocks: Option<u64>,
    pub log_place_blocks: Option<u64>,
    /// Units that an opening after a crash would read: those of the log scan, and compacted ones; none where there is no log.
    pub log_scan_units: Option<u64>,
    pub log_compacted_units: Option<u64>,
    /// Blocks with slots, carriers and packs, counted among unique, shared and kept ones; none where it is not known.
    pub carrier_blocks: Option<u64>,
    /// Blocks that clients' content would take if no slot held any of it, at least and at most; none where it is not known.
    pub unpacked_blocks: Option<(u64, u64)>,
    /// False while the blocks are still being counted: then the four above are lower bounds.
    pub is_complete: bool,
    pub garbage_possible: bool,
    pub recount_running: bool,
    /// Garbage that a recount gave back.
    pub recounted_blocks: u64,
    pub reclaimed_blocks: u64,
    pub discarded_bytes: u64,
}

/// The units in which the log's epochs were written since the volume was attached.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Packing {
    pub plain_units: u64,
    /// Units with slots.
    pub carrier_units: u64,
    /// Units with slots only, of large epochs.
    pub packs: u64,
    /// Blocks in slots, and their compressed bytes.
    pub packed_blocks: u64,
    pub packed_bytes: u64,
    /// The unused bytes of all these units.
    pub padding_bytes: u64,
}

/// The results of the blocks that clients wrote.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dedup {
    pub duplicates: u64,
    pub zeroes: u64,
    pub unchanged: u64,
    pub new_blocks: u64,
    /// New blocks of content that is stored already, in a run shorter than `--min-run`.
    #[serde(default)]
    pub filtered: u64,
    /// New blocks whose content had reached its limit of links.
    pub overflows: u64,
    /// New blocks that were deferred.
    #[serde(default)]
    pub deferred: u64,
    pub index_entries: u64,
    pub index_capacity: u64,
    /// Places of content that was read, and may be written again; the room for them; and blocks that were found by them.
    #[serde(default)]
    pub prefetched_entries: u64,
    #[serde(default)]
    pub prefetched_capacity: u64,
    #[serde(default)]
    pub prefetched_hits: u64,
    pub read_cache_hits: u64,
}

impl Dedup {
    fn of(stats: &Stats) -> Self {
        let ledger = &stats.ledger;
        Self {
            duplicates: ledger.duplicates,
            zeroes: ledger.zeroes,
            unchanged: ledger.unchanged,
            new_blocks: ledger.new_blocks,
            filtered: ledger.filtered,
            overflows: ledger.overflows,
            deferred: ledger.deferred,
            index_entries: stats.index_entries,
            index_capacity: stats.index_capacity,
            prefetched_entries: stats.prefetched.entries,
            prefetched_capacity: stats.prefetched.capacity,
            prefetched_hits: stats.prefetched.hits,
            read_cache_hits: ledger.cache_hits,
        }
    }
}

/// The work out of line: looking for duplicates that the index did not find when they were written. Counts of LBNs are of blocks of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfLine {
    /// False where nothing is done out of line: with `--verify-duplicates`, and read-only.
    pub is_on: bool,
    pub is_paused: bool,
    /// The skipped buffer: LBNs with a fingerprint, without one, and ranges, with the room for each.
    pub skipped_with_fingerprint: u64,
    pub skipped_with_fingerprint_max: u64,
    pub skipped_without: u64,
    pub skipped_without_max: u64,
    pub skipped_ranges: u64,
    pub skipped_ranges_max: u64,
    /// All LBNs that are still to be looked up: skipped, taken from the buffer, and asked for.
    pub waiting_lbns: u64,
    /// LBNs that were set aside on free blocks until there are enough of them for one pass over the fingerprint table, and these blocks.
    #[serde(default)]
    pub set_aside_lbns: u64,
    #[serde(default)]
    pub set_aside_blocks: u64,
    /// LBNs that are being looked up now; and the pages of the fingerprint table that they were compared with, of all its pages.
    pub looked_up_now: u64,
    pub swept_pages: u64,
    pub pages: u64,
    /// LBNs that were looked up since the volume was attached, and those that were linked to another block.
    pub looked_up: u64,
    pub linked: u64,
    /// The units of 4 KiB that were read for that.
    #[serde(default)]
    pub read_units: u64,
}

impl OutOfLine {
    fn of(counts: &OutOfLineCounts) -> Self {
        let skipped = &counts.skipped;
        Self {
            is_on: counts.is_on,
            is_paused: counts.is_paused,
            skipped_with_fingerprint: skipped.named.used,
            skipped_with_fingerprint_max: skipped.named.room,
            skipped_without: skipped.unnamed.used,
            skipped_without_max: skipped.unnamed.room,
            skipped_ranges: skipped.ranges.used,
            skipped_ranges_max: skipped.ranges.room,
            waiting_lbns: counts.waiting_lbns(),
            set_aside_lbns: counts.aside_lbns,
            set_aside_blocks: counts.aside_blocks,
            looked_up_now: counts.candidates,
            swept_pages: counts.swept_pages,
            pages: counts.pages,
            looked_up: counts.looked_up,
            linked: counts.linked,
            read_units: counts.read_units,
        }
    }

    /// Returns whether nothing waits to be looked up, but for what was skipped lately.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.waiting_lbns == self.skipped_with_fingerprint && self.looked_up_now == 0
    }
}

/// Epochs by what sealed them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Commits {
    pub wanted: u64,
    pub timer: u64,
    pub pressure: u64,
}

impl VolumeCounts {
    /// Returns the space of clients' content, where all blocks are counted.
    #[must_use]
    pub fn saved(&self) -> Option<Saved> {
        let space = &self.space;
        let data = (space.unique_blocks + space.shared_blocks).saturating_sub(space.freed_blocks);
        let used = data + space.log_unit_blocks.unwrap_or(0);
        space.mapped_blocks.filter(|_| space.is_complete).map(|mapped| Saved::of(mapped.saturating_sub(space.unmapped_blocks), used))
    }

    /// Returns the space left for new content, as far as is counted.
    #[must_use]
    pub fn available_bytes(&self) -> u64 {
        let space = &self.space;
        available_blocks(space.free_blocks + space.kept_blocks + space.freed_blocks, space.reserve_blocks) * BLOCK_BYTES
    }

    /// Converts the engine's counts.
    #[must_use]
    pub fn of(stats: &Stats, recounted_blocks: u64) -> Self {
        let ledger = &stats.ledger;
        Self {
            ledger: Efficiency {
                client_units: ledger.client_units,
                device_units: ledger.device_units(),
                ideal_units: ledger.new_blocks - ledger.filtered,
                device_flushes: ledger.device_flushes,
                device_fua_writes: ledger.device_fua_writes,
                client_flushes: ledger.client_flushes,
            },
            space: Space {
                data_blocks: stats.data_blocks,
                logical_blocks: stats.logical_blocks,
                reserve_blocks: stats.reserve_blocks,
                unique_blocks: stats.unique_blocks,
                shared_blocks: stats.shared_blocks,
                kept_blocks: stats.kept_blocks,
                free_blocks: stats.free_blocks,
                mapped_blocks: stats.map_links,
                unmapped_blocks: stats.gone.links,
                freed_blocks: stats.gone.blocks,
                log_unit_blocks: stats.log.map(|log| log.plain),
                log_place_blocks: stats.log.map(|log| log.places),
                log_scan_units: stats.log.map(|log| log.to_scan),
                log_compacted_units: stats.log.map(|log| log.compacted),
                carrier_blocks: if stats.has_slots { stats.carriers } else { Some(0) },
                unpacked_blocks: stats.unpacked.map(|blocks| (blocks.least, blocks.most)),
                is_complete: stats.free_complete,
                garbage_possible: stats.garbage_possible,
                recount_running: stats.recount_running,
                recounted_blocks,
                reclaimed_blocks: ledger.reclaimed_blocks,
                discarded_bytes: ledger.device_discarded_bytes,
            },
            packing: Packing {
                plain_units: ledger.units.plain,
                carrier_units: ledger.units.carriers,
                packs: ledger.units.packs,
                packed_blocks: ledger.units.packed_blocks,
                packed_bytes: ledger.units.packed_bytes,
                padding_bytes: ledger.units.padding_bytes,
            },
            dedup: Dedup::of(stats),
            out_of_line: OutOfLine::of(&stats.out_of_line),
            scrub: Scrub::of(&stats.scrub, stats.data_blocks.saturating_sub(stats.free_blocks)),
            commits: Commits { wanted: ledger.epochs_wanted(), timer: ledger.epochs_timer, pressure: ledger.epochs_pressure },
            saved_generation: stats.saved_generation,
            phase: stats.phase.to_owned(),
            has_failed: stats.failed,
            is_read_only: stats.read_only,
            opening: stats.opening.map(|Progress { units, units_most, records, records_on_pages }| Opening {
                units,
                units_most,
                records,
                records_on_pages,
            }),
        }
    }
}

/// Returns the commands to the device, by class.
#[must_use]
pub fn device(ledger: &Ledger) -> Vec<Count> {
    let lines = |counts: &[onefold_engine::stats::Count], verb: &str| -> Vec<Count> {
        let line = |(class, count): (&Class, &onefold_engine::stats::Count)| Count {
            what: format!("{verb} {}", name(*class)),
            operations: count.commands,
            bytes: count.bytes,
        };
        Class::ALL.iter().zip(counts).map(line).collect()
    };
    let mut counts = lines(&ledger.written, "write");
    counts.extend(lines(&ledger.read, "read"));
    counts.push(Count { what: "flush".to_owned(), operations: ledger.device_flushes, bytes: 0 });
    counts.push(Count { what: "discard".to_owned(), operations: ledger.device_discards, bytes: ledger.device_discarded_bytes });
    counts
}

/// Returns the fill level of a volume, where that has been counted.
#[must_use]
pub fn used_percent(stats: &Stats) -> Option<u64> {
    let used = stats.data_blocks.saturating_sub(stats.free_blocks + stats.kept_blocks + stats.gone.blocks);
    stats.free_complete.then(|| used * 100 / stats.data_blocks.max(1))
}

/// Returns the class in reports.
#[must_use]
pub const fn name(class: Class) -> &'static str {
    match class {
        Class::Data => "data",
        Class::Refs => "refs",
        Class::Map => "map",
        Class::Fingerprints => "fingerprints",
        Class::Written => "written",
        Class::Superblock => "superblock",
        Class::Log => "log",
    }
}
