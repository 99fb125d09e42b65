//! The verbs, one file each.

pub mod attach;
mod awaited;
pub mod check;
pub mod create;
pub mod dedup;
pub mod detach;
pub mod dump;
pub mod estimate;
pub mod glance;
pub mod grow;
pub mod helper;
pub mod hint;
pub mod list;
pub mod manual;
mod offline;
pub mod probe;
pub mod scrub;
pub mod serve;
pub mod set;
pub mod stats;
pub mod status;
pub mod supervise;
pub mod top;
pub mod trace;
mod typed;
pub mod upgrade;
pub mod version;
