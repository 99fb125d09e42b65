//! Growing a volume that stays attached: between two servers nobody has it open.
//!
//! 1. The server notes the order and dies, and the supervisor starts the next one, as after any death.
//! 2. The next server carries the order out before it opens the volume, notes how that ended, and forgets the order. If it dies before,
//!    the one after it begins again. If the volume does not grow, it is served as it was.

use super::plan::Plan;
use super::record::{Places, small_file, write_small};
use crate::exit::{Exit, Failed, Outcome};
use crate::growth::Order;
use serde::{Deserialize, Serialize};
use std::fs;

/// The note that a server leaves for the next one.
#[derive(Debug, Serialize, Deserialize)]
pub struct Noted {
    #[serde(flatten)]
    pub order: Order,
    /// Writes waited for room, or failed, when the server gave way.
    #[serde(default)]
    pub was_full: bool,
}

/// The end of a growth.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    failed: Option<Failed>,
}

/// Notes the order for the next server of an attachment, and whether the volume is full.
///
/// # Errors
/// When there would be none, or it could not go on for the clients of this one.
pub fn prepare(plan: &Plan, can_hand_over: bool, noted: &Noted) -> Outcome {
    let volume = plan.path.display();
    let again = || format!("`onefold detach {volume}`; then grow it, and attach it again.");
    if plan.options.passthrough || plan.options.read_only {
        return Err(Failed::new(Exit::Refused, format!("{volume} is attached without the right to change its volume")).next(again()));
    }
    if !plan.is_supervised() {
        let message = format!("{volume} is attached in the foreground, so that no other server can take over");
        return Err(Failed::new(Exit::Refused, message).next(again()));
    }
    if !can_hand_over {
        let message = format!("{volume}: this kernel cannot send requests to another server (Linux 6.9 can), so it cannot grow attached");
        return Err(Failed::new(Exit::Refused, message).next(again()));
    }
    let place = Places::of(&plan.directory, &plan.id).growth;
    let text = serde_json::to_vec(noted).map_err(|e| Failed::system("cannot note the order", e))?;
    write_small(&place, &text).map_err(|e| Failed::system(format!("cannot write {}", place.display()), e))
}

/// Returns what an earlier server has noted.
#[must_use]
pub fn ordered(places: &Places) -> Option<Noted> {
    serde_json::from_slice(&small_file(&places.growth)?).ok()
}

/// Notes how the growth ended, and forgets the order.
pub fn end(places: &Places, result: Outcome) {
    let end = End { failed: result.err() };
    if let Some(failed) = &end.failed {
        tracing::error!("the volume did not grow: {failed}");
    }
    let fresh = places.grown.with_extension("grown-new");
    let noted = serde_json::to_vec(&end).map_err(Into::into).and_then(|text| write_small(&fresh, &text));
    if let Err(error) = noted.and_then(|()| fs::rename(&fresh, &places.grown)) {
        tracing::warn!(%error, "cannot note how the growth ended");
    }
    let _ = fs::remove_file(&places.growth);
}

/// Returns how the growth ended.
///
/// # Errors
/// The reason why the volume did not grow.
pub fn take_end(places: &Places) -> Outcome {
    let end: Option<End> = small_file(&places.grown).and_then(|text| serde_json::from_slice(&text).ok());
    forget(places);
    match end {
        Some(End { failed: None }) => Ok(()),
        Some(End { failed: Some(failed) }) => Err(failed),
        None => Err(Failed::new(Exit::System, format!("cannot read {}", places.grown.display()))),
    }
}

/// Forgets what an earlier attachment was to do, and how it ended.
pub fn clear(places: &Places) {
    let _ = fs::remove_file(&places.growth);
    forget(places);
}

/// Forgets how an earlier growth ended.
pub fn forget(places: &Places) {
    let _ = fs::remove_file(&places.grown);
}
