//! A client block that rides in a unit, or lies in a pack.

use crate::space::Fresh;

/// A client block in a slot.
pub struct Rider {
    pub fresh: Fresh,
    pub data: Vec<u8>,
}
