//! The test kit: simulated devices, oracle, checkers, crash explorer.

pub mod content;
pub mod violation;

pub mod disk;
pub mod oracle;

pub mod volume;

pub mod setcheck;
pub mod tables;
