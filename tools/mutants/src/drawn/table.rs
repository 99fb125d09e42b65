//! The printed results: a line for each mutant, and at the end the number of mutants that each checker caught, the survivors, and the
//! score.

use super::equivalent::Equivalent;
use super::mutation::Mutation;
use super::results::{Outcome, Results, TrialResult};
use std::collections::BTreeMap;
use std::fmt;

/// The largest number of lines of a survivor's diff that are shown.
const DIFF_LINES: usize = 24;

pub fn line(mutation: &Mutation, outcome: &Outcome) -> String {
    let (word, by) = match &outcome.verdict {
        TrialResult::Caught(by) => ("caught", by.as_str()),
        TrialResult::Survived => ("SURVIVED", ""),
        TrialResult::Unbuildable => ("does not build", ""),
    };
    format!("{word:<8} {} {} in {:.0} s {by}", mutation.id, mutation.place(), outcome.took.as_secs_f64()).trim_end().to_owned()
}

pub struct Table<'a> {
    /// The numbers of mutants caught by the engine's tests, by the explorer, by the kit's tests.
    caught: BTreeMap<String, usize>,
    survivors: Vec<&'a Mutation>,
    equivalent: Vec<(&'a Mutation, &'a str)>,
}

impl<'a> Table<'a> {
    pub fn of(tried: &[&'a Mutation], equivalent: &'a Equivalent, results: &Results) -> Self {
        let mut table = Self { caught: BTreeMap::new(), survivors: Vec::new(), equivalent: Vec::new() };
        for mutation in tried {
            match results.of(&mutation.id).map(|outcome| &outcome.verdict) {
                // A caught mutant is not equivalent, whatever the file says.
                Some(TrialResult::Caught(by)) => {
                    let who = by.split([':', ',']).next().unwrap_or_default();
                    *table.caught.entry(who.to_owned()).or_default() += 1;
                }
                _ => match equivalent.why(&mutation.id) {
                    Some(why) => table.equivalent.push((mutation, why)),
                    None => table.survivors.push(mutation),
                },
            }
        }
        table
    }

    fn caught(&self) -> usize {
        self.caught.values().sum()
    }

    /// Returns the percentage caught of those that are not equivalent.
    pub fn score(&self) -> f64 {
        let all = self.caught() + self.survivors.len();
        if all == 0 { 0.0 } else { 100.0 * self.caught() as f64 / all as f64 }
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (mutation, why) in &self.equivalent {
            write!(f, "\nequivalent {} {}: {why}\n{}", mutation.id, mutation.place(), mutation.diff())?;
        }
        for mutation in &self.survivors {
            let diff = mutation.diff();
            let shown: Vec<&str> = diff.lines().take(DIFF_LINES).collect();
            write!(f, "\nSURVIVED {} {}\n{}\n", mutation.id, mutation.place(), shown.join("\n"))?;
        }
        writeln!(f)?;
        for (who, caught) in &self.caught {
            writeln!(f, "caught by {who:<10} {caught:>4}")?;
        }
        writeln!(f, "survived             {:>4}", self.survivors.len())?;
        writeln!(f, "equivalent, left out {:>4}", self.equivalent.len())?;
        writeln!(f, "score {:.1} %", self.score())?;
        writeln!(f, "{} passed, {} failed, {} skipped", self.caught(), self.survivors.len(), self.equivalent.len())
    }
}
