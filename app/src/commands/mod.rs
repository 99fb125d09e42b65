//! The verbs, one file each.

pub mod attach;
pub mod check;
pub mod create;
pub mod detach;
pub mod dump;
pub mod hands;
pub mod list;
pub mod serve;
pub mod stats;
pub mod status;
pub mod supervise;
pub mod trace;

use crate::exit::{Exit, Failed, Outcome};
use crate::server::plan::Plan;
use crate::server::record::Record;
use crate::volume::{self, Found};

/// The plan that a hidden verb is given.
fn parse_plan(text: &str) -> Outcome<Plan> {
    serde_json::from_str(text).map_err(|e| Failed::system("this command is started by `onefold attach` only", e))
}

/// The record of a volume that must be attached.
fn attached(name: &str) -> Outcome<Record> {
    let Found { path, attached } = volume::find(name)?;
    attached.ok_or_else(|| {
        Failed::new(Exit::NotFound, format!("{} is not attached", path.display())).next("`onefold list` shows what is attached.")
    })
}
