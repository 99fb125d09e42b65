//! The common parts of commands on traces, in `onefold` and in `onefold-lab`: the options for reading a trace, and the messages where it
//! cannot be read.

use crate::exit::{Exit, Failed, Outcome};
use crate::output::complain;
use onefold_trace::error::TraceError;
use onefold_trace::folder::FolderError;
use onefold_trace::scan::ScanError;
use onefold_trace::source::ReadOptions;
use onefold_trace::text::blkparse::Action;
use onefold_trace::text::detect::FormName;
use onefold_trace::text::{Malformed, ReadError};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The number of malformed lines, or of things that could not be read, that are shown; further ones are only counted.
const SHOWN_MAX: u64 = 20;

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

A trace is a folder of Parquet files that `onefold trace import` makes, or a text of one of these forms, compressed
by zstd or not; `-` is standard input.";

/// The options for reading a trace.
#[derive(Debug, clap::Args)]
pub struct Reading {
    /// Form of the text that is read. Default: recognised by its first lines.
    #[arg(long, value_name = "FORM")]
    form: Option<FormName>,
    /// Events of blkparse that count as requests: Q, queued; D, issued; C, completed.
    #[arg(long, value_name = "LETTER", value_parser = parse_action, default_value = "Q")]
    action: Action,
    /// Take everything that can be read, however many lines are malformed. Without it more than 1 % are refused.
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

/// Returns a flag that a signal sets, by which the user ends the command: half-written output is then removed. A second signal ends the
/// process at once, which may wait for its input.
///
/// # Errors
/// When the system refuses to watch signals.
pub fn stopped_by_signals() -> Outcome<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|e| Failed::system("cannot watch for signals", e))?;
    }
    Ok(stop)
}

/// Returns a function that shows the first malformed lines as they come.
pub fn malformed_shown() -> impl FnMut(&Malformed) {
    first_shown("", "more lines are malformed; they are counted only")
}

/// Returns a function that shows the first things that it gets, and then once that there are more.
pub fn first_shown<T: Display>(prefix: &'static str, more: &'static str) -> impl FnMut(&T) {
    let mut shown = 0;
    move |what| {
        shown += 1;
        match shown {
            ..=SHOWN_MAX => complain(format_args!("{prefix}{what}")),
            n if n == SHOWN_MAX + 1 => complain(more),
            _ => {}
        }
    }
}

/// Returns the failure of a command whose user named `from`.
#[must_use]
pub fn failed(error: TraceError, from: &Path) -> Failed {
    let message = error.to_string();
    match error {
        TraceError::Io { source, .. }
        | TraceError::Folder(FolderError::Io { source, .. })
        | TraceError::Text(ReadError::Io { source, .. }) => Failed::new(of_io(&source), message),
        TraceError::Exists { .. } | TraceError::Folder(FolderError::Exists { .. }) => {
            Failed::new(Exit::Refused, message).next("Give another name, or remove what is there.")
        }
        TraceError::UnknownForm { .. } => {
            Failed::new(Exit::Damaged, message).next("`--form` says which one it has; `onefold trace import --help` lists them.")
        }
        TraceError::Malformed { .. } => {
            Failed::new(Exit::Damaged, message).next("`--form` if it has another form; `--lenient` takes the other lines all the same.")
        }
        TraceError::Folder(_) | TraceError::Text(ReadError::Malformed(_)) => {
            Failed::new(Exit::Damaged, message).next(format!("Import it again, if {} was imported from somewhere.", from.display()))
        }
        TraceError::Unwritable { .. } => Failed::new(Exit::Usage, message).next("`--form csv` takes everything."),
        TraceError::Unfit { .. } => {
            Failed::new(Exit::Usage, message).next("`--form csv` takes everything; `--lenient` leaves out what does not fit.")
        }
        TraceError::NothingTaken { .. } => {
            Failed::new(Exit::Usage, message).next("`onefold trace info` shows its phases, its streams and how long it is.")
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

/// Returns the failure of a command that reads files.
#[must_use]
pub fn unscanned(error: ScanError) -> Failed {
    let message = error.to_string();
    match error {
        ScanError::Io { source, .. } => Failed::new(of_io(&source), message),
        ScanError::NotScannable { .. } => Failed::new(Exit::Usage, message).next("Name a file, a directory or a block device."),
        ScanError::Interrupted => Failed::new(Exit::System, "interrupted; nothing was left behind"),
    }
}

/// Returns the kind of a failure of the file system.
#[must_use]
pub fn of_io(error: &io::Error) -> Exit {
    match error.kind() {
        io::ErrorKind::NotFound => Exit::NotFound,
        io::ErrorKind::PermissionDenied => Exit::NotPermitted,
        _ => Exit::System,
    }
}
