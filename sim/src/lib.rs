//! The test kit: simulated devices, oracle, checkers, crash explorer; rivals, and a laboratory that counts and replays.

pub mod ground;

pub mod machine;

pub mod device;

pub mod checkers;

pub mod explorer;

#[cfg(feature = "measure")]
pub mod rivals;

#[cfg(feature = "measure")]
pub mod laboratory;

#[cfg(feature = "measure")]
pub mod transcripts;
