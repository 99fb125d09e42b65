//! `serve`: the process behind an attached volume. Started by `attach`.

use super::parse_plan;
use crate::exit::{Exit, Outcome};
use crate::frontend::fuse::supervisor::{Inherited, prepare_process};
use crate::runtime::warnings;
use crate::server::serving::{no_frontend, serve_in_background};
use std::os::fd::RawFd;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    plan: String,
    /// Descriptors of a FUSE session.
    #[arg(long, requires = "ready")]
    channels: Option<String>,
    #[arg(long)]
    ready: Option<RawFd>,
}

/// Serves until it is ended.
///
/// # Errors
/// Why it does not serve.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    let inherited = match (&arguments.channels, arguments.ready) {
        (Some(channels), Some(ready)) => Some(Inherited::from_arguments(channels, ready).map_err(no_frontend)?),
        _ => None,
    };
    if inherited.is_some() {
        for refused in prepare_process() {
            tracing::warn!("{refused} was refused: where memory is short, the device may stall");
        }
    }
    let plan = parse_plan(&arguments.plan)?;
    plan.said.iter().cloned().for_each(warnings::keep);
    serve_in_background(&plan, inherited)
}
