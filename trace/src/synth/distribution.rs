//! Distributions of how often contents occur: the result of a scan, and a basis for synthetic traces (DEDISbench: Paulo, Reis, Pereira and
//! Sousa, 2012 and 2013).
//!
//! 1. Blocks of zeros are counted separately from all other contents.
//! 2. The numbers in a file have to add up; otherwise it is refused with the numbers that do not.

use super::choice::Choice;
use super::plan::BLOCKS_MAX;
use super::random::{float, rounded};
use super::volume::Content;
use onefold_engine::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The version of the files.
pub const DISTRIBUTION_VERSION: u32 = 1;
/// The report name in JSON files, which `onefold-lab scan --json` prints.
pub const DISTRIBUTION_NAME: &str = "trace-scan";
/// The beginning of the first line of a CSV file, before its numbers.
const CSV_MARK: &str = "#onefold-distribution version=";

/// The number of contents that occur this many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurring {
    pub times: u64,
    pub contents: u64,
}

/// The number of contents that the slot codec compresses to this many bytes, rounded up to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compressing {
    pub bytes: u16,
    pub contents: u64,
}

/// A distribution of how often contents occur.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    pub block_bytes: u64,
    /// The number of blocks, including those of zeros.
    blocks: u64,
    pub zero_blocks: u64,
    /// The number of distinct contents, excluding zeros.
    contents: u64,
    /// The numbers of contents in ascending order of occurrences.
    occurrences: Vec<Occurring>,
    /// The numbers of contents in ascending order of size; empty if sizes are not known.
    #[serde(default)]
    compressed: Vec<Compressing>,
}

impl Distribution {
    /// Makes a distribution from the number of contents for each number of occurrences and for each compressed size.
    #[must_use]
    pub fn new(zero_blocks: u64, occurrences: &BTreeMap<u64, u64>, compressed: &BTreeMap<u16, u64>) -> Self {
        let occurrences: Vec<Occurring> =
            occurrences.iter().filter(|(_, contents)| **contents > 0).map(|(&times, &contents)| Occurring { times, contents }).collect();
        Self {
            block_bytes: BLOCK_BYTES,
            blocks: zero_blocks + occurrences.iter().map(|o| o.times * o.contents).sum::<u64>(),
            zero_blocks,
            contents: occurrences.iter().map(|o| o.contents).sum(),
            occurrences,
            compressed: compressed.iter().map(|(&bytes, &contents)| Compressing { bytes, contents }).collect(),
        }
    }

    /// Returns the number of blocks, including those of zeros.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the number of distinct contents, excluding zeros.
    #[must_use]
    pub const fn contents(&self) -> u64 {
        self.contents
    }

    /// Returns how many contents occur how often, in ascending order of occurrences.
    #[must_use]
    pub fn occurring(&self) -> &[Occurring] {
        &self.occurrences
    }

    /// Returns how many contents compress to how many bytes, in ascending order of size; empty if sizes are not known.
    #[must_use]
    pub fn compressing(&self) -> &[Compressing] {
        &self.compressed
    }

    /// Returns the share of blocks whose content an earlier block holds, zeros excluded.
    #[must_use]
    pub fn duplication(&self) -> Option<f64> {
        (self.blocks > 0).then(|| float(self.blocks - self.zero_blocks - self.contents) / float(self.blocks))
    }

    /// Returns the choice of compressed sizes.
    #[must_use]
    pub fn sizes(&self) -> Option<Choice> {
        Choice::weighted(self.compressed.iter().map(|c| (u64::from(c.bytes), c.contents)))
    }

    /// Returns a distribution with a share of the contents, each as often as before. Every number of occurrences keeps the same share,
    /// rounded so that the sums remain correct.
    #[must_use]
    pub fn thinned(&self, share: f64) -> Self {
        let (mut all, mut taken) = (0, 0);
        let mut occurrences = BTreeMap::new();
        for occurring in &self.occurrences {
            all += occurring.contents;
            let now = rounded(float(all) * share);
            occurrences.insert(occurring.times, now - taken);
            taken = now;
        }
        let compressed = self.compressed.iter().map(|c| (c.bytes, c.contents)).collect();
        Self::new(rounded(float(self.zero_blocks) * share), &occurrences, &compressed)
    }

    /// Returns the content of each occurrence.
    pub(super) fn occurrences(&self) -> Occurrences {
        let mut classes = Vec::new();
        let (mut first, mut content) = (self.zero_blocks, 0);
        for occurring in &self.occurrences {
            classes.push(Class { first, times: occurring.times, content });
            first += occurring.times * occurring.contents;
            content += occurring.contents;
        }
        Occurrences { zero_blocks: self.zero_blocks, classes }
    }

    /// Formats a JSON file, as `onefold-lab scan --json` prints it.
    ///
    /// # Panics
    /// Never panics: it consists of numbers.
    #[must_use]
    pub fn to_json(&self) -> String {
        let file = File { version: DISTRIBUTION_VERSION, report: DISTRIBUTION_NAME.to_owned(), distribution: self.clone() };
        serde_json::to_string_pretty(&file).expect("numbers are JSON") + "\n"
    }

    /// Formats comma-separated values.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = format!(
            "{CSV_MARK}{DISTRIBUTION_VERSION} block_bytes={} blocks={} zero_blocks={} contents={}\nwhat,value,contents\n",
            self.block_bytes, self.blocks, self.zero_blocks, self.contents
        );
        for o in &self.occurrences {
            let _ = writeln!(text, "times,{},{}", o.times, o.contents);
        }
        for c in &self.compressed {
            let _ = writeln!(text, "compressed,{},{}", c.bytes, c.contents);
        }
        text
    }

    /// Parses a file in any form: JSON, comma-separated values, or DEDISbench's lines `DUPLICATES CONTENTS`.
    ///
    /// # Errors
    /// Returns the reason if it is none of these or does not add up.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let read = if text.trim_start().starts_with('{') {
            from_json(text)?
        } else if text.starts_with(CSV_MARK) {
            from_csv(text)?
        } else {
            from_dedisbench(text)?
        };
        read.verified()
    }

    fn verified(self) -> Result<Self, String> {
        if self.block_bytes != BLOCK_BYTES {
            return Err(format!("it is about blocks of {} bytes; only {BLOCK_BYTES} are supported", self.block_bytes));
        }
        if !self.occurrences.windows(2).all(|pair| pair[0].times < pair[1].times) || self.occurrences.iter().any(|o| o.times == 0) {
            return Err("its numbers of occurrences do not ascend from 1".to_owned());
        }
        let mut parts = self.occurrences.iter();
        let contents = parts.clone().try_fold(0u64, |sum, o| sum.checked_add(o.contents));
        let blocks = parts.try_fold(self.zero_blocks, |sum, o| sum.checked_add(o.times.checked_mul(o.contents)?));
        match (contents, blocks) {
            (Some(contents), Some(blocks)) if blocks <= BLOCKS_MAX => {
                if (contents, blocks) != (self.contents, self.blocks) {
                    return Err(format!(
                        "it gives {} contents in {} blocks, but its parts add up to {contents} in {blocks}",
                        self.contents, self.blocks
                    ));
                }
            }
            _ => return Err(format!("it has more than {BLOCKS_MAX} blocks")),
        }
        if self.blocks == 0 {
            return Err("it has no blocks".to_owned());
        }
        if let Some(c) = self.compressed.iter().find(|c| c.bytes == 0 || u64::from(c.bytes) > BLOCK_BYTES) {
            return Err(format!("it has contents of {} bytes", c.bytes));
        }
        Ok(self)
    }
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    report: String,
    #[serde(flatten)]
    distribution: Distribution,
}

fn from_json(text: &str) -> Result<Distribution, String> {
    let file: File = serde_json::from_str(text).map_err(|error| format!("it is not a distribution: {error}"))?;
    if file.report != DISTRIBUTION_NAME {
        return Err(format!("it is the report '{}' instead of '{DISTRIBUTION_NAME}'", file.report));
    }
    check_version(file.version)?;
    Ok(file.distribution)
}

fn check_version(version: u32) -> Result<(), String> {
    if version == DISTRIBUTION_VERSION {
        return Ok(());
    }
    Err(format!("it has version {version} of the form, but this onefold reads version {DISTRIBUTION_VERSION}"))
}

fn from_csv(text: &str) -> Result<Distribution, String> {
    let (mark, table) = text.split_once('\n').unwrap_or((text, ""));
    let field = |key: &str| {
        let value = mark.split([' ', '#']).find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        value.and_then(|value| value.trim_end().parse::<u64>().ok()).ok_or_else(|| format!("line 1 has no {key}=NUMBER"))
    };
    check_version(u32::try_from(field("version")?).unwrap_or(u32::MAX))?;
    let mut read = Distribution {
        block_bytes: field("block_bytes")?,
        blocks: field("blocks")?,
        zero_blocks: field("zero_blocks")?,
        contents: field("contents")?,
        ..Distribution::default()
    };
    for row in csv::ReaderBuilder::new().flexible(true).quoting(false).from_reader(table.as_bytes()).records() {
        let row = row.map_err(|error| error.to_string())?;
        let fields: Vec<&str> = row.iter().collect();
        let wrong = || {
            // The reader's first line is the second of the text.
            let number = row.position().map_or(0, |position| position.line() + 1);
            format!("line {number} is neither times,NUMBER,CONTENTS nor compressed,BYTES,CONTENTS: {:?}", fields.join(","))
        };
        let [what, value, contents] = fields[..] else { return Err(wrong()) };
        let contents = contents.parse().map_err(|_| wrong())?;
        match what {
            "times" => read.occurrences.push(Occurring { times: value.parse().map_err(|_| wrong())?, contents }),
            "compressed" => read.compressed.push(Compressing { bytes: value.parse().map_err(|_| wrong())?, contents }),
            _ => return Err(wrong()),
        }
    }
    Ok(read)
}

/// Parses lines `DUPLICATES CONTENTS`: that many contents occur once and DUPLICATES times again. Zeros are not separate. A number may
/// recur.
fn from_dedisbench(text: &str) -> Result<Distribution, String> {
    let mut occurrences = BTreeMap::new();
    for (line, number) in text.lines().zip(1u64..).filter(|(line, _)| !line.trim().is_empty()) {
        let wrong = || {
            format!(
                "line {number} is not a line of a distribution, like DEDISbench's DUPLICATES CONTENTS: {:?}",
                line.chars().take(60).collect::<String>()
            )
        };
        let (duplicates, contents) = line.trim().split_once([' ', '\t']).ok_or_else(wrong)?;
        let duplicates: u64 = duplicates.parse().map_err(|_| wrong())?;
        let contents: u64 = contents.trim().parse().map_err(|_| wrong())?;
        if duplicates > BLOCKS_MAX || contents > BLOCKS_MAX {
            return Err(format!("it has more than {BLOCKS_MAX} blocks"));
        }
        *occurrences.entry(duplicates + 1).or_insert(0) += contents;
    }
    let blocks = occurrences.iter().try_fold(0u64, |sum, (times, contents)| sum.checked_add(u64::checked_mul(*times, *contents)?));
    if blocks.is_none_or(|blocks| blocks > BLOCKS_MAX) {
        return Err(format!("it has more than {BLOCKS_MAX} blocks"));
    }
    Ok(Distribution::new(0, &occurrences, &BTreeMap::new()))
}

/// All occurrences in a row: first those of zeros, then those of each content.
#[derive(Clone, Debug)]
pub(super) struct Occurrences {
    zero_blocks: u64,
    classes: Vec<Class>,
}

/// Contents that occur equally often.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// The first occurrence of the first content.
    first: u64,
    times: u64,
    /// The first content.
    content: u64,
}

impl Occurrences {
    /// Returns the content of an occurrence; none for zeros.
    pub fn content_of(&self, occurrence: u64) -> Option<Content> {
        if occurrence < self.zero_blocks {
            return None;
        }
        let class = self.classes[self.classes.partition_point(|class| class.first <= occurrence) - 1];
        let content = class.content + (occurrence - class.first) / class.times;
        Some(Content::try_from(content).expect("a distribution has fewer than 4 Gi blocks"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Distribution {
        Distribution::new(5, &BTreeMap::from([(1, 10), (2, 3), (7, 1)]), &BTreeMap::from([(64, 4), (4096, 10)]))
    }

    #[test]
    fn a_written_distribution_is_read_back() {
        let distribution = some();
        assert_eq!((distribution.blocks(), distribution.contents()), (28, 14));
        for text in [distribution.to_json(), distribution.to_csv()] {
            assert_eq!(Distribution::from_text(&text), Ok(distribution.clone()), "{text}");
        }
        let dedisbench = Distribution::from_text("0 10\n1 3\n6 1\n").expect("it is one");
        assert_eq!(dedisbench.occurring(), distribution.occurring());
        assert_eq!((dedisbench.blocks(), dedisbench.zero_blocks, dedisbench.sizes()), (23, 0, None));
    }

    #[test]
    fn a_distribution_that_does_not_add_up_is_refused() {
        let (json, csv) = (some().to_json(), some().to_csv());
        let cases = [
            (json.replace("\"blocks\": 28", "\"blocks\": 29"), "28"),
            (json.replace("\"version\": 1", "\"version\": 2"), "version 2"),
            (json.replace("trace-scan", "trace-info"), "trace-info"),
            (json.replace("\"times\": 7", "\"times\": 2"), "ascend"),
            (json.replace("4096,", "512,"), "512"),
            (csv.replace("contents=14", "contents=15"), "15"),
            (csv.replace("contents=14", ""), "contents=NUMBER"),
            (csv.replace("times,7", "times,x"), "line 5"),
            (csv.replace("compressed,64", "compressed,4097"), "4097"),
            ("Dear Sir or Madam".to_owned(), "line 1"),
            (String::new(), "no blocks"),
            ("0 4294967296".to_owned(), "more than"),
            ("4294967295 4294967295".to_owned(), "more than"),
        ];
        for (text, wanted) in cases {
            let error = Distribution::from_text(&text).expect_err(wanted);
            assert!(error.contains(wanted), "{error}\n{text}");
        }
    }

    #[test]
    fn each_occurrence_has_its_content() {
        let occurrences = some().occurrences();
        let contents: Vec<_> = (0..28).map(|occurrence| occurrences.content_of(occurrence)).collect();
        assert!(contents[..5].iter().all(Option::is_none));
        let once: Vec<_> = (0..10).map(Some).collect();
        assert_eq!((&contents[5..15], &contents[15..21]), (&once[..], &[10, 10, 11, 11, 12, 12].map(Some)[..]));
        assert_eq!(contents[21..], [Some(13); 7]);
    }

    #[test]
    fn a_part_keeps_the_shares() {
        let whole = Distribution::new(1000, &BTreeMap::from([(1, 9000), (2, 500), (9, 100)]), &BTreeMap::new());
        let part = whole.thinned(0.1);
        assert_eq!(part.occurring().iter().map(|o| (o.times, o.contents)).collect::<Vec<_>>(), [(1, 900), (2, 50), (9, 10)]);
        assert_eq!((part.zero_blocks, part.blocks()), (100, 1190));
        assert_eq!(whole.thinned(0.5).thinned(2.0).blocks(), whole.blocks());
    }
}
