//! `detach`: takes an attached volume away, after everything is durable.

use super::attached;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend::fuse::loopdev;
use crate::output::complain;
use crate::server::control::{self, Ask};
use crate::server::directory::run_directory;
use crate::server::launch::End;
use crate::server::record::{FrontendKind, Places, Record, clear};
use crate::server::serving::no_frontend;
use crate::server::whereabouts::Whereabouts;
use std::path::PathBuf;
use std::time::Duration;

/// Detach a volume: commit everything, mark it clean, end its server
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    #[arg(required = true)]
    volume: Option<String>,
    /// How long to wait for the end of the server. It goes on committing when this is over.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    /// Detach even a file that was deleted meanwhile: its content goes with its last user.
    #[arg(long)]
    force: bool,
    /// Only take that loop device away, for `supervise`.
    #[arg(long, hide = true, exclusive = true)]
    device: Option<PathBuf>,
}

/// A deleted file is there for as long as its server has it: says so before that ends.
fn spare_what_is_deleted(record: &Record, is_forced: bool) -> Outcome {
    let Whereabouts { path, is_deleted, open_as } = Whereabouts::of(record);
    let Some(open_as) = open_as.filter(|_| is_deleted) else { return Ok(()) };
    if is_forced {
        complain(format_args!("onefold: {} was deleted while it was attached: its content goes now", path.display()));
        return Ok(());
    }
    let message = format!("{} was deleted while it was attached: its content would go with this detach", path.display());
    Err(Failed::new(Exit::Refused, message).next(format!(
        "To keep it, unmount what is on it or stop its clients, and copy it: `cp --sparse=always {} COPY`. --force detaches, copied or not.",
        open_as.display()
    )))
}

/// Detaches.
///
/// # Errors
/// When it is not attached, in use, or does not end in time.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    if let Some(device) = &arguments.device {
        return loopdev::detach(device).map(|()| Exit::Done).map_err(no_frontend);
    }
    let record = attached(arguments.volume.as_deref().unwrap_or_default())?;
    spare_what_is_deleted(&record, arguments.force)?;
    let directory = run_directory()?;
    let places = Places::of(&directory, &record.id);
    match record.frontend {
        FrontendKind::Nbd => {
            control::ask(&places.control, Ask::Detach)?;
        }
        FrontendKind::Fuse if !loopdev::has_tag(record.location.as_ref(), &record.id) => {
            let (device, place) = (record.location, places.record);
            return Err(Failed::new(
                Exit::System,
                format!("{device} does not belong to {}, but the record {} names it", record.path.display(), place.display()),
            )
            .next("`losetup --list` shows what it is. If the record is wrong, remove it."));
        }
        FrontendKind::Fuse => loopdev::detach(record.location.as_ref()).map_err(|e| Failed { exit: Exit::InUse, ..no_frontend(e) })?,
    }
    if !record.process.wait_end(Duration::from_secs(arguments.timeout)) {
        return Err(Failed::new(Exit::System, format!("the server of {} still commits", record.path.display()))
            .next("Wait, and look at `onefold list`; the volume is in use until it is gone."));
    }
    clear(&directory, &record.id);
    match End::take(&places.end) {
        None | Some(End { exit: Exit::Done, .. }) => Ok(Exit::Done),
        Some(End { exit, failed }) => {
            Err(failed.unwrap_or_else(|| Failed::new(exit, exit.meaning())).next(format!("The log is {}.", places.log.display())))
        }
    }
}
