//! `hands`: puts the loop device on a FUSE session, from outside of supervisor and server. Started by `supervise`.

use crate::attachment::launch::End;
use crate::attachment::plan::Plan;
use crate::attachment::record::Places;
use crate::exit::{Failed, Outcome};
use crate::frontend::fuse::supervisor::Hands;
use crate::frontend::fuse::{attach_loop, loopdev};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    plan: String,
    /// Descriptor of the session's root directory. Without it: wait for the device that another process makes or has made, as long as the
    /// one lives that has started this.
    #[arg(long)]
    root: Option<RawFd>,
}

/// How often the device is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Makes the device and prints its path.
///
/// # Errors
/// When the kernel has none to give.
pub fn run(arguments: &Arguments) -> Outcome {
    let plan = Plan::parse(&arguments.plan)?;
    let Some(root) = arguments.root else {
        println!("{}", find(&plan.id)?.display());
        return Ok(());
    };
    let made = Hands::from_arguments(root)
        .and_then(|root| attach_loop(&root, &plan.id, plan.sector_bytes, plan.options.read_only))
        .map_err(Failed::from);
    if let Err(failed) = &made {
        // For the supervisor, which hands it on.
        End::of(failed.exit, Some(failed.clone())).leave(&Places::of(&plan.directory, &plan.id).end);
    }
    println!("{}", made?.display());
    Ok(())
}

fn find(tag: &str) -> Outcome<PathBuf> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| Failed::system("cannot end with the supervisor", e))?;
    loop {
        if let Some(device) = loopdev::find(tag)?.into_iter().next() {
            return Ok(device);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
