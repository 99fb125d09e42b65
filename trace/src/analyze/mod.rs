//! The applications of traces: the characteristics of each one's requests, and the content that they share. These are Tables I and II of
//! *Content-aware Trace Collection and I/O Deduplication for Smartphones* (Mao et al., section II.B; [`published`]).
//!
//! 1. A *chunk* is a block of 4 KiB of the device that a write touches. It is counted for each write that touches it.
//! 2. The *redundancy* of an application is the share of its written chunks whose content it had written before. Zeros are a content like
//!    others, and are counted separately besides. A chunk of unknown content is a chunk, and never redundant.
//! 3. What a row of Table II *shares* with a column is the share of the row's written chunks whose content the column wrote as well,
//!    whenever. The diagonal is the row's redundancy. The paper has "the number of common redundant data chunks between the two
//!    applications … to the total number of data chunks of the row application". The chunks are counted, not their distinct contents: by
//!    distinct contents, cells that mirror each other would be in the proportion of the two totals, and those of the paper are not.
//! 4. Requests are reads and writes. Flushes, discards and zeroing are not counted, as in the paper, which has no other requests.
//! 5. Contents are known by 64 bits: among a hundred million of them two are mistaken for one with a probability of 0.03 %.
//! 6. Memory is bounded by what [`Analysis::new`] is given, and by the number of names.

mod by;
mod occurrences;
pub mod published;
mod rows;
mod tables;

pub use by::By;
pub use occurrences::MEMORY_BYTES_MIN;
pub use tables::{Application, Found, Sharing, Tables};

use crate::content::blocks;
use crate::header::Unit;
use crate::record::{ContentName, Op, Record};
use occurrences::Occurrences;
use rows::{Counted, Rows};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// The largest number of applications that are counted by name; later ones are counted together.
const NAMES_MAX: usize = 100_000;
/// The name of the applications that are counted together.
pub const OTHERS: &str = "(others)";
/// The name of requests whose application is unknown.
pub const UNKNOWN: &str = "(unknown)";
/// The name of the phase before the first mark.
const FIRST_PHASE: &str = "(start)";

/// The trace that is counted.
#[derive(Debug, Default)]
struct OpenTrace {
    /// The application that the trace, or its current phase, is.
    whole: Option<u32>,
    begin_ns: Option<u64>,
    end_ns: u64,
    /// The applications with requests, if the requests name them.
    named: BTreeSet<u32>,
}

/// Counts trace by trace, and record by record.
pub struct Analysis {
    by: By,
    numbers: FxHashMap<Arc<str>, u32>,
    applications: Vec<Counted>,
    occurrences: Occurrences,
    open: OpenTrace,
}

impl Analysis {
    /// Begins to count, with this much memory for contents (at least 1 MiB). Those beyond it go to a file in the directory `temporary`.
    ///
    /// # Errors
    /// Fails if the system does not have that much memory.
    pub fn new(by: By, memory_bytes: u64, temporary: &Path) -> io::Result<Self> {
        let occurrences = Occurrences::new(memory_bytes, temporary)?;
        Ok(Self { by, numbers: FxHashMap::default(), applications: Vec::new(), occurrences, open: OpenTrace::default() })
    }

    /// Begins a trace, which is an application of this name if that is the division.
    pub fn begin(&mut self, name: &str) {
        self.end();
        if self.by == By::Trace {
            self.open.whole = Some(self.number(&name.into()));
        }
    }

    /// Ends a trace: its duration is that of its applications.
    fn end(&mut self) {
        let open = std::mem::take(&mut self.open);
        let Some(begin_ns) = open.begin_ns else { return };
        for application in open.named.into_iter().chain(open.whole) {
            self.applications[application as usize].last(open.end_ns - begin_ns);
        }
    }

    /// Returns the number of an application.
    fn number(&mut self, name: &Arc<str>) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let name = if self.applications.len() < NAMES_MAX { Arc::clone(name) } else { OTHERS.into() };
        let next = u32::try_from(self.applications.len()).expect("there are few names");
        let number = *self.numbers.entry(Arc::clone(&name)).or_insert(next);
        if number == next {
            self.applications.push(Counted::new(name));
        }
        number
    }

    /// Counts a record, whose fingerprints are of this unit.
    ///
    /// # Errors
    /// Fails if the temporary file cannot be written.
    pub fn count(&mut self, record: &Record, unit: Unit) -> io::Result<()> {
        if record.op == Op::Mark && self.by == By::Phase {
            self.mark(record);
        }
        let begin_ns = self.open.begin_ns.get_or_insert(record.time_ns);
        *begin_ns = record.time_ns.min(*begin_ns);
        self.open.end_ns = self.open.end_ns.max(record.time_ns);
        match record.op {
            Op::Read => {
                let application = self.application(record);
                self.applications[application as usize].read(record.length.get());
                Ok(())
            }
            Op::Write => {
                let application = self.application(record);
                self.write(record, unit, application)
            }
            Op::Flush | Op::Discard | Op::WriteZeroes | Op::Mark => Ok(()),
        }
    }

    /// Begins a phase, at which the one before it ends.
    fn mark(&mut self, record: &Record) {
        self.open.end_ns = self.open.end_ns.max(record.time_ns);
        self.end();
        self.open.whole = Some(self.number(&record.note.clone().unwrap_or_else(|| UNKNOWN.into())));
    }

    /// Returns the application that a request belongs to.
    fn application(&mut self, record: &Record) -> u32 {
        if let Some(whole) = self.open.whole {
            return whole;
        }
        let unnamed = if self.by.is_of_whole() { FIRST_PHASE } else { UNKNOWN };
        let number = match self.by.field(record) {
            Some(name) => self.number(name),
            None => self.number(&unnamed.into()),
        };
        if self.by.is_of_whole() {
            self.open.whole = Some(number);
        } else {
            self.open.named.insert(number);
        }
        number
    }

    fn write(&mut self, record: &Record, unit: Unit, application: u32) -> io::Result<()> {
        let chunks = if record.length.get() == 0 { 0 } else { record.blocks_touched() };
        // At most as many chunks have names as there are fingerprints: chunks beyond them are not examined one by one.
        let examined = chunks.min(record.blocks.len() as u64);
        let counted = &mut self.applications[application as usize];
        counted.write(record.length.get(), chunks, chunks - examined);
        for (_, name) in blocks(record, unit).take(record.blocks.len()) {
            match name {
                ContentName::Zero => counted.zero(),
                ContentName::Unknown => counted.unknown(),
                ContentName::Of(bytes) => self.occurrences.add(XxHash3_64::oneshot(&bytes), application)?,
            }
        }
        Ok(())
    }

    /// Returns the tables. They have the `applications_max` applications that wrote the most chunks by name, and the others as one. Traces
    /// and phases are in the order in which they came, other applications in that of their chunks.
    ///
    /// # Errors
    /// Fails if the temporary file cannot be written or read.
    pub fn finish(mut self, applications_max: usize) -> io::Result<Tables> {
        self.end();
        let bytes_aside = self.occurrences.bytes_aside();
        let mut rows = Rows::of(self.by, &self.applications, applications_max);
        self.occurrences.each(&mut |writers| rows.content(writers))?;
        Ok(rows.tables(bytes_aside))
    }
}
