//! What compresses: new content is held back until its epoch is sealed, and rides in the units of a small one, or is packed, several blocks
//! in one, of a large one.

mod carry;
mod hold;
mod pack;
mod rider;

pub(super) use carry::plan_carriers;
pub(super) use hold::send_held;
pub(super) use rider::Rider;
