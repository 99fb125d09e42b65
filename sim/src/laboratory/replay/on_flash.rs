//! Replays of one trace on several schemes with flash below, on a volume of the trace's working set (`onefold-lab flash`, and Figures 5, 7
//! and 8 of APP-Dedupe in the papers' report).
//!
//! 1. Every scheme has a flash of the same size: as large as the largest device that one of them needs for the volume, and of
//!    [`PLANE_BLOCKS_MIN`] blocks on each plane at least.
//! 2. With a working set the blocks that the trace reads or writes are moved together, and the volume has no others.

use crate::laboratory::flash::{Flash, Shape};
use crate::laboratory::replay::plan::Plan;
use crate::laboratory::replay::report::Report;
use crate::laboratory::replay::run::replay_with_flash;
use crate::laboratory::replay::scheme::{Scheme, ready};
use crate::laboratory::replay::working_set::WorkingSet;
use onefold_trace::record::Record;
use std::fmt::Display;

/// The blocks of a plane, at least, so that its spare ones are more than cleaning needs in any case.
pub const PLANE_BLOCKS_MIN: u64 = 64;

/// Returns the bytes of the largest device that one of these schemes needs for a volume of `blocks`.
///
/// # Errors
/// Fails if there can be no volume of that size.
pub fn device_bytes(schemes: &[Scheme], plan: &Plan, blocks: u64) -> Result<u64, String> {
    let mut most = 0;
    for &scheme in schemes {
        most = most.max(ready(scheme, plan.persistence, blocks, plan.memory_bytes, plan.index)?.device_bytes.0);
    }
    Ok(most)
}

/// Returns the size of a flash of this shape for a device of `bytes`.
#[must_use]
pub fn flash_bytes(shape: &Shape, bytes: u64) -> u64 {
    bytes.max(PLANE_BLOCKS_MIN * shape.planes * u64::from(shape.block_pages) * shape.page_bytes)
}

/// Replays a trace on the plan's scheme and its flash, for a volume of `blocks`: those of the working set, if there is one. Returns the
/// flash as it is after the close, too.
///
/// # Errors
/// Fails like [`replay_with_flash`], and if the plan has no flash.
pub fn replay<E: Display>(
    trace: &str,
    records: impl Iterator<Item = Result<Record, E>>,
    set: Option<&WorkingSet>,
    blocks: u64,
    plan: &Plan,
) -> Result<(Report, Flash), String> {
    let ready = ready(plan.scheme, plan.persistence, blocks, plan.memory_bytes, plan.index)?;
    let moved = records.filter_map(|record| match (record, set) {
        (Ok(record), Some(set)) => set.moved(record).map(Ok),
        (record, _) => Some(record),
    });
    let (report, flash) = replay_with_flash(ready, trace, moved, plan)?;
    Ok((report, flash.ok_or("the plan has no flash")?))
}
