//! After an opening, in the background: the index is filled again, what a crash left without a whole name is named, excess counts are returned.
//!
//! What has to happen *before* the first request (R8) stands in `commit/open_close.rs`, because it asks for flushes.

mod background;
mod names;
mod recount;
mod refill;
mod reread;

pub(crate) use recount::Recount;
pub(crate) use refill::Refill;
