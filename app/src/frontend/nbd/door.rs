//! NBD as a front-end: its calls for `attach`, supervisors, servers and `detach`.

use super::clients::NbdClients;
use super::plan::Details;
use super::supervisor;
use crate::attachment::control::{self, ServerRequest};
use crate::attachment::deadline::Deadline;
use crate::attachment::plan::{FrontendPlan, Plan, misused};
use crate::attachment::record::{Places, Record};
use crate::attachment::session;
use crate::exit::{Failed, Outcome};
use crate::frontend::door::{Clients, Frontend};
use crate::frontend::servers::Servers;
use crate::supervision::lent::Adoption;
use crate::supervision::watch::SupervisionError;
use std::os::fd::OwnedFd;
use std::time::Duration;

const OPTION: &str = "\
Serve NBD, at a socket or loopback address (default: a socket of its own). Nobody else may enter the socket's directory; where it is \
missing it is made. Without this: a block device (FUSE and loop) for root, NBD for others";

/// The front-end that makes a network block device, on a Unix socket or on this machine's loopback address.
pub struct Nbd;

impl Frontend for Nbd {
    fn name(&self) -> &'static str {
        "nbd"
    }

    fn option(&self, option: clap::Arg) -> clap::Arg {
        option.value_name("SOCKET|HOST:PORT").num_args(0..=1).require_equals(true).help(OPTION)
    }

    fn is_at_hand(&self) -> bool {
        true
    }

    /// In the foreground it is one process, which nobody replaces when it dies.
    fn plan(&self, typed: Option<&str>, places: &Places, label: Option<&str>) -> Outcome<FrontendPlan> {
        Ok(FrontendPlan::new(self.name(), false, &Details::of(typed, places, label)?))
    }

    fn supervise(&self, servers: Servers<'_>, adoption: Option<Adoption>) -> Result<(), SupervisionError> {
        let details = servers.details()?;
        supervisor::supervise(servers, details, adoption)
    }

    fn clients(&self, plan: &Plan, kept: Option<Vec<OwnedFd>>) -> Outcome<Box<dyn Clients>> {
        let details: Details = plan.frontend.details()?;
        let kept = kept.map(|kept| details.listening(kept).ok_or_else(misused)).transpose()?;
        Ok(Box::new(NbdClients { details, kept }))
    }

    fn detach(&self, _record: &Record, places: &Places, deadline: Deadline) -> Outcome<Option<Failed>> {
        ask_to_end(places, deadline).map(|()| None)
    }
}

/// The time to wait for the end before the server is asked once more.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Asks the server to detach until it has: a server that is killed meanwhile is replaced, and the next one has to be asked, too. Returns
/// when the attachment is over, or the time.
fn ask_to_end(places: &Places, deadline: Deadline) -> Outcome {
    loop {
        let before = control::server(&places.control);
        let asked = control::ask_within(&places.control, &ServerRequest::Detach, deadline.left().min(control::ANSWER_PATIENCE));
        if session::wait_end(&places.lock, deadline.left().min(ASK_AGAIN)) {
            return Ok(());
        }
        // A server that is there but silent is not asked forever; where there is none, or another, one has just been replaced.
        let is_silent = asked.is_err() && before.is_some() && before == control::server(&places.control);
        if is_silent || deadline.left().is_zero() {
            return asked.map(drop);
        }
    }
}
