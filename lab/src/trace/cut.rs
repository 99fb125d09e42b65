//! `trace cut`: makes a trace of a part of a trace.

use super::import::Written;
use crate::traces::{Reading, failed, malformed_shown};
use onefold::exit::{Exit, Failed, Outcome};
use onefold::files::stopped_by_signals;
use onefold::output::{Style, print};
use onefold_trace::cut::{Cut, Cutter};
use onefold_trace::source::Source;
use onefold_trace::transfer;
use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;

/// Take a part of a trace, as a new folder of Parquet files
///
/// Requests have to fit all given options. Flushes and marks belong to all streams and blocks: only time and phase cut them off. The part
/// begins at time 0.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder, recording, or text of any form; `-` for standard input.
    trace: PathBuf,
    /// Folder to make.
    part: PathBuf,
    /// Seconds since the trace began, the second one excluded: 10..20, 1.5.., ..60.
    #[arg(long, value_name = "FROM..TO", value_parser = parse_time)]
    time: Option<Range<u64>>,
    /// Requests of this stream alone; in a recorded trace D is file data, M metadata, J journal.
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
    /// Blocks of 4 KiB, first and number: 0+1024. A request that lies partly there is clipped.
    #[arg(long, value_name = "LBN+LEN", value_parser = parse_lbns)]
    lbn: Option<Range<u64>>,
    /// Everything between the mark of this name and the next.
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,
    #[command(flatten)]
    reading: Reading,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn parse_seconds(typed: &str) -> Option<u64> {
    let (whole, decimals) = typed.split_once('.').unwrap_or((typed, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 9 {
        return None;
    }
    let part: u64 = format!("{decimals:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

fn parse_time(typed: &str) -> Result<Range<u64>, String> {
    let end = |text: &str, missing: u64| if text.is_empty() { Some(missing) } else { parse_seconds(text) };
    let range = typed.split_once("..").and_then(|(from, to)| Some(end(from, 0)?..end(to, u64::MAX)?));
    range.filter(|range| !range.is_empty()).ok_or_else(|| format!("'{typed}' is no time: give seconds like 10..20, 1.5.. or ..60"))
}

fn parse_lbns(typed: &str) -> Result<Range<u64>, String> {
    let range = typed.split_once('+').and_then(|(first, count)| {
        let first: u64 = first.parse().ok()?;
        Some(first..first.checked_add(count.parse().ok()?)?)
    });
    range
        .filter(|range| !range.is_empty())
        .ok_or_else(|| format!("'{typed}' is no range of blocks: give the first and how many, like 0+1024"))
}

/// Makes the part.
///
/// # Errors
/// Where the trace cannot be read, the folder is there already, or nothing is asked for.
pub fn run(arguments: &Arguments) -> Outcome {
    let cut = Cut {
        time_ns: arguments.time.clone(),
        stream: arguments.stream.clone(),
        lbns: arguments.lbn.clone(),
        phase: arguments.phase.clone(),
    };
    if cut == Cut::default() {
        let next = "Give at least one of `--time`, `--stream`, `--lbn` and `--phase`; `onefold-lab trace import` takes all of it.";
        return Err(Failed::new(Exit::Usage, "nothing says which part is wanted").next(next));
    }
    let stop = stopped_by_signals()?;
    let how = arguments.reading.how(Some(&stop));
    let (cutter, mut records) = (RefCell::new(Cutter::new(cut)), 0);
    let mut take = |source: &Source, record| {
        let piece = cutter.borrow_mut().piece(record, source.unit());
        records += u64::from(piece.is_some());
        piece
    };
    let tally = transfer::take_over(&arguments.trace, &arguments.part, &how, &mut malformed_shown(), &mut take, &|header| {
        cutter.borrow().header(header)
    })
    .map_err(|error| failed(error, &arguments.trace))?;
    print(&Written::new(&arguments.part, &tally, records), Style::of(arguments.json));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_people_type_them() {
        assert_eq!(parse_time("10..20.5"), Ok(10_000_000_000..20_500_000_000));
        assert_eq!(parse_time("..0.000000001"), Ok(0..1));
        assert_eq!(parse_time("1.5.."), Ok(1_500_000_000..u64::MAX));
        assert_eq!(parse_lbns("8+8"), Ok(8..16));
        for wrong in ["10", "20..10", "a..b", "-1..5", "1..2..3", "5..5"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        for wrong in ["8", "8+0", "+8", "8+-1", "18446744073709551615+1"] {
            assert!(parse_lbns(wrong).is_err(), "{wrong}");
        }
    }
}
