//! The process that stays with an attachment: of `attach --foreground`, and of a unit of systemd (`attach --service`).
//!
//! 1. Supervisor and server keep each other alive, and this process only waits for their end. It reports how they ended, by its exit code.
//! 2. SIGTERM asks for the end. In service that is tried again and again: at a shutdown the file system above is unmounted meanwhile, and
//!    systemd has a limit of its own.
//! 3. If it is killed itself, the volume goes on, and another one in service joins it.

use crate::attachment::deadline::Deadline;
use crate::attachment::launch::End;
use crate::attachment::plan::Plan;
use crate::attachment::record::{self, Places};
use crate::attachment::{service, session};
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend;
use crate::output::complain;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

/// The time between two trials to detach what is in use.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Waits for the end of the attachment, and passes SIGTERM on. `supervisor` is the first supervisor: another may take its place.
pub(super) fn in_foreground(mut supervisor: Child, plan: &Plan) -> Outcome<Exit> {
    let first =
        pidfd_open(Pid::from_child(&supervisor), PidfdFlags::empty()).map_err(|e| Failed::system("cannot watch the supervisor", e))?;
    let places = Places::of(&plan.directory, &plan.id);
    on_signal(move || {
        if pidfd_send_signal(&first, Signal::TERM).is_err() {
            // If the server refuses, the sender of the signal sees that the volume stays.
            let _ = end(&places);
        }
    })?;
    let status = supervisor.wait().map_err(|e| Failed::system("cannot wait for the supervisor", e))?;
    match Exit::of_code(status.code()) {
        Some(exit) => Ok(exit),
        None => ending(&Places::of(&plan.directory, &plan.id)),
    }
}

/// Reports that the volume is served at `location`, and waits for the end of the attachment. `supervisor` is the first one, where this
/// process has started it.
pub(super) fn in_service(supervisor: Option<Child>, directory: &Path, id: &str, location: &str) -> Outcome<Exit> {
    let places = Places::of(directory, id);
    on_signal(move || {
        let mut is_told = false;
        while let Err(failed) = end(&places) {
            if !is_told {
                complain(format_args!("onefold: {failed}"));
                is_told = true;
            }
            std::thread::sleep(TRY_AGAIN);
        }
    })?;
    // Its end says nothing: another may take its place.
    supervisor.map(|mut first| std::thread::spawn(move || first.wait()));
    service::notify(&format!("READY=1\nSTATUS=serves {location}"));
    ending(&Places::of(directory, id))
}

/// Calls `act` at each SIGTERM and SIGINT from now on.
fn on_signal(act: impl Fn() + Send + 'static) -> Outcome {
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|e| Failed::system("cannot watch for signals", e))?;
    std::thread::spawn(move || signals.forever().for_each(|_| act()));
    Ok(())
}

/// Waits until the attachment is over, and returns how it ended.
fn ending(places: &Places) -> Outcome<Exit> {
    session::await_end(&places.lock);
    match End::look(&places.end) {
        Some(End { failed: Some(failed), .. }) => Err(failed),
        Some(End { exit, .. }) => Ok(exit),
        // Either `detach` has taken the report and the record is gone, or no process was left to report.
        None if !places.record.exists() => Ok(Exit::Done),
        None => Err(Failed::new(Exit::System, "supervisor and server died before the volume was closed in order")),
    }
}

/// Ends an attachment from outside, as its supervisor does on request.
fn end(places: &Places) -> Outcome {
    let Some(record) = record::look(&places.record) else { return Ok(()) };
    frontend::named(&record.frontend)?.detach(&record, places, Deadline::NEVER).map(drop)
}
