//! `supervise`: the process that keeps what clients hold while servers are replaced. `attach` starts it, and so does a server whose
//! supervisor died.

use crate::attachment::launch::{self, End, LaunchReport};
use crate::attachment::plan::Plan;
use crate::attachment::record::{Places, clear, forget_log};
use crate::attachment::session::Session;
use crate::error::Error;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend;
use crate::frontend::servers::Servers;
use crate::supervision::lent::Adoption;
use crate::supervision::watch::SupervisionError;
use std::os::fd::RawFd;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    plan: String,
    #[command(flatten)]
    inheritance: Option<Inheritance>,
}

/// The arguments that a server leaves to its next supervisor.
#[derive(Debug, clap::Args)]
#[group(requires_all = ["kept", "ready", "server", "server_fd", "session"])]
struct Inheritance {
    /// The descriptors that clients hold.
    #[arg(long, required = false)]
    kept: String,
    #[arg(long, required = false)]
    ready: RawFd,
    #[arg(long, required = false)]
    server: u32,
    #[arg(long, required = false)]
    server_fd: RawFd,
    #[arg(long, required = false)]
    session: RawFd,
}

impl Inheritance {
    fn take(&self) -> Result<(Session, Adoption), Error> {
        let adoption = Adoption::from_arguments(&self.kept, self.ready, self.server, self.server_fd)?;
        Ok((Session::from_argument(self.session)?, adoption))
    }
}

/// Supervises until the attachment's end.
///
/// # Errors
/// When it cannot begin, or fails.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    let inherited = arguments.inheritance.as_ref().map(Inheritance::take).transpose()?;
    let plan = Plan::parse(&arguments.plan)?;
    if plan.in_background {
        launch::leave_terminal();
    }
    let lock = Places::of(&plan.directory, &plan.id).lock;
    let (session, adoption) = match inherited {
        Some((session, adoption)) => (Ok(session), Some(adoption)),
        None => (Session::begin(&lock), None),
    };
    let result = session.and_then(|session| {
        let result = supervise(&plan, &session, adoption);
        clear(&plan.directory, &plan.id);
        if let Ok(Exit::Done) = result {
            forget_log(&plan.directory, &plan.id);
        }
        session.remove(&lock);
        result
    });
    if let Err(failed) = &result {
        LaunchReport::Failed(failed.clone()).tell();
    }
    result
}

fn supervise(plan: &Plan, session: &Session, adoption: Option<Adoption>) -> Outcome<Exit> {
    let end_place = Places::of(&plan.directory, &plan.id).end;
    let is_replacement = adoption.is_some();
    if !is_replacement {
        let _ = End::take(&end_place);
    }
    let servers = Servers::of(Plan { is_replacement, ..plan.clone() }, session);
    let ended = frontend::named(&plan.frontend.name)?.supervise(servers, adoption);
    let end = End::take(&end_place);
    match ended {
        Ok(()) | Err(SupervisionError::FailedClose { .. }) => {
            // A server that could not close its volume has left a report.
            let exit = end.as_ref().map_or(if ended.is_ok() { Exit::Done } else { Exit::System }, |end| end.exit);
            // It is for `detach`, which asks when this process is gone.
            if let Some(end) = end.filter(|end| end.exit != Exit::Done) {
                end.leave(&end_place);
            }
            Ok(exit)
        }
        Err(SupervisionError::Setup(error)) => Err(error.into()),
        Err(other) => {
            let has_served = matches!(other, SupervisionError::GaveUp { .. } | SupervisionError::NoResend { .. });
            let failed = end.and_then(|end| end.failed).unwrap_or_else(|| Failed::new(Exit::System, other.to_string()));
            if has_served {
                // Nobody waits for this process any more; one that stays with the attachment reports it.
                End::of(failed.exit, Some(failed.clone())).leave(&end_place);
            }
            Err(failed)
        }
    }
}
