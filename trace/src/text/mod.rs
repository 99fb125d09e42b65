//! Traces as text, one request a line: the forms that others publish.
//!
//! 1. A line is read as it stands, or reported with its file and number; nothing is guessed and nothing is repaired.
//! 2. A text that was read in a form and is written in the same form has the same bytes.
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

/// A line that is not valid in the form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The name of the file as the user gave it.
    pub file: Arc<str>,
    /// The number of the line, from 1.
    pub line: u64,
    pub reason: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.reason)
    }
}

/// The reason why no record could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The following lines can still be read.
    #[error("{0}")]
    Malformed(Malformed),
    /// Nothing after this line can be read.
    #[error("{file}, after line {line}: {source}")]
    Io { file: Arc<str>, line: u64, source: io::Error },
}

/// The reason why a line could not be read or a record could not be written.
pub type Reason = String;

/// A reader of one form of text. It may keep state from earlier lines.
pub trait Form {
    /// Appends the records of a line to `out`: none for a header, a comment, or a line that does not stand for a request.
    ///
    /// # Errors
    /// Returns the reason if the line is not valid in the form. Then nothing was appended.
    fn parse(&mut self, line: &str, out: &mut VecDeque<Record>) -> Result<(), Reason>;

    /// Returns the facts about the trace that the form or the lines read so far give; complete from the first record on.
    fn header(&self) -> Header;

    /// Returns the unit that each fingerprint stands for.
    fn unit(&self) -> Unit {
        Unit::Block
    }

    /// Returns the number of lines that were understood but would be formatted differently when they are written again.
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

/// A writer of one form of text.
pub trait Render {
    /// Appends what precedes the first line.
    fn begin(&mut self, text: &mut String) {
        let _ = text;
    }

    /// Appends the line of a record, with its line break.
    ///
    /// # Errors
    /// Returns the reason if the form cannot represent the record; `text` may then contain a part of the line.
    fn push(&mut self, text: &mut String, record: &Record) -> Result<(), Reason>;
}

/// Reads a text of one form, record by record.
pub struct Records<R: Read, F: Form> {
    lines: Lines<R>,
    form: F,
    ready: VecDeque<Record>,
    is_over: bool,
}

impl<R: Read, F: Form> Records<R, F> {
    /// Reads `input`, which messages call `file`.
    pub fn new(form: F, file: &str, input: R) -> Self {
        Self { lines: Lines::new(file, input), form, ready: VecDeque::new(), is_over: false }
    }

    /// Returns the number of lines read so far.
    pub const fn line(&self) -> u64 {
        self.lines.number()
    }

    /// Returns the form's reader.
    pub const fn form(&self) -> &F {
        &self.form
    }

    /// Returns the form's reader after the last record.
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
