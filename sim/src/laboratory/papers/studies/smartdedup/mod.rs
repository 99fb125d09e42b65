//! SmartDedup's evaluation (section 4), as a page of its own beside OrderMergeDedup's.
//!
//! 1. What the paper did in a simulator is done in the policy lab (`study.rs`): Table 2, Table 4, Figures 8, 10, 11 and 12. Figure 6 comes
//!    from the replays in virtual time.
//! 2. What it measured on a telephone (Figures 3, 5 and 9) is measured live, on this machine, by another command, whose file the report
//!    takes (`live.rs`).
//! 3. Its rivals are replayed beside Onefold with Figure 3's load (`rivals.rs`).
//! 4. Published values are in one file (`published.rs`), with their sections. A figure without results is shown as not measured.

pub mod facts;
pub mod live;
pub mod published;
pub mod rivals;
pub mod study;
