//! `serve`: the process behind an attached volume. Started by `supervise`.

use crate::attachment::launch;
use crate::attachment::plan::{Plan, misused};
use crate::attachment::session::Session;
use crate::error::Error;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend::fuse::supervisor::{Inherited as FuseInherited, prepare_process};
use crate::frontend::nbd;
use crate::runtime::warnings;
use crate::server::serving::{Inherited, serve_supervised};
use crate::supervision::start::Start;
use crate::supervision::successor;
use std::os::fd::RawFd;
use std::process::Stdio;

/// What its supervisor hands over.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    plan: String,
    /// Descriptors of a FUSE session.
    #[arg(long)]
    channels: Option<String>,
    #[arg(long)]
    resend: bool,
    /// A listening socket, for NBD.
    #[arg(long)]
    listener: Option<RawFd>,
    #[arg(long)]
    ready: RawFd,
    #[arg(long)]
    supervisor: RawFd,
    #[arg(long)]
    session: RawFd,
}

impl Arguments {
    fn take(&self) -> Result<Option<Inherited>, Error> {
        Ok(match (&self.channels, self.listener) {
            (Some(channels), None) => Some(Inherited::Fuse(FuseInherited::from_arguments(channels, self.ready, self.supervisor)?)),
            (None, Some(listener)) => Some(Inherited::Nbd(nbd::Inherited::from_arguments(listener, self.ready, self.supervisor)?)),
            _ => None,
        })
    }
}

/// Serves until it is ended.
///
/// # Errors
/// Why it does not serve.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    let inherited = arguments.take()?.ok_or_else(misused)?;
    let session = Session::from_argument(arguments.session)?;
    if matches!(inherited, Inherited::Fuse(_)) {
        for refused in prepare_process() {
            tracing::warn!("{refused} was refused: where memory is short, the device may stall");
        }
    }
    let plan = Plan::parse(&arguments.plan)?;
    plan.said.iter().cloned().for_each(warnings::keep);
    watch_supervisor(&plan, &inherited, &session, arguments.resend)?;
    serve_supervised(&plan, inherited, session)
}

/// Sees to it, before anything else is done that may be interrupted, that another supervisor is started when this server's dies.
fn watch_supervisor(plan: &Plan, inherited: &Inherited, session: &Session, resend: bool) -> Outcome {
    let lend_legacy: Box<dyn Fn(&mut Start) + Send> = match inherited {
        Inherited::Fuse(inherited) => {
            let legacy = inherited.legacy(resend)?;
            Box::new(move |command| legacy.lend_to(command))
        }
        Inherited::Nbd(inherited) => {
            let legacy = inherited.legacy()?;
            Box::new(move |command| legacy.lend_to(command))
        }
    };
    let supervisor = inherited.supervisor().try_clone().map_err(|e| Failed::system("cannot copy a descriptor", e))?;
    let (session, plan) = (session.try_clone()?, plan.clone());
    let command = move || {
        let mut command = launch::command("supervise", &plan);
        lend_legacy(&mut command);
        command.lend(&[session.descriptor()]);
        command.args(session.argument());
        // Its word is for nobody: whoever attached has heard, or looks at the record.
        command.stdin(Stdio::null()).stdout(Stdio::null()).group_of_its_own();
        command
    };
    successor::watch(supervisor, command).map_err(|e| Failed::system("cannot start a thread", e))
}
