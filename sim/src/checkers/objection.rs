//! Notices that a volume has no reason for.

use crate::checkers::faults::FaultState;
use crate::ground::violation::{Violation, violation};
use onefold_engine::interface::Notice;

/// Checks a notice against the failures that have occurred.
///
/// # Errors
/// Fails if there is no reason for it.
pub fn objection(notice: &Notice, faults: FaultState) -> Result<(), Violation> {
    match notice {
        Notice::OtherServer { generation, .. } => {
            Err(violation!("A5: the volume stopped for another server's superblock (generation {generation}), and there is no other"))
        }
        // What cannot be proved is dropped, and reported.
        Notice::AcknowledgedLost { .. } if faults.doubted => Ok(()),
        _ if faults.errors => Ok(()),
        Notice::Damage { what, at } | Notice::Mended { what, at } => {
            Err(violation!("P6: damage is reported ({what} at {at}) where none was done"))
        }
        Notice::AcknowledgedLost { .. } | Notice::SetBack => {
            Err(violation!("P1: what was acknowledged is lost ({notice:?}), and nothing had failed"))
        }
        Notice::WentReadOnly { what } => Err(violation!("A5: the volume went read-only for {what}, and nothing had failed")),
        _ => Ok(()),
    }
}
