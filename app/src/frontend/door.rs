//! The door between a front-end and everything else: what `attach`, supervisors, servers and `detach` ask of it.

use super::servers::Servers;
use crate::attachment::deadline::Deadline;
use crate::attachment::plan::{FrontendPlan, Plan, misused};
use crate::attachment::record::{Places, Record};
use crate::exit::{Exit, Failed, Outcome};
use crate::runtime::Served;
use crate::supervision::lent::Adoption;
use crate::supervision::watch::Ended;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// A way for clients to reach a volume.
pub trait Frontend: Sync {
    /// Its name, in plans, in records and as the option of `attach` that asks for it.
    fn name(&self) -> &'static str;

    /// That option: what it takes, and what `--help` says of it.
    fn option(&self, option: clap::Arg) -> clap::Arg;

    /// Whether it is there for this user on this machine, when the user asks for none.
    fn is_at_hand(&self) -> bool;

    /// What the processes of an attachment have to know. `typed` is the value of the option; `label` that of the volume.
    ///
    /// # Errors
    /// When the user may not have it, or what was typed makes no sense.
    fn plan(&self, typed: Option<&str>, places: &Places, label: Option<&str>) -> Outcome<FrontendPlan>;

    /// Keeps what clients hold on to, until the attachment's end; from its beginning, or with what a dead supervisor has left.
    ///
    /// # Errors
    /// When it cannot be had, or broke.
    fn supervise(&self, servers: Servers<'_>, adoption: Option<Adoption>) -> Result<(), Ended>;

    /// The clients of a server, by way of what its supervisor keeps; without a supervisor, by way of what the server makes for itself. It
    /// is called before the process has threads.
    ///
    /// # Errors
    /// When the plan is not for it, or it needs a supervisor and there is none.
    fn clients(&self, plan: &Plan, kept: Option<Vec<OwnedFd>>) -> Outcome<Box<dyn Clients>>;

    /// Has an attachment end, from outside. What could not be written, where the attachment ends all the same.
    ///
    /// # Errors
    /// When it does not end: its clients use it, or the time is over.
    fn detach(&self, record: &Record, places: &Places, deadline: Deadline) -> Outcome<Option<Failed>>;

    /// Takes away what clients of an attachment hold on to whose processes are all dead; a sentence on each, to follow another.
    fn clear_dead(&self, _id: &str) -> Vec<String> {
        Vec::new()
    }

    /// Does what neither a supervisor nor a server may do itself, in a process of its own: `hands NAME WORDS`.
    ///
    /// # Errors
    /// When it cannot be done, or there is no such thing to do.
    fn hands(&self, _words: &[String]) -> Outcome<Exit> {
        Err(misused())
    }
}

/// Hears where clients find a volume, once they do; an empty place is one that only the supervisor knows.
pub type Ready<'a> = Box<dyn FnOnce(&str) -> Outcome + 'a>;

/// Those whom one server answers.
pub trait Clients {
    /// Has `stop` told when the end is wanted. It is called before the volume is opened.
    ///
    /// # Errors
    /// When the system refuses.
    fn watch_end(&self, stop: Sender<()>) -> Outcome;

    /// Whether a request that is answered by nobody comes again, so that one that finds no room may be put off.
    fn send_again(&self) -> bool;

    /// Answers their requests from now on, and until the end: theirs, or the one that `stopped` tells of.
    ///
    /// # Errors
    /// When they cannot be served.
    fn serve(self: Box<Self>, served: &Arc<dyn Served>, ready: Ready<'_>, stopped: &Receiver<()>) -> Outcome;
}
