//! Traces as text, one line a request: the forms that others publish.
//!
//! 1. A line is read as it stands or reported with its file and number; nothing is guessed and nothing repaired.
//! 2. What was read from a form and is written in it again gives the same bytes.
//! 3. Memory is bounded by the longest line, whatever the input.

pub mod blkparse;
pub mod csv;
pub mod detect;
pub mod exercise;
pub mod fiu;
pub mod lines;
pub mod mobile;
pub mod names;
pub mod recorded;
pub mod shape;

use crate::header::{Header, Unit};
use crate::record::Record;
use lines::Lines;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

/// A line that is not of the form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// As the user named it.
    pub file: Arc<str>,
    /// From 1.
    pub line: u64,
    pub reason: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.reason)
    }
}

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The lines after it can still be read.
    #[error("{0}")]
    Malformed(Malformed),
    /// Nothing after it can be read.
    #[error("{file}, after line {line}: {source}")]
    Io { file: Arc<str>, line: u64, source: io::Error },
}

/// Why a line says nothing.
pub type Reason = String;

/// One form of text: what a line of it means. It may remember what the lines before said.
pub trait Form {
    /// Appends the records of a line to `out`: none for a header, a comment or a line that is known to be no request.
    ///
    /// # Errors
    /// With the reason, where the line is not of the form. Then nothing was appended.
    fn parse(&mut self, line: &str, out: &mut VecDeque<Record>) -> Result<(), Reason>;

    /// What the lines so far, or the form by itself, say of the trace: known from the first record on.
    fn header(&self) -> Header;

    /// What each fingerprint stands for.
    fn unit(&self) -> Unit {
        Unit::Block
    }

    /// Lines that were understood and would be laid out otherwise when they are written again.
    fn relaid(&self) -> u64 {
        0
    }
}

impl<F: Form + ?Sized> Form for Box<F> {
    fn parse(&mut self, line: &str, out: &mut VecDeque<Record>) -> Result<(), Reason> {
        (**self).parse(line, out)
    }

    fn header(&self) -> Header {
        (**self).header()
    }

    fn unit(&self) -> Unit {
        (**self).unit()
    }

    fn relaid(&self) -> u64 {
        (**self).relaid()
    }
}

/// Writes records as lines of one form.
pub trait Render {
    /// What stands in front of the first line.
    fn begin(&mut self, text: &mut String) {
        let _ = text;
    }

    /// Appends the line of a record and its end.
    ///
    /// # Errors
    /// With the reason, where the form has no place for the record; `text` may have a part of the line in it then.
    fn push(&mut self, text: &mut String, record: &Record) -> Result<(), Reason>;
}

/// Reads text of a form, record by record.
pub struct Records<R: Read, F: Form> {
    lines: Lines<R>,
    form: F,
    ready: VecDeque<Record>,
    is_over: bool,
}

impl<R: Read, F: Form> Records<R, F> {
    /// Reads `input`, called `file` in what is said about it.
    pub fn new(form: F, file: &str, input: R) -> Self {
        Self { lines: Lines::new(file, input), form, ready: VecDeque::new(), is_over: false }
    }

    /// Lines read so far.
    pub const fn line(&self) -> u64 {
        self.lines.number()
    }

    /// What the form remembers.
    pub const fn form(&self) -> &F {
        &self.form
    }

    /// The same, when nothing more is read.
    pub fn into_form(self) -> F {
        self.form
    }
}

impl<R: Read, F: Form> Iterator for Records<R, F> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && !self.is_over {
            let parsed = match self.lines.advance() {
                Ok(None) => {
                    self.is_over = true;
                    continue;
                }
                Ok(Some(line)) => line.and_then(|line| self.form.parse(line, &mut self.ready)),
                Err(source) => {
                    self.is_over = true;
                    return Some(Err(ReadError::Io { file: self.lines.file(), line: self.lines.number(), source }));
                }
            };
            if let Err(reason) = parsed {
                return Some(Err(ReadError::Malformed(Malformed { file: self.lines.file(), line: self.lines.number(), reason })));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
