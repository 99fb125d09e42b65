//! `onefold-sim transcripts`: compares what the engine does, action by action, with a table in the tree.
//!
//! 1. A change of structure leaves all transcripts as they are. One that changes some records them anew, and says which and why.

pub mod subjects;

use crate::ground::words::above_zero;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use subjects::{Subject, Taker, all};

const HELP: &str = "usage: onefold-sim transcripts [--record] [--sample N] [--jobs N] [NAME]...

Runs the scenes of the count benches, the shipped traces by three schemes, weak and strong, and 300 lives of the crash explorer in each \
mode, and compares what the
engine asked for and answered with sim/transcripts.tsv, action by action. Ends with 1 where a transcript differs.

  --record     write the table anew
  --sample N   every N-th only
  --jobs N     at once (default 2)
  NAME         those whose names begin with it, such as life/log or replay/05_vehicle; default: all";

/// The options of the command.
#[derive(Clone, Debug)]
pub struct Options {
    pub table: PathBuf,
    /// The folder of the shipped traces.
    pub traces: PathBuf,
    pub record: bool,
    pub sample: usize,
    pub threads: usize,
    /// The beginnings of the names that are wanted; all names where there are none.
    pub only: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let (table, traces) = ("sim/transcripts.tsv".into(), "data/traces".into());
        Self { table, traces, record: false, sample: 1, threads: 2, only: Vec::new() }
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    pub equal: usize,
    /// A line for each difference or failure.
    pub wrong: Vec<String>,
}

/// `transcripts [--record] [--sample N] [--jobs N] [NAME]...`.
///
/// # Errors
/// What was typed wrong, or as [`compare`].
pub fn command(words: &[String]) -> Result<ExitCode, String> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--record" => options.record = true,
            "--sample" => options.sample = above_zero(word, words.next())?,
            "--jobs" => options.threads = above_zero(word, words.next())?,
            "--help" => {
                println!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            other if other.starts_with('-') => return Err(format!("transcripts has no option {other}\n{HELP}")),
            name => options.only.push(name.to_owned()),
        }
    }
    let compared = compare(&options)?;
    compared.wrong.iter().for_each(|line| println!("{line}"));
    let verb = if options.record { "recorded" } else { "equal" };
    println!("transcripts: {} {verb}, {} differ", compared.equal, compared.wrong.len());
    Ok(if compared.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Takes the transcripts that are asked for, and compares them with the table, or writes it anew.
///
/// # Errors
/// When a name is none, or the table cannot be read or written.
pub fn compare(options: &Options) -> Result<Compared, String> {
    let subjects = wanted(options)?;
    let path = options.table.display();
    let text = if options.record { String::new() } else { std::fs::read_to_string(&options.table).map_err(|e| format!("{path}: {e}"))? };
    let known: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('\t')).collect();
    let taken = take(&subjects, options);
    let (mut compared, mut table) = (Compared::default(), String::new());
    for (subject, sum) in subjects.iter().zip(taken) {
        let name = subject.to_string();
        match (sum, known.get(name.as_str())) {
            (Err(error), _) => compared.wrong.push(format!("{name}: {error}")),
            (Ok(sum), None) if options.record => {
                compared.equal += 1;
                writeln!(table, "{name}\t{sum}").expect("a string takes any text");
            }
            (Ok(_), None) => compared.wrong.push(format!("{name} is not in {path}")),
            (Ok(sum), Some(known)) if sum == **known => compared.equal += 1,
            (Ok(sum), Some(known)) => compared.wrong.push(format!("{name}: {} where {} is recorded", spaced(&sum), spaced(known))),
        }
    }
    if options.record && compared.wrong.is_empty() {
        std::fs::write(&options.table, table).map_err(|e| format!("{path}: {e}"))?;
    }
    Ok(compared)
}

fn spaced(columns: &str) -> String {
    columns.replace('\t', " actions, ")
}

fn wanted(options: &Options) -> Result<Vec<Subject>, String> {
    if options.record && (options.sample > 1 || !options.only.is_empty()) {
        return Err("--record takes all transcripts: leave out --sample and names".to_owned());
    }
    let subjects = all();
    let begins = |subject: &Subject, with: &String| subject.to_string().starts_with(with.as_str());
    if let Some(none) = options.only.iter().find(|with| !subjects.iter().any(|subject| begins(subject, with))) {
        return Err(format!("no transcript's name begins with {none}; there are count/, figure1/, replay/ and life/"));
    }
    let is_wanted = |subject: &Subject| options.only.is_empty() || options.only.iter().any(|with| begins(subject, with));
    Ok(subjects.into_iter().filter(is_wanted).step_by(options.sample).collect())
}

/// The transcripts of these, in their order, as the table has them.
fn take(subjects: &[Subject], options: &Options) -> Vec<Result<String, String>> {
    let todo = Mutex::new(0..subjects.len());
    let taken = Mutex::new(vec![Err(String::new()); subjects.len()]);
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                let mut taker = Taker::default();
                loop {
                    let next = todo.lock().expect("nobody panics with it").next();
                    let Some(at) = next else { break };
                    let sum = taker.take(subjects[at], &options.traces).map(|sum| sum.to_string());
                    taken.lock().expect("nobody panics with it")[at] = sum;
                }
            });
        }
    });
    taken.into_inner().expect("all threads ended well")
}
