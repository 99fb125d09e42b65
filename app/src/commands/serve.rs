//! `serve`: the process behind an attached volume. Started by `attach`.

use super::parse_plan;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend::fuse::supervisor::{Inherited, prepare_process};
use crate::runtime::warnings;
use crate::server::launch;
use crate::server::plan::Plan;
use crate::server::serving::{no_frontend, serve_in_background};
use crate::server::session::Session;
use crate::supervision::handover::lend;
use crate::supervision::successor;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    plan: String,
    #[command(flatten)]
    lent: Option<Lent>,
}

/// Descriptors of a FUSE session, and what else its supervisor hands over.
#[derive(Debug, clap::Args)]
#[group(requires_all = ["channels", "ready", "supervisor", "session"])]
struct Lent {
    #[arg(long, required = false)]
    channels: String,
    #[arg(long, required = false)]
    ready: RawFd,
    #[arg(long, required = false)]
    supervisor: RawFd,
    #[arg(long, required = false)]
    session: RawFd,
    #[arg(long)]
    resend: bool,
}

/// Serves until it is ended.
///
/// # Errors
/// Why it does not serve.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    let Some(lent) = &arguments.lent else {
        let plan = parse_plan(&arguments.plan)?;
        plan.said.iter().cloned().for_each(warnings::keep);
        return serve_in_background(&plan, None, None);
    };
    let inherited = Inherited::from_arguments(&lent.channels, lent.ready, lent.supervisor).map_err(no_frontend)?;
    let session = Session::from_argument(lent.session).map_err(no_frontend)?;
    for refused in prepare_process() {
        tracing::warn!("{refused} was refused: where memory is short, the device may stall");
    }
    let plan = parse_plan(&arguments.plan)?;
    plan.said.iter().cloned().for_each(warnings::keep);
    watch_supervisor(&plan, &inherited, &session, lent.resend)?;
    serve_in_background(&plan, Some(inherited), Some(session))
}

/// Sees to it, before anything else is done that may be interrupted, that another supervisor is started when this server's dies.
fn watch_supervisor(plan: &Plan, inherited: &Inherited, session: &Session, resend: bool) -> Outcome {
    let legacy = inherited.legacy(resend).map_err(no_frontend)?;
    let copy = |descriptor: &OwnedFd| descriptor.try_clone().map_err(|e| Failed::system("cannot copy a descriptor", e));
    let (supervisor, session) = (copy(&inherited.supervisor)?, session.try_clone()?);
    let plan = plan.clone();
    let command = move || {
        let mut command = launch::command("supervise", &plan);
        legacy.lend_to(&mut command);
        lend(&mut command, &[session.descriptor()]);
        command.args(session.argument());
        // Its word is for nobody: whoever attached has heard, or looks at the record.
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        command
    };
    successor::watch(supervisor, command).map_err(|e| Failed::system("cannot start a thread", e))
}
