//! `onefold-lab index`: how many duplicates an index of fingerprints finds with how much memory.

mod read;

use crate::synth::parse_count;
use crate::traces::{FORMS, Reading};
use onefold::exit::Outcome;
use onefold::output::size::Size;
use onefold::output::table::Table;
use onefold::output::{Report, Style, print};
use onefold_sim::laboratory::index::adapting::Adapt;
use onefold_sim::laboratory::index::interface::IndexIo;
use onefold_sim::laboratory::index::lab::{Found, Plan as Trial, run as run_policy, share};
use onefold_sim::laboratory::index::naming::Naming;
use onefold_sim::laboratory::index::policy::Policy;
use onefold_sim::laboratory::index::shares::shares;
use onefold_sim::laboratory::index::writes::Writes;
use onefold_trace::analyze::By;
use onefold_trace::synth::interleave::Turn;
use onefold_trace::synth::phone::Phone;
use serde::Serialize;
use std::path::PathBuf;

/// The least and the most memory for fingerprints.
const MEMORY_BYTES: (u64, u64) = (1 << 10, 1 << 30);

/// The policies, in `--help`.
const POLICIES: &str = "\
Policies:
  full                      every fingerprint in memory, whatever it takes
  sweep                     Onefold's: the engine's index in memory, and sweeps of the fingerprint table
  runs                      a candidate for Onefold's: compact entries in memory, sorted runs on the medium
  g-lru                     SmartDedup's: groups by prefix, which leave memory as a whole
  lru                       the same, but fingerprints leave one by one
  b-tree                    Dmdedup's B-tree as a cache
  caftl                     CAFTL's, by the number of references, with sampling and pre-hashing
  caftl-without-pre-hashing
  austere                   AustereCache's buckets
  parts                     APP-Dedupe's: a part for each stream; those of active streams are in memory, and others are
                            swapped
  parts-placed              the same over a fingerprint table that has each stream's entries together: nothing is written
  parts-ideal               a bound: the engine's index for each stream with the whole memory, and lossless loads
  undivided                 parts' structure without a division; the last four are left out by default if there is one stream";

/// Find out how many duplicates each policy for the index finds, with how much memory
///
/// Takes the writes of a trace, or makes such as those of a smartphone in SmartDedup's Table 1. Only the memory for fingerprints is
/// counted. What a policy does not find in memory is worked off in batches.
///
/// Several traces are applications of one device: each has blocks of its own, and they take turns (`--turn`). Then the policies with a part
/// of the index for each stream are compared, too.
#[derive(Debug, clap::Args)]
#[command(after_help = POLICIES, after_long_help = format!("{POLICIES}\n\n{FORMS}"))]
pub struct Arguments {
    /// Folders, or texts of any form; `-` for standard input.
    #[arg(required_unless_present = "phone", value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Make a trace like this row of the table, 1 to 6, instead.
    #[arg(long, value_name = "ROW", value_parser = parse_phone, conflicts_with = "traces")]
    phone: Option<Phone>,
    /// Block writes of the trace that is made. K, M and G are powers of 1024.
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "20M", requires = "phone")]
    writes: u64,
    /// Seed of the trace that is made.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "phone")]
    seed: u64,
    /// Memory for fingerprints; several, separated by commas.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_memory, default_value = "1M,2M,4M,8M,16M,40M")]
    memory: Vec<Size>,
    /// Memory for fingerprints in bytes for each block that is stored when most are; several, separated by commas.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = parse_bytes)]
    bytes_per_block: Vec<f64>,
    /// Policies; several, separated by commas. Default: all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = Policy::named)]
    policy: Vec<Policy>,
    /// Blocks that the work out of line takes at once; 0 for none. Default: one for each 150 bytes of the memory, as a volume whose index
    /// has it.
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Hide writes from the policies, as if their fingerprints were deferred: never; by duplication, while few of them are duplicates; by
    /// battery, one that is full at the first write and at 20 % at the last.
    #[arg(long, value_name = "REASON", value_parser = Adapt::named, default_value = "never")]
    adapt: Adapt,
    /// Turn of each of several traces: a number of reads and writes, as 1, or seconds of the trace's own time, as 60s.
    #[arg(long, value_name = "TURN", default_value = "60s")]
    turn: Turn,
    /// Division of the writes into streams: trace, one for each trace; process; stream; file; or cgroup.
    #[arg(long, value_name = "DIVISION", default_value = By::Trace.name(), value_parser = parse_division, conflicts_with = "phone")]
    by: By,
    /// Requests within which an active stream has sent one, for the policies with parts; several, separated by commas.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "64",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    active: Vec<u64>,
    #[command(flatten)]
    reading: Reading,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Takes each division but that by phases, which are no streams: they come one after the other.
fn parse_division(typed: &str) -> Result<By, String> {
    typed.parse().and_then(|by| if by == By::Phase { Err("a phase is no stream".to_owned()) } else { Ok(by) })
}

fn parse_phone(typed: &str) -> Result<Phone, String> {
    typed.parse().ok().and_then(Phone::numbered).ok_or_else(|| format!("there is no row '{typed}': give 1 to 6"))
}

fn parse_memory(typed: &str) -> Result<Size, String> {
    let size: Size = typed.parse()?;
    let (least, most) = MEMORY_BYTES;
    if (least..=most).contains(&size.0) {
        Ok(size)
    } else {
        Err(format!("'{typed}' is out of range: give {} to {}", Size(least), Size(most)))
    }
}

fn parse_bytes(typed: &str) -> Result<f64, String> {
    let bytes = typed.parse().ok().filter(|bytes| (0.01..=1000.0).contains(bytes));
    bytes.ok_or_else(|| format!("'{typed}' is no number of bytes for a block: give 0.01 to 1000, like 2"))
}

#[derive(Debug, Serialize)]
struct Row {
    policy: &'static str,
    index_bytes: u64,
    /// The memory was given for each stored block: this number of bytes.
    bytes_per_block: Option<f64>,
    /// The requests within which an active stream has sent one, if the policy has parts.
    active: Option<u64>,
    /// The blocks that the work out of line took at once.
    batch: usize,
    #[serde(flatten)]
    found: Found,
}

/// The writes of one stream.
#[derive(Debug, Serialize)]
struct StreamRow {
    stream: String,
    block_writes: u64,
    /// The contents that its blocks hold in the end: the entries of its part of the index.
    contents: u64,
    /// The same, as a share of the entries of a whole index.
    share_percent: f64,
}

#[derive(Debug, Serialize)]
struct Compared {
    trace: String,
    malformed_lines: u64,
    block_writes: usize,
    blocks_ever_written: u32,
    contents: u32,
    /// The writes whose content some block held.
    duplicates: u64,
    /// Those of them whose content no block of the same stream held, if there are several streams.
    duplicates_of_others: Option<u64>,
    /// The contents that blocks hold in the end: the entries of a whole index.
    contents_held: u64,
    streams: Vec<StreamRow>,
    /// The processor time of this machine, where writes are deferred.
    naming: Option<Naming>,
    rows: Vec<Row>,
}

impl Report for Compared {
    const NAME: &'static str = "index";

    fn table(&self) -> Table {
        let percent = |part, whole| format!("{:.2} %", share(part, whole) * 100.0);
        let rows = self.rows.iter().map(|row| {
            let Found { inline, out_of_line, io: IndexIo { looked_up, read, written }, resident_max, .. } = row.found;
            vec![
                row.active.map_or_else(|| row.policy.to_owned(), |active| format!("{}, {active}", row.policy)),
                Size(row.index_bytes).to_string(),
                percent(inline, self.duplicates),
                percent(inline + out_of_line, self.duplicates),
                looked_up.to_string(),
                read.to_string(),
                written.to_string(),
                resident_max.to_string(),
            ]
        });
        let head = ["policy", "memory", "in line", "in all", "looked up", "read", "written", "in memory"];
        let table = Table::new()
            .row("trace", &self.trace)
            .row_if("malformed lines", Some(self.malformed_lines).filter(|lines| *lines > 0))
            .row("block writes", self.block_writes)
            .row("blocks ever written", self.blocks_ever_written)
            .row("contents", self.contents)
            .row_if(
                "deferred",
                self.naming.map(|naming| {
                    let Naming { fingerprint_ns, fingerprint_alone_ns, checksum_ns } = naming;
                    format!(
                        "a fingerprint takes {fingerprint_ns:.0} ns, alone {fingerprint_alone_ns:.0} ns, a checksum {checksum_ns:.0} ns"
                    )
                }),
            )
            .row("duplicates", format!("{} ({})", self.duplicates, percent(self.duplicates, self.block_writes as u64)))
            .row_if("of other streams", self.duplicates_of_others.map(|of| format!("{of} ({} of them)", percent(of, self.duplicates))))
            .line("")
            .grid(&head, rows.collect());
        if self.streams.len() < 2 {
            return table;
        }
        let streams = self.streams.iter().map(|row| {
            vec![row.stream.clone(), row.block_writes.to_string(), row.contents.to_string(), format!("{:.2} %", row.share_percent)]
        });
        table.line("").grid(&["stream", "block writes", "contents held", "of a whole index"], streams.collect())
    }
}

/// The writes that are compared.
struct Subject {
    name: String,
    writes: Writes,
    malformed_lines: u64,
}

fn read(arguments: &Arguments) -> Outcome<Subject> {
    if let Some(phone) = &arguments.phone {
        let name = format!("phone {}, seed {}", phone.id, arguments.seed);
        return Ok(Subject { name, writes: read::made(phone, arguments.writes, arguments.seed)?, malformed_lines: 0 });
    }
    let (writes, malformed_lines) = read::traces(&arguments.traces, arguments.turn, arguments.by, &arguments.reading)?;
    let name = arguments.traces.iter().map(|trace| trace.display().to_string()).collect::<Vec<_>>().join(", ");
    Ok(Subject { name, writes, malformed_lines })
}

fn stream_rows(writes: &Writes) -> (Vec<StreamRow>, u64) {
    let shares = shares(writes);
    let row = |(number, (stream, &contents)): (usize, (&String, &u64))| StreamRow {
        stream: stream.clone(),
        block_writes: writes.streams.iter().filter(|&&of| usize::from(of) == number).count() as u64,
        contents,
        share_percent: 100.0 * share(contents, shares.whole),
    };
    (writes.names.iter().zip(&shares.parts).enumerate().map(row).collect(), shares.whole)
}

/// The room of a volume's skipped buffer beside an index of these bytes (`Store::new`): an eighth of their common memory, half of it for
/// what is being worked off, and three quarters of the rest for blocks with a name of eight bytes.
const fn batch_beside(index_bytes: u64) -> usize {
    let batch = index_bytes / 7 / 2 / 4 * 3 / 8;
    if batch == 0 { 1 } else { batch as usize }
}

/// Returns the duplicates whose content no block of the same stream holds: those that parts miss however much memory they have.
fn duplicates_of_others(writes: &Writes, duplicates: u64) -> u64 {
    let everything = Trial { policy: Policy::Parts, index_bytes: u64::MAX, active: 1, batch: 0, adapt: Adapt::Never };
    duplicates - run_policy(writes, everything).inline
}

/// Compares.
///
/// # Errors
/// When a trace cannot be read.
pub fn run(arguments: &Arguments) -> Outcome {
    let Subject { name, writes, malformed_lines } = read(arguments)?;
    let has_streams = writes.names.len() > 1;
    let policies: Vec<Policy> = match &arguments.policy[..] {
        [] if has_streams => Policy::all().collect(),
        [] => Policy::GLOBAL.to_vec(),
        given => given.to_vec(),
    };
    let plan = |policy, index_bytes, batch| Trial { policy, index_bytes, active: 1, batch, adapt: arguments.adapt };
    let all = run_policy(&writes, Trial { adapt: Adapt::Never, ..plan(Policy::Full, 0, 0) });
    let full = run_policy(&writes, plan(Policy::Full, 0, 0));
    let mut rows = Vec::new();
    let given = arguments.memory.iter().map(|memory| (memory.0, None));
    let by_block = arguments.bytes_per_block.iter().map(|&bytes| ((bytes * all.stored_max as f64) as u64, Some(bytes)));
    for (index_bytes, bytes_per_block) in given.chain(by_block) {
        for &policy in policies.iter().filter(|&&policy| policy != Policy::Full) {
            let batch = arguments.batch.unwrap_or_else(|| batch_beside(index_bytes));
            let has_parts = matches!(policy, Policy::Parts | Policy::PartsPlaced);
            for &active in if has_parts { &arguments.active[..] } else { &[1] } {
                let found = run_policy(&writes, Trial { active, ..plan(policy, index_bytes, batch) });
                let active = has_parts.then_some(active);
                rows.push(Row { policy: policy.name(), index_bytes, bytes_per_block, active, batch, found });
            }
        }
    }
    if policies.contains(&Policy::Full) {
        rows.push(Row { policy: Policy::Full.name(), index_bytes: 0, bytes_per_block: None, active: None, batch: 0, found: full });
    }
    let (streams, contents_held) = stream_rows(&writes);
    let compared = Compared {
        trace: name,
        malformed_lines,
        block_writes: writes.list.len(),
        blocks_ever_written: writes.lbns,
        contents: writes.contents - 1,
        duplicates: all.inline,
        duplicates_of_others: has_streams.then(|| duplicates_of_others(&writes, all.inline)),
        contents_held,
        streams,
        naming: (arguments.adapt != Adapt::Never).then(Naming::measure),
        rows,
    };
    print(&compared, Style::of(arguments.json));
    Ok(())
}
