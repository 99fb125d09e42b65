//! Waiting for work that a server does in the background, and saying how far it is.

use crate::attachment::record::Record;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::complain;
use crate::runtime::volume_counts::VolumeCounts;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The time between two looks at the progress.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The time between two lines of progress.
const SAY_AGAIN: Duration = Duration::from_secs(2);

/// The progress of the work.
pub(super) enum Progress {
    Over,
    Paused,
    /// `done` since the beginning, and `left`, in the same unit.
    UnderWay {
        line: String,
        done: u64,
        left: u64,
    },
}

/// Passes the counts of a volume on, unless its store has failed: what its server does in the background never ends then.
///
/// # Errors
/// When the store has failed.
pub(super) fn of_working(record: &Record, counts: VolumeCounts) -> Outcome<VolumeCounts> {
    if counts.has_failed {
        let path = record.path.display();
        return Err(Failed::new(
            Exit::DeviceFailed,
            format!("{path}: its store has failed, and nothing is done in the background any more"),
        )
        .next(format!("`onefold status {path}` says what failed; detach it, look after the store, and attach it again.")));
    }
    Ok(counts)
}

/// Waits until the work is over or paused; `resume` is the command that goes on. On a terminal it says how far the work is.
///
/// # Errors
/// Those of `look`.
pub(super) fn wait(resume: &str, mut look: impl FnMut() -> Outcome<Progress>) -> Outcome {
    let (begun, mut said) = (Instant::now(), Instant::now());
    loop {
        match look()? {
            Progress::Over => return Ok(()),
            Progress::Paused => {
                complain(format_args!("onefold: it is paused; `{resume}` goes on"));
                return Ok(());
            }
            Progress::UnderWay { line, done, left } if std::io::stderr().is_terminal() && said.elapsed() >= SAY_AGAIN => {
                said = Instant::now();
                complain(format_args!("{line}{}", time_left(done, left, begun.elapsed())));
            }
            Progress::UnderWay { .. } => {}
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Estimates the time that is left, where something was done already.
fn time_left(done: u64, left: u64, passed: Duration) -> String {
    let seconds = passed.as_secs().saturating_mul(left).checked_div(done);
    seconds.map_or_else(String::new, |seconds| format!("; about {seconds} s left"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_follows_from_what_was_done() {
        assert_eq!(time_left(300, 600, Duration::from_secs(30)), "; about 60 s left");
        assert_eq!(time_left(0, 900, Duration::from_secs(30)), "", "nothing is known yet");
    }
}
