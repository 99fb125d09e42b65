//! The real engine, watched: what its client sends while what is unanswered.

use onefold_engine::interface::{Action, Event, Legacy, Op, RequestId};
use onefold_engine::units::Time;
use onefold_sim::account::Account;
use onefold_sim::machine::Machine;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A request, as it came.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    pub op: Op,
    pub fua: bool,
    pub at_ns: u64,
    /// Changes and flushes that were unanswered, itself included.
    pub unanswered: usize,
    /// One of them was a flush or FUA write, other than itself.
    pub behind_barrier: bool,
}

#[derive(Default)]
pub struct Seen {
    unanswered: BTreeMap<RequestId, bool>,
    pub came: Vec<Came>,
}

pub struct Watched {
    pub machine: Box<dyn Machine>,
    pub seen: Arc<Mutex<Seen>>,
}

impl Machine for Watched {
    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        let mut seen = self.seen.lock().expect("nobody panics with it");
        if let Event::Request(request) = &event {
            let behind_barrier = seen.unanswered.values().any(|&barrier| barrier);
            if request.op != Op::Read {
                seen.unanswered.insert(request.id, request.fua || request.op == Op::Flush);
            }
            let unanswered = seen.unanswered.len();
            seen.came.push(Came { op: request.op, fua: request.fua, at_ns: now.0, unanswered, behind_barrier });
        }
        let before = out.len();
        self.machine.step(now, event, out);
        for action in &out[before..] {
            if let Action::Reply { request, .. } = action {
                seen.unanswered.remove(request);
            }
        }
    }

    fn recall(&mut self, legacy: Legacy) {
        self.machine.recall(legacy);
    }

    fn account(&self) -> Account {
        self.machine.account()
    }
}
