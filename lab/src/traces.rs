//! The common parts of commands on traces: the options for reading a trace, and the messages where it cannot be read.

use onefold::exit::{Exit, Failed};
use onefold::files::{first_shown, of_io};
use onefold_trace::error::TraceError;
use onefold_trace::folder::FolderError;
use onefold_trace::recording::RecordingError;
use onefold_trace::source::ReadOptions;
use onefold_trace::text::blkparse::Action;
use onefold_trace::text::detect::FormName;
use onefold_trace::text::{Malformed, ReadError};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The description of the forms, in `--help`.
pub const FORMS: &str = "\
Forms of text:
  recorded   tab-separated, as in data/traces: microseconds, op, block, blocks, kind, flags, process/pid, MD5s of 8 bytes
  fiu        nanoseconds pid process sector sectors W|R major minor MD5, one MD5 for each 4096 bytes
  fiu-homes  the same with one MD5 for each 512 bytes
  mobile     seconds R|W sector sectors pid process MD5[-MD5...], one MD5 for each 4096 bytes
  blkparse   what blkparse prints by default, without content
  csv        comma-separated values; the first line names the columns: time_ns, op, offset and length have to be
             there, fua, pid, process, stream, flags, device, note, file, cgroup, fingerprints and compressed may be

A trace is a folder of Parquet files that `onefold-lab trace import` makes, a recording of `onefold trace record`,
or a text of one of these forms, compressed by zstd or not; `-` is standard input.";

/// The options for reading a trace.
#[derive(Debug, clap::Args)]
pub struct Reading {
    /// Form of the text that is read. Default: recognised by its first lines.
    #[arg(long, value_name = "FORM")]
    form: Option<FormName>,
    /// Events of blkparse that count as requests: Q, queued; D, issued; C, completed.
    #[arg(long, value_name = "LETTER", value_parser = parse_action, default_value = "Q")]
    action: Action,
    /// Take everything that can be read, however many lines are malformed, and what lies before damage in a recording. Without it more than
    /// 1 % and damage are refused.
    #[arg(long)]
    pub lenient: bool,
}

fn parse_action(typed: &str) -> Result<Action, String> {
    Action::ALL.into_iter().find(|action| action.letter() == typed).ok_or_else(|| "give Q, D or C".to_owned())
}

impl Reading {
    /// Returns the library's options; `stop`, which another thread sets, ends the reading early.
    #[must_use]
    pub const fn how<'a>(&self, stop: Option<&'a AtomicBool>) -> ReadOptions<'a> {
        ReadOptions { form: self.form, action: self.action, lenient: self.lenient, stop }
    }
}

/// Returns a function that shows the first malformed lines as they come.
pub fn malformed_shown() -> impl FnMut(&Malformed) {
    first_shown("", "more lines are malformed; they are counted only")
}

/// Returns the failure of a command whose user named `from`.
#[must_use]
pub fn failed(error: TraceError, from: &Path) -> Failed {
    let message = error.to_string();
    match error {
        TraceError::Io { source, .. }
        | TraceError::Folder(FolderError::Io { source, .. })
        | TraceError::Recording(RecordingError::Io { source, .. })
        | TraceError::Text(ReadError::Io { source, .. }) => Failed::new(of_io(&source), message),
        TraceError::Exists { .. }
        | TraceError::Folder(FolderError::Exists { .. })
        | TraceError::Recording(RecordingError::Exists { .. }) => {
            Failed::new(Exit::Refused, message).next("Give another name, or remove what is there.")
        }
        TraceError::UnknownForm { .. } => {
            Failed::new(Exit::Damaged, message).next("`--form` says which one it has; `onefold-lab trace import --help` lists them.")
        }
        TraceError::Malformed { .. } => {
            Failed::new(Exit::Damaged, message).next("`--form` if it has another form; `--lenient` takes the other lines all the same.")
        }
        TraceError::Recording(RecordingError::Damaged { .. }) => {
            Failed::new(Exit::Damaged, message).next("`--lenient` takes what lies before the damage.")
        }
        TraceError::Recording(RecordingError::NotARecording { .. }) => {
            Failed::new(Exit::Damaged, message).next("Name a file that `onefold trace record` has made.")
        }
        TraceError::Folder(_) | TraceError::Text(ReadError::Malformed(_)) => {
            Failed::new(Exit::Damaged, message).next(format!("Import it again, if {} was imported from somewhere.", from.display()))
        }
        TraceError::Unwritable { .. } => Failed::new(Exit::Usage, message).next("`--form csv` takes everything."),
        TraceError::Unfit { .. } => {
            Failed::new(Exit::Usage, message).next("`--form csv` takes everything; `--lenient` leaves out what does not fit.")
        }
        TraceError::NothingTaken { .. } => {
            Failed::new(Exit::Usage, message).next("`onefold-lab trace info` shows its phases, its streams and how long it is.")
        }
        TraceError::Shortfall(_) => Failed::new(Exit::Usage, message),
        TraceError::Interrupted => Failed::new(Exit::System, "interrupted; nothing was left behind"),
    }
}

/// Returns the same, for a command that can replace a file.
#[must_use]
pub fn failed_over(error: TraceError, from: &Path) -> Failed {
    let failed = failed(error, from);
    if failed.exit == Exit::Refused { failed.next("Give another name, or `--force` to replace the file.") } else { failed }
}
