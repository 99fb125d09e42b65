//! The evaluation of Using Hints (section 5), as a page of its own: NODEDUP, PREFETCH and Table 1.
//!
//! 1. The loads of Figures 3, 4 and 5 are made (`loads.rs`), and replayed with the hint and without it, by Onefold and by Dmdedup's design,
//!    which has both hints as the paper built them (`runs.rs`).
//! 2. Table 1 is measured live, by another command, whose file the report takes (`live.rs`).
//! 3. Published values are in one file (`published.rs`). A figure of which only one half was replayed is an error.

pub mod cases;
pub mod live;
pub mod loads;
pub mod published;
pub mod runs;
