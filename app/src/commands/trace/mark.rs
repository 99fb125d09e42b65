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
    let Places { recorder, control, .. } = Places::of(&run_directory()?, &record.id);
    // A recorder of its own has a socket; otherwise it is the server.
    let socket = if control::server(&recorder).is_some() { recorder } else { control };
    control::ask(&socket, &ServerRequest::Mark { phase: arguments.phase.clone() }).map(drop)
}
