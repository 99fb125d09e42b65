//! After an opening, in the background: the index is filled again, what a crash left without a whole name is named, excess counts are
//! returned.

mod recount;
mod refill;
mod reread;
mod rereading;

pub(crate) use recount::Recount;
pub(crate) use refill::Refill;

/// Work that nobody waits for.
pub(crate) struct Background {
    pub refill: Refill,
    pub recount: Recount,
}
