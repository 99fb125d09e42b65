//! Counts: what a client's unit costs in units of the device, by class, on the real engine over a device in memory, in virtual time.
//!
//! 1. Nothing is taken from the engine's word: units, commands, flushes and discards are counted where they reach the device, their class by
//!    the place that they go to. At the end both accounts must be equal.
//! 2. A count goes from the first flush of the opening to the last flush of a clean close, so that nothing delayed is left out. Only the
//!    flushes for each client flush are those of the service in between.
//! 3. After the close, `check` goes over the medium and must find nothing.

pub mod device;
pub mod drive;
pub mod figure1;
pub mod figures;
pub mod load;
pub mod pace;
pub mod pool;
pub mod rig;
pub mod scene;
pub mod slots;

pub use onefold_trace::replay::names;
