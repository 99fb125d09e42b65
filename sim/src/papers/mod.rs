//! OrderMergeDedup's evaluation (sections 4.2 to 4.5) and SmartDedup's (`smartdedup/mod.rs`), over the recorded traces, in one command:
//! `onefold-lab report`, `./dev bench papers`.
//!
//! 1. Every trace is replayed on every scheme, weak and strong (32 writes outstanding, and 1), on three device models (`matrix.rs`):
//!    nothing is left out because it looks bad, and a replay that fails is a missed target.
//! 2. Every figure is from a replay of this run. Published values are in one file (`published.rs`), with their sections.
//! 3. Counts and virtual times do not depend on the machine. Processor seconds do, and are given separately.
//! 4. One set of results has three renderings: a page for people, CSV and JSON for programs.

pub mod chart;
pub mod csv;
pub mod energy;
pub mod evaluation;
pub mod figures;
pub mod html;
pub mod log;
pub mod log_tables;
pub mod matrix;
pub mod metadata;
pub mod page;
pub mod parallel;
pub mod published;
pub mod report;
pub mod results;
pub mod smartdedup;
pub mod space;
pub mod statements;
pub mod targets;
pub mod workloads;
