//! Finding attachments again whose files are gone from the run directory: somebody has emptied it, as a cleaner of /tmp or the end of a
//! login session does. The lock on a store names its server.
//!
//! 1. A server's command line has its plan, and names the descriptor by which it watches its supervisor. Only processes of this user count.
//! 2. SIGHUP asks both to make their files again: the supervisor its lock and record, the server its journal and control socket. A program
//!    that does not know that ignores the signal. Processes are named by pidfds, so no other one gets it.
//! 3. A socket of NBD clients does not come back: those that are connected go on, and others find it after the next attach.

use super::control;
use super::plan::Plan;
use super::record::Places;
use crate::device::lock_holders;
use crate::exit::{Failed, Outcome};
use crate::output::complain;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use signal_hook::consts::SIGHUP;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time that the processes of an attachment have for their files, and the time between two looks.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The stack of the thread that waits for the signal.
const STACK_BYTES: usize = 256 << 10;

/// An attachment without its files.
struct Lost {
    plan: Plan,
    places: Places,
    processes: [OwnedFd; 2],
}

/// Has the attachments of this `directory` whose files are gone make them again. Returns whether there were any that did.
#[must_use]
pub fn restore_files(directory: &Path) -> bool {
    let lost: Vec<Lost> = lock_holders().into_iter().filter_map(|pid| Lost::of(pid, directory)).collect();
    let asked = Instant::now();
    for process in lost.iter().flat_map(|lost| &lost.processes) {
        let _ = pidfd_send_signal(process, Signal::HUP);
    }
    while !lost.iter().all(Lost::is_back) && asked.elapsed() < PATIENCE {
        std::thread::sleep(LOOK_AGAIN);
    }
    let back: Vec<&Lost> = lost.iter().filter(|lost| lost.is_back()).collect();
    for Lost { plan, .. } in &back {
        let path = plan.path.display();
        complain(format_args!(
            "onefold: {} was emptied while {path} was attached; its server has made its files again",
            directory.display()
        ));
    }
    !back.is_empty()
}

/// Calls `make`, which makes a server's files again, when this process is asked to.
///
/// # Errors
/// When the system refuses.
pub fn when_asked(make: impl Fn() + Send + 'static) -> Outcome {
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP]).map_err(|e| Failed::system("cannot watch for signals", e))?;
    let wait = move || signals.forever().for_each(|_| make());
    let thread = std::thread::Builder::new().name("restore".to_owned()).stack_size(STACK_BYTES).spawn(wait);
    thread.map(drop).map_err(|e| Failed::system("cannot start a thread", e))
}

impl Lost {
    /// Returns the attachment of the server with this number, if it is one of this directory, and its lock is not there.
    fn of(pid: u32, directory: &Path) -> Option<Self> {
        let server = pidfd(pid)?;
        let text = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<&str> = text.split(|&byte| byte == 0).filter_map(|word| std::str::from_utf8(word).ok()).collect();
        let [_, "serve", plan, arguments @ ..] = &words[..] else { return None };
        let plan = Plan::parse(plan).ok().filter(|plan| plan.directory == directory)?;
        let places = Places::of(directory, &plan.id);
        let is_ours = fs::metadata(format!("/proc/{pid}")).is_ok_and(|meta| meta.uid() == geteuid().as_raw());
        if places.are_alive() || !is_ours {
            return None;
        }
        let watched = arguments.windows(2).find(|pair| pair[0] == "--supervisor")?[1];
        let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{watched}")).ok()?;
        let supervisor = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok()).and_then(pidfd)?;
        Some(Self { plan, places, processes: [supervisor, server] })
    }

    fn is_back(&self) -> bool {
        self.places.are_alive() && self.places.record.exists() && control::server(&self.places.control).is_some()
    }
}

fn pidfd(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}
