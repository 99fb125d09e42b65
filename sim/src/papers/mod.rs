//! OrderMergeDedup's evaluation (sections 4.2 to 4.5) and SmartDedup's (`smartdedup/mod.rs`), over the recorded traces, that of Using Hints
//! (`hints/mod.rs`), over made loads, and that of APP-Dedupe (`app_dedupe/mod.rs`), over the loads of applications, in one command:
//! `onefold-lab report`, `./dev bench papers`.
//!
//! 1. Every trace is replayed on every scheme, weak and strong (32 writes outstanding, and 1), on three device models (`matrix.rs`):
//!    nothing is left out because it looks bad, and a replay that fails is a missed target.
//! 2. Every figure is from a replay, from the file of what was measured live, or from the recorded figures; all of them are in one file
//!    (`stored.rs`), of which the pages can be made again. Published values are in one file (`published.rs`), with their sections.
//! 3. Counts and virtual times do not depend on the machine. Processor seconds do, and are given separately.
//! 4. One set of results has three renderings: a page for people, CSV and JSON for programs.

pub mod app_dedupe;
pub mod chart;
pub mod contents;
pub mod csv;
pub mod energy;
pub mod evaluation;
pub mod figures;
pub mod granular;
pub mod hints;
pub mod html;
pub mod journal;
pub mod live_figures;
pub mod log;
pub mod log_tables;
pub mod matrix;
pub mod metadata;
pub mod order_merge;
pub mod page;
pub mod parallel;
pub mod published;
pub mod recorded;
pub mod report;
pub mod results;
pub mod rivals;
pub mod smartdedup;
pub mod space;
pub mod statements;
pub mod stored;
pub mod targets;
pub mod workloads;
