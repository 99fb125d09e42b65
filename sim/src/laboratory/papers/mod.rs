//! OrderMergeDedup's evaluation (sections 4.2 to 4.5) and SmartDedup's (`studies/smartdedup/mod.rs`), over the recorded traces, that of
//! Using Hints (`studies/hints/mod.rs`), over made loads, and that of APP-Dedupe (`studies/app_dedupe/mod.rs`), over the loads of
//! applications, in one command: `onefold-lab report`, `./dev bench papers`.
//!
//! 1. Every trace is replayed on every scheme, weak and strong (32 writes outstanding, and 1), on three device models
//!    (`studies/matrix.rs`): nothing is left out because it looks bad, and a replay that fails is a missed target.
//! 2. Every figure is from a replay, from the file of what was measured live, or from the recorded figures; all of them are in one file
//!    (`stored.rs`), of which the pages can be made again. Published values are in one file (`studies/published.rs`), with their sections.
//! 3. Counts and virtual times do not depend on the machine. Processor seconds do, and are given separately.
//! 4. One set of results has three renderings: a page for people, CSV and JSON for programs.

pub mod drawing;
pub mod pages;
pub mod report;
pub mod results;
pub mod stored;
pub mod studies;
pub mod verdict;
