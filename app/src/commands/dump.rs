//! `dump`: shows what is on the medium: the superblock, or the story of one block.

mod story;
mod unit;

use crate::attachment::find::find;
use crate::device::backing::{Access, Backing, PATIENCE};
use crate::exit::Outcome;
use crate::heartbeat::look_first;
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use crate::runtime::scrub_counts;
use crate::volume;
use onefold_engine::format::{Chosen, CopyState, LogTail, Places, Superblock};
use onefold_engine::units::{Lbn, Pbn};
use serde::Serialize;
use std::fmt;
use story::Reader;
use uuid::Uuid;

/// Show what is on the medium of a volume that is not attached
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label or UUID.
    volume: String,
    /// The story of a logical block: where its map entry is, and what it leads to.
    #[arg(long, value_name = "NUMBER", conflicts_with = "pbn")]
    lbn: Option<u64>,
    /// The story of a physical block: its count, its fingerprint, and every logical block that maps to it.
    #[arg(long, value_name = "NUMBER")]
    pbn: Option<u64>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Whole {
    uuid: String,
    /// The UUID that its pages have, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    made_as: Option<String>,
    label: String,
    /// The states of the four copies.
    copies: Vec<String>,
    generation: u64,
    incarnation: u64,
    mount_count: u64,
    clean: bool,
    garbage_possible: bool,
    last_epoch: u64,
    recount_position: u64,
    /// The scrub that is under way or paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    scrub: Option<String>,
    allocation_cursor: u64,
    algorithm: &'static str,
    commit_mode: String,
    persistence: String,
    sector_bytes: u32,
    features: [u64; 3],
    logical_blocks: u64,
    data_blocks: u64,
    reserve_blocks: u64,
    device_bytes: u64,
    extents: Vec<Extent>,
    /// The first LBN and the number of blocks.
    protected: Vec<(u64, u32)>,
    /// Whether the log may hold changes that no page has.
    log_live: bool,
    /// The start of the log scan; none where no log was ever begun.
    anchor: Option<LogScanStart>,
}

/// The start of the log scan.
#[derive(Debug, Serialize)]
struct LogScanStart {
    /// The sequence number of the next unit.
    sequence: u64,
    incarnation: u64,
    epoch: u64,
    flushed_upto: u64,
    /// The first PBN and the number of blocks, in the order in which units fill them.
    places: Vec<(u64, u8)>,
    /// The last unit before those that were compacted, and the places of the copies.
    compacted_since: u64,
    compacted: Vec<(u64, u8)>,
}

impl LogScanStart {
    fn of(log_tail: &LogTail) -> Self {
        let runs = |places: &[Places]| places.iter().map(|run| (run.first.get(), run.blocks)).collect();
        Self {
            sequence: log_tail.sequence,
            incarnation: log_tail.incarnation,
            epoch: log_tail.epoch.get(),
            flushed_upto: log_tail.flushed_upto,
            places: runs(&log_tail.places),
            compacted_since: log_tail.compacted.since,
            compacted: runs(&log_tail.compacted.places),
        }
    }
}

impl fmt::Display for LogScanStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequence, incarnation, epoch, flushed_upto, places, compacted_since, compacted } = self;
        write!(f, "unit {sequence}, behind incarnation {incarnation}, epoch {epoch}, flushed up to unit {flushed_upto}; places")?;
        places.iter().try_for_each(|(first, blocks)| write!(f, " {first}+{blocks}"))?;
        if !compacted.is_empty() {
            write!(f, "; units behind {compacted_since} are compacted at")?;
        }
        compacted.iter().try_for_each(|(first, blocks)| write!(f, " {first}+{blocks}"))
    }
}

#[derive(Debug, Serialize)]
struct Extent {
    region: &'static str,
    first_entry: u64,
    at: u64,
    bytes: u64,
}

impl Whole {
    fn of(chosen: &Chosen) -> Self {
        let s: &Superblock = &chosen.superblock;
        let copy = |state: &CopyState| match state {
            CopyState::Sound { generation } => format!("sound, generation {generation}"),
            CopyState::Foreign { uuid } => format!("of another volume, {}", Uuid::from_bytes(*uuid)),
            CopyState::Unreadable => "cannot be read".to_owned(),
            CopyState::Elsewhere { device_bytes } => format!("of a volume of {device_bytes} bytes"),
            CopyState::Bad(error) => error.to_string(),
        };
        let extents = s.geometry.extents.iter();
        Self {
            uuid: Uuid::from_bytes(s.uuid).to_string(),
            made_as: s.has_other_uuid().then(|| Uuid::from_bytes(s.origin).to_string()),
            label: s.label.clone(),
            copies: chosen.states.iter().map(copy).collect(),
            generation: s.generation,
            incarnation: s.incarnation,
            mount_count: s.mount_count,
            clean: s.clean,
            garbage_possible: s.garbage_possible,
            last_epoch: s.last_epoch.get(),
            recount_position: s.recount_position.get(),
            scrub: s.scrub.map(|scrub| {
                let state = if scrub.is_paused { "paused" } else { "under way" };
                format!("{state}, next {} {}, {} damaged so far", scrub_counts::name(scrub.part), scrub.next, scrub.found.damaged)
            }),
            allocation_cursor: s.allocation_cursor.get(),
            algorithm: s.algorithm.name(),
            commit_mode: format!("{:?}", s.settings.commit_mode).to_lowercase(),
            persistence: format!("{:?}", s.settings.persistence).to_lowercase(),
            sector_bytes: s.sector_bytes,
            features: [s.features.compatible, s.features.read_only, s.features.incompatible],
            logical_blocks: s.geometry.logical_blocks,
            data_blocks: s.geometry.data_blocks,
            reserve_blocks: s.geometry.reserve_blocks,
            device_bytes: s.geometry.device_bytes.get(),
            extents: extents
                .map(|e| Extent { region: e.kind.name(), first_entry: e.first_entry, at: e.offset.get(), bytes: e.length.get() })
                .collect(),
            protected: s.protected.iter().map(|p| (p.first.get(), p.blocks)).collect(),
            log_live: s.is_log_live(),
            anchor: s.log_tail.as_ref().map(LogScanStart::of),
        }
    }
}

impl Report for Whole {
    const NAME: &'static str = "dump";

    fn table(&self) -> Table {
        let mut table = Table::new().row("uuid", &self.uuid).row_if("made as", self.made_as.as_ref()).row("label", &self.label);
        for (i, copy) in self.copies.iter().enumerate() {
            table = table.row(&format!("copy {i}"), copy);
        }
        table = table
            .row("generation", self.generation)
            .row("incarnation", self.incarnation)
            .row("mount count", self.mount_count)
            .row("clean", self.clean)
            .row("garbage possible", self.garbage_possible)
            .row("last epoch", self.last_epoch)
            .row("recount position", self.recount_position)
            .row_if("scrub", self.scrub.as_ref())
            .row("allocation cursor", self.allocation_cursor)
            .row("fingerprints", self.algorithm)
            .row("commit mode", &self.commit_mode)
            .row("persistence", &self.persistence)
            .row("sector", self.sector_bytes)
            .row("logical blocks", self.logical_blocks)
            .row("data blocks", self.data_blocks)
            .row("reserve blocks", self.reserve_blocks)
            .row("log", if self.log_live { "live" } else { "not live" })
            .row("log tail", self.anchor.as_ref().map_or_else(|| "none".to_owned(), LogScanStart::to_string))
            .row("device", format!("{} ({} bytes)", Size(self.device_bytes), self.device_bytes));
        let row = |e: &Extent| vec![e.region.to_owned(), e.first_entry.to_string(), e.at.to_string(), e.bytes.to_string()];
        table.line("").grid(&["region", "first entry", "at byte", "bytes"], self.extents.iter().map(row).collect())
    }
}

/// Shows.
///
/// # Errors
/// When the volume is in use, there is none, or the block is beyond its end.
pub fn run(arguments: &Arguments) -> Outcome {
    let path = find(&arguments.volume)?.path;
    let backing = Backing::open_patiently(&path, Access::Read, PATIENCE)?;
    look_first(&backing)?;
    let chosen = volume::load(&backing)?;
    let style = Style::of(arguments.json);
    let reader = || Reader::new(&backing, &chosen.superblock);
    match (arguments.lbn, arguments.pbn) {
        (Some(lbn), _) => print(&reader()?.logical(Lbn(lbn))?, style),
        (_, Some(pbn)) => print(&reader()?.physical(Pbn(pbn))?, style),
        _ => print(&Whole::of(&chosen), style),
    }
    Ok(())
}
