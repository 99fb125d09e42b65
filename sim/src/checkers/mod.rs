//! The checkers: each compares what a machine does, or what its device could hold after a power loss, with the promises.

pub mod ack_journal;
pub mod ack_journal_check;
pub mod audit;
pub mod checker;
pub mod faults;
pub mod limits;
pub mod logcheck;
pub mod mended;
pub mod objection;
pub mod oracle;
pub mod setcheck;
