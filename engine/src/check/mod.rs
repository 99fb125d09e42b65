//! The offline check: reads a volume, recounts everything, changes nothing.
//!
//! 1. Nothing is written, and nothing is believed that no check covers.
//! 2. It stays within its memory, but for the records of a live log: links are counted for one window of PBNs after another, and the map is
//!    read once for each window. Map pages without a link are read in the first pass only.
//! 3. After a crash in mode `ordered`, and as long as it says that garbage is possible, counts may be higher than the links (garbage, P5),
//!    never lower (P3). Where part of the map or of the fingerprints cannot be read, higher counts prove nothing and lower ones still do.
//! 4. It cannot see a sector that kept an older valid version (A4), where counts and contents happen to agree with it.

mod content;
mod extents;
mod finding;
mod judge;
mod links;
mod log;
mod medium;
mod recount;
mod report;
mod run;
mod scan;
mod settings;
mod tell;
mod units;
mod windows;

pub(crate) use content::Content;
pub use finding::{Cause, Finding, Severity};
pub(crate) use links::Links;
pub use log::{LiveLog, read_log};
pub use medium::{ReadMedium, read_superblock};
pub use report::{Counts, Listener, Report};
pub use run::check;
pub(crate) use scan::{Look, Scan};
pub use settings::{CheckSettings, MEMORY_BYTES_MIN};
pub(crate) use tell::{Run, Teller};
pub(crate) use units::LogUnits;
pub(crate) use windows::{Windows, groups};
