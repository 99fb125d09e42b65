//! The runs of which transcripts are taken.

use crate::explorer::crash::seed_of;
use crate::explorer::explore::Explorer;
use crate::explorer::options::Modes;
use crate::laboratory::counts::pace::Pace;
use crate::laboratory::counts::{figure1, figures};
use crate::laboratory::papers::studies::workloads::WORKLOADS;
use crate::laboratory::replay::run::Plan;
use crate::laboratory::replay::scheme::Scheme;
use crate::laboratory::replay::timed::replay_file;
use crate::machine::transcript::{self, Sum};
use onefold_engine::format::CommitMode;
use onefold_engine::settings::Persistence;
use std::fmt;
use std::path::Path;

/// Lives of the crash explorer in each mode.
const LIVES: u64 = 300;
/// Their seed.
const SEED: u64 = 1;
const MODES: [(&str, Modes); 3] = [("ordered", Modes::One(CommitMode::Ordered)), ("log", Modes::One(CommitMode::Log)), ("any", Modes::Any)];
const SCHEMES: [Scheme; 3] = [Scheme::Ordered, Scheme::Log, Scheme::Packed];
/// Shipped traces without transcripts: what the engine does with them is like what it does with 06 and 08, and takes longer.
const LEFT_OUT: [&str; 3] = ["06b_hadoop_local", "07b_ycsb_ferretdb", "08b_ycsb_postgres"];
const PERSISTENCES: [(&str, Persistence); 2] = [("weak", Persistence::Weak), ("strong", Persistence::Strong)];

/// A run that has a transcript.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// The scene of a count bench.
    Count(&'static str),
    /// A case of Figure 1.
    Figure1(&'static str, fn()),
    /// A shipped trace.
    Replay { trace: &'static str, scheme: Scheme, persistence: (&'static str, Persistence) },
    /// A run of the crash explorer, in one of `MODES`.
    Life { mode: usize, run: u64 },
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Count(name) => write!(f, "count/{name}"),
            Self::Figure1(name, _) => write!(f, "figure1/{name}"),
            Self::Replay { trace, scheme, persistence: (persistence, _) } => write!(f, "replay/{trace}/{}/{persistence}", scheme.name()),
            Self::Life { mode, run } => write!(f, "life/{}/{run}", MODES[mode].0),
        }
    }
}

/// All, in the order of the table.
#[must_use]
pub fn all() -> Vec<Subject> {
    let counts = figures::scenes().into_iter().map(Subject::Count);
    let cases = figure1::CASES.into_iter().map(|(name, play)| Subject::Figure1(name, play));
    let replays = WORKLOADS.iter().filter(|workload| !LEFT_OUT.contains(&workload.trace)).flat_map(|workload| {
        let trace = workload.trace;
        SCHEMES.into_iter().flat_map(move |scheme| PERSISTENCES.map(|persistence| Subject::Replay { trace, scheme, persistence }))
    });
    let lives = (0..MODES.len()).flat_map(|mode| (0..LIVES).map(move |run| Subject::Life { mode, run }));
    counts.chain(cases).chain(replays).chain(lives).collect()
}

/// The explorers of a thread that takes transcripts, once it needs them.
#[derive(Default)]
pub struct Taker {
    explorers: [Option<Box<Explorer>>; MODES.len()],
}

impl Taker {
    /// Runs it; its transcript. `traces` is the folder of the shipped traces.
    ///
    /// # Errors
    /// What the run found wrong.
    pub fn take(&mut self, subject: Subject, traces: &Path) -> Result<Sum, String> {
        match subject {
            Subject::Count(name) => {
                let (done, sum) = transcript::of(|| figures::measure(name, SEED, Pace::all()[0]));
                done.map(|_| sum)
            }
            Subject::Figure1(_, play) => Ok(transcript::of(play).1),
            Subject::Replay { trace, scheme, persistence: (_, persistence) } => {
                let plan = Plan { scheme, persistence, ..Plan::default() };
                let (done, sum) = transcript::of(|| replay_file(&traces.join(format!("{trace}.tsv.zst")), &plan));
                done.map(|_| sum)
            }
            Subject::Life { mode, run } => {
                let explorer = self.explorer(mode)?;
                let (done, sum) = transcript::of(|| explorer.run(seed_of(SEED, run)));
                done.map(|()| sum).map_err(|violation| violation.to_string())
            }
        }
    }

    fn explorer(&mut self, mode: usize) -> Result<&mut Explorer, String> {
        let known = &mut self.explorers[mode];
        if known.is_none() {
            *known = Some(Box::new(Explorer::new(MODES[mode].1).map_err(|violation| violation.to_string())?));
        }
        Ok(known.as_mut().expect("it is there now"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_has_a_name_of_its_own() {
        let names: BTreeSet<String> = all().iter().map(Subject::to_string).collect();
        assert_eq!(names.len(), all().len());
        assert!(names.len() > 21 * 6 + 900);
    }
}
