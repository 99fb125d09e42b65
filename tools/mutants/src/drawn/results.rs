//! The results of the mutants, appended to a file as soon as they are known, so that an interrupted run continues where it was.
//!
//! 1. A mutant that was caught, or does not build, keeps its result while the engine's code, except tests, is the same: tests are only
//!    added.
//! 2. A survivor is tried again as soon as any source of the engine or of the kit has changed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialResult {
    /// The mutant was caught, by this.
    Caught(String),
    Survived,
    /// The change is not a mutant: another is drawn instead.
    Unbuildable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: TrialResult,
    pub took: Duration,
}

pub struct Results {
    path: PathBuf,
    /// The state of the engine's code, and of all sources.
    code: String,
    tree: String,
    known: HashMap<String, Outcome>,
}

impl Results {
    /// # Errors
    /// Fails if the file is there and cannot be read.
    pub fn open(path: &Path, code: String, tree: String) -> io::Result<Self> {
        let lines = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let mut known = HashMap::new();
        for line in lines.lines() {
            let fields: Vec<&str> = line.splitn(6, '\t').collect();
            // The last line may be incomplete.
            let [of_code, of_tree, id, word, seconds, by] = fields[..] else { continue };
            let verdict = match word {
                "caught" => TrialResult::Caught(by.to_owned()),
                "survived" if of_tree == tree => TrialResult::Survived,
                "unbuildable" => TrialResult::Unbuildable,
                _ => continue,
            };
            if of_code == code {
                let took = Duration::from_secs_f64(seconds.parse().unwrap_or(0.0));
                known.insert(id.to_owned(), Outcome { verdict, took });
            }
        }
        Ok(Self { path: path.to_owned(), code, tree, known })
    }

    pub fn of(&self, id: &str) -> Option<&Outcome> {
        self.known.get(id)
    }

    /// # Errors
    /// Fails if it cannot be written.
    pub fn add(&mut self, id: &str, outcome: Outcome) -> io::Result<()> {
        let (word, by) = match &outcome.verdict {
            TrialResult::Caught(by) => ("caught", by.as_str()),
            TrialResult::Survived => ("survived", ""),
            TrialResult::Unbuildable => ("unbuildable", ""),
        };
        let by = by.replace(['\n', '\t'], " ");
        let line = format!("{}\t{}\t{id}\t{word}\t{:.1}\t{by}\n", self.code, self.tree, outcome.took.as_secs_f64());
        File::options().create(true).append(true).open(&self.path)?.write_all(line.as_bytes())?;
        self.known.insert(id.to_owned(), outcome);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survivors_are_forgotten_when_a_test_is_new_and_all_is_when_the_code_is() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("results.tsv");
        let open = |code: &str, tree: &str| Results::open(&path, code.to_owned(), tree.to_owned()).expect("it is read");
        let outcome = |verdict| Outcome { verdict, took: Duration::from_millis(1500) };
        let caught = outcome(TrialResult::Caught("test a b".to_owned()));
        let mut results = open("code", "tree");
        assert_eq!(results.of("1"), None);
        results.add("1", caught.clone()).expect("it is written");
        results.add("2", outcome(TrialResult::Survived)).expect("it is written");
        results.add("3", outcome(TrialResult::Unbuildable)).expect("it is written");
        let results_of = |code: &str, tree: &str| ["1", "2", "3"].map(|id| open(code, tree).of(id).cloned());
        assert_eq!(
            results_of("code", "tree"),
            [Some(caught.clone()), Some(outcome(TrialResult::Survived)), Some(outcome(TrialResult::Unbuildable))]
        );
        assert_eq!(results_of("code", "more tests"), [Some(caught), None, Some(outcome(TrialResult::Unbuildable))]);
        assert_eq!(results_of("other code", "tree"), [None, None, None]);
    }
}
