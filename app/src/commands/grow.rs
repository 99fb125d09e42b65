//! `grow`: has a volume take more of its store, and clients see more of it, detached or attached.

use super::create::logical_blocks;
use super::offline::change;
use super::status::OnMedium;
use crate::attachment::control::{self, ServerRequest};
use crate::attachment::directory::run_directory;
use crate::attachment::find::find;
use crate::attachment::growth as handover;
use crate::attachment::known;
use crate::attachment::record::{Places, Record};
use crate::device::backing::Kind;
use crate::device::enlarge::{enlarge, length_of};
use crate::device::measure::identity_of;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend;
use crate::growth::{self, Order};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use crate::volume::peek;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time between two looks for the server of the grown volume.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Make a volume larger, detached or attached
///
/// After its device or file has become larger, the volume takes all of it; --size makes a file larger first. A volume whose clients see all
/// that always fits goes on to be like that; a thin one has more room for what clients see already. The content stays where it is, and
/// growth that is cut off is begun again by the same command. Of an attached volume clients of the block device wait for a moment, and
/// clients of NBD have to connect again, as after a kill of the server; only then they see another size.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    volume: String,
    /// Size on its file or device (64G, 1T, in powers of 1024). A file is made larger; of a device the volume takes this much. Default:
    /// all of it.
    #[arg(long)]
    size: Option<Size>,
    /// Size as clients see it. Default: what always fits if they see that now; otherwise what they see now.
    #[arg(long, value_name = "SIZE")]
    logical: Option<Size>,
    /// Use a backing store that has no direct I/O (O_DIRECT) all the same.
    #[arg(long)]
    buffered: bool,
    /// The time to wait for the server of an attached volume.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// Only show what would change.
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Grown {
    path: PathBuf,
    /// Whether the volume has grown, or would.
    changed: bool,
    dry_run: bool,
    before: OnMedium,
    volume: OnMedium,
}

impl Report for Grown {
    const NAME: &'static str = "grow";

    fn table(&self) -> Table {
        let change = |of: fn(&OnMedium) -> u64| match (of(&self.before), of(&self.volume)) {
            (before, after) if before == after => Size(after).to_string(),
            (before, after) => format!("{}, before {}", Size(after), Size(before)),
        };
        let table = Table::new()
            .row("backing store", self.path.display())
            .row("size on it", change(|volume| volume.device_bytes))
            .row("logical size", change(|volume| volume.logical_bytes))
            .row("data", change(|volume| volume.data_bytes));
        match (self.changed, self.dry_run) {
            (false, _) => table.line("The volume has that size already: nothing was changed."),
            (true, true) => table.line("Nothing was written."),
            (true, false) => table,
        }
    }
}

/// Grows.
///
/// # Errors
/// When there is no such volume, it cannot grow so, its store is in use or too small, or its server does not hand it over.
pub fn run(arguments: &Arguments) -> Outcome {
    let found = find(&arguments.volume)?;
    let attached = found.lasting()?;
    let path = &found.path;
    attached.map_or(Ok(()), |record| grows_attached(record, path))?;
    let chosen = peek(path)?;
    let before = OnMedium::from(&chosen.superblock);
    let (order, longer) = order(arguments, path)?;
    let growth = growth::plan(path, chosen, &order)?;
    let changed = growth.is_some();
    if let (Some(growth), true) = (&growth, arguments.dry_run) {
        let volume = OnMedium::from(growth.superblock());
        print(&Grown { path: path.clone(), changed, dry_run: true, before, volume }, Style::of(arguments.json));
        return Ok(());
    }
    if let Some(length) = longer.filter(|_| changed) {
        enlarge(path, length).map_err(|error| {
            let failed = Failed::system(format!("cannot make {} {} large", path.display(), Size(length)), error);
            failed.next("Nothing was changed. If its file system lacks the room, give a smaller --size.")
        })?;
    }
    match attached {
        Some(record) if !arguments.dry_run => grow_attached(record, order, changed, Duration::from_secs(arguments.timeout))?,
        None if !arguments.dry_run => change(path, arguments.buffered, |medium| medium.grow(&order))?,
        _ => {}
    }
    known::remember(path);
    let volume = OnMedium::from(&peek(path)?.superblock);
    print(&Grown { path: path.clone(), changed, dry_run: arguments.dry_run, before, volume }, Style::of(arguments.json));
    Ok(())
}

/// Returns the size that the user wants, and the length to which a file has to be brought first.
fn order(arguments: &Arguments, path: &Path) -> Outcome<(Order, Option<u64>)> {
    let (kind, length) = length_of(path).map_err(|error| Failed::system(format!("cannot measure {}", path.display()), error))?;
    let Size(device_bytes) = arguments.size.unwrap_or(Size(length));
    if kind == Kind::Block && device_bytes > length {
        let message = format!("{} has {length} bytes, fewer than {device_bytes}", path.display());
        return Err(Failed::new(Exit::State, message).next("Make the device larger first. Without --size the volume takes all of it."));
    }
    let order = Order { device_bytes, logical_blocks: logical_blocks(arguments.logical)? };
    Ok((order, Some(device_bytes).filter(|&wanted| wanted > length)))
}

/// Checks that the server of an attachment could grow its volume.
fn grows_attached(record: &Record, store_path: &Path) -> Outcome {
    let path = store_path.display();
    if record.is_passthrough {
        return Err(Failed::new(Exit::Refused, format!("{path} is passed through, and has no volume that could grow")));
    }
    if record.is_read_only {
        return Err(Failed::new(Exit::Refused, format!("{path} is attached read-only"))
            .next(format!("`onefold detach {path}`; then grow it, and attach it again.")));
    }
    let is_moved = record.store.is_some_and(|store| store_path.metadata().is_ok_and(|found| identity_of(&found) != store));
    if is_moved {
        return Err(Failed::new(Exit::NotFound, format!("{path} is another file than the one that is attached"))
            .next(format!("`onefold status {}` shows where that one is.", record.location)));
    }
    Ok(())
}

/// Has the server of an attachment hand the volume over, which grows meanwhile, and its clients see the new size.
fn grow_attached(record: &Record, order: Order, changed: bool, patience: Duration) -> Outcome {
    let places = Places::of(&run_directory()?, &record.id);
    if changed {
        let deadline = Instant::now() + patience;
        control::check_running(&places.control)?;
        let _held = record.hold_store();
        let before = control::server(&places.control);
        handover::forget(&places);
        control::ask(&places.control, &ServerRequest::Grow(order)).map_err(|failed| explained(failed, record))?;
        let has_begun = || control::server(&places.control).is_some_and(|server| Some(server) != before);
        while !(places.grown.exists() && has_begun()) {
            if Instant::now() >= deadline {
                let path = record.path.display();
                let message = format!("{path}: the volume has not grown within {} s", patience.as_secs());
                return Err(Failed::new(Exit::System, message).next(format!("`onefold status {path}` shows what its server does.")));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        handover::take_end(&places)?;
    }
    control::ask(&places.control, &ServerRequest::AnnounceSize).map_err(|failed| explained(failed, record))?;
    frontend::named(&record.frontend)?.has_grown(record)
}

/// Returns the failure of a server that refused, in words for one that does not know the question.
fn explained(failed: Failed, record: &Record) -> Failed {
    let path = record.path.display();
    if failed.exit != Exit::Usage {
        return failed;
    }
    Failed::new(Exit::OtherFormat, format!("{path}: the program that serves it is too old to grow it"))
        .next(format!("`onefold upgrade {path}` has this program serve it."))
}
