//! `trace mark`: a phase begins.

use crate::attachment::control::{self, Ask};
use crate::attachment::directory::run_directory;
use crate::attachment::find::attached;
use crate::attachment::record::Places;
use crate::exit::Outcome;

/// Write down in a recording under way that a phase begins, by which `info` and `cut` tell its requests apart
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    volume: String,
    /// Name of the phase.
    phase: String,
}

/// Marks.
///
/// # Errors
/// When the volume is not attached, or not recorded.
pub fn run(arguments: &Arguments) -> Outcome {
    let record = attached(&arguments.volume)?;
    let control = Places::of(&run_directory()?, &record.id).control;
    control::ask(&control, &Ask::Mark { phase: arguments.phase.clone() }).map(drop)
}
