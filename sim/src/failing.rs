//! Lives in which one device call fails (A5): while the volume opens, serves or closes.

use crate::explore::Explorer;
use crate::life::Left;
use crate::plan::Plan;
use crate::states::{Crash, Where};
use crate::traffic::Step;
use crate::violation::{Violation, violation};
use crate::world::World;
use fastrand::Rng;
use onefold_engine::interface::Notice;

/// Device calls of a closing, about.
const CLOSING_CALLS: u64 = 12;

/// Events for which a failing life waits for a rare step.
const RARE_EVENTS: u64 = 300;

impl Explorer {
    /// A life in which one device call fails (A5): after it the volume is read-only and says so, blocks read right or not at all, and what was
    /// promised before is there after the next power cut. A read that fails may end in no more than an error.
    ///
    /// # Errors
    /// The violation that it found.
    pub fn fail(&mut self, plan: &Plan, left: Left, depth: usize, call: u64, rng: &mut Rng) -> Result<(), Violation> {
        let what = format!(", in which call {call} fails");
        self.in_a_life(&what, plan, left, depth, rng, |explorer, world, rng| {
            world.fault = Some(call);
            explorer.fail_in(plan, world, depth, rng)
        })
    }

    fn fail_in(&mut self, plan: &Plan, world: &mut World, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        world.send_reads()?;
        let closing = rng.u8(..) < 48 && !world.weather.errors;
        let at = if closing { close_with_a_failure(world, rng)? } else { serve_with_a_failure(world, rng)? };
        let says_so = world.notices.iter().filter(|n| matches!(n, Notice::WentReadOnly { .. })).count();
        if says_so != usize::from(world.weather.failed) {
            return Err(violation!("A5: the device failed: {}; notices of it: {says_so}", world.weather.failed));
        }
        if closing || rng.bool() {
            if !closing {
                world.read_all()?;
                world.close()?;
            }
            if world.weather.failed && world.closed() == Some(true) {
                return Err(violation!("A5: the volume was closed clean after the device had failed"));
            }
        }
        if !plan.may_crash(depth) {
            return Ok(());
        }
        self.cut(plan, world, Crash::Failure, at, depth, 3, rng)
    }
}

/// Serves until the call has failed, and a little longer. Returns where the engine was.
fn serve_with_a_failure(world: &mut World, rng: &mut Rng) -> Result<Where, Violation> {
    if rng.u8(..) < 190 && !world.weather.errors {
        // In a step in which the engine seldom is.
        let call = world.fault.take().unwrap_or(0);
        let rare = if rng.bool() { Step::Reclaim } else { Step::Flush1 };
        let is_rare = |w: &World| w.traffic.step() == rare || w.traffic.beside() == Some(rare);
        world.run_until(true, |w| is_rare(w) || w.traffic.events >= RARE_EVENTS || w.weather.failed)?;
        world.fault = Some(world.calls + call % 2);
    }
    let mut at = Where::of(world);
    world.run_until(true, |w| {
        let over = w.weather.errors || w.calls > w.fault.unwrap_or(0) + 20;
        at = if over { at } else { Where::of(w) };
        over
    })?;
    let mut more = rng.u32(1..40);
    world.run_until(true, |_| {
        more -= 1;
        more == 0
    })?;
    Ok(at)
}

/// Serves for a while without a failure, and closes with one: the call is counted from there.
fn close_with_a_failure(world: &mut World, rng: &mut Rng) -> Result<Where, Violation> {
    let call = world.fault.take().unwrap_or(0);
    let events = rng.u64(1..60);
    world.run_until(true, |w| w.traffic.events >= events || w.weather.failed)?;
    world.run_until(false, |w| w.client.waiting() == 0)?;
    world.fault = Some(world.calls + call % CLOSING_CALLS);
    world.begin_close()?;
    let mut at = Where::of(world);
    world.run_until(false, |w| {
        let over = w.weather.errors || w.closed().is_some();
        at = if over { at } else { Where::of(w) };
        over
    })?;
    world.run_until(false, |w| w.closed().is_some())?;
    Ok(at)
}
