//! The phases of a trace: what is counted where each begins, and the figures of the one that is measured.

use crate::replay::figures::{Accounts, Figures, Latency, Space};
use std::collections::BTreeMap;

/// The phase that is measured.
const MEASURED: &str = "run";

/// Latencies in nanoseconds, by kind of request.
pub type Latencies = BTreeMap<&'static str, Vec<u64>>;

/// The phases so far.
pub struct Phases {
    name: String,
    began: Accounts,
    /// Of phases that are over.
    latencies: Latencies,
    /// Name, figures, and how the volume was filled at the end.
    pub measured: Option<(String, Figures, Space)>,
    /// How the volume was filled where the last phase ended.
    pub space: Space,
}

impl Phases {
    /// Before the first mark, nothing has a name.
    #[must_use]
    pub fn new(began: Accounts) -> Self {
        Self { name: String::new(), began, latencies: BTreeMap::new(), measured: None, space: Space::default() }
    }

    /// A phase ends with these accounts and its latencies, and the next begins.
    pub fn begins(&mut self, name: String, accounts: Accounts, latencies: Latencies, space: Space) {
        self.space = space;
        if self.name == MEASURED {
            let percentiles = latencies.iter().map(|(&kind, ns)| (kind, Latency::of(ns.clone()))).collect();
            self.measured = Some((self.name.clone(), Figures::between(&self.began, &accounts, percentiles), space));
        }
        for (kind, mut ns) in latencies {
            self.latencies.entry(kind).or_default().append(&mut ns);
        }
        (self.name, self.began) = (name, accounts);
    }

    /// The latencies of all phases.
    #[must_use]
    pub fn all_latencies(&mut self) -> BTreeMap<&'static str, Latency> {
        std::mem::take(&mut self.latencies).into_iter().map(|(kind, ns)| (kind, Latency::of(ns))).collect()
    }
}
