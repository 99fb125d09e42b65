//! `trace info`: shows what a trace holds.

use crate::traces::{FORMS, Reading, failed, malformed_shown};
use onefold::exit::Outcome;
use onefold::files::stopped_by_signals;
use onefold::output::size::Size;
use onefold::output::table::Table;
use onefold::output::{Report, Style, print};
use onefold_engine::units::BLOCK_BYTES;
use onefold_trace::info::{Counter, Counts, Duplication, Info, Part, Shape};
use onefold_trace::source::Source;
use serde::Serialize;
use std::path::PathBuf;

/// The number of streams and processes in the table; JSON has all.
const PARTS_MAX: usize = 20;

/// Show what a trace holds: requests, duplication, flushes, by phase, stream and process
///
/// Duplication is the share of the blocks written whose content was known at that moment: live, some block held it; ever,
/// it had been written before, since the trace began. Blocks of zeros are counted apart.
#[derive(Debug, clap::Args)]
#[command(after_help = FORMS)]
pub struct Arguments {
    /// Folder, recording, or text of any form; `-` for standard input.
    trace: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct TraceReport {
    trace: PathBuf,
    malformed_lines: u64,
    /// The place at which a recording is cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_off_at: Option<u64>,
    #[serde(flatten)]
    info: Info,
}

/// Columns of blocks written, duplication and flushes.
const HEADS: [&str; 5] = ["blocks written", "live", "ever", "zero", "unknown"];

fn written(counts: &Counts, duplication: Option<&Duplication>) -> Vec<String> {
    let share = |share: fn(&Duplication) -> f64| duplication.map_or_else(|| "-".to_owned(), |d| format!("{:.1} %", share(d) * 100.0));
    vec![counts.blocks_written.to_string(), share(|d| d.live), share(|d| d.ever), share(|d| d.zero), counts.unknown.to_string()]
}

fn parts(table: Table, what: &str, parts: &[Part]) -> Table {
    let row = |part: &Part| {
        let mut row = vec![part.name.to_string()];
        row.extend(written(&part.counts, part.duplication.as_ref()));
        row.push(part.counts.blocks_read.to_string());
        row
    };
    let mut heads = vec![what];
    heads.extend(HEADS);
    heads.push("blocks read");
    let table = table.line("").grid(&heads, parts.iter().take(PARTS_MAX).map(row).collect());
    if parts.len() > PARTS_MAX { table.line(format!("and {} more; --json has all", parts.len() - PARTS_MAX)) } else { table }
}

fn shape(table: Table, shape: &Shape) -> Table {
    let percent = |share: Option<f64>| share.map(|share| format!("{:.1} %", share * 100.0));
    table
        .row("blocks ever written", shape.blocks_ever_written)
        .row_if("overwrites", percent(shape.overwrites))
        .row_if("writes to the busiest tenth", percent(shape.busiest_tenth))
        .row_if("sequential writes", percent(shape.sequential))
        .row_if("reads", percent(shape.reads))
        .row_if("blocks a write", shape.write_blocks_mean.map(|mean| format!("{mean:.2} (mean)")))
        .row_if("compressed", shape.compressed_bytes_mean.map(|mean| format!("{mean:.0} bytes a block (mean)")))
        .row_if("duplicates written before", shape.duplicates_back_median.map(|back| format!("{back} block writes ago (median)")))
}

impl Report for TraceReport {
    const NAME: &'static str = "trace-info";

    fn table(&self) -> Table {
        let (info, total) = (&self.info, &self.info.total);
        let seconds = |ns: u64| format!("{}.{:03} s", ns / 1_000_000_000, ns / 1_000_000 % 1000);
        let blocks =
            |n: u64| format!("{n} ({})", n.checked_mul(BLOCK_BYTES).map_or_else(|| "-".to_owned(), |bytes| Size(bytes).to_string()));
        let median = |median: Option<u64>| median.map_or_else(|| "-".to_owned(), |median| median.to_string());
        let names = match (info.fingerprint_bytes, info.algorithm) {
            (0, None) => "none".to_owned(),
            (bytes, algorithm) => {
                let key = info.key_id.as_ref().map_or_else(String::new, |key| format!(", key {key}"));
                format!("{bytes} bytes of {}{key}, one for each {} bytes", algorithm.unwrap_or("?"), info.fingerprint_unit_bytes)
            }
        };
        let share = |share: fn(&Duplication) -> f64| info.duplication.as_ref().map(|d| format!("{:.1} %", share(d) * 100.0));
        let mut table = Table::new()
            .row("trace", self.trace.display())
            .row_if("comes from", info.form.as_deref())
            .row_if("clock", Some(&info.clock).filter(|clock| !clock.is_empty()))
            .row("fingerprints", names)
            .row("records", info.records)
            .row_if("malformed lines", Some(self.malformed_lines).filter(|lines| *lines > 0))
            .row_if("cut off", self.cut_off_at.map(|at| format!("at byte {at}")))
            .row("gaps", format!("{} ({} requests missing)", info.gaps, info.requests_missing))
            .row("duration", seconds(info.duration_ns))
            .row("blocks touched below", blocks(info.blocks_end))
            .row("distinct contents", info.contents)
            .row_if("duplication, live", share(|d| d.live))
            .row_if("duplication, ever", share(|d| d.ever))
            .row_if("zero", share(|d| d.zero))
            .row("flushes", total.flushes)
            .row("blocks between flushes", format!("{} (median)", median(info.blocks_between_flushes_median)));
        table = shape(table, &info.shape);
        let request = |name: &str, requests: u64, blocks: u64| vec![name.to_owned(), requests.to_string(), blocks.to_string()];
        let rows = vec![
            request("read", total.reads, total.blocks_read),
            request("write", total.writes, total.blocks_written),
            vec!["  of them FUA".to_owned(), total.fua.to_string(), "-".to_owned()],
            request("discard", total.discards, total.blocks_discarded),
            request("write-zeroes", total.write_zeroes, total.blocks_zeroed),
        ];
        table = table.line("").grid(&["op", "requests", "blocks"], rows);
        let phase = |phase: &onefold_trace::info::Phase| {
            let mut row = vec![phase.part.name.to_string(), seconds(phase.begin_ns)];
            row.extend(written(&phase.part.counts, phase.part.duplication.as_ref()));
            row.extend([phase.part.counts.flushes.to_string(), median(phase.blocks_between_flushes_median)]);
            row
        };
        let mut heads = vec!["phase", "begins"];
        heads.extend(HEADS);
        heads.extend(["flushes", "between"]);
        table = table.line("").grid(&heads, info.phases.iter().map(phase).collect());
        table = parts(table, "stream", &info.streams);
        parts(table, "process", &info.processes)
    }
}

/// Shows.
///
/// # Errors
/// Where the trace cannot be read, or too much of it is malformed.
pub fn run(arguments: &Arguments) -> Outcome {
    let stop = stopped_by_signals()?;
    let how = arguments.reading.how(Some(&stop));
    let wrong = |error| failed(error, &arguments.trace);
    let mut source = Source::open(&arguments.trace, &how).map_err(wrong)?;
    let mut counter = Counter::new();
    let count = |source: &Source, record| {
        counter.count(&record, source.unit());
        Ok(())
    };
    let tally = source.each(&how, &mut malformed_shown(), count).map_err(wrong)?;
    let report = TraceReport {
        trace: arguments.trace.clone(),
        malformed_lines: tally.malformed,
        cut_off_at: tally.cut_off_at,
        info: counter.info(&source.header()),
    };
    print(&report, Style::of(arguments.json));
    Ok(())
}
