//! `create`: formats a file or block device as a volume.

mod stock;

use super::status::{OnMedium, every};
use super::typed::{parse_label, parse_sector};
use crate::attachment::find::check_label_is_free;
use crate::attachment::known;
use crate::attachment::start::{CommitModeName, PersistenceName};
use crate::device::backing::{Access, Allocation, Backing, Kind, PATIENCE};
use crate::device::measure::room_of;
use crate::exit::{Exit, Failed, Outcome};
use crate::heartbeat::{Here, look_first};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use crate::volume;
use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::superblock::PROTECTED_MAX;
use onefold_engine::format::{
    FormatStep, GUARD_MS_MAX, GUARD_MS_MIN, Geometry, GeometryError, NotesArea, ProtectedRange, Superblock, Wish, format_guarded,
};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_BYTES, Bytes, Lbn};
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The size up to which files get their space at once.
const WHOLE_BYTES_MAX: u64 = 4 << 30;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Format a file or block device as a volume
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// File (made where it does not exist) or block device.
    path: PathBuf,
    /// Size of a new file: a number of bytes, or 512M, 64G, 1T in powers of 1024.
    #[arg(long)]
    size: Option<Size>,
    /// Size as clients see it. Default: what always fits, whatever is written. Larger sizes rely on duplicates.
    #[arg(long, value_name = "SIZE")]
    logical: Option<Size>,
    /// A name for the volume.
    #[arg(long, value_parser = parse_label)]
    label: Option<String>,
    /// The fingerprint that identifies content: blake3, sha256, or, to compare with the papers, sha1 or md5.
    #[arg(long, value_name = "NAME", value_parser = parse_algorithm, default_value = "blake3")]
    algorithm: Algorithm,
    /// The commit mode, which makes writes durable, unless `attach` names another: log, records that ride along with the data; ordered,
    /// pages in OrderMergeDedup's order.
    #[arg(long, value_enum, value_name = "MODE", default_value = "log")]
    commit_mode: CommitModeName,
    /// The moment when a write is acknowledged, unless `attach` names another: weak, on admission; strong, when it is durable.
    #[arg(long, value_enum, value_name = "MODE", default_value = "weak")]
    persistence: PersistenceName,
    /// Sector size as clients see it: 4096; or 512, as most images of disks have it, which lets some file systems write parts of blocks.
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = parse_sector)]
    sector: u32,
    /// Blocks that are never deduplicated, such as superblock copies of a file system. May be given several times.
    #[arg(long, value_name = "LBN+LEN", value_parser = parse_range)]
    protect: Vec<ProtectedRange>,
    /// Guard a store that several hosts reach: the server writes a block every SECONDS seconds (1 to 60; default 5), and a server of
    /// another host that sees it change stays away. Costs one write of 4 KiB each time.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "5", conflicts_with = "buffered",
        value_parser = clap::value_parser!(u32).range(i64::from(GUARD_MS_MIN / 1000)..=i64::from(GUARD_MS_MAX / 1000)))]
    guard: Option<u32>,
    /// Let a new file grow as it is written. The default above 4 GiB.
    #[arg(long, conflicts_with = "preallocate")]
    sparse: bool,
    /// Give a new file all its space at once. The default up to 4 GiB.
    #[arg(long)]
    preallocate: bool,
    /// Use a backing store that has no direct I/O (O_DIRECT) all the same. `attach` needs this option, too.
    #[arg(long)]
    buffered: bool,
    /// Format even over what is there.
    #[arg(long)]
    force: bool,
    /// Only show what would be made.
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn access(&self) -> Access {
        Access::of(false, self.buffered)
    }
}

#[derive(Debug, Serialize)]
struct Created {
    path: PathBuf,
    kind: Kind,
    /// The content that was (or would be) lost.
    overwritten: Option<String>,
    preallocated: bool,
    dry_run: bool,
    /// The size of map, refs and fingerprints.
    metadata_bytes: u64,
    /// The bytes that are free on the file system of a sparse file, if the volume may come to need more.
    room_bytes: Option<u64>,
    /// The bytes of zeros that were written to a file ahead of what will be synced.
    ahead_bytes: u64,
    /// Whether the file system below would copy what is overwritten, and does so with this file.
    copy_on_write: Option<bool>,
    /// Whether clients see only what always fits, since nothing else was asked for.
    #[serde(skip)]
    is_plain: bool,
    volume: OnMedium,
}

impl Report for Created {
    const NAME: &'static str = "create";

    fn table(&self) -> Table {
        let kind = match (self.kind, self.preallocated) {
            (Kind::Block, _) => "block device",
            (Kind::File, true) => "file, preallocated",
            (Kind::File, false) => "file, sparse",
        };
        let table = Table::new()
            .row("backing store", format!("{} ({kind}, {})", self.path.display(), Size(self.volume.device_bytes)))
            .row_if("overwritten", self.overwritten.as_ref());
        let table =
            self.volume.rows(table).row_if("guard", self.volume.guard_ms.map(guard_cost)).row("metadata", Size(self.metadata_bytes));
        let table = table.row_if("written ahead", (self.ahead_bytes > 0).then(|| format!("{} for synced writes", Size(self.ahead_bytes))));
        let table = self.copy_on_write.map(stock::about_copies).into_iter().fold(table, Table::line);
        let table = match self.room_bytes.map(Size) {
            Some(room) => table.line(format!("Its file system has only {room} free. When that is full, writes wait for room.")),
            None => table,
        };
        let table = if self.is_plain {
            table.line("Clients see what always fits. --logical SIZE shows them more: room for what will be saved.")
        } else {
            table
        };
        let table = if self.volume.sector_bytes > 512 {
            table.line("An image of a disk with sectors of 512 bytes needs --sector 512.")
        } else {
            table
        };
        let table = table.line("Onefold is not released yet: do not keep the only copy of any data on it.");
        if self.dry_run { table.line("Nothing was written.") } else { table }
    }
}

/// Returns the interval of the guard block's writes, and their cost.
fn guard_cost(interval_ms: u32) -> String {
    let writes = DAY_MS / u64::from(interval_ms);
    format!("{}: {writes} writes a day of 4 KiB each, {}", every(interval_ms), Size(writes * BLOCK_BYTES))
}

/// The store and what is known of it before anything is changed.
struct Ground {
    backing: Option<Backing>,
    kind: Kind,
    length: u64,
    /// The content that is on it.
    content: Option<String>,
    allocation: Allocation,
}

/// Formats.
///
/// # Errors
/// When the store is in use, is too small or holds something, or the options do not fit.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut ground = survey(arguments)?;
    let superblock = superblock(arguments, ground.length)?;
    if let (Some(content), false) = (&ground.content, arguments.force) {
        return Err(Failed::new(Exit::Refused, format!("{} holds something: {content}", arguments.path.display()))
            .next("It would be lost. --force formats all the same."));
    }
    arguments.label.iter().try_for_each(|label| check_label_is_free(label, &arguments.path))?;
    let room = room_for(arguments, &ground, &superblock)?;
    if arguments.dry_run {
        print(&report(arguments, &ground, &superblock, room, arguments.path.clone()), Style::of(arguments.json));
        return Ok(());
    }
    let is_new = ground.backing.is_none();
    let backing = match ground.backing.take() {
        Some(mut backing) => {
            look_first(&backing)?;
            if backing.facts().length != ground.length {
                backing.resize(ground.length, ground.allocation).map_err(|e| failed(arguments, "resize", e))?;
            }
            backing
        }
        None => Backing::create_file(&arguments.path, ground.length, ground.allocation, arguments.access())?,
    };
    let here = Here::of(backing.facts().identity)?;
    let filled = carry_out(&backing, here, &superblock).and_then(|()| stock::fill(&backing, &superblock));
    let formatted = filled.and_then(|ahead| if is_new { sync_directory(&arguments.path) } else { Ok(()) }.map(|()| ahead));
    let ahead_bytes = formatted.map_err(|error| {
        if is_new {
            // Half a volume helps nobody.
            let _ = std::fs::remove_file(&arguments.path);
        }
        failed(arguments, "format", error)
    })?;
    // Not every file system can give space in advance.
    if !backing.is_allocated().unwrap_or(false) {
        ground.allocation = Allocation::Sparse;
    }
    let path = arguments.path.canonicalize().unwrap_or_else(|_| arguments.path.clone());
    known::remember(&path);
    let created = report(arguments, &ground, &superblock, room, path);
    print(&Created { ahead_bytes, copy_on_write: backing.copy_on_write(), ..created }, Style::of(arguments.json));
    Ok(())
}

fn failed(arguments: &Arguments, what: &str, error: std::io::Error) -> Failed {
    Failed::system(format!("cannot {what} {}", arguments.path.display()), error)
}

/// Examines the store and its content.
fn survey(arguments: &Arguments) -> Outcome<Ground> {
    let path = &arguments.path;
    let allocation_of = |length| {
        let whole = arguments.preallocate || (length <= WHOLE_BYTES_MAX && !arguments.sparse);
        if whole { Allocation::Whole } else { Allocation::Sparse }
    };
    if !path.exists() {
        let Some(Size(length)) = arguments.size else {
            return Err(Failed::new(Exit::NotFound, format!("{} does not exist", path.display())).next("--size makes a file of that size."));
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
            return Err(Failed::new(Exit::NotFound, format!("{}: there is no folder {}", path.display(), folder.display())));
        }
        return Ok(Ground { backing: None, kind: Kind::File, length, content: None, allocation: allocation_of(length) });
    }
    let backing = Backing::open_patiently(path, arguments.access(), PATIENCE)?;
    let facts = backing.facts();
    let length = match arguments.size {
        Some(Size(size)) if facts.kind == Kind::Block && size != facts.length => {
            return Err(Failed::new(Exit::State, format!("{} has {} bytes; --size is for files", path.display(), facts.length)));
        }
        Some(Size(size)) => size,
        None => facts.length,
    };
    let content = volume::content(path, &backing).map_err(|e| failed(arguments, "read", e))?;
    let kind = facts.kind;
    let allocation = if kind == Kind::Block { Allocation::Whole } else { allocation_of(length) };
    Ok(Ground { backing: Some(backing), kind, length, content, allocation })
}

fn superblock(arguments: &Arguments, length: u64) -> Outcome<Superblock> {
    let usage = |message: String| Failed::new(Exit::Usage, message);
    if arguments.protect.len() > PROTECTED_MAX {
        return Err(usage(format!("{} protected ranges, where a volume has room for {PROTECTED_MAX}", arguments.protect.len())));
    }
    let logical_blocks = logical_blocks(arguments.logical)?;
    let geometry = Geometry::plan(
        Bytes(length),
        &Wish { logical_blocks, reserve_blocks: None, guard: arguments.guard.is_some(), notes_blocks: NotesArea::blocks_for(length) },
    )
    .map_err(|error| {
        let failed = usage(format!("{}: {error}", arguments.path.display()));
        if matches!(error, GeometryError::DeviceTooSmall { .. }) { failed.next("--size 16M makes the smallest.") } else { failed }
    })?;
    let (mut uuid, mut key) = ([0; 16], [0; 32]);
    getrandom::fill(&mut uuid).and_then(|()| getrandom::fill(&mut key)).map_err(|e| Failed::system("no random numbers", e))?;
    let uuid = uuid::Builder::from_random_bytes(uuid).into_uuid().into_bytes();
    let settings = Settings {
        commit_mode: arguments.commit_mode.into(),
        persistence: arguments.persistence.into(),
        verify_duplicates: arguments.algorithm.is_weak(),
        ..Settings::default()
    };
    let mut superblock = Superblock::new(geometry, uuid, key, arguments.algorithm, &settings);
    superblock.label = arguments.label.clone().unwrap_or_default();
    if let Some(seconds) = arguments.guard {
        superblock.set_guard(seconds * 1000);
    }
    superblock.sector_bytes = arguments.sector;
    for range in &arguments.protect {
        if range.first.get() + u64::from(range.blocks) > superblock.geometry.logical_blocks {
            return Err(usage(format!(
                "--protect {}+{} reaches beyond the volume's {} blocks",
                range.first.get(),
                range.blocks,
                superblock.geometry.logical_blocks
            )));
        }
    }
    superblock.protected.clone_from(&arguments.protect);
    Ok(superblock)
}

/// Returns the blocks of a size as clients see it.
///
/// # Errors
/// When it ends within a block.
pub(super) fn logical_blocks(size: Option<Size>) -> Outcome<Option<u64>> {
    match size {
        Some(Size(bytes)) if bytes % BLOCK_BYTES != 0 => {
            Err(Failed::new(Exit::Usage, format!("--logical {bytes} is no multiple of {BLOCK_BYTES}")))
        }
        other => Ok(other.map(|Size(bytes)| bytes / BLOCK_BYTES)),
    }
}

/// Carries out the steps of formatting, one after the other.
fn carry_out(backing: &Backing, here: Here, superblock: &Superblock) -> std::io::Result<()> {
    let mut buffer = BufferMut::zeroed(1);
    let guard = superblock.is_guarded().then(|| here.new_guard(superblock.origin));
    for step in format_guarded(superblock, guard.as_ref(), Bytes(backing.facts().length), &volume::traces(backing)) {
        match step {
            // On a file this also gives the metadata regions their space, sparse or not.
            FormatStep::Zero { at, length } => backing.zero(at.get(), length.get())?,
            FormatStep::Write { at, page } => {
                buffer.block_mut(0).copy_from_slice(&page[..]);
                backing.write(at.get(), &buffer)?;
            }
            FormatStep::Flush => backing.flush()?,
        }
    }
    Ok(())
}

/// Makes a new file's name durable.
fn sync_directory(path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

/// Returns the bytes that are free below a new sparse file, if its volume may come to need more.
///
/// # Errors
/// When a new file needs more than that at once. To begin all the same would fill the file system.
fn room_for(arguments: &Arguments, ground: &Ground, superblock: &Superblock) -> Outcome<Option<u64>> {
    if ground.backing.is_some() {
        return Ok(None);
    }
    let folder = arguments.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let below = rustix::fs::statvfs(folder).map_err(|errno| failed(arguments, "measure the file system of", errno.into()))?;
    let Some(free) = room_of(&below) else { return Ok(None) };
    let at_once = if ground.allocation == Allocation::Whole { ground.length } else { metadata_bytes(superblock) };
    if at_once > free {
        let message =
            format!("{}: {} are needed at once, and its file system has {} free", arguments.path.display(), Size(at_once), Size(free));
        return Err(Failed::new(Exit::System, message).next("Give a smaller --size; a --sparse file needs only its metadata at once."));
    }
    Ok(Some(free).filter(|&free| ground.allocation == Allocation::Sparse && free < ground.length))
}

fn metadata_bytes(superblock: &Superblock) -> u64 {
    superblock.geometry.device_bytes.get() - superblock.geometry.data_blocks * BLOCK_BYTES
}

fn report(arguments: &Arguments, ground: &Ground, superblock: &Superblock, room_bytes: Option<u64>, path: PathBuf) -> Created {
    Created {
        path,
        kind: ground.kind,
        overwritten: ground.content.clone(),
        preallocated: ground.allocation == Allocation::Whole,
        dry_run: arguments.dry_run,
        metadata_bytes: metadata_bytes(superblock),
        room_bytes,
        ahead_bytes: 0,
        copy_on_write: None,
        is_plain: arguments.logical.is_none(),
        volume: OnMedium::from(superblock),
    }
}

fn parse_algorithm(typed: &str) -> Result<Algorithm, String> {
    Algorithm::ALL.into_iter().find(|a| a.name() == typed).ok_or_else(|| {
        let names: Vec<_> = Algorithm::ALL.iter().map(|a| a.name()).collect();
        format!("give one of {}", names.join(", "))
    })
}

fn parse_range(typed: &str) -> Result<ProtectedRange, String> {
    let wrong = || format!("'{typed}' is no range of blocks: give, say, 32768+2 for two blocks from LBN 32768 on");
    let (first, blocks) = typed.split_once('+').ok_or_else(wrong)?;
    let (first, blocks): (u64, u32) = (first.parse().map_err(|_| wrong())?, blocks.parse().map_err(|_| wrong())?);
    if blocks == 0 || first.checked_add(u64::from(blocks)).is_none() {
        return Err(wrong());
    }
    Ok(ProtectedRange { first: Lbn(first), blocks, is_found: false })
}
