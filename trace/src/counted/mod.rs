//! A machine with the engine's interface in virtual time, over a device in memory that counts what reaches it.
//!
//! Content is known by its name alone ([`names`]), so that large volumes fit into memory and nothing is hashed.

pub mod device;
mod page;
pub mod pool;
pub mod request;
pub mod rig;
pub mod slots;
pub mod times;
pub mod volume;

pub use crate::replay::names;
