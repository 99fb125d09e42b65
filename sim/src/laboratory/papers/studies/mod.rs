//! The studies of the papers: the replays and measurements of each, their results, and the values that its paper has published.

pub mod app_dedupe;
pub mod contents;
pub mod hints;
pub mod live_figures;
pub mod matrix;
pub mod mode;
pub mod parallel;
pub mod published;
pub mod recorded;
pub mod smartdedup;
pub mod workloads;
