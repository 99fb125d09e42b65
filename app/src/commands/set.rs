//! `set`: changes the label and the UUID of a volume, and the defaults of its attach options.

use super::offline::{change, failed};
use super::status::OnMedium;
use super::typed::{parse_label, parse_sector};
use crate::attachment::directory::run_directory;
use crate::attachment::find::{Found, check_label_is_free, find};
use crate::attachment::record::Places;
use crate::attachment::start::{CommitModeName, CompressName, PersistenceName, Start, WhenFull};
use crate::attachment::{known, record};
use crate::detached_space::DetachedSpace;
use crate::device::measure::identity_of;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use crate::runtime::promises;
use crate::volume::peek;
use clap::ValueEnum;
use onefold_engine::format::{StartSettings, Superblock};
use onefold_engine::repair::{change_open_superblock, change_superblock};
use serde::Serialize;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Show or change a volume's label and UUID, and the defaults of its attach options
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label or UUID. To be changed, it must be detached.
    volume: String,
    /// A new label; '' for none.
    #[arg(long, value_parser = parse_label)]
    label: Option<String>,
    /// Another identity for a copy, so that it can be attached beside its original: a UUID, or `new` for a random one.
    #[arg(long, value_name = "UUID", value_parser = parse_uuid)]
    uuid: Option<Uuid>,
    /// Another sector size as clients see it: 512, as images of disks have it, or 4096, while nothing is written yet.
    #[arg(long, value_name = "BYTES", value_parser = parse_sector)]
    sector: Option<u32>,
    #[command(flatten)]
    start: Start,
    /// Use a backing store that has no direct I/O (O_DIRECT) all the same.
    #[arg(long)]
    buffered: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Returns the UUID that the user typed, or a random one.
fn parse_uuid(typed: &str) -> Result<Uuid, String> {
    if typed == "new" {
        return Ok(Uuid::new_v4());
    }
    match Uuid::parse_str(typed) {
        Ok(uuid) if !uuid.is_nil() => Ok(uuid),
        Ok(_) => Err("a UUID of zeros names nothing; `new` makes a random one".to_owned()),
        Err(_) => Err("not a UUID, such as 2e1b3ab4-9a8e-4b51-a2b8-8f6d3c2e1f00; `new` makes a random one".to_owned()),
    }
}

#[derive(Debug, Serialize)]
struct Settings {
    path: PathBuf,
    /// Whether this command has written them.
    changed: bool,
    volume: OnMedium,
    defaults: Defaults,
}

/// The defaults of attach options, as users type them.
#[derive(Debug, Serialize)]
struct Defaults {
    commit_mode: CommitModeName,
    persistence: PersistenceName,
    noncritical_delay_ms: u64,
    commit_period_ms: u64,
    anticipation_ms: u64,
    verify_reads: bool,
    verify_duplicates: bool,
    memory_bytes: u64,
    compress: CompressName,
    full_wait_ms: u64,
}

impl From<&StartSettings> for Defaults {
    fn from(start: &StartSettings) -> Self {
        Self {
            commit_mode: start.commit_mode.into(),
            persistence: start.persistence.into(),
            noncritical_delay_ms: start.noncritical_delay_ms,
            commit_period_ms: start.commit_period_ms,
            anticipation_ms: start.anticipation_ms,
            verify_reads: start.verify_reads,
            verify_duplicates: start.verify_duplicates,
            memory_bytes: start.memory_bytes,
            compress: start.compression.into(),
            full_wait_ms: start.full_wait_s * 1000,
        }
    }
}

impl Report for Settings {
    const NAME: &'static str = "set";

    fn table(&self) -> Table {
        let switch = |on| if on { "on" } else { "off" };
        let defaults = &self.defaults;
        self.volume
            .rows(Table::new().row("backing store", self.path.display()))
            .row("default commit mode", typed(&defaults.commit_mode))
            .row("default persistence", typed(&defaults.persistence))
            .row("default noncritical delay", format!("{} ms", defaults.noncritical_delay_ms))
            .row("default commit period", format!("{} ms", defaults.commit_period_ms))
            .row("default anticipation", format!("{} ms", defaults.anticipation_ms))
            .row("default verify reads", switch(defaults.verify_reads))
            .row("default verify duplicates", switch(defaults.verify_duplicates))
            .row("default memory", Size(defaults.memory_bytes))
            .row("default compress", typed(&defaults.compress))
            .row("default when full", WhenFull { wait_ms: defaults.full_wait_ms })
    }
}

/// The name of a value of an option.
fn typed(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Shows the settings of a volume, once they are as the options want them.
///
/// # Errors
/// When there is no such volume; or when it is to be changed, and is in use, has a journal of a killed server, or cannot be written.
pub fn run(arguments: &Arguments) -> Outcome {
    let found = find(&arguments.volume)?;
    let wanted = Wanted { label: arguments.label.as_ref(), uuid: arguments.uuid, sector: arguments.sector, start: &arguments.start };
    let is_change = wanted.is_any();
    if let Some(label) = wanted.label {
        check_label_is_free(label, &found.path)?;
    }
    let superblock = if is_change { changed(&found, &wanted, arguments.buffered)? } else { peek(&found.path)?.superblock };
    let path = found.path;
    known::remember(&path);
    let defaults = Defaults::from(&superblock.settings);
    print(&Settings { path, changed: is_change, volume: OnMedium::from(&superblock), defaults }, Style::of(arguments.json));
    Ok(())
}

fn changed(found: &Found, wanted: &Wanted, buffered: bool) -> Outcome<Superblock> {
    let path = &found.path;
    if let Some(record) = found.lasting()? {
        return Err(Failed::new(Exit::InUse, format!("{} is attached, at {}", path.display(), record.location))
            .next("Detach it first: a server keeps the superblock in memory."));
    }
    if let Some(sector) = wanted.sector {
        check_sector(path, sector)?;
    }
    let must_be_closed = may_have_a_journal(path)?;
    change(path, buffered, |medium| {
        let bytes = medium.bytes();
        let apply = |superblock: &mut Superblock| wanted.apply(superblock);
        let changed = if must_be_closed { change_superblock(medium, bytes, apply) } else { change_open_superblock(medium, bytes, apply) };
        changed.map_err(|error| failed(path, error))
    })
}

/// Checks that what clients have written fits into sectors of this size: what was written in larger ones does, and what was written in
/// smaller ones may not.
///
/// # Errors
/// When something may not fit, or the volume cannot be read.
fn check_sector(path: &Path, sector: u32) -> Outcome {
    let superblock = peek(path)?.superblock;
    if sector <= superblock.sector_bytes {
        return Ok(());
    }
    let space = if superblock.clean { DetachedSpace::read(path, &superblock) } else { Ok(None) };
    let space = space.map_err(|e| Failed::system(format!("cannot read {}", path.display()), e))?;
    if space.is_some_and(|space| space.map_links == 0) {
        return Ok(());
    }
    let message =
        format!("--sector {sector}: {} holds content that clients wrote in sectors of {}", path.display(), superblock.sector_bytes);
    Err(Failed::new(Exit::Refused, message).next(format!("`onefold create --sector {sector}` makes a volume to which it can be copied.")))
}

/// Whether a killed server of this store may have left a journal of acknowledged writes. That of a copy is its original's, if this is still
/// there.
fn may_have_a_journal(path: &Path) -> Outcome<bool> {
    let superblock = peek(path)?.superblock;
    let places = Places::of(&run_directory()?, &Uuid::from_bytes(superblock.uuid).to_string());
    let store_at = |path: &Path| path.metadata().ok().map(|meta| identity_of(&meta));
    let original = record::look(&places.record).filter(|record| record.store.is_some() && record.store == store_at(&record.path));
    let is_of_another = original.is_some_and(|original| original.store != store_at(path));
    Ok(promises::are_kept(&places.ring, &superblock) && !is_of_another)
}

/// The wishes of the user.
struct Wanted<'a> {
    label: Option<&'a String>,
    uuid: Option<Uuid>,
    sector: Option<u32>,
    start: &'a Start,
}

impl Wanted<'_> {
    fn is_any(&self) -> bool {
        self.label.is_some() || self.uuid.is_some() || self.sector.is_some() || *self.start != Start::default()
    }

    fn apply(&self, superblock: &mut Superblock) {
        if let Some(label) = self.label {
            superblock.label.clone_from(label);
        }
        if let Some(uuid) = self.uuid {
            superblock.set_uuid(uuid.into_bytes());
        }
        if let Some(sector) = self.sector {
            superblock.sector_bytes = sector;
        }
        superblock.set_defaults(self.start.over(&superblock.settings));
    }
}
