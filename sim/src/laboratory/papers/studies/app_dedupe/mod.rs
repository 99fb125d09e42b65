//! The evaluation of APP-Dedupe (section IV.B), as a page of its own: Figures 4 to 8.
//!
//! 1. The loads of `data/loads` stand in for the paper's fifteen applications. They are replayed with a model of flash below, on the bare
//!    flash and on both defaults of a volume (`runs.rs`): Figures 5, 7 and 8.
//! 2. Figure 6 is of made requests, as a benchmark of storage sends them, in the time of a model of a tablet's flash (`access.rs`).
//! 3. Figure 4 is measured live, by another command, whose file the report takes (`live.rs`).
//! 4. The paper's index in parts runs in the policy lab, where the loads take turns (`parts.rs`).
//! 5. Published values are in one file (`published.rs`). Every verdict is derived of the results (`pages/app_dedupe/rows.rs`).

pub mod access;
pub mod live;
pub mod parts;
pub mod published;
pub mod runs;
