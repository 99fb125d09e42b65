//! Work after an opening, in the background: the index is rebuilt, blocks that a crash left without a fingerprint get it again, and excess
//! counts are returned.

mod recount;
mod refill;
mod reread;
mod rereading;

pub(crate) use recount::Recount;
pub(crate) use refill::Refill;

/// Work that no request waits for.
pub(crate) struct Background {
    pub refill: Refill,
    pub recount: Recount,
}
