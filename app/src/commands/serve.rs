//! `serve`: the process behind an attached volume. `supervise` starts it.

use crate::attachment::launch;
use crate::attachment::plan::Plan;
use crate::attachment::session::Session;
use crate::device::slowing::Slowing;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend;
use crate::runtime::warnings;
use crate::server::serving::serve_supervised;
use crate::supervision::lent::{Legacy, Lent};
use crate::supervision::successor;
use std::os::fd::{OwnedFd, RawFd};
use std::process::Stdio;

/// The arguments that its supervisor hands over.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    plan: String,
    /// The descriptors that clients hold.
    #[arg(long)]
    kept: String,
    #[arg(long)]
    ready: RawFd,
    #[arg(long)]
    supervisor: RawFd,
    #[arg(long)]
    session: RawFd,
}

/// Serves until it is ended.
///
/// # Errors
/// The reason why it does not serve.
pub fn run(arguments: &Arguments, slowing: &dyn Slowing) -> Outcome<Exit> {
    let lent = Lent::from_arguments(&arguments.kept, arguments.ready, arguments.supervisor)?;
    let session = Session::from_argument(arguments.session)?;
    let plan = Plan::parse(&arguments.plan)?;
    let legacy = lent.legacy()?;
    let Lent { kept, ready, supervisor } = lent;
    let clients = frontend::named(&plan.frontend.name)?.clients(&plan, Some(kept))?;
    plan.messages.iter().cloned().for_each(warnings::keep);
    watch_supervisor(&plan, supervisor, legacy, &session)?;
    serve_supervised(&plan, slowing, clients, ready, session)
}

/// Arranges, before any work that may be interrupted, that another supervisor is started when this server's dies.
fn watch_supervisor(plan: &Plan, supervisor: OwnedFd, legacy: Legacy, session: &Session) -> Outcome {
    let (session, plan, gives_way) = (session.try_clone()?, plan.clone(), plan.gives_way);
    let command = move || {
        let mut command = launch::command(&["supervise"], &plan);
        legacy.lend_to(&mut command);
        command.lend(&[session.descriptor()]);
        command.args(session.argument());
        // Nobody reads this report: the attaching process has heard, or looks at the record.
        command.stdin(Stdio::null()).stdout(Stdio::null()).group_of_its_own();
        command
    };
    successor::watch(supervisor, gives_way, command).map_err(|e| Failed::system("cannot start a thread", e))
}
