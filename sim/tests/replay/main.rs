//! Replay in virtual time: counts known by hand, dependencies kept, and faults that must be detected.

mod by_hand;
mod faults;
mod flash;
mod published;
mod recorded_set;
mod rules;
mod watch;

use onefold_sim::laboratory::replay::run::Plan;
use onefold_trace::model::Model;
use onefold_trace::record::Record;
use onefold_trace::text::{ReadError, recorded};

/// Makes records from lines as in the recorded traces, with columns separated by spaces: time, op, first block, blocks, flags, content. The
/// op `J` is a write of the file system's journal.
fn trace(lines: &str) -> Vec<Record> {
    let text: Vec<String> = lines
        .lines()
        .map(|line| {
            let mut columns = line.split_whitespace();
            let mut next = || columns.next().unwrap_or_default();
            let (time, op, first, blocks) = (next(), next(), next(), next());
            let (op, kind) = match op {
                "W" => ("W", "D"),
                "J" => ("W", "J"),
                other => (other, "-"),
            };
            let flags = if op == "W" { next() } else { "-" };
            let content: String = columns.map(|c| if c.len() == 1 { format!("{c:0>16}") } else { c.to_owned() }).collect();
            format!("{time}\t{op}\t{first}\t{blocks}\t{kind}\t{flags}\t-\t{content}\n")
        })
        .collect();
    recorded::read("by hand", text.concat().as_bytes()).collect::<Result<_, ReadError>>().expect("the lines are well-formed")
}

fn records(trace: &[Record]) -> impl Iterator<Item = Result<Record, ReadError>> + use<'_> {
    trace.iter().cloned().map(Ok)
}

fn on(model: &str) -> Plan {
    Plan { model: Model::named(model).expect("a model"), verify: true, ..Plan::default() }
}
