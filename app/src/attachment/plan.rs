//! The plan of a server: `attach` decides it and hands it to the serving process as one argument.

use super::start::{Start, parse_switch};
use crate::device::Method;
use crate::device::bottom::Bottom;
use crate::exit::{Exit, Failed, Outcome};
use crate::hints::rule::Rule;
use crate::machine::Adapt;
use crate::output::size::Size;
use crate::runtime::messages::Message;
use onefold_engine::format::StartSettings;
use onefold_engine::format::superblock::MEMORY_BYTES_DEFAULT;
use onefold_engine::settings::{INDEX_BYTES_MIN, MIN_RUN, Settings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// The options of an opening, as the user chose them. An option left out is as the volume has it.
#[derive(Clone, Debug, Serialize, Deserialize, clap::Args)]
pub struct Options {
    /// Serve the backing store itself, with no volume on it: the baseline for comparisons. Writes go to the store unchanged.
    #[arg(long)]
    pub passthrough: bool,
    /// Refuse writes.
    #[arg(long)]
    pub read_only: bool,
    /// Memory for the index of fingerprints, of 8 bytes each: at most its share of --memory, which it has by default. Duplicates that it
    /// does not find are found later, in the background.
    #[arg(long, value_name = "SIZE", value_parser = parse_index_memory)]
    #[serde(default)]
    pub index_memory: Option<Size>,
    /// The method of reading and writing the backing store.
    #[arg(long, value_enum, value_name = "METHOD", default_value_t)]
    pub io: Method,
    /// Use a backing store that has no direct I/O (O_DIRECT) all the same. After a failed flush the page cache may show data that never
    /// reached the device.
    #[arg(long)]
    #[serde(default)]
    pub buffered: bool,
    /// Slow the backing store to the pace of a model, to measure a device that is not here: tablet, 850pro, emmc, ufs, sata, nvme. Only
    /// `onefold-lab` can do that, and only its help shows this.
    #[arg(long, value_name = "NAME", hide = true)]
    pub device_model: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub start: Start,
    /// Link to a duplicate when it is written only if it is one of at least N in a row, in one write and on the device: fewer duplicates
    /// are found, and files stay in one piece. 1 to 64; 1 links to each.
    #[arg(long, value_name = "N", value_parser = parse_min_run, default_value_t = min_run_default())]
    #[serde(default = "min_run_default")]
    pub min_run: u64,
    /// In mode log, make a commit of a single block durable by one FUA write, without a flush. Default: where the backing device has FUA.
    #[arg(long, value_name = "on|off", value_parser = parse_switch)]
    pub fua: Option<bool>,
    /// Report freed blocks to the backing store. Default: not where that would give up the space of a preallocated file.
    #[arg(long, value_name = "on|off", value_parser = parse_switch)]
    pub discard: Option<bool>,
    /// Give back blocks that nothing refers to any more but their fingerprint, when they were not needed for this long. Default: when the
    /// volume or the file system below it runs short.
    #[arg(long, value_name = "SECONDS", value_parser = parse_keep)]
    #[serde(default)]
    pub keep: Option<u64>,
    /// Defer fingerprints of writes, for one reason or several: duplication, while few of them are duplicates; pressure, while processors
    /// or disks are fully used; battery, in proportion to what is used of it. Such writes get a checksum, and their duplicates are found
    /// later, in the background; in mode log they are not compressed. all, or none, which defers nothing.
    #[arg(long, value_name = "REASON,...|all|none", value_parser = Adapt::parse, default_value = "none")]
    #[serde(default)]
    pub adapt: Adapt,
    /// Have the kernel tell who writes what, so that rules of `onefold hint` can act by it: file, process, control group, metadata.
    /// Default: on, where clients use a block device and the kernel can tell.
    #[arg(long, value_name = "on|off", value_parser = parse_switch)]
    #[serde(default)]
    pub observe: Option<bool>,
    /// A rule of the configuration, as JSON.
    #[arg(long = "hint", value_name = "RULE", value_parser = parse_rule, hide = true)]
    #[serde(default)]
    pub hints: Vec<Rule>,
    /// The directory whose proc and sys show the machine.
    #[arg(long, value_name = "DIRECTORY", default_value = "/", hide = true)]
    #[serde(default)]
    pub machine_root: PathBuf,
    /// Run a command, by the shell, when there is something to warn of; ONEFOLD_LEVEL, ONEFOLD_VOLUME, ONEFOLD_STATE and ONEFOLD_MESSAGE
    /// describe it.
    #[arg(long, value_name = "COMMAND", value_parser = parse_command)]
    #[serde(default)]
    pub on_warning: Option<String>,
}

/// Parses the memory of the index.
///
/// # Errors
/// When it is no size, or too small for an index.
pub fn parse_index_memory(typed: &str) -> Result<Size, String> {
    let size: Size = typed.parse()?;
    if size.0 < INDEX_BYTES_MIN { Err(format!("an index needs at least {}", Size(INDEX_BYTES_MIN))) } else { Ok(size) }
}

/// Parses the time for which blocks that nobody uses are kept.
fn parse_keep(typed: &str) -> Result<u64, String> {
    let seconds = typed.parse::<u64>().ok().filter(|seconds| (1..=31_536_000).contains(seconds));
    seconds.ok_or_else(|| "give from 1 to 31536000 seconds; without --keep they are kept until they are needed".to_owned())
}

fn min_run_default() -> u64 {
    *MIN_RUN.start()
}

/// Parses the shortest run of duplicates that are linked to.
fn parse_min_run(typed: &str) -> Result<u64, String> {
    let blocks = typed.parse::<u64>().ok().filter(|blocks| MIN_RUN.contains(blocks));
    blocks.ok_or_else(|| format!("give from {} to {} blocks; 1 links to each duplicate", MIN_RUN.start(), MIN_RUN.end()))
}

/// Parses a command for the shell.
fn parse_command(typed: &str) -> Result<String, String> {
    if typed.trim().is_empty() { Err("give a command".to_owned()) } else { Ok(typed.to_owned()) }
}

/// Parses a rule that a configuration file has.
fn parse_rule(typed: &str) -> Result<Rule, String> {
    let rule: Rule = serde_json::from_str(typed).map_err(|error| error.to_string())?;
    rule.check().map(|()| rule)
}

impl Options {
    /// Fills in the memory that the user left out: the volume's own default, which its server can no longer choose; or the program's, where
    /// a bare store is served.
    pub fn settle_memory(&mut self, start: Option<&StartSettings>) {
        self.start.memory.get_or_insert(Size(start.map_or(MEMORY_BYTES_DEFAULT, |start| start.memory_bytes)));
    }

    /// Returns the memory of the server, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.start.memory.map_or(MEMORY_BYTES_DEFAULT, |Size(bytes)| bytes)
    }

    /// Returns the settings of this opening. `is_allocated`: the backing store has all its space already.
    #[must_use]
    pub fn settings(&self, start: &StartSettings, is_allocated_file: bool) -> Settings {
        let base = Settings::from(&self.start.over(start));
        Settings {
            min_run: self.min_run,
            discard_freed: self.discard.unwrap_or(base.discard_freed && !is_allocated_file),
            read_only: self.read_only,
            keep_ms: self.keep.unwrap_or(0) * 1000,
            adapts_to_duplication: self.adapt.duplication,
            ..base
        }
        .with_knobs(|knobs| knobs.index_bytes_max = self.index_memory.map_or(u64::MAX, |size| size.0))
    }
}

/// The decisions about the front-end, by which clients reach the volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FrontendPlan {
    /// The front-end's name.
    pub name: String,
    /// Its clients hold something that has to outlive a server, even in the foreground.
    pub needs_supervisor: bool,
    /// Details that only the front-end's own code understands.
    details: Value,
}

impl FrontendPlan {
    /// Returns the choice of the front-end of this name.
    #[must_use]
    pub fn new(name: &str, needs_supervisor: bool, details: &impl Serialize) -> Self {
        let mut plan = Self { name: name.to_owned(), needs_supervisor, details: Value::Null };
        plan.set_details(details);
        plan
    }

    /// Returns the details that the front-end's own code has stored.
    ///
    /// # Errors
    /// When other code stored them.
    pub fn details<T: DeserializeOwned>(&self) -> Outcome<T> {
        serde_json::from_value(self.details.clone()).map_err(|_| misused())
    }

    /// Stores the details for the processes that are started from now on.
    ///
    /// # Panics
    /// When they are not plain data.
    pub fn set_details(&mut self, details: &impl Serialize) {
        self.details = serde_json::to_value(details).expect("plain data");
    }
}

/// Everything that a serving process has to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The name among records: the UUID of a volume; `bare-…` where a store is passed through.
    pub id: String,
    /// The absolute path of the backing store.
    pub path: PathBuf,
    /// The UUID of the volume; none where a store is passed through.
    pub uuid: Option<String>,
    pub label: Option<String>,
    /// The identity of the store, whatever its name: see [`Facts::identity`](crate::device::backing::Facts::identity).
    pub store: (u64, u64),
    /// The size of a volume as clients see it.
    pub logical_bytes: Option<u64>,
    /// The sector size of a block device over it, in bytes: 512 or 4096.
    pub sector_bytes: u32,
    /// The directory of records and sockets.
    pub directory: PathBuf,
    pub options: Options,
    pub frontend: FrontendPlan,
    /// The process leaves its terminal, and reports as JSON.
    pub in_background: bool,
    /// Another server had this volume a moment ago and may not have released it yet.
    pub is_replacement: bool,
    /// The disks below the store, as they were before it was attached.
    #[serde(default)]
    pub bottom: Bottom,
    /// The supervisor gives way to one of the server's program once that server is ready.
    #[serde(default)]
    pub gives_way: bool,
    /// The supervisor's messages to the owner.
    pub messages: Vec<Message>,
}

impl Plan {
    /// Parses the plan that is given to a verb for this program's own processes.
    ///
    /// # Errors
    /// When another program uses the verb.
    pub fn parse(text: &str) -> Outcome<Self> {
        serde_json::from_str(text).map_err(|e| Failed::system("this command is started by `onefold attach` only", e))
    }

    /// Whether a supervisor keeps what clients hold: always in the background; in the foreground, where the front-end needs one.
    #[must_use]
    pub const fn is_supervised(&self) -> bool {
        self.frontend.needs_supervisor || self.in_background
    }
}

/// Returns the error of a verb for this program's own processes that another program uses.
#[must_use]
pub fn misused() -> Failed {
    Failed::new(Exit::Usage, "this command is started by `onefold attach` only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_meaning_is_refused_with_what_has_one() {
        assert_eq!(parse_keep("300"), Ok(300));
        for typed in ["forever", "0", "-1", "31536001", ""] {
            assert!(parse_keep(typed).unwrap_err().contains("from 1 to 31536000 seconds"), "{typed}");
        }
        assert_eq!((parse_min_run("1"), parse_min_run("64")), (Ok(1), Ok(64)));
        for typed in ["0", "65", "x", "", "-1", "1.5"] {
            assert!(parse_min_run(typed).unwrap_err().contains("from 1 to 64 blocks"), "{typed}");
        }
        assert_eq!(parse_command("logger -t onefold"), Ok("logger -t onefold".to_owned()));
        assert!(["", "  "].into_iter().all(|typed| parse_command(typed).is_err()));
        assert_eq!(parse_index_memory("16K"), Ok(Size(16 << 10)));
        assert!(parse_index_memory("63").unwrap_err().contains("at least 64 B") && parse_index_memory("little").is_err());
    }
}
