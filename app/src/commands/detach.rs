//! `detach`: takes an attached volume away, after everything is durable.

use super::attached;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend::fuse::loopdev;
use crate::server::control::{self, Ask};
use crate::server::directory::run_directory;
use crate::server::launch::End;
use crate::server::record::{FrontendKind, Places, clear};
use crate::server::serving::no_frontend;
use std::path::PathBuf;
use std::time::Duration;

/// Detach a volume: commit everything, mark it clean, end its server
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    #[arg(required_unless_present = "device")]
    volume: Option<String>,
    /// How long to wait for the end of the server. It goes on committing when this is over.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    /// Only take that loop device away, for `supervise`.
    #[arg(long, hide = true)]
    device: Option<PathBuf>,
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
