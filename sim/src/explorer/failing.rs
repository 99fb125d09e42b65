//! Lives in which one device call fails (A5): while the volume opens, serves or closes.

use crate::device::traffic::Step;
use crate::explorer::explore::Explorer;
use crate::explorer::life::LifeEnd;
use crate::explorer::plan::Plan;
use crate::explorer::states::{Crash, CrashPoint};
use crate::explorer::world::World;
use crate::ground::violation::{Violation, violation};
use fastrand::Rng;
use onefold_engine::interface::Notice;

/// The approximate number of device calls of a closing.
const CLOSING_CALLS: u64 = 12;

/// The steps that a failing life waits for; several times those in which a failure leaves few states.
const RARE: [Step; 11] = {
    use Step::{Content, Flush1, Idle, NonCritical, Reclaim, Refs};
    [Idle, Content, NonCritical, Idle, Reclaim, Content, Idle, Flush1, Refs, Idle, NonCritical]
};

/// The number of events after which it begins to wait, at most, and after which it waits no longer.
const RARE_FROM: u64 = 40;
const RARE_EVENTS: u64 = 300;

impl Explorer {
    /// Runs a life in which one device call fails (A5): after it the volume is read-only and reports it, blocks read correctly or not at
    /// all, and what was promised before is there after the next power loss. A read that fails may end in no more than an error.
    ///
    /// # Errors
    /// Returns the violation that it found.
    pub fn fail(&mut self, plan: &Plan, left: LifeEnd, depth: usize, call: u64, rng: &mut Rng) -> Result<(), Violation> {
        let what = format!(", in which call {call} fails");
        self.in_a_life(&what, plan, left, depth, rng, |explorer, world, rng| {
            world.fault = Some(call);
            explorer.fail_in(plan, world, depth, rng)
        })
    }

    fn fail_in(&mut self, plan: &Plan, world: &mut World, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        world.send_reads()?;
        let closing = rng.u8(..) < 48 && !world.faults.errors;
        let at = if closing { close_with_a_failure(world, rng)? } else { serve_with_a_failure(world, rng)? };
        let says_so = world.notices.iter().filter(|n| matches!(n, Notice::WentReadOnly { .. })).count();
        if says_so != usize::from(world.faults.failed) {
            return Err(violation!("A5: the device failed: {}; notices of it: {says_so}", world.faults.failed));
        }
        if closing || rng.bool() {
            if !closing {
                world.read_all()?;
                world.close()?;
            }
            if world.faults.failed && world.closed() == Some(true) {
                return Err(violation!("A5: the volume was closed clean after the device had failed"));
            }
        }
        if !plan.may_crash(depth) {
            return Ok(());
        }
        self.cut(plan, world, Crash::Failure, at, depth, 3, rng)
    }
}

/// Serves until the call has failed, and a little longer. Returns the place where the engine was.
fn serve_with_a_failure(world: &mut World, rng: &mut Rng) -> Result<CrashPoint, Violation> {
    if rng.u8(..) < 190 && !world.faults.errors {
        // One of two calls fails in a step in which the engine rarely is.
        let call = world.fault.take().unwrap_or(0);
        let rare = match RARE[(call / 2) as usize % RARE.len()] {
            Step::Content if world.traffic.recounting => Step::Recount,
            step => step,
        };
        let first = rng.u64(0..RARE_FROM);
        let is_rare = |w: &World| w.traffic.events >= first && (w.traffic.step() == rare || w.traffic.beside() == Some(rare));
        world.run_until(true, |w| is_rare(w) || w.traffic.events >= RARE_EVENTS || w.faults.failed)?;
        world.fault = Some(world.calls + call % 2);
    }
    let mut at = CrashPoint::of(world);
    world.run_until(true, |w| {
        let over = w.faults.errors || w.calls > w.fault.unwrap_or(0) + 20;
        at = if over { at } else { CrashPoint::of(w) };
        over
    })?;
    let mut more = rng.u32(1..40);
    world.run_until(true, |_| {
        more -= 1;
        more == 0
    })?;
    Ok(at)
}

/// Serves for some time without a failure, and closes with one, counting calls from there.
fn close_with_a_failure(world: &mut World, rng: &mut Rng) -> Result<CrashPoint, Violation> {
    let call = world.fault.take().unwrap_or(0);
    let events = rng.u64(1..60);
    world.run_until(true, |w| w.traffic.events >= events || w.faults.failed)?;
    world.run_until(false, |w| w.client.waiting() == 0)?;
    world.fault = Some(world.calls + call % CLOSING_CALLS);
    world.begin_close()?;
    let mut at = CrashPoint::of(world);
    world.run_until(false, |w| {
        let over = w.faults.errors || w.closed().is_some();
        at = if over { at } else { CrashPoint::of(w) };
        over
    })?;
    world.run_until(false, |w| w.closed().is_some())?;
    Ok(at)
}
