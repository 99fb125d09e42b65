//! `trace mark`: notes that a phase begins.

use crate::attachment::control::{self, ServerRequest};
use crate::attachment::directory::run_directory;
use crate::attachment::find::attached;
use crate::attachment::record::Places;
use crate::exit::Outcome;

/// Note in a recording under way that a phase begins, by which `info` and `cut` separate its requests
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    volume: String,
    /// The name of the phase.
    phase: String,
}

/// Sets the mark.
///
/// # Errors
/// When the volume is not attached, or not recorded.
pub fn run(arguments: &Arguments) -> Outcome {
    let record = attached(&arguments.volume)?;
    let control = Places::of(&run_directory()?, &record.id).control;
    control::ask(&control, &ServerRequest::Mark { phase: arguments.phase.clone() }).map(drop)
}
