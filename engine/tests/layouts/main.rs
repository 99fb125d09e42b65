//! Surveys of file systems that their own tools have made, compared with what these tools say about them.
//!
//! 1. Images are sparse files. A tool that is missing skips its tests, aloud.
//! 2. The expected ranges are read from the output of the tools, and never computed here.
#![allow(clippy::disallowed_types, reason = "the images of other programs are files")]

mod btrfs;
mod ext;
mod f2fs;
mod hostile;
mod partitions;
mod watch;
mod xfs;

use onefold_engine::format::ProtectedRange;
use onefold_engine::layouts::{FileSystem, Kind, Layout, Step, Survey};
use onefold_engine::units::{Blocks, Bytes, Lbn};
use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use tempfile::NamedTempFile;

pub type Block = [u8; 4096];

/// A volume: a sparse file.
pub struct Image {
    file: NamedTempFile,
    bytes: u64,
}

/// Returns whether all `tools` are installed, and reports a skipped test if not. The tools of file systems lie in folders that are not on
/// the path of every user.
pub fn have(test: &str, tools: &[&str]) -> bool {
    let missing = tools.iter().find(|tool| !folders().iter().any(|folder| Path::new(folder).join(tool).is_file()));
    if let Some(tool) = missing {
        skipped(test, &format!("{tool} is not installed"));
    }
    missing.is_none()
}

/// Reports that a test did not run, visibly even if everything else passes.
pub fn skipped(test: &str, reason: &str) {
    writeln!(std::io::stderr(), "SKIPPED {test}: {reason}").expect("stderr is open");
}

fn folders() -> Vec<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').map(str::to_owned).chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(str::to_owned)).collect()
}

/// Runs a tool and returns its output, or panics with all that it printed.
pub fn run(tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool).args(arguments).env("PATH", folders().join(":")).env("LC_ALL", "C").output();
    let output = output.unwrap_or_else(|error| panic!("{tool}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{tool} {arguments:?}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    text
}

impl Image {
    pub fn new(bytes: u64) -> Self {
        let file = NamedTempFile::new().expect("a temporary file");
        file.as_file().set_len(bytes).expect("a sparse file");
        Self { file, bytes }
    }

    /// An image on which a tool has made something.
    pub fn made(bytes: u64, tool: &str, options: &[&str]) -> Self {
        let image = Self::new(bytes);
        let arguments: Vec<&str> = options.iter().copied().chain([image.path()]).collect();
        run(tool, &arguments);
        image
    }

    pub fn path(&self) -> &str {
        self.file.path().to_str().expect("a path in UTF-8")
    }

    pub fn block(&self, lbn: Lbn) -> Block {
        let mut block = [0; 4096];
        self.file.as_file().read_exact_at(&mut block, lbn.0 * 4096).expect("the block lies in the image");
        block
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.file.as_file().write_all_at(bytes, at).expect("the bytes lie in the image");
    }

    /// Puts another image into this one, as the content of a partition.
    pub fn insert(&self, at: u64, other: &Self) {
        let zeroes = [0; 4096];
        let file: &File = other.file.as_file();
        for lbn in 0..other.bytes / 4096 {
            let mut block = zeroes;
            file.read_exact_at(&mut block, lbn * 4096).expect("the block lies in the image");
            if block != zeroes {
                self.write(at + lbn * 4096, &block);
            }
        }
    }

    pub fn survey(&self) -> Layout {
        self.survey_without(&[])
    }

    /// A survey that cannot read these blocks.
    pub fn survey_without(&self, unreadable: &[Lbn]) -> Layout {
        let mut survey = Survey::begin(Blocks(self.bytes / 4096));
        loop {
            match survey.step() {
                Step::Read(lbn) if unreadable.contains(&lbn) => survey.take_none(),
                Step::Read(lbn) => survey.take(&self.block(lbn)),
                Step::Done(layout) => return layout,
            }
        }
    }
}

pub fn found(kind: Kind, first: u64, block: u64) -> FileSystem {
    FileSystem { kind, first: Bytes(first), block: Bytes(block) }
}

/// The blocks of these ranges of bytes, joined where they touch.
pub fn blocks_of(ranges: &[Range<u64>]) -> Vec<ProtectedRange> {
    let mut blocks: Vec<Range<u64>> = ranges.iter().map(|range| range.start / 4096..range.end.div_ceil(4096)).collect();
    blocks.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in blocks {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    let blocks = |range: Range<u64>| u32::try_from(range.end - range.start).expect("an image is small");
    joined.into_iter().map(|range| ProtectedRange { first: Lbn(range.start), blocks: blocks(range), is_found: true }).collect()
}

/// The number that follows a word in a text.
pub fn number_after(text: &str, word: &str) -> u64 {
    let (_, rest) = text.split_once(word).unwrap_or_else(|| panic!("no '{word}' in:\n{text}"));
    let digits: String = rest.trim_start_matches(|c: char| !c.is_ascii_digit()).chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|error| panic!("no number after '{word}': {error}"))
}
