//! The results as they are shown and judged: the pages with their figures and tables, the rows of the papers' claims, the targets, and the
//! tables as CSV.

pub mod app_dedupe;
pub mod csv;
pub mod energy;
pub mod evaluation;
pub mod figures;
pub mod granular;
pub mod hints;
pub mod journal;
pub mod log;
pub mod log_tables;
pub mod metadata;
pub mod order_merge;
pub mod page;
pub mod rivals;
pub mod smartdedup;
pub mod space;
pub mod statements;
pub mod target;
pub mod targets;
