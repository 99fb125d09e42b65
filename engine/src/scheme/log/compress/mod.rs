//! Compression: new content is held back until its epoch is sealed. Content of a small epoch rides in the epoch's units; content of a large
//! one is packed, several blocks in one.

mod carry;
mod hold;
mod pack;
mod rider;

pub(super) use carry::plan_carriers;
pub(super) use hold::send_held;
pub(super) use rider::Rider;
