//! Live replay (`onefold-lab trace replay TRACE --on DEVICE`): a client that sends a trace's requests to a device, as they were recorded.
//!
//! 1. Replay keeps dependencies (`trace/src/replay/rule.rs`, the same rule as in virtual time): a limited number of changes wait for their
//!    answers, under every persistence; the next request is sent after the recorded think time since the last was sent, and not before the
//!    rule allows.
//! 2. Content is made of the recorded fingerprints (`trace/src/replay/bytes.rs`): equal content stays equal, and compresses as recorded.
//! 3. The device is opened like any backing store: locked, and past the page cache where that is possible. FUA is a write and a flush after
//!    it, as in the kernel for a device without FUA.
//! 4. Only blocks that the trace itself has written and not discarded since are compared: other content of the device is unknown.

pub mod client;
pub mod figures;
mod plan;

pub use plan::Plan;

use client::Client;
use figures::Figures;
use onefold::device;
use onefold::device::backing::Backing;
use onefold::memory::pool::Pool;
use onefold::runtime::passthrough::Passthrough;
use onefold_engine::memory::Accountant;
use onefold_trace::record::Record;
use onefold_trace::replay::planned::{Next, PlannedRequests};
use serde::Serialize;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The results of a live replay.
#[derive(Debug, Serialize)]
pub struct Found {
    /// The method of I/O on the device.
    pub io: String,
    pub whole: Figures,
    pub phases: Vec<Phase>,
    /// The processor time of this process, including the making of content.
    pub cpu_seconds: f64,
    /// The number of blocks that were read back in the end and were correct; none where that was not asked for.
    pub verified_blocks: Option<u64>,
}

/// The requests between two marks.
#[derive(Debug, Serialize)]
pub struct Phase {
    pub name: String,
    #[serde(flatten)]
    pub figures: Figures,
}

/// The reason why a replay did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure<E> {
    #[error(transparent)]
    Trace(E),
    /// The device refused a request, or returned data that nobody wrote.
    #[error("request {number}: {reason}")]
    Request { number: u64, reason: String },
    #[error("reading back: {0}")]
    Verify(String),
    #[error("io_uring: {0}")]
    Method(std::io::Error),
    #[error("interrupted")]
    Interrupted,
}

/// Replays `records` on a store. `stop`, which another thread sets, ends it early.
///
/// # Errors
/// When a record cannot be read, the device fails or refuses a request, or a block does not hold what the trace wrote.
pub fn replay<E: Display>(
    backing: Arc<Backing>,
    records: impl Iterator<Item = Result<Record, E>>,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<Found, Failure<E>> {
    let pool = Pool::new(Accountant::new(plan.memory_bytes));
    let device = device::start(backing, &pool, plan.method).map_err(Failure::Method)?;
    let target = Passthrough::new(device.clone(), pool.clone());
    let request_bytes_max = pool.request_bytes_max();
    let mut client = Client::new(target, pool, plan);
    let result = run(&mut client, PlannedRequests::new(records, request_bytes_max), plan, stop);
    // Whatever the result, requests under way end before the device does.
    let _ = client.settle();
    device.stop();
    result.map(|found| Found { io: device.method(), ..found })
}

fn run<E: Display, I: Iterator<Item = Result<Record, E>>>(
    client: &mut Client,
    asks: PlannedRequests<I>,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<Found, Failure<E>> {
    let cpu_began = figures::cpu_time();
    let (mut phases, mut name) = (Vec::new(), String::new());
    for (number, next) in (1..).zip(asks) {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        let wrong = |reason| Failure::Request { number, reason };
        match next.map_err(Failure::Trace)? {
            Next::PlannedRequest(ask) => client.send(ask).map_err(wrong)?,
            Next::Mark(next) => {
                client.settle().map_err(wrong)?;
                phases.push(Phase { name: std::mem::replace(&mut name, next), figures: client.end_of_phase() });
                client.idle(plan.idle);
            }
        }
    }
    client.settle().map_err(Failure::Verify)?;
    phases.push(Phase { name, figures: client.end_of_phase() });
    client.idle(plan.idle);
    let cpu_seconds = (figures::cpu_time() - cpu_began).as_secs_f64();
    let whole = client.whole();
    let verified_blocks = if plan.verify { Some(client.look_at_everything().map_err(Failure::Verify)?) } else { None };
    phases.retain(|phase| !phase.name.is_empty() || phase.figures.has_requests());
    Ok(Found { io: String::new(), whole, phases, cpu_seconds, verified_blocks })
}
