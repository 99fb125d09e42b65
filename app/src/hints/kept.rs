//! The rules as they are kept in a volume: JSON, compressed, in its notes (`onefold_engine::format::notes`).

use super::rule::Rule;
use crate::device::backing::Backing;
use crate::exit::{Exit, Failed, Outcome};
use onefold_engine::buffer::BufferMut;
use onefold_engine::format::{Notes, NotesArea, Superblock};
use onefold_engine::policy::{STREAMS, Stream};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, count, index};
use serde::{Deserialize, Serialize};
use std::io;

/// The level of zstd: the text is written seldom, and 10,000 files are to have room.
const LEVEL: i32 = 19;
/// The most bytes of a text, against damage that would unpack to more.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// A rule with its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered {
    pub number: u32,
    #[serde(flatten)]
    pub rule: Rule,
}

/// The rules of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub rules: Vec<Numbered>,
    /// The number of the next rule. No number is used twice.
    pub next: u32,
    /// Files that are compressed already are not compressed again.
    pub spares_compressed: bool,
    /// The names of streams, from number 1 on. A name keeps its number: what lies on the medium was placed by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<String>,
}

impl Default for Kept {
    fn default() -> Self {
        Self { rules: Vec::new(), next: 1, spares_compressed: true, streams: Vec::new() }
    }
}

impl Kept {
    /// Adds rules. Returns their numbers.
    ///
    /// # Errors
    /// When they name more streams than there may be.
    pub fn add(&mut self, rules: Vec<Rule>) -> Outcome<Vec<u32>> {
        let first = self.next;
        for rule in rules {
            if let Some(name) = &rule.stream {
                name_stream(&mut self.streams, name).ok_or_else(|| too_many_streams(name))?;
            }
            self.rules.push(Numbered { number: self.next, rule });
            self.next += 1;
        }
        Ok((first..self.next).collect())
    }

    /// Removes the rule of this number. Whether there was one.
    pub fn remove(&mut self, number: u32) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.number != number);
        self.rules.len() < before
    }
}

/// Returns the stream of this name, which is added to the others if it is new. None if there are too many.
pub fn name_stream(streams: &mut Vec<String>, name: &str) -> Option<Stream> {
    let known = streams.iter().position(|known| known == name);
    let stream = Stream::new(known.unwrap_or(streams.len()) + 1)?;
    if known.is_none() {
        streams.push(name.to_owned());
    }
    Some(stream)
}

fn too_many_streams(name: &str) -> Failed {
    let message = format!("--stream {name}: the volume has {} streams already, and no room for another", STREAMS - 1);
    Failed::new(Exit::State, message).next("Give the name of one that is there; `onefold hint list` shows them.")
}

/// The place of the rules in an open store.
pub struct Place<'a> {
    backing: &'a Backing,
    area: NotesArea,
    uuid: [u8; 16],
}

impl<'a> Place<'a> {
    /// Returns the place of a volume's rules; none if the volume has no room for notes.
    #[must_use]
    pub fn of(backing: &'a Backing, superblock: &Superblock) -> Option<Self> {
        Some(Self { backing, area: NotesArea::of(superblock)?, uuid: superblock.origin })
    }

    /// Returns the rules of the volume, or those of a volume that never had any. Notes that are damaged are as none.
    ///
    /// # Errors
    /// When the store cannot be read, or another program has written what this one does not understand.
    pub fn load(&self) -> Outcome<Kept> {
        let copies = self.copies().map_err(|error| self.failed("read", error))?;
        let newest = copies.into_iter().flatten().max_by_key(|notes| notes.sequence);
        let Some(notes) = newest else { return Ok(Kept::default()) };
        let text = zstd::bulk::decompress(&notes.text, TEXT_BYTES_MAX).map_err(|error| self.failed("unpack", error))?;
        serde_json::from_slice(&text).map_err(|error| self.failed("understand", error.into()))
    }

    /// Makes these the rules of the volume, durably.
    ///
    /// # Errors
    /// When they are too many for the room that the volume has for them, or the store cannot be written.
    pub fn save(&self, kept: &Kept) -> Outcome {
        let text = serde_json::to_vec(kept).map_err(|error| self.failed("write", error.into()))?;
        let text = zstd::bulk::compress(&text, LEVEL).map_err(|error| self.failed("pack", error))?;
        let copies = self.copies().map_err(|error| self.failed("read", error))?;
        let [first, second] = copies.each_ref().map(|notes| notes.as_ref().map_or(0, |notes| notes.sequence));
        let (copy, sequence) = (u64::from(first > second), first.max(second) + 1);
        let length = text.len();
        let Some(bytes) = self.area.encode(&Notes { sequence, text }, &self.uuid) else {
            let message = format!("the rules take {length} bytes, and the volume has room for {}", self.area.text_bytes_max());
            return Err(Failed::new(Exit::State, message).next("Remove some, or name the files by a pattern (--file) instead of a list."));
        };
        // The store fails: whoever serves the volume has to know (A5).
        self.write(copy, &bytes).map_err(|error| Failed { exit: Exit::DeviceFailed, ..self.failed("write", error) })
    }

    /// Both copies, as far as they can be read.
    fn copies(&self) -> io::Result<[Option<Notes>; 2]> {
        let mut copies = [None, None];
        for (copy, notes) in (0..).zip(&mut copies) {
            let mut buffer = BufferMut::zeroed(index(self.area.copy_blocks));
            self.backing.read(self.area.copy_at(copy).get(), &mut buffer)?;
            *notes = self.area.decode(buffer.bytes(), &self.uuid);
        }
        Ok(copies)
    }

    fn write(&self, copy: u64, bytes: &[u8]) -> io::Result<()> {
        let mut buffer = BufferMut::zeroed(1);
        for (i, block) in bytes.chunks(BLOCK_SIZE).enumerate() {
            buffer.block_mut(0).copy_from_slice(block);
            self.backing.write(self.area.copy_at(copy).get() + count(i) * BLOCK_BYTES, &buffer)?;
        }
        self.backing.flush()
    }

    fn failed(&self, what: &str, error: io::Error) -> Failed {
        Failed::system(format!("cannot {what} the rules of {}", self.backing.facts().path.display()), error)
    }
}

/// The error where a volume has no room for rules.
#[must_use]
pub fn no_place(path: &std::path::Path) -> Failed {
    Failed::new(Exit::State, format!("{} was made by an earlier program, and has no room for rules", path.display()))
        .next("Give it rules in /etc/onefold/NAME.toml, as tables [[hint]].")
}
