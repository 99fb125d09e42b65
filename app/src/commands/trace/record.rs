//! `trace record`: records the requests of an attached volume's clients, as a trace.

use crate::attachment::control::{Conversation, ServerRequest};
use crate::attachment::directory::run_directory;
use crate::attachment::find::attached;
use crate::attachment::record::{Places, Record};
use crate::exit::{Exit, Failed, Outcome};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use crate::runtime::recording::key::Key;
use crate::runtime::recording::recorder::Tally;
use crate::runtime::recording::{About, Naming, Order};
use crate::traces::stopped_by_signals;
use onefold_trace::folder::Rotation;
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Record the requests to an attached volume, until Ctrl-C or its detach
///
/// Content is kept as fingerprints alone, with a key. Of a volume, these are the ones that it makes anyway, with its own key; of a store
/// passed through, ones with a new key that nobody keeps. Clients never wait for the recording: what it cannot record in time is counted as
/// missing.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached; `attach --passthrough` serves any disk or file, so that it can be traced in place.
    volume: String,
    /// Folder to make. Not on the volume itself.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Make fingerprints with the key in this file, so that several traces can be compared. A missing file is made, for its owner alone.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Make fingerprints without a key, as in published traces. Whoever has the trace can test it for content that they know.
    #[arg(long, value_name = "ALGORITHM", conflicts_with = "key")]
    unkeyed: Option<Unkeyed>,
    /// End after this many seconds.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Begin another file of the trace after this many seconds. A crash loses the open file alone.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    file_seconds: u64,
    /// Begin another file of the trace after this many records.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    file_records: u64,
    /// Print the summary as JSON: {records, blocks, gaps, gap_stretches, bytes}.
    #[arg(long)]
    json: bool,
}

/// The algorithms without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Unkeyed {
    Md5,
    Sha1,
}

#[derive(Debug, Serialize)]
struct Recorded {
    trace: PathBuf,
    #[serde(flatten)]
    about: About,
    #[serde(flatten)]
    tally: Tally,
}

impl Report for Recorded {
    const NAME: &'static str = "trace-recorded";

    fn table(&self) -> Table {
        let Tally { records, blocks, gaps, gap_stretches, bytes } = self.tally;
        let gaps = if gaps == 0 { "none".to_owned() } else { format!("{gaps} requests are missing, in {gap_stretches} stretches") };
        Table::new()
            .row("trace", self.trace.display())
            .row("records", records)
            .row("blocks written", blocks)
            .row("gaps", gaps)
            .row("size", Size(bytes))
            .row("fingerprints", &self.about.algorithm)
            .row_if("key", self.about.key_id.as_ref())
    }
}

/// The time between two looks at whether the recording has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Records.
///
/// # Errors
/// When the volume is not attached, another recording is under way, or the trace cannot be written.
pub fn run(arguments: &Arguments) -> Outcome {
    let stop = stopped_by_signals()?;
    let record = attached(&arguments.volume)?;
    let folder = std::path::absolute(&arguments.out).map_err(|e| Failed::system(arguments.out.display(), e))?;
    if is_on(&folder, &record) {
        let message = format!("{} lies on the very volume that is to be recorded", folder.display());
        return Err(Failed::new(Exit::Refused, message).next("Writing the trace would be recorded, too: name another place with `--out`."));
    }
    let naming = match (&arguments.key, arguments.unkeyed) {
        (Some(file), _) => Naming::Keyed(key(file)?),
        (None, Some(Unkeyed::Md5)) => Naming::Md5,
        (None, Some(Unkeyed::Sha1)) => Naming::Sha1,
        (None, None) => Naming::Own,
    };
    let Arguments { file_seconds, file_records, .. } = *arguments;
    let rotation = Rotation { records: file_records, age: Some(Duration::from_secs(file_seconds)) };
    let order = Order { folder: folder.clone(), naming, rotation };
    let control = Places::of(&run_directory()?, &record.id).control;
    let mut conversation = Conversation::begin(&control, &ServerRequest::Record(order))?;
    let strange = |e| Failed::system("unexpected reply from the server", e);
    let about: About = serde_json::from_value(conversation.hear()?).map_err(strange)?;
    let until = arguments.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    eprintln!("recording {} into {}", record.path.display(), folder.display());
    while !conversation.has_answer(LOOK)? {
        if stop.load(Ordering::Relaxed) || until.is_some_and(|until| until <= Instant::now()) {
            conversation.say_no_more();
            break;
        }
    }
    let tally = conversation.hear().map_err(|failed| match failed.next {
        Some(_) => failed,
        None => failed
            .next(format!("Of the trace, {} has what was closed before: all but the last {file_seconds} s at most.", folder.display())),
    })?;
    let tally: Tally = serde_json::from_value(tally).map_err(strange)?;
    print(&Recorded { trace: folder, about, tally }, Style::of(arguments.json));
    Ok(())
}

/// Whether a folder, which need not exist yet, lies on a file system on that volume.
fn is_on(folder: &Path, record: &Record) -> bool {
    let device = fs::metadata(&record.location).ok().filter(|meta| meta.file_type().is_block_device());
    let parent = folder.ancestors().find_map(|path| fs::metadata(path).ok());
    device.zip(parent).is_some_and(|(device, parent)| device.rdev() == parent.dev())
}

/// Returns the key in a file, and makes it where it is missing.
fn key(file: &Path) -> Outcome<Key> {
    let system = |e: io::Error| Failed::system(format!("--key {}", file.display()), e);
    match fs::read_to_string(file) {
        Ok(text) => Key::try_from(text.trim().to_owned()).map_err(|wrong| {
            let message = format!("--key {}: {wrong}", file.display());
            Failed::new(Exit::Usage, message).next("Name a file that is not there, and one is made.")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|e| system(io::Error::other(e)))?;
            let key = Key(key);
            let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(system)?;
            made.write_all(format!("{}\n", String::from(key.clone())).as_bytes()).and_then(|()| made.sync_all()).map_err(system)?;
            Ok(key)
        }
        Err(error) => Err(system(error)),
    }
}
