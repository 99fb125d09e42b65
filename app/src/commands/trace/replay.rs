//! `trace replay`: a trace sent again, in virtual time or to a device.

#[cfg(feature = "lab")]
use super::replay_sim;
use super::{FORMS, Reading, failed, replay_live};
use crate::exit::Outcome;
use onefold_trace::source::Source;
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[cfg(feature = "lab")]
use super::replay_sim::CHOICES;
#[cfg(not(feature = "lab"))]
const CHOICES: &str = "This build has no simulated devices.";

/// Replay a trace: simulated, and count what reaches the device; or on a device, with content made of the fingerprints
///
/// Requests are sent with the think times that were recorded, and nothing is sent that was recorded after a flush before
/// that flush is acknowledged. Simulated, what is measured is the phase `run` of the trace, or all of it where it has none.
/// On a device, what is there is lost.
#[derive(Debug, clap::Args)]
#[command(after_help = CHOICES, after_long_help = format!("{CHOICES}\n\n{FORMS}"))]
pub struct Arguments {
    /// Folder, or text of any form; `-` for standard input.
    pub trace: PathBuf,
    #[command(flatten)]
    to: To,
    /// Writes that may wait for their acknowledgement: on a device, at most 32; simulated, under strong persistence only.
    #[arg(long, value_name = "N", default_value = "32")]
    pub outstanding: NonZeroUsize,
    /// Read every block in the end, too, and compare it. Simulated, reads of the trace are always compared; on a device, with this.
    #[arg(long)]
    pub verify: bool,
    #[command(flatten)]
    pub reading: Reading,
    #[cfg(feature = "lab")]
    #[command(flatten)]
    pub simulated: replay_sim::Simulated,
    #[command(flatten)]
    pub live: replay_live::Live,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Where to.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct To {
    /// A simulated device, in virtual time.
    #[cfg(feature = "lab")]
    #[arg(long)]
    sim: bool,
    /// Block device or file to replay on: an attached volume, a disk, a loop device.
    #[arg(long, value_name = "DEVICE")]
    on: Option<PathBuf>,
}

/// Replays.
///
/// # Errors
/// Where the trace cannot be read, or as the replay itself.
///
/// # Panics
/// Never: one of both is asked for.
pub fn run(arguments: &Arguments) -> Outcome {
    let trace = &arguments.trace;
    let source = Source::open(trace, &arguments.reading.how(None)).map_err(|error| failed(error, trace))?;
    #[cfg(feature = "lab")]
    if arguments.to.sim {
        return replay_sim::run(arguments, source);
    }
    let on = arguments.to.on.as_ref().expect("the command line wants one of them");
    replay_live::run(arguments, on, source)
}
