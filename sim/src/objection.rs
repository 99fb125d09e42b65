//! Notices that a volume has no reason for.

use crate::client::Weather;
use crate::violation::{Violation, violation};
use onefold_engine::interface::Notice;

/// What is wrong about a notice in such weather.
pub fn objection(notice: &Notice, weather: Weather) -> Option<Violation> {
    match notice {
        Notice::OtherServer { generation, .. } => {
            Some(violation!("A5: the volume stopped for another server's superblock (generation {generation}), and there is no other"))
        }
        // What cannot be proved is dropped, and reported.
        Notice::AcknowledgedLost { .. } if weather.doubted => None,
        _ if weather.errors => None,
        Notice::Damage { what, at } => Some(violation!("P6: damage is reported ({what} at {at}) where none was done")),
        Notice::AcknowledgedLost { .. } | Notice::SetBack => {
            Some(violation!("P1: what was acknowledged is lost ({notice:?}), and nothing had failed"))
        }
        Notice::WentReadOnly { what } => Some(violation!("A5: the volume went read-only for {what}, and nothing had failed")),
        _ => None,
    }
}
