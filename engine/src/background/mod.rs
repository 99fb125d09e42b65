//! Work after an opening, in the background: the index is rebuilt, blocks that a crash left without a fingerprint get it again, and excess
//! counts are returned.

mod pending_reads;
mod rebuild;
mod rebuild_reads;
mod recount;

pub(crate) use rebuild::IndexRebuild;
pub(crate) use recount::Recount;

/// Work that no request waits for.
pub(crate) struct Background {
    pub rebuild: IndexRebuild,
    pub recount: Recount,
}
