//! The real engine, observed: which requests its client sends while which are unanswered.

use onefold_engine::interface::{Action, Event, Legacy, Op, RequestId};
use onefold_engine::units::Time;
use onefold_sim::machine::Machine;
use onefold_sim::machine::account::Account;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A request that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub op: Op,
    pub fua: bool,
    pub at_ns: u64,
    /// The number of unanswered changes and flushes, including this one.
    pub unanswered: usize,
    /// Whether another one of them was a flush or FUA write.
    pub behind_barrier: bool,
}

#[derive(Default)]
pub struct Observations {
    unanswered: BTreeMap<RequestId, bool>,
    pub arrivals: Vec<Arrival>,
}

pub struct ObservedMachine {
    pub machine: Box<dyn Machine>,
    pub observations: Arc<Mutex<Observations>>,
}

impl Machine for ObservedMachine {
    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        let mut observations = self.observations.lock().expect("nobody panics with it");
        if let Event::Request(request) = &event {
            let behind_barrier = observations.unanswered.values().any(|&barrier| barrier);
            if request.op != Op::Read {
                observations.unanswered.insert(request.id, request.fua || request.op == Op::Flush);
            }
            let unanswered = observations.unanswered.len();
            observations.arrivals.push(Arrival { op: request.op, fua: request.fua, at_ns: now.0, unanswered, behind_barrier });
        }
        let before = out.len();
        self.machine.step(now, event, out);
        for action in &out[before..] {
            if let Action::Reply { request, .. } = action {
                observations.unanswered.remove(request);
            }
        }
    }

    fn replay_journal(&mut self, legacy: Legacy) {
        self.machine.replay_journal(legacy);
    }

    fn account(&self) -> Account {
        self.machine.account()
    }
}
