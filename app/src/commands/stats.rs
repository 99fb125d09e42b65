//! `stats`: what an attached volume did.

use super::attached;
use crate::device::Slowed;
use crate::exit::{Failed, Outcome};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, Watch};
use crate::runtime::condition::{Condition, Count, Counts, PartUse};
use crate::runtime::volume_counts::{VolumeCounts, name};
use crate::server::control::{self, Ask};
use crate::server::directory::run_directory;
use crate::server::record::{Places, Record};
use crate::volume;
use onefold_engine::format::Lifetime;
use onefold_engine::interface::Class;
use onefold_engine::units::BLOCK_BYTES;
use serde::Serialize;
use std::path::PathBuf;

/// Show what an attached volume did
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    volume: String,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    watch: Watch,
}

#[derive(Debug, Serialize)]
struct Stats {
    path: PathBuf,
    passthrough: bool,
    /// Since it was attached.
    #[serde(flatten)]
    counts: Counts,
    /// The backing store is slowed to the pace of a model: no times here are the store's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    slowed: Option<Slowed>,
    memory: Vec<PartUse>,
    /// Since it was created; what a server counted that was killed is not in it.
    lifetime: Option<Lived>,
}

/// The lifetime ledger, in units of 4 KiB.
#[derive(Debug, Serialize)]
struct Lived {
    client_units: u64,
    device_units: u64,
    device_flushes: u64,
    classes: Vec<LivedClass>,
}

#[derive(Debug, Serialize)]
struct LivedClass {
    class: &'static str,
    units: u64,
    bytes: u64,
    commands: u64,
}

impl Lived {
    fn of(lifetime: &Lifetime) -> Self {
        let classes = Class::ALL.iter().zip(&lifetime.classes);
        Self {
            client_units: lifetime.client_write_units,
            device_units: lifetime.classes.iter().fold(0, |sum, class| sum.saturating_add(class.units)),
            device_flushes: lifetime.device_flushes,
            classes: classes
                .map(|(class, c)| LivedClass { class: name(*class), units: c.units, bytes: c.bytes, commands: c.commands })
                .collect(),
        }
    }
}

impl Lived {
    /// With what was counted since the volume was attached, which the superblock gets at its close.
    fn and(mut self, volume: &VolumeCounts, device: &[Count]) -> Self {
        self.client_units = self.client_units.saturating_add(volume.ledger.client_units);
        self.device_units = self.device_units.saturating_add(volume.ledger.device_units);
        self.device_flushes = self.device_flushes.saturating_add(volume.ledger.device_flushes);
        for lived in &mut self.classes {
            let what = format!("write {}", lived.class);
            if let Some(count) = device.iter().find(|count| count.what == what) {
                lived.units = lived.units.saturating_add(count.bytes.div_ceil(BLOCK_BYTES));
                lived.bytes = lived.bytes.saturating_add(count.bytes);
                lived.commands = lived.commands.saturating_add(count.operations);
            }
        }
        self
    }
}

impl Report for Stats {
    const NAME: &'static str = "stats";

    fn table(&self) -> Table {
        let row = |c: &Count| vec![c.what.clone(), c.operations.to_string(), Size(c.bytes).to_string()];
        let rows = |counts: &[Count]| counts.iter().filter(|c| c.operations > 0).map(row).collect::<Vec<_>>();
        let mut table =
            Table::new().row("backing store", self.path.display()).row_if("slowed", self.slowed.as_ref().map(super::status::slowed));
        if let Some(volume) = &self.counts.volume {
            table = summary(table, volume);
        }
        if let Some(lived) = &self.lifetime {
            let units = |n| Size(n * BLOCK_BYTES);
            table = table
                .row("since creation", format!("{} from clients, {} to the device", units(lived.client_units), units(lived.device_units)));
        }
        table = table.line("").grid(&["clients", "requests", "bytes"], rows(&self.counts.client));
        table = table.line("").grid(&["device", "commands", "bytes"], rows(&self.counts.device));
        let part = |p: &PartUse| {
            vec![p.part.clone(), Size(p.used_bytes).to_string(), Size(p.peak_bytes).to_string(), Size(p.limit_bytes).to_string()]
        };
        table.line("").grid(&["memory", "used", "peak", "limit"], self.memory.iter().map(part).collect())
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
        .row(
            "device wrote",
            format!("{} in blocks of 4 KiB, {} a client block", blocks(ledger.device_units), ratio(ledger.amplification())),
        )
        .row("ideal", format!("{}: each distinct block once", blocks(ledger.ideal_units)))
        .row("efficiency", ratio(ledger.efficiency()))
        .row("flushes", format!("{} of clients, {} of the device{fua}", ledger.client_flushes, ledger.device_flushes))
        .row(
            "found",
            format!("{} duplicates, {} zero, {} unchanged, {} new", dedup.duplicates, dedup.zeroes, dedup.unchanged, dedup.new_blocks),
        )
        .row("index", format!("{} of {} entries", dedup.index_entries, dedup.index_capacity))
        .row(
            "space",
            format!(
                "{} unique, {} shared, {} kept, {} free{counting}",
                blocks(space.unique_blocks),
                blocks(space.shared_blocks),
                blocks(space.kept_blocks),
                blocks(space.free_blocks)
            ),
        );
    if let (Some(units), Some(places)) = (space.log_unit_blocks, space.log_place_blocks) {
        table = table.row("log keeps", format!("{} in plain units, {} in places of coming ones", blocks(units), blocks(places)));
    }
    if let (Some(walk), Some(condensed)) = (space.log_walk_units, space.log_condensed_units) {
        table = table.row("after a crash", format!("{walk} units of the log to read, and {condensed} condensed ones"));
    }
    table = packed(table, volume);
    match (space.garbage_possible, space.recount_running) {
        (true, true) => table.row("garbage", "possible; being recounted"),
        (true, false) => table.row("garbage", "possible"),
        _ => table,
    }
}

/// What lies in slots, where anything may.
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
        .row("with slots", space.carrier_blocks.map_or_else(unknown, |blocks| format!("{blocks}, among unique, shared and kept blocks")))
        .row("dead slots", "not known: only the map says which slots are linked to")
        .row("if not packed", unpacked.unwrap_or_else(unknown))
}

/// Shows.
///
/// # Errors
/// When it is not attached, or its server does not answer.
pub fn run(arguments: &Arguments) -> Outcome {
    let record = attached(&arguments.volume)?;
    arguments.watch.report(Style::of(arguments.json), || stats(&record))
}

fn stats(record: &Record) -> Outcome<Stats> {
    let control = Places::of(&run_directory()?, &record.id).control;
    let strange = |e| Failed::system("the server speaks another language", e);
    let counts: Counts = serde_json::from_value(control::ask(&control, &Ask::Stats)?).map_err(strange)?;
    let condition: Condition = serde_json::from_value(control::ask(&control, &Ask::Status)?).map_err(strange)?;
    let superblock = if record.is_passthrough { None } else { volume::peek(&record.path).ok().map(|chosen| chosen.superblock) };
    let lifetime =
        superblock.map(|s| Lived::of(&s.lifetime)).zip(counts.volume.as_ref()).map(|(lived, volume)| lived.and(volume, &counts.device));
    let Condition { slowed, memory, .. } = condition;
    Ok(Stats { path: record.path.clone(), passthrough: record.is_passthrough, counts, slowed, memory, lifetime })
}
