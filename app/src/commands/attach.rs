//! `attach`: makes a volume a block device.

mod disk_image;
mod stay;

use crate::attachment::configured::{self, Configured};
use crate::attachment::control;
use crate::attachment::directory::run_directory;
use crate::attachment::find::{Found, find, find_configured};
use crate::attachment::launch::{self, End};
use crate::attachment::plan::{Options, Plan};
use crate::attachment::process::Process;
use crate::attachment::record::{Places, Record, clear, clear_dead};
use crate::attachment::session::Session;
use crate::attachment::{growth, known, limits, record};
use crate::device::bottom::Bottom;
use crate::device::measure::identity_of;
use crate::device::slowing::Slowing;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend::Asked;
use crate::heartbeat::{self, Purpose};
use crate::output::complain;
use crate::server::serving::serve_alone;
use crate::volume;
use clap::error::{ContextKind, ErrorKind};
use clap::{Args, FromArgMatches};
use onefold_engine::units::BLOCK_BYTES;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use uuid::Uuid;

/// Attach a volume, and print where: a block device or an NBD URI
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label or UUID; or NAME, where /etc/onefold/NAME.toml names the volume and its options.
    #[arg(required_unless_present = "all")]
    volume: Option<String>,
    /// Attach every volume of /etc/onefold that is not attached yet.
    #[arg(long, exclusive = true)]
    all: bool,
    #[command(flatten)]
    frontend: Asked,
    /// Stay in the foreground; log to standard error. Over NBD that is one process, which nobody replaces when it dies.
    #[arg(long)]
    pub foreground: bool,
    /// Stay with the attachment until it ends, for a unit of systemd: report to $NOTIFY_SOCKET when it serves, detach on SIGTERM, and
    /// fail when it ends by itself. What is attached already is joined.
    #[arg(long, conflicts_with_all = ["foreground", "all"])]
    service: bool,
    #[command(flatten)]
    options: Options,
}

/// Attaches. `typed` are the words after the verb; `slowing` is what the program can do for `--device-model`.
///
/// # Errors
/// When there is no such volume, it is in use or damaged, or the front-end is not available.
pub fn run(arguments: &Arguments, typed: impl Iterator<Item = OsString>, slowing: &dyn Slowing) -> Outcome<Exit> {
    let Some(volume) = arguments.volume.as_deref().filter(|_| !arguments.all) else { return attach_all(slowing) };
    match configured::named(volume)? {
        Some(configured) => attach(&with_options(&configured, typed)?, find(volume)?, slowing),
        None => attach(arguments, find(volume)?, slowing),
    }
}

/// Parses what was typed after the options of a file, which it replaces.
fn with_options(configured: &Configured, typed: impl Iterator<Item = OsString>) -> Outcome<Arguments> {
    let command = Arguments::augment_args(clap::Command::new("attach").args_override_self(true));
    let words = std::iter::once(OsString::from("attach")).chain(configured.words.iter().map(OsString::from)).chain(typed);
    let wrong = |error: clap::Error| {
        Failed::new(Exit::Usage, format!("{}: {}", configured.file.display(), reason_in_file(&error)))
            .next("`onefold attach --help` lists the options; a file has them without dashes.")
    };
    let matches = command.try_get_matches_from(words).map_err(wrong)?;
    Arguments::from_arg_matches(&matches).map_err(wrong)
}

/// Returns what is wrong with an option that a file has as a key, in the words of the file.
fn reason_in_file(error: &clap::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let key = |kind| error.get(kind).map(|value| value.to_string().trim_start_matches('-').to_owned());
    match (error.kind(), key(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(key)) => {
            let key = key.split('=').next().unwrap_or_default();
            let similar = error.get(ContextKind::SuggestedArg).map(|value| value.to_string().trim_start_matches('-').to_owned());
            let hint = similar.map(|similar| format!("; a similar one is {similar}")).unwrap_or_default();
            format!("'{key}' is no option of a volume{hint}")
        }
        (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion, _) => "a volume has no option 'help' or 'version'".to_owned(),
        _ => reason.replace("'--", "'"),
    }
}

/// Attaches all volumes of /etc/onefold that are not attached yet, and goes on where one fails.
fn attach_all(slowing: &dyn Slowing) -> Outcome<Exit> {
    let mut first = None;
    let all = configured::all()?;
    if all.is_empty() {
        complain(format_args!("onefold: {} has no file NAME.toml, so there is nothing to attach", configured::directory().display()));
    }
    for configured in all {
        let attached = configured.and_then(|configured| {
            let name = &configured.name;
            let options = with_options(&configured, std::iter::once(OsString::from(name)))?;
            let named = |failed: Failed| Failed { message: format!("{}: {}", configured.file.display(), failed.message), ..failed };
            let found = find_configured(&configured).map_err(named)?;
            if let Some(record) = found.attached {
                complain(format_args!("onefold: {name} is attached already: {}", record.location));
                return Ok(Exit::Done);
            }
            attach(&options, found, slowing).map_err(named)
        });
        match attached {
            Ok(Exit::Done) => {}
            Ok(exit) => first = first.or(Some(exit)),
            Err(failed) => {
                complain(format_args!("onefold: {failed}"));
                first = first.or(Some(failed.exit));
            }
        }
    }
    Ok(first.unwrap_or(Exit::Done))
}

fn attach(arguments: &Arguments, found: Found, slowing: &dyn Slowing) -> Outcome<Exit> {
    if let Some(model) = &arguments.options.device_model {
        slowing.check(model).map_err(|message| Failed::new(Exit::Usage, message))?;
    }
    if let Some(record) = if arguments.service { found.lasting()? } else { None } {
        announce(&record.location);
        return stay::in_service(None, &run_directory()?, &record.id, &record.location);
    }
    let plan = plan(arguments, found)?;
    let places = Places::of(&plan.directory, &plan.id);
    let _ = End::take(&places.end);
    growth::clear(&places);
    if !plan.is_supervised() {
        return alone(&plan, slowing);
    }
    let (location, supervisor) = launch::start("supervise", &plan)?;
    announce(&location);
    if let Some(advice) = disk_image::advice(Path::new(&location), plan.sector_bytes, &plan.path) {
        complain(format_args!("{advice}"));
    }
    if arguments.service {
        return stay::in_service(Some(supervisor), &plan.directory, &plan.id, &location);
    }
    if arguments.foreground { stay::in_foreground(supervisor, &plan) } else { Ok(Exit::Done) }
}

/// Serves in this very process.
fn alone(plan: &Plan, slowing: &dyn Slowing) -> Outcome<Exit> {
    let places = Places::of(&plan.directory, &plan.id);
    let session = Session::begin(&places.lock)?;
    let served = serve_alone(plan, slowing, |location| {
        Record::of(plan, Process::this(), location.to_owned()).store(&places.record)?;
        announce(location);
        Ok(())
    });
    clear(&plan.directory, &plan.id);
    session.remove(&places.lock);
    served
}

/// The sector size of a block device over a bare store: the same as of a volume, so that the two compare.
const BARE_SECTOR_BYTES: u32 = 4096;

/// Prints the one line that scripts read.
fn announce(location: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{location}").and_then(|()| out.flush());
}

fn plan(arguments: &Arguments, found: Found) -> Outcome<Plan> {
    let directory = run_directory()?;
    if let Some(record) = found.lasting()? {
        return Err(in_use(record));
    }
    let path = found.path;
    let superblock = if arguments.options.passthrough { None } else { Some(volume::peek(&path)?.superblock) };
    let meta = path.metadata().map_err(|e| Failed::system(format!("cannot look at {}", path.display()), e))?;
    let (id, uuid, label) = match &superblock {
        None => (format!("bare-{:x}-{:x}-{:x}", meta.dev(), meta.ino(), meta.rdev()), None, None),
        Some(superblock) => {
            let uuid = Uuid::from_bytes(superblock.uuid).to_string();
            (uuid.clone(), Some(uuid), Some(superblock.label.clone()).filter(|label| !label.is_empty()))
        }
    };
    if let Some(record) = record::all(&directory)?.iter().find(|r| r.id == id) {
        if !clear_dead(&directory, &id) {
            let copy = path.display();
            return Err(in_use(record)
                .next(format!("{copy} has the same UUID. If it is a copy, `onefold set {copy} --uuid new` gives it its own.")));
        }
    }
    let places = Places::of(&directory, &id);
    control::check_path(&places.control)?;
    limits::prepare(&path, meta.len())?;
    known::remember(&path);
    let (frontend, typed) = arguments.frontend.choice();
    let frontend = frontend.plan(typed, &places, label.as_deref())?;
    if let Some(superblock) = &superblock {
        let purpose = if arguments.options.read_only { Purpose::Watch } else { Purpose::Claim };
        heartbeat::announce(&path, superblock, purpose);
    }
    let (mut options, in_background) = (arguments.options.clone(), !arguments.foreground);
    options.settle_memory(superblock.as_ref().map(|superblock| &superblock.settings));
    let bottom = Bottom::of(&path);
    Ok(Plan {
        id,
        path,
        uuid,
        label,
        store: identity_of(&meta),
        logical_bytes: superblock.as_ref().map(|superblock| superblock.geometry.logical_blocks * BLOCK_BYTES),
        sector_bytes: superblock.map_or(BARE_SECTOR_BYTES, |superblock| superblock.sector_bytes),
        directory,
        options,
        frontend,
        in_background,
        is_replacement: false,
        bottom,
        gives_way: false,
        messages: Vec::new(),
    })
}

fn in_use(record: &Record) -> Failed {
    Failed::new(Exit::InUse, format!("{} is attached already, at {}", record.path.display(), record.location))
        .next(format!("`onefold detach {}` releases it.", record.path.display()))
}
