//! The test kit: simulated devices, oracle, checkers, crash explorer.

pub mod content;
pub mod violation;

pub mod disk;
