//! Work in the background: after an opening the index is rebuilt, blocks that a crash left without a fingerprint get it again, and excess
//! counts are returned; later, duplicates are found out of line, and a scrub looks for damage. What is found damaged is marked as such.

mod marking;
mod out_of_line;
mod parting;
mod pending_reads;
mod rebuild;
mod rebuild_reads;
mod recount;
mod scrub;

pub(crate) use marking::Marking;
pub(crate) use out_of_line::OutOfLine;
pub(crate) use parting::Parting;
pub(crate) use rebuild::IndexRebuild;
pub(crate) use recount::Recount;
pub(crate) use scrub::Scrub;

/// Work that no request waits for.
pub(crate) struct Background {
    pub rebuild: IndexRebuild,
    pub recount: Recount,
    pub out_of_line: OutOfLine,
    pub scrub: Scrub,
    pub marking: Marking,
    pub parting: Parting,
}
