//! FUSE and loop as a front-end: its calls for `attach`, supervisors, servers and `detach`.

use super::process::{check_reclaim, ignore_stop_signals, prepare_process};
use super::session::{REQUEST_BYTES_MAX, announce_size, can_resend, request_bytes};
use super::supervisor::{self, adopt};
use super::{Config, Fuse, NAME, THREADS, helper, loopdev};
use crate::attachment::deadline::Deadline;
use crate::attachment::plan::{FrontendPlan, Plan, misused};
use crate::attachment::record::{Places, Record};
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend::door::{Announcer, Clients, Frontend, Ready};
use crate::frontend::servers::Servers;
use crate::output::complain;
use crate::runtime::Served;
use crate::supervision::lent::Adoption;
use crate::supervision::limit::DeathLimit;
use crate::supervision::watch::SupervisionError;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// The decisions about a session.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Details {
    /// The kernel can send a dead server's requests again. The supervisor knows it once it has mounted the file system.
    pub resend: bool,
    /// The largest write that the session agreed to, in bytes.
    #[serde(default = "largest")]
    pub request_bytes: usize,
}

/// The first version of Linux that sends requests which were under way to the next server.
const RESENDS_SINCE: (u32, u32) = (6, 9);

/// Whether a kernel's release, such as `6.1.0-13-amd64`, is older than this version; not where it cannot be read.
fn is_older_than(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < version,
        _ => false,
    }
}

const fn largest() -> usize {
    REQUEST_BYTES_MAX
}

/// The front-end that makes a block device for the whole system.
pub struct FuseLoop;

impl Frontend for FuseLoop {
    fn name(&self) -> &'static str {
        NAME
    }

    fn option(&self, option: clap::Arg) -> clap::Arg {
        option.action(clap::ArgAction::SetTrue).help("Make a block device by way of FUSE and loop. Needs root")
    }

    fn is_at_hand(&self) -> bool {
        rustix::process::geteuid().is_root() && ["/dev/fuse", "/dev/loop-control"].iter().all(|path| Path::new(path).exists())
    }

    fn plan(&self, _typed: Option<&str>, _places: &Places, _label: Option<&str>) -> Outcome<FrontendPlan> {
        if !rustix::process::geteuid().is_root() {
            return Err(Failed::new(Exit::NotPermitted, "only root may make a block device (--fuse)").next("Use --nbd."));
        }
        check_reclaim(Path::new("/"))?;
        let kernel = rustix::system::uname();
        let release = kernel.release().to_string_lossy();
        if is_older_than(&release, RESENDS_SINCE) {
            let (major, minor) = RESENDS_SINCE;
            complain(format_args!(
                "onefold: this kernel ({release}) is older than Linux {major}.{minor}: if the server is killed, programs get I/O \
                 errors, and `upgrade` and `grow` need a detach"
            ));
        }
        Ok(FrontendPlan::new(NAME, true, &Details { resend: false, request_bytes: REQUEST_BYTES_MAX }))
    }

    fn supervise(&self, mut servers: Servers<'_>, adoption: Option<Adoption>) -> Result<(), SupervisionError> {
        prepare(&servers.plan);
        let plan = supervisor::Plan {
            source: servers.plan.path.display().to_string(),
            tag: servers.plan.id.clone(),
            threads: THREADS,
            request_bytes: request_bytes(servers.plan.options.memory_bytes()),
            limit: DeathLimit::default(),
            without_resend: false,
        };
        match adoption {
            None => supervisor::supervise(&plan, &mut servers),
            Some(adoption) => {
                let Details { resend, .. } = servers.details()?;
                let device = servers.recorded().map(|record| record.location.into());
                adopt(&plan, &mut servers, adoption, resend, device)
            }
        }
    }

    fn clients(&self, plan: &Plan, kept: Option<Vec<OwnedFd>>) -> Outcome<Box<dyn Clients>> {
        let channels = kept.ok_or_else(misused)?;
        prepare(plan);
        let Details { request_bytes, .. } = plan.frontend.details()?;
        Ok(Box::new(SessionClients { channels, tag: plan.id.clone(), request_bytes }))
    }

    fn detach(&self, record: &Record, _places: &Places, deadline: Deadline) -> Outcome<Option<Failed>> {
        match take_device_away(record, deadline) {
            // The device is gone, and so are the last writes to it.
            Err(failed) if failed.exit == Exit::DeviceFailed => Ok(Some(failed)),
            other => other.map(|()| None),
        }
    }

    fn clear_dead(&self, id: &str) -> Vec<String> {
        let devices = loopdev::find(id).unwrap_or_default();
        loopdev::clear_dead(id);
        let fate = |device: &Path| if loopdev::is_attached(device) { "goes when its last user closes it" } else { "was taken away" };
        devices.iter().map(|device| format!(". Its dead device {} {}", device.display(), fate(device))).collect()
    }

    fn can_hand_over(&self, plan: &Plan) -> bool {
        plan.frontend.details().is_ok_and(|details: Details| details.resend)
    }

    fn has_grown(&self, record: &Record) -> Outcome {
        check_tag(record)?;
        Ok(loopdev::take_size(record.location.as_ref())?)
    }

    fn help(&self, words: &[String]) -> Outcome<Exit> {
        helper::run(words)
    }
}

fn prepare(plan: &Plan) {
    for refused in prepare_process(plan.options.memory_bytes()) {
        tracing::warn!("{refused} was refused: where memory is short, the device may stall");
    }
}

/// The clients of a session.
struct SessionClients {
    channels: Vec<OwnedFd>,
    tag: String,
    request_bytes: usize,
}

impl Clients for SessionClients {
    /// The end comes with the session's, and not by a signal.
    fn watch_end(&self, _stop: Sender<()>) -> Outcome {
        Ok(ignore_stop_signals()?)
    }

    fn send_again(&self) -> bool {
        can_resend(&self.channels)
    }

    fn have_a_disk(&self) -> bool {
        true
    }

    fn announcer(&self) -> Outcome<Announcer> {
        let cannot = |e| Failed::system("cannot copy a descriptor", e);
        let first = self.channels.first().ok_or_else(misused)?.try_clone().map_err(cannot)?;
        Ok(Box::new(move |bytes| announce_size(&first, bytes).map_err(|e| Failed::system("cannot tell the kernel the new size", e))))
    }

    fn serve(self: Box<Self>, served: &Arc<dyn Served>, ready: Ready<'_>, _stopped: &Receiver<()>) -> Outcome {
        let Self { channels, tag, request_bytes } = *self;
        let config = Config { channels, tag, request_bytes, detach: helper::detaches };
        let mut server = Fuse::start(config, served.clone().target())?;
        // When there is a device, the supervisor reports its place.
        ready("")?;
        if !server.wait() {
            tracing::error!("the FUSE session was broken off");
        }
        Ok(())
    }
}

/// Checks that the device that a record names belongs to its volume.
fn check_tag(record: &Record) -> Outcome {
    if loopdev::has_tag(record.location.as_ref(), &record.id) {
        return Ok(());
    }
    let message = format!("{} does not belong to {}, but its record names it", record.location, record.path.display());
    Err(Failed::new(Exit::System, message).next("`losetup --list` shows what it is. If the record is wrong, remove it."))
}

/// Has a separate process flush the loop device and take it away: while the server does not answer, that process cannot be stopped.
fn take_device_away(record: &Record, deadline: Deadline) -> Outcome {
    check_tag(record)?;
    let mut command = helper::detaches(record.location.as_ref());
    command.stderr(Stdio::piped()).group_of_its_own();
    let cannot = |e| Failed::system("cannot start the command that takes the device away", e);
    let mut helper = command.spawn().map_err(cannot)?;
    while helper.try_wait().map_err(cannot)?.is_none() {
        if deadline.left().is_zero() {
            let message = format!("{} is still being flushed", record.location);
            return Err(
                Failed::new(Exit::System, message).next("It is taken away when that is over; `onefold status` shows how the volume is.")
            );
        }
        std::thread::sleep(Duration::from_millis(5).min(deadline.left()));
    }
    verdict(helper)
}

/// Returns the result of the command that takes a device away.
fn verdict(mut helper: Child) -> Outcome {
    let mut stderr = String::new();
    let _ = helper.stderr.take().map(|mut errors| errors.read_to_string(&mut stderr));
    let status = helper.wait().map_err(|e| Failed::system("cannot wait for the command that takes the device away", e))?;
    if status.success() {
        return Ok(());
    }
    let exit = Exit::of_code(status.code()).unwrap_or(Exit::System);
    let stderr = stderr.trim();
    Err(Failed::new(exit, stderr.strip_prefix("onefold: ").unwrap_or(stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compared_by_their_version() {
        for release in ["6.8.12", "5.15.0-91-generic", "6.1.0-13-amd64", "4.19"] {
            assert!(is_older_than(release, RESENDS_SINCE), "{release}");
        }
        for release in ["6.9.0", "6.10.3-amd64", "6.18.44", "7.0-rc1", "unknown", ""] {
            assert!(!is_older_than(release, RESENDS_SINCE), "{release}");
        }
    }
}
