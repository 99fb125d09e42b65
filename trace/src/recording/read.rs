//! Reading a recording.

use super::block::{FIRST_AT, HEAD_BYTES, Head, Kind, fill};
use super::fields::Decoder;
use super::{MAGIC, RecordingError};
use crate::header::{Gap, Header};
use crate::record::Record;
use crate::text::names::Names;
use onefold_engine::units::{count, index};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The records of a recording, in the order in which they were recorded.
pub struct Reader {
    blocks: Blocks,
    header: Header,
    /// The block of records that is being read, and its place.
    block: Option<Decoder>,
    block_at: u64,
    names: Names,
    is_lenient: bool,
}

/// The blocks of a recording.
struct Blocks {
    path: PathBuf,
    file: BufReader<File>,
    /// The place of the next block.
    at: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    UnderWay,
    /// The recording has its end.
    Ended,
    /// The recording has no end: no block is at the place that was reached.
    CutOff,
}

impl Reader {
    /// Opens a recording, and reads the facts about it and its gaps. A lenient reader ends before the first damage.
    ///
    /// # Errors
    /// Fails if it is no recording, or cannot be read.
    pub fn open(path: &Path, is_lenient: bool) -> Result<Self, RecordingError> {
        let mut blocks = Blocks::open(path)?;
        let mut header = blocks.facts()?;
        let first = blocks.at;
        // Damage is reported when its place is read again.
        while let Ok(Some(head)) = blocks.head() {
            if head.kind != Kind::Gaps {
                blocks.skip(&head)?;
                continue;
            }
            let Ok(Some(content)) = blocks.content(&head) else { break };
            let gaps: Result<Vec<Gap>, _> = serde_json::from_slice(&content);
            header.gaps.extend(gaps.map_err(|_| blocks.not_a_recording("its gaps are not numbers"))?);
        }
        blocks.go_to(first)?;
        Ok(Self { blocks, header, block: None, block_at: first, names: Names::default(), is_lenient })
    }

    /// Returns the facts about the whole trace.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the place at which the recording is cut off, once all of it was read; none if it has its end.
    #[must_use]
    pub fn cut_off_at(&self) -> Option<u64> {
        (self.blocks.state == State::CutOff).then_some(self.blocks.at)
    }

    /// Finds the next block of records; returns false after the last.
    fn advance(&mut self) -> Result<bool, RecordingError> {
        self.block = None;
        while let Some(head) = self.blocks.head()? {
            self.block_at = self.blocks.at;
            let Some(content) = self.blocks.content(&head)? else { return Ok(false) };
            if head.kind == Kind::Records {
                self.block = Some(Decoder::new(&self.header, content));
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read(&mut self) -> Result<Option<Record>, RecordingError> {
        loop {
            if let Some(block) = self.block.as_mut().filter(|block| !block.is_over()) {
                let record = block.record(&mut self.names);
                return record.map(Some).map_err(|reason| {
                    self.blocks.at = self.block_at;
                    self.blocks.damaged(reason)
                });
            }
            if !self.advance()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Record, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.read() {
            Ok(record) => record.map(Ok),
            Err(error) => {
                self.block = None;
                self.blocks.state = State::CutOff;
                let is_taken = self.is_lenient && matches!(error, RecordingError::Damaged { .. });
                (!is_taken).then_some(Err(error))
            }
        }
    }
}

impl Blocks {
    fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = File::open(path).map_err(RecordingError::io(path))?;
        let mut blocks = Self { path: path.to_path_buf(), file: BufReader::new(file), at: FIRST_AT, state: State::UnderWay };
        let mut magic = [0; MAGIC.len()];
        blocks.fill(&mut magic)?;
        let is_any = magic.starts_with(&MAGIC[..MAGIC.len() - 2]);
        match magic {
            MAGIC => Ok(blocks),
            _ if is_any => Err(blocks.not_a_recording("its form is of another version of onefold")),
            _ => Err(blocks.not_a_recording("it does not begin like one")),
        }
    }

    fn not_a_recording(&self, reason: &str) -> RecordingError {
        RecordingError::NotARecording { path: self.path.clone(), reason: reason.to_owned() }
    }

    fn damaged(&self, reason: String) -> RecordingError {
        RecordingError::Damaged { path: self.path.clone(), at: self.at, reason }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, RecordingError> {
        fill(&mut self.file, buffer).map_err(RecordingError::io(&self.path))
    }

    fn go_to(&mut self, at: u64) -> Result<(), RecordingError> {
        (self.at, self.state) = (at, State::UnderWay);
        self.file.seek(SeekFrom::Start(at)).map_err(RecordingError::io(&self.path))?;
        Ok(())
    }

    /// Reads the facts, of the first block.
    fn facts(&mut self) -> Result<Header, RecordingError> {
        let facts = match self.head()? {
            Some(head) if head.kind == Kind::Facts => self.content(&head)?,
            _ => None,
        };
        let facts = facts.ok_or_else(|| self.not_a_recording("it ends before the facts about the trace"))?;
        let pairs: BTreeMap<String, String> =
            serde_json::from_slice(&facts).map_err(|_| self.not_a_recording("its facts are no keys and values"))?;
        let header = Header::from_pairs(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        header.map_err(|reason| self.not_a_recording(&reason))
    }

    /// Reads the head of the next block; none if the recording has ended, or was cut off.
    fn head(&mut self) -> Result<Option<Head>, RecordingError> {
        if self.state != State::UnderWay {
            return Ok(None);
        }
        let mut bytes = [0; HEAD_BYTES];
        if self.fill(&mut bytes)? < HEAD_BYTES || bytes == [0; HEAD_BYTES] {
            self.state = State::CutOff;
            return Ok(None);
        }
        let head = Head::decode(&bytes, self.at).map_err(|reason| self.damaged(reason))?;
        if head.kind == Kind::End {
            self.end()?;
            return Ok(None);
        }
        Ok(Some(head))
    }

    /// Checks that nothing follows the end.
    fn end(&mut self) -> Result<(), RecordingError> {
        if self.fill(&mut [0])? > 0 {
            return Err(self.damaged("something follows the end".to_owned()));
        }
        self.state = State::Ended;
        Ok(())
    }

    /// Reads the content of the block whose head was read; none if the recording was cut off within.
    fn content(&mut self, head: &Head) -> Result<Option<Vec<u8>>, RecordingError> {
        let mut stored = vec![0; index(head.stored.into())];
        if self.fill(&mut stored)? < stored.len() {
            self.state = State::CutOff;
            return Ok(None);
        }
        let content = head.content(stored).map_err(|reason| self.damaged(reason))?;
        self.at += count(HEAD_BYTES) + u64::from(head.stored);
        Ok(Some(content))
    }

    /// Goes to the block after the one whose head was read.
    fn skip(&mut self, head: &Head) -> Result<(), RecordingError> {
        self.at += count(HEAD_BYTES) + u64::from(head.stored);
        self.file.seek_relative(head.stored.into()).map_err(RecordingError::io(&self.path))
    }
}
