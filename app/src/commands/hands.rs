//! `hands`: puts the loop device on a FUSE session, from outside of supervisor and server. Started by `supervise`.

use super::parse_plan;
use crate::exit::Outcome;
use crate::frontend::fuse::attach_loop;
use crate::frontend::fuse::supervisor::Hands;
use crate::server::launch::End;
use crate::server::record::Places;
use crate::server::serving::no_frontend;
use std::os::fd::RawFd;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    plan: String,
    /// Descriptor of the session's root directory.
    #[arg(long)]
    root: RawFd,
}

/// Makes the device and prints its path.
///
/// # Errors
/// When the kernel has none to give.
pub fn run(arguments: &Arguments) -> Outcome {
    let plan = parse_plan(&arguments.plan)?;
    let made = Hands::from_arguments(arguments.root)
        .and_then(|root| attach_loop(&root, &plan.id, plan.sector_bytes, plan.options.read_only))
        .map_err(no_frontend);
    if let Err(failed) = &made {
        // For the supervisor, which hands it on.
        End { exit: failed.exit, failed: Some(failed.clone()) }.leave(&Places::of(&plan.directory, &plan.id).end);
    }
    println!("{}", made?.display());
    Ok(())
}
