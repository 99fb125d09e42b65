//! `supervise`: the process that keeps a FUSE session alive while servers come and go. Started by `attach`.

use super::parse_plan;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend::fuse::THREADS;
use crate::frontend::fuse::supervisor::{self, DeathLimit, Ended, Event, prepare_process};
use crate::server::launch::{self, End, Told};
use crate::server::plan::{FrontendPlan, Plan};
use crate::server::record::Places;
use crate::server::serving::no_frontend;
use std::process::{Command, Stdio};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    plan: String,
}

/// Supervises until the session's end.
///
/// # Errors
/// When the session cannot be had, or broke.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    let plan = parse_plan(&arguments.plan)?;
    if plan.in_background {
        launch::leave_terminal();
    }
    let result = supervise(&plan);
    if let Err(failed) = &result {
        Told::Failed(failed.clone()).tell();
    }
    result
}

fn supervise(plan: &Plan) -> Outcome<Exit> {
    let FrontendPlan::Fuse { mountpoint } = &plan.frontend else {
        return Err(Failed::new(Exit::Usage, "there is no FUSE session to supervise"));
    };
    let places = Places::of(&plan.directory, &plan.id);
    let _ = End::take(&places.end);
    let _ = prepare_process();
    let session = supervisor::Plan {
        mountpoint: mountpoint.clone(),
        source: plan.path.display().to_string(),
        threads: THREADS,
        limit: DeathLimit::default(),
        without_resend: false,
    };
    let mut serving = plan.clone();
    serving.in_background = true;
    let mut server = |handover: &supervisor::Handover| {
        let mut command = command("serve", &serving);
        command.args(handover.arguments()).stdin(Stdio::null()).stdout(Stdio::null());
        serving.is_replacement = true;
        command
    };
    let mut detach = || {
        let mut command = command("detach", plan);
        command.arg("--mountpoint").arg(mountpoint).stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    let mut has_told = false;
    let mut report = |event| match event {
        Event::Ready { server } => {
            tracing::info!(server, "serving");
            if !std::mem::replace(&mut has_told, true) {
                Told::Ready { location: mountpoint.display().to_string() }.tell();
            }
        }
        Event::Mounted { resend: false } => {
            tracing::warn!("this kernel cannot send requests again (Linux 6.9 can): if the server is killed, the device fails");
        }
        other => tracing::info!("{other:?}"),
    };
    let ended = supervisor::supervise(&session, &mut server, &mut detach, &mut report);
    let end = End::take(&places.end);
    match ended {
        Ok(()) => {
            let exit = end.as_ref().map_or(Exit::Done, |end| end.exit);
            // For `detach`, which asks after us.
            if let Some(end) = end {
                end.leave(&places.end);
            }
            Ok(exit)
        }
        Err(Ended::Setup(error)) => Err(no_frontend(error)),
        Err(other) => Err(end.and_then(|end| end.failed).unwrap_or_else(|| Failed::new(Exit::System, other.to_string()))),
    }
}

fn command(verb: &str, plan: &Plan) -> Command {
    launch::command(verb, plan)
}
