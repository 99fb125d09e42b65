//! Counts: the cost of a client's unit in units of the device, by class, with the real engine over a device in memory, in virtual time.
//!
//! 1. The counts do not rely on the engine: units, commands, flushes and discards are counted where they reach the device, and their class
//!    is that of the place that they go to. At the end both accounts must be equal.
//! 2. A count covers the time from the first flush of the opening to the last flush of a clean close, so that nothing delayed is left out.
//!    Only the flushes for each client flush are those of the service in between.
//! 3. After the close, `check` examines the medium and must find nothing.

pub mod drive;
pub mod figure1;
pub mod figures;
pub mod load;
pub mod pace;
pub mod scene;
pub mod times;

pub use onefold_trace::counted::{device, pool, slots};
pub use onefold_trace::replay::names;

use crate::machine::Machine;
use onefold_engine::interface::{Action, Event};
use onefold_engine::units::Time;
use onefold_trace::counted::rig::Stepped;
use times::DeviceTimes;

impl Stepped for Box<dyn Machine> {
    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        (**self).step(now, event, out);
    }
}

/// A machine of the laboratory over the counting device.
pub type Rig = onefold_trace::counted::rig::Rig<Box<dyn Machine>, DeviceTimes>;
