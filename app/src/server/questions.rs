//! The answers to the questions of the control socket.

use super::recording::Recordings;
use crate::attachment::control::{Client, DeviceNumber, HintOrder, ServerRequest};
use crate::attachment::growth::Noted;
use crate::attachment::plan::Plan;
use crate::attachment::{growth, upgrade};
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend;
use crate::frontend::door::Announcer;
use crate::hints::locate;
use crate::hints::rule::{self, Act};
use crate::runtime::Served;
use crate::runtime::extents::count_extents;
use crate::runtime::links::find_links;
use crate::runtime::totals::Totals;
use crate::supervision::running::give_way;
use onefold_engine::interface::Event;
use onefold_engine::units::Bytes;
use onefold_observer::Disk;
use serde_json::Value;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// The longest time that a server which gives way waits for its ledger to be saved, and the time between two looks at it.
const LEDGER_WAIT: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The parts of a server that its answers need.
pub(super) struct Answers {
    pub plan: Plan,
    pub served: Arc<dyn Served>,
    pub totals: Arc<Totals>,
    pub recordings: Arc<Recordings>,
    /// A message ends the server.
    pub stop: Sender<()>,
    pub announce: Announcer,
}

impl Answers {
    /// Answers a question, or carries an order out.
    pub(super) fn respond(&self, ask: ServerRequest, client: &Client<'_>) -> io::Result<()> {
        let Self { plan, served, totals, recordings, stop, announce } = self;
        let json = |value: Result<Value, serde_json::Error>| value.map_err(|e| Failed::system("cannot answer", e));
        client.answer(match ask {
            ServerRequest::Status => json(serde_json::to_value(served.condition())),
            ServerRequest::Stats => json(serde_json::to_value(totals.counts())),
            ServerRequest::Extents(so_far) => match count_extents(&*Arc::clone(served).target(), so_far) {
                Ok(counts) => json(serde_json::to_value(counts)),
                Err(failure) => Err(Failed::new(Exit::DeviceFailed, format!("the volume does not tell its extents: {failure:?}"))),
            },
            ServerRequest::Links(search) => match find_links(&*Arc::clone(served).target(), &search) {
                Ok(found) => json(serde_json::to_value(found)),
                Err(failure) => Err(Failed::new(Exit::DeviceFailed, format!("the volume does not find its links: {failure:?}"))),
            },
            ServerRequest::Damaged => json(serde_json::to_value(served.damaged())),
            ServerRequest::EndWaiting => {
                served.order(Event::EndWaiting);
                Ok(Value::Null)
            }
            ServerRequest::IndexMemory { bytes } => {
                served.order(Event::IndexMemory(Bytes(bytes)));
                Ok(Value::Null)
            }
            ServerRequest::Deduplicate(order) => {
                served.order(Event::Deduplicate(order.into()));
                Ok(Value::Null)
            }
            ServerRequest::Scrub(order) => {
                served.order(Event::Scrub(order.into()));
                Ok(Value::Null)
            }
            ServerRequest::Hints(order) => self.change_hints(order),
            ServerRequest::HintFile { device, inode, act, path } => self.mark_file(device, inode, act, path.as_deref()),
            // The receiver is gone only when the end has begun already.
            ServerRequest::Detach => return client.answer_before(|| stop.send(()).unwrap_or_default()),
            ServerRequest::Upgrade(to) => match upgrade::prepare(plan, &to) {
                Ok(()) => return client.answer_before(|| self.give_way()),
                Err(failed) => Err(failed),
            },
            ServerRequest::Grow(order) => match prepare_growth(plan, Noted { order, was_full: served.condition().is_full() }) {
                Ok(()) => return client.answer_before(|| self.give_way()),
                Err(failed) => Err(failed),
            },
            ServerRequest::AnnounceSize => announce(Arc::clone(served).target().info().bytes).map(|()| Value::Null),
            ServerRequest::Record(order) => return recordings.record(&order, client),
            ServerRequest::Mark { phase } => recordings.mark(phase).map(|()| Value::Null),
        })
    }

    /// Marks a file that a program has opened.
    fn mark_file(&self, device: DeviceNumber, inode: u64, act: Act, path: Option<&Path>) -> Outcome<Value> {
        let DeviceNumber { major, minor } = device;
        let elsewhere = || Failed::new(Exit::NotFound, format!("device {major}:{minor} is none of {}", self.plan.path.display()));
        let hints = self.served.hints().ok_or_else(elsewhere)?;
        let disk = hints.disk().ok_or_else(elsewhere)?;
        let within = locate::within(Disk { major, minor }, path, disk).ok_or_else(elsewhere)?;
        hints.mark(within, inode, rule::policy_of(&[act]));
        Ok(Value::Null)
    }

    /// Changes the rules of hints.
    fn change_hints(&self, order: HintOrder) -> Outcome<Value> {
        let path = self.plan.path.display();
        let hints = self.served.hints().ok_or_else(|| Failed::new(Exit::State, format!("{path} is passed through: it has no rules")))?;
        // After a failure of the device (A5), or when another host has claimed the volume, nothing is written any more.
        if self.served.condition().state.starts_with("read-only") {
            return Err(Failed::new(Exit::State, format!("{path} is read-only: its rules stay as they are")));
        }
        let changed = match order {
            HintOrder::Add { rules } => {
                let wrong = |error| Failed::new(Exit::Usage, error);
                rules.iter().try_for_each(|rule| rule.check().map_err(wrong))?;
                serde_json::to_value(hints.add(rules)?).map_err(|e| Failed::system("cannot answer", e))
            }
            HintOrder::Remove { numbers } => hints.remove(&numbers).map(|()| Value::Null),
            HintOrder::SpareCompressed { spares } => hints.spare_compressed(spares).map(|()| Value::Null),
        };
        if changed.as_ref().is_err_and(|failed| failed.exit == Exit::DeviceFailed) {
            // Nothing is known to be durable any more that was not flushed before (A5).
            self.served.order(Event::StoreFailed);
        }
        changed
    }

    /// Ends this process like a kill, so that the next server takes over; before that the volume notes what clients have written since it
    /// was created, if it can do so soon.
    fn give_way(&self) -> ! {
        let saved = || self.served.counts().volume.map(|volume| volume.saved_generation);
        let (before, begun) = (saved(), Instant::now());
        self.served.order(Event::SaveLedger);
        while before.is_some() && saved() == before && begun.elapsed() < LEDGER_WAIT {
            std::thread::sleep(LOOK_AGAIN);
        }
        // The next server counts on from here.
        self.totals.counts();
        give_way()
    }
}

fn prepare_growth(plan: &Plan, noted: Noted) -> Outcome {
    let can_hand_over = frontend::named(&plan.frontend.name)?.can_hand_over(plan);
    growth::prepare(plan, can_hand_over, &noted)
}
