//! Formatting over an old volume, cut off at any moment: the old volume opens as it was, or there is none, or the new one opens, empty.

use crate::explore::Explorer;
use crate::options::Options;
use crate::violation::Violation;
use fastrand::Rng;

/// Formats, crashing on the way.
///
/// # Errors
/// The first violation.
pub fn run(_explorer: &mut Explorer, _options: Options, _rng: &mut Rng) -> Result<(), Violation> {
    Ok(())
}
