//! The phases of a trace: the accounts at the beginning of each, and the figures of the measured one.

use crate::laboratory::replay::figures::{Accounts, Added, Figures, Latency, Space};
use crate::laboratory::replay::flash::Response;
use std::collections::BTreeMap;

/// The name of the phase that is measured.
pub const MEASURED: &str = "run";

/// Latencies in nanoseconds, by kind of request.
pub type Latencies = BTreeMap<&'static str, Vec<u64>>;

/// The phases so far.
pub struct Phases {
    name: String,
    began: Accounts,
    /// The latencies of the phases that have ended.
    latencies: Latencies,
    /// The name and the figures of the measured phase, and the use of space at its end.
    pub measured: Option<(String, Figures, Space)>,
    /// The use of space at the end of the last phase.
    pub space: Space,
}

impl Phases {
    /// Begins with a phase without a name, which lasts until the first mark.
    #[must_use]
    pub fn new(began: Accounts) -> Self {
        Self { name: String::new(), began, latencies: BTreeMap::new(), measured: None, space: Space::default() }
    }

    /// Ends a phase with these accounts and its latencies, and begins the next one. `own` are the blocks that the client wrote in it, and
    /// their own contents.
    pub fn begins(&mut self, name: String, accounts: Accounts, latencies: Latencies, mut space: Space, own: (u64, u64)) {
        space.added = Added::between(&self.space, &space, own);
        self.space = space;
        if self.name == MEASURED {
            self.measured = Some((self.name.clone(), figures(&self.began, &accounts, latencies.clone()), space));
        }
        for (kind, mut ns) in latencies {
            self.latencies.entry(kind).or_default().append(&mut ns);
        }
        (self.name, self.began) = (name, accounts);
    }

    /// Returns the figures from the beginning to these accounts, with the latencies of all phases.
    #[must_use]
    pub fn whole(&mut self, accounts: &Accounts) -> Figures {
        figures(&Accounts::default(), accounts, std::mem::take(&mut self.latencies))
    }
}

/// Computes the figures between two moments with the latencies of the requests that were answered there.
fn figures(then: &Accounts, now: &Accounts, latencies: Latencies) -> Figures {
    let all = now.flash.map(|_| Response::of(latencies.values().flatten().copied().collect()));
    let percentiles = latencies.into_iter().map(|(kind, ns)| (kind.to_owned(), Latency::of(ns))).collect();
    let mut figures = Figures::between(then, now, percentiles);
    if let (Some(flash), Some(all)) = (&mut figures.flash, all) {
        flash.response_us = all;
    }
    figures
}
