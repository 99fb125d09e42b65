//! `stats`: shows what a volume did and what it holds.

mod content;
mod prometheus;
mod scrape;

use crate::attachment::find::{Found, find};
use crate::attachment::questions;
use crate::attachment::record::Record;
use crate::device::bottom::{DiskCounts, DiskWork};
use crate::exit::{Exit, Failed, Outcome};
use crate::output::percent::Percent;
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{self, Report, Style, Watch};
use crate::runtime::extents::ExtentCounts;
use crate::runtime::layouts::Protection;
use crate::runtime::lived::Lived;
use crate::runtime::streams::StreamUnits;
use crate::runtime::tally::Count;
use crate::runtime::volume_counts::{Dedup, Efficiency, Saved, Space, VolumeCounts};
use content::Stats;
use onefold_engine::settings::LEDGER_UNITS_MAX;
use onefold_engine::units::BLOCK_BYTES;
use std::path::PathBuf;

/// Show what a volume saved, what it did, and what it holds
///
/// For a volume that is not attached: what its superblock and its counts of links hold.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached. With --prometheus alone: all attached volumes.
    #[arg(required_unless_present = "prometheus")]
    volume: Option<String>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Print it as text for Prometheus, once.
    #[arg(long, conflicts_with_all = ["json", "seconds"])]
    prometheus: bool,
    /// Answer Prometheus' scrapes on this unix socket, at /metrics, until a signal ends it.
    #[arg(long, value_name = "SOCKET", requires = "prometheus")]
    listen: Option<PathBuf>,
    /// Count the extents, too: the runs of data that lie together on the device. It reads the whole map.
    #[arg(long, conflicts_with = "prometheus")]
    extents: bool,
    /// Show the blocks of each stream, too: who they came from, by the rules of `hint add --stream`.
    #[arg(long, conflicts_with = "prometheus")]
    by_stream: bool,
    #[command(flatten)]
    watch: Watch,
}

impl Report for Stats {
    const NAME: &'static str = "stats";

    fn table(&self) -> Table {
        let row = |c: &Count| vec![c.what.clone(), c.operations.to_string(), Size(c.bytes).to_string()];
        let rows = |counts: &[Count]| counts.iter().filter(|c| c.operations > 0).map(row).collect::<Vec<_>>();
        let mut table = Table::new();
        if !self.passthrough {
            table = table.row("saved", self.saved()).row("available", self.available());
        }
        table = table
            .row_if("since creation", self.counts.lifetime.as_ref().map(since_creation))
            .row("backing store", self.path.display())
            .row_if("slowed", self.slowed.as_ref().map(super::status::slowed));
        table = table.row_if("disk wrote", self.disk.as_ref().map(disk));
        if let Some(volume) = &self.counts.volume {
            table = summary(table, volume);
        }
        table = table
            .row_if("observed", self.counts.hints.as_ref().map(|hints| super::hint::observed(&hints.observer)))
            .row_if("protected", self.counts.protection.as_ref().and_then(protected));
        table = table.row_if("extents", self.extents.as_ref().map(extents));
        if !self.attached {
            return table.line("It is not attached: what a server counts, this cannot tell.");
        }
        if self.is_by_stream {
            table = table
                .line("")
                .grid(&["stream", "written", "new", "found", "containers"], self.counts.streams.iter().map(stream_row).collect());
        }
        table = table.line("").grid(&["clients", "requests", "bytes"], rows(&self.counts.client));
        table = table.line("").grid(&["device", "commands", "bytes"], rows(&self.counts.device));
        super::status::memory(table, &self.memory)
    }
}

impl Stats {
    fn saved(&self) -> String {
        match &self.saved {
            Some(Saved { logical_bytes, physical_bytes, percent: Some(percent) }) => {
                format!("{} ({} of clients' blocks : {} that hold them)", Percent(*percent), Size(*logical_bytes), Size(*physical_bytes))
            }
            Some(Saved { percent: None, .. }) => "nothing is stored".to_owned(),
            None => format!("not known: {}", self.unknown),
        }
    }

    fn available(&self) -> String {
        self.available_bytes.map_or_else(|| format!("not known: {}", self.unknown), |bytes| format!("{} for new content", Size(bytes)))
    }
}

fn stream_row(of: &StreamUnits) -> Vec<String> {
    let blocks = |units: u64| Size(units * BLOCK_BYTES).to_string();
    let found = of.found_percent().map_or_else(|| "-".to_owned(), |percent| Percent(percent).to_string());
    vec![of.stream.clone(), blocks(of.client_units), blocks(of.new_blocks), found, of.containers.to_string()]
}

/// Says in a line what the disks below the store have written.
pub(super) fn disk(work: &DiskWork) -> String {
    match (work.all(), &work.unknown) {
        (Some(DiskCounts { written_bytes, flushes }), _) => {
            format!("{}, and {flushes} flushes: {}, with the writes of others on it", Size(written_bytes), work.names())
        }
        (None, unknown) => format!("not known: {}", unknown.as_deref().unwrap_or_default()),
    }
}

/// Says in a line what is kept apart for file systems; none where there is nothing.
fn protected(protection: &Protection) -> Option<String> {
    let Protection { file_systems, blocks, left_out } = protection;
    let kinds: Vec<&str> = file_systems.iter().map(|found| found.kind.as_str()).collect();
    let left_out = if *left_out > 0 { format!(", and {left_out} more that it has no room for") } else { String::new() };
    (*blocks > 0).then(|| format!("{blocks} blocks that {} keeps twice on purpose{left_out}", kinds.join(", ")))
}

/// Returns the lifetime ledger in a line.
fn since_creation(lived: &Lived) -> String {
    let units = |n: u64| Size(n.saturating_mul(BLOCK_BYTES));
    let ratio = lived.write_ratio.map_or_else(String::new, |ratio| format!(": write ratio {ratio:.2}"));
    format!(
        "{} from clients, {} to the store{ratio} (each kill may have taken about the last {} of clients)",
        units(lived.client_units),
        units(lived.device_units),
        units(LEDGER_UNITS_MAX)
    )
}

/// Describes shared blocks. Several links are duplicates, or neighbours in one block with slots; the counts do not always show which.
fn shared(space: &Space) -> String {
    let blocks = |n: u64| Size(n * BLOCK_BYTES);
    let shared = blocks(space.shared_blocks);
    match space.carrier_blocks {
        Some(0) => format!("{shared} shared by duplicates"),
        Some(carriers) => {
            let packed = carriers.min(space.shared_blocks);
            let whole = space.shared_blocks - packed;
            format!("{shared} shared (at least {} by duplicates, up to {} by blocks compressed together)", blocks(whole), blocks(packed))
        }
        None => format!("{shared} shared (by duplicates, or by blocks compressed together: not known yet)"),
    }
}

fn summary(table: Table, volume: &VolumeCounts) -> Table {
    let blocks = |n: u64| Size(n * BLOCK_BYTES);
    let (ledger, space, dedup) = (&volume.ledger, &volume.space, &volume.dedup);
    let ratio = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
    let fua = match ledger.device_fua_writes {
        0 => String::new(),
        writes => format!(", and {writes} writes with FUA"),
    };
    let counting = if space.is_complete { "" } else { " (still counting)" };
    let mut table = table
        .row("client wrote", format!("{} ({} blocks)", blocks(ledger.client_units), ledger.client_units))
        .row("store got", format!("{} in blocks of 4 KiB, {} a client block", blocks(ledger.device_units), ratio(ledger.amplification())))
        .row("ideal", format!("{}: each distinct block once", blocks(ledger.ideal_units)))
        .row("efficiency", efficiency(ledger))
        .row("flushes", format!("{} of clients, {} of the device{fua}", ledger.client_flushes, ledger.device_flushes))
        .row("found", found(dedup))
        .row("index", format!("{} of {} entries", dedup.index_entries, dedup.index_capacity))
        .row("out of line", super::dedup::in_a_line(&volume.out_of_line))
        .row("scrub", super::scrub::in_a_line(&volume.scrub))
        .row(
            "space",
            format!(
                "{} unique, {}, {} free, {} free that still hold old content to be found again{counting}",
                blocks(space.unique_blocks),
                shared(space),
                blocks(space.free_blocks),
                blocks(space.kept_blocks)
            ),
        );
    if let (Some(units), Some(places)) = (space.log_unit_blocks, space.log_place_blocks) {
        table = table.row("log keeps", format!("{} in plain units, {} in places of coming ones", blocks(units), blocks(places)));
    }
    if let (Some(to_scan), Some(compacted)) = (space.log_scan_units, space.log_compacted_units) {
        table = table.row("after a crash", format!("{to_scan} units of the log to read, and {compacted} compacted ones"));
    }
    table = packed(table, volume);
    match (space.garbage_possible, space.recount_running) {
        (true, true) => table.row("garbage", "possible; being recounted"),
        (true, false) => table.row("garbage", "possible"),
        _ => table,
    }
}

/// Asks for the extents, too. Without a volume every store is one extent.
fn with_extents(record: &Record) -> Outcome<Stats> {
    if record.is_passthrough {
        let message = format!("--extents: {} is attached with --passthrough, without a volume", record.path.display());
        return Err(Failed::new(Exit::State, message).next("Only the data of a volume has extents."));
    }
    Ok(Stats { extents: Some(questions::extents(record)?), ..Stats::of_attached(record)? })
}

/// Says in a line how far data is broken up.
fn extents(counts: &ExtentCounts) -> String {
    let ExtentCounts { extents, data_bytes, damaged_bytes, .. } = counts;
    let mean = data_bytes.checked_div(*extents).map(|bytes| format!(", of {} in the mean", Size(bytes)));
    let damaged = (*damaged_bytes > 0).then(|| format!("; {} cannot be read", Size(*damaged_bytes)));
    format!("{extents}{}{}", mean.unwrap_or_default(), damaged.unwrap_or_default())
}

/// Describes the results of the blocks that clients wrote.
pub(super) fn found(dedup: &Dedup) -> String {
    let Dedup { duplicates, zeroes, unchanged, new_blocks, filtered, deferred, .. } = dedup;
    let of_these = |blocks: &u64, what: &str| if *blocks > 0 { format!(", {blocks} of them {what}") } else { String::new() };
    let (filtered, deferred) = (of_these(filtered, "filtered"), of_these(deferred, "deferred"));
    format!("{duplicates} duplicates, {zeroes} zero, {unchanged} unchanged, {new_blocks} new{filtered}{deferred}")
}

fn efficiency(ledger: &Efficiency) -> String {
    match ledger.efficiency() {
        None => "- (no duplicates were found)".to_owned(),
        Some(share) if share < 0.0 => {
            let more = Size((ledger.device_units - ledger.client_units) * BLOCK_BYTES);
            format!("none: the store got {more} more than clients wrote, for metadata")
        }
        Some(share) if share > 1.0 => {
            let (duplicates, saved) = (ledger.client_units - ledger.ideal_units, ledger.client_units - ledger.device_units);
            let [duplicates, packed] = [duplicates, saved - duplicates].map(|units| Size(units * BLOCK_BYTES));
            format!("all of {duplicates} that the duplicates found could save, and {packed} more by compressing")
        }
        Some(share) => format!("{} of the writes that the duplicates found could save", Percent(100.0 * share)),
    }
}

/// Adds rows about the content of slots, where there may be any.
fn packed(mut table: Table, volume: &VolumeCounts) -> Table {
    let (packing, space) = (&volume.packing, &volume.space);
    if packing.plain_units + packing.carrier_units + packing.packs > 0 {
        let units = format!("{} plain units, {} carriers, {} packs", packing.plain_units, packing.carrier_units, packing.packs);
        table = table
            .row("log wrote", format!("{units}; {} of them padding", Size(packing.padding_bytes)))
            .row("packed", format!("{} blocks into carriers and packs, to {}", packing.packed_blocks, Size(packing.packed_bytes)));
    }
    let unknown = || "not known yet".to_owned();
    if space.carrier_blocks == Some(0) {
        return table;
    }
    let unpacked = space.unpacked_blocks.map(|(least, most)| format!("{least} to {most} blocks, of {}", space.data_blocks));
    table
        .row(
            "compressed",
            space.carrier_blocks.map_or_else(unknown, |blocks| format!("{blocks} blocks hold several of clients' blocks each")),
        )
        .row("uncompressed", unpacked.map_or_else(unknown, |blocks| format!("would take {blocks}")))
}

/// Shows.
///
/// # Errors
/// When there is no such volume, or its server does not answer.
pub fn run(arguments: &Arguments) -> Outcome {
    let Arguments { volume, json, listen, watch, .. } = arguments;
    match (volume, listen) {
        (name, Some(socket)) => scrape::listen(socket, name.as_deref()),
        (Some(name), None) if !arguments.prometheus => watch.report(Style::of(*json), || {
            let Found { path, attached } = find(name)?;
            match attached {
                Some(record) if arguments.extents => with_extents(&record),
                Some(record) => Stats::of_attached(&record).map(|stats| Stats { is_by_stream: arguments.by_stream, ..stats }),
                None if arguments.extents => Err(Failed::new(Exit::NotFound, format!("{} is not attached", path.display()))
                    .next(format!("`onefold check {}` counts the extents of a volume that nobody serves.", path.display()))),
                None if arguments.by_stream => Err(Failed::new(Exit::NotFound, format!("{} is not attached", path.display()))
                    .next("A server counts streams since it began.")),
                None => Stats::of_detached(&path),
            }
        }),
        (name, None) => {
            output::say(&scrape::text(name.as_deref())?);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_efficiency_is_below_0_or_above_100_per_cent() {
        let of = |device_units, ideal_units| Efficiency { client_units: 100, device_units, ideal_units, ..Efficiency::default() };
        assert_eq!(efficiency(&of(75, 50)), "50 % of the writes that the duplicates found could save");
        assert_eq!(efficiency(&of(25, 50)), "all of 200 KiB that the duplicates found could save, and 100 KiB more by compressing");
        assert_eq!(efficiency(&of(58, 99)), "all of 4 KiB that the duplicates found could save, and 164 KiB more by compressing");
        assert_eq!(efficiency(&of(150, 99)), "none: the store got 200 KiB more than clients wrote, for metadata");
        assert_eq!(efficiency(&of(150, 100)), "- (no duplicates were found)");
    }
}
