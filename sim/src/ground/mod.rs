//! The ground of the kit: what every other part of it needs, and what needs none of them.

pub mod content;
#[cfg(feature = "measure")]
pub mod figure;
pub mod record;
pub mod violation;
pub mod watchdog;
pub mod words;
