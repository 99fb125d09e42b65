//! After an opening, in the background: the index is filled again, excess counts left by a crash are returned.
//!
//! What has to happen *before* the first request (R8) stands in `commit/open_close.rs`, because it asks for flushes.

mod background;
mod recount;
mod refill;

pub(crate) use recount::Recount;
pub(crate) use refill::Refill;
