//! The door between a front-end and everything else: the calls that `attach`, supervisors, servers and `detach` make to it.

use super::servers::Servers;
use crate::attachment::deadline::Deadline;
use crate::attachment::plan::{FrontendPlan, Plan, misused};
use crate::attachment::record::{Places, Record};
use crate::exit::{Exit, Failed, Outcome};
use crate::runtime::Served;
use crate::supervision::lent::Adoption;
use crate::supervision::watch::SupervisionError;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// A way for clients to reach a volume.
pub trait Frontend: Sync {
    /// Returns its name, which plans and records hold, and which is the option of `attach` that asks for it.
    fn name(&self) -> &'static str;

    /// Completes that option: its value, and its text in `--help`.
    fn option(&self, option: clap::Arg) -> clap::Arg;

    /// Whether this user on this machine gets it when asking for no front-end.
    fn is_at_hand(&self) -> bool;

    /// Returns the facts that the processes of an attachment need. `typed` is the value of the option; `label` that of the volume.
    ///
    /// # Errors
    /// When the user may not have it, or the value typed makes no sense.
    fn plan(&self, typed: Option<&str>, places: &Places, label: Option<&str>) -> Outcome<FrontendPlan>;

    /// Keeps what clients hold, until the attachment's end; from its beginning, or with what a dead supervisor has left.
    ///
    /// # Errors
    /// When it cannot begin, or fails.
    fn supervise(&self, servers: Servers<'_>, adoption: Option<Adoption>) -> Result<(), SupervisionError>;

    /// Returns the clients of a server: through what its supervisor keeps, or, without a supervisor, through what the server makes for
    /// itself. A process calls it before it has threads.
    ///
    /// # Errors
    /// When the plan is not for it, or it needs a supervisor and there is none.
    fn clients(&self, plan: &Plan, kept: Option<Vec<OwnedFd>>) -> Outcome<Box<dyn Clients>>;

    /// Ends an attachment from outside. Returns the failure to write something, where the attachment ends all the same.
    ///
    /// # Errors
    /// When it does not end: its clients use it, or the time is over.
    fn detach(&self, record: &Record, places: &Places, deadline: Deadline) -> Outcome<Option<Failed>>;

    /// Clears away what clients of a dead attachment still hold. Returns a sentence on each, to follow another.
    fn clear_dead(&self, _id: &str) -> Vec<String> {
        Vec::new()
    }

    /// Whether clients go on when another server takes over from one that lives.
    fn can_hand_over(&self, _plan: &Plan) -> bool {
        true
    }

    /// Shows clients from outside that the volume has grown, after its server has announced it.
    ///
    /// # Errors
    /// When the system refuses.
    fn has_grown(&self, _record: &Record) -> Outcome {
        Ok(())
    }

    /// Does work that neither a supervisor nor a server may do itself, in a process of its own: `helper NAME WORDS`.
    ///
    /// # Errors
    /// When the work fails, or there is no such work.
    fn help(&self, _words: &[String]) -> Outcome<Exit> {
        Err(misused())
    }
}

/// Receives the place where clients find a volume, once they do; an empty place is one that only the supervisor knows.
pub type Ready<'a> = Box<dyn FnOnce(&str) -> Outcome + 'a>;

/// Announces the size of the volume, in bytes.
pub type Announcer = Box<dyn Fn(u64) -> Outcome + Send + Sync>;

/// The clients that one server answers.
pub trait Clients {
    /// Sends to `stop` when the end is wanted. The server calls it before it opens the volume.
    ///
    /// # Errors
    /// When the system refuses.
    fn watch_end(&self, stop: Sender<()>) -> Outcome;

    /// Whether an unanswered request comes again, so that one that finds no room may be put off.
    fn send_again(&self) -> bool;

    /// Whether they use a disk of this kernel: the block device at the place that the attachment's record names.
    fn have_a_disk(&self) -> bool {
        false
    }

    /// Returns the call that announces the size of the volume, in bytes, where something between them and the server keeps it in mind.
    ///
    /// # Errors
    /// When the system refuses.
    fn announcer(&self) -> Outcome<Announcer> {
        Ok(Box::new(|_| Ok(())))
    }

    /// Answers their requests from now on, until their own end or a message through `stopped`.
    ///
    /// # Errors
    /// When they cannot be served.
    fn serve(self: Box<Self>, served: &Arc<dyn Served>, ready: Ready<'_>, stopped: &Receiver<()>) -> Outcome;
}
