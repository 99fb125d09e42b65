//! Rules: what is to be done with blocks of which something is known (Using Hints, section 3).
//!
//! 1. A rule matches a block if all of its conditions do; it has one at least.
//! 2. Where several rules match, all of them act.
//! 3. A condition on something that is not known of a block does not match.

use onefold_engine::policy::Policy;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// The treatment of the blocks that match a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// Blocks stay apart: they are not fingerprinted, not looked up, and nothing is linked to them.
    Nodedup,
    /// Blocks are not compressed.
    Nocompress,
    /// Fingerprints do not enter the index in memory. Duplicates of the blocks are found later, in the background.
    Noindex,
    /// The content that is read is likely to be written again soon, as by a copy.
    Prefetch,
    /// The same as nodedup, for content that is stored several times on purpose. LBNs that have no other condition are protected: what
    /// lies there already is moved to blocks of its own, too.
    NeverShare,
}

/// The time that content is expected to live, as programs say by `fcntl(F_SET_RW_HINT)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Lives {
    Short,
    Medium,
    Long,
    Extreme,
}

/// Logical blocks: the first one, and the one behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Range {
    pub first: u64,
    pub end: u64,
}

/// A file that a rule names by its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// The path that the user typed; for people.
    pub path: PathBuf,
    pub inode: u64,
    /// The inode's number is given to other files later, with other generations.
    #[serde(default)]
    pub generation: u32,
    /// The partition, or the whole volume, that its file system has.
    pub within: Range,
    /// The places of its content when the rule was made.
    pub ranges: Vec<Range>,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(default, deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub act: Vec<Act>,
    /// The name of the stream that the blocks belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The file's name, without its directory; `*` and `?` stand for anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The name of the process that submitted the request, at most 15 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// A control group and those below it, below /sys/fs/cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The owner of the file, by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The file system marked it as metadata.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub meta: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Lives>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lbn: Option<Range>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Marked>,
}

/// The policy of blocks with which these acts are done.
#[must_use]
pub fn policy_of(acts: &[Act]) -> Policy {
    acts.iter().fold(Policy::DEFAULT, |policy, act| match act {
        Act::Nodedup | Act::NeverShare => policy.apart(),
        Act::Nocompress => policy.plain(),
        Act::Noindex => policy.unindexed(),
        Act::Prefetch => policy.prefetched(),
    })
}

/// Takes a list of acts, or one.
fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Act>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected nodedup, nocompress, noindex, prefetch or never-share, or a list of them")]
    enum Acts {
        One(Act),
        Many(Vec<Act>),
    }
    Ok(match Acts::deserialize(from)? {
        Acts::One(act) => vec![act],
        Acts::Many(acts) => acts,
    })
}

/// The longest name of a stream.
const STREAM_BYTES_MAX: usize = 32;
/// The longest name of a process that the kernel keeps.
const PROCESS_BYTES_MAX: usize = 15;

impl Range {
    /// Whether a logical block is one of them.
    #[must_use]
    pub fn has(&self, lbn: u64) -> bool {
        (self.first..self.end).contains(&lbn)
    }
}

impl Rule {
    /// Checks that the rule can match, and does something.
    ///
    /// # Errors
    /// Says what is wrong, for the user who typed it.
    pub fn check(&self) -> Result<(), String> {
        if self.act.is_empty() && self.stream.is_none() {
            return Err("the rule does nothing: give an act, such as nodedup, or --stream NAME".to_owned());
        }
        if let Some(name) = self.stream.as_ref().filter(|name| name.is_empty() || name.len() > STREAM_BYTES_MAX) {
            return Err(format!("--stream {name}: give a name of up to {STREAM_BYTES_MAX} bytes"));
        }
        let has_files = !self.files.is_empty();
        let conditions = [
            self.file.is_some(),
            self.process.is_some(),
            self.cgroup.is_some(),
            self.uid.is_some(),
            self.meta,
            self.lifetime.is_some(),
            self.lbn.is_some(),
            has_files,
        ];
        if !conditions.contains(&true) {
            return Err("the rule matches nothing: give a condition, such as --file '*.mp4' or --lbn 0-999".to_owned());
        }
        if let Some(name) = self.file.as_ref().filter(|name| name.is_empty() || name.contains('/')) {
            return Err(format!("--file {name}: give the name of a file without its directory; --path names one by its path"));
        }
        if let Some(name) = self.process.as_ref().filter(|name| name.is_empty() || name.len() > PROCESS_BYTES_MAX) {
            return Err(format!("--process {name}: the kernel keeps the first {PROCESS_BYTES_MAX} bytes of a process's name; give these"));
        }
        if let Some(path) = self.cgroup.as_ref().filter(|path| path.is_empty() || path.split('/').any(|part| part == "..")) {
            return Err(format!("--cgroup {path}: give a path below /sys/fs/cgroup, such as system.slice/postgresql.service"));
        }
        match self.lbn {
            Some(range) if range.first >= range.end => Err(format!("--lbn {range}: the last block comes before the first")),
            _ => Ok(()),
        }
    }

    /// The LBNs that it has protected, whatever is written there and by whom.
    #[must_use]
    pub fn protected(&self) -> Option<Range> {
        let only_lbn = Self { act: self.act.clone(), lbn: self.lbn, ..Self::default() };
        self.lbn.filter(|_| self.act.contains(&Act::NeverShare) && *self == only_lbn)
    }

    /// Whether it needs to know the file of a block.
    #[must_use]
    pub fn wants_files(&self) -> bool {
        self.file.is_some() || self.uid.is_some() || !self.files.is_empty()
    }
}

impl Act {
    /// The name as users type it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nodedup => "nodedup",
            Self::Nocompress => "nocompress",
            Self::Noindex => "noindex",
            Self::Prefetch => "prefetch",
            Self::NeverShare => "never-share",
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.end.saturating_sub(1))
    }
}

/// The conditions, as they are typed.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lives = self.lifetime.map(|lives| match lives {
            Lives::Short => "short",
            Lives::Medium => "medium",
            Lives::Long => "long",
            Lives::Extreme => "extreme",
        });
        let files = match self.files.as_slice() {
            [] => None,
            [one] => Some(format!("--path {}", one.path.display())),
            [first, others @ ..] => Some(format!("--path {} and {} others", first.path.display(), others.len())),
        };
        let conditions = [
            self.file.as_ref().map(|name| format!("--file {name}")),
            self.process.as_ref().map(|name| format!("--process {name}")),
            self.cgroup.as_ref().map(|path| format!("--cgroup {path}")),
            self.uid.map(|uid| format!("--uid {uid}")),
            self.meta.then(|| "--meta".to_owned()),
            lives.map(|lives| format!("--lifetime {lives}")),
            self.lbn.map(|range| format!("--lbn {range}")),
            files,
        ];
        f.write_str(&conditions.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Rule {
        Rule { act: vec![Act::Nodedup], ..Rule::default() }
    }

    #[test]
    fn what_is_wrong_with_a_rule_is_named() {
        let text = |text: &str| Some(text.to_owned());
        for (rule, what) in [
            (Rule { meta: true, ..Rule::default() }, "does nothing"),
            (rule(), "matches nothing"),
            (Rule { stream: text(""), meta: true, ..Rule::default() }, "--stream"),
            (Rule { file: text("a/b"), ..rule() }, "--path"),
            (Rule { process: text("a-name-of-16-chs"), ..rule() }, "15 bytes"),
            (Rule { cgroup: text("../etc"), ..rule() }, "--cgroup ../etc"),
            (Rule { lbn: Some(Range { first: 5, end: 5 }), ..rule() }, "--lbn 5-4"),
        ] {
            let error = rule.check().expect_err(what);
            assert!(error.contains(what), "{what}: {error}");
        }
        let whole = Rule { lbn: Some(Range { first: 5, end: 8 }), meta: true, file: text("*.mp4"), lifetime: Some(Lives::Short), ..rule() };
        assert_eq!(whole.check(), Ok(()));
        assert_eq!(whole.to_string(), "--file *.mp4 --meta --lifetime short --lbn 5-7");
    }

    #[test]
    fn a_rule_comes_back_from_its_text() {
        let file = Marked { path: "/mnt/a".into(), inode: 12, generation: 7, within: Range { first: 0, end: 100 }, ranges: Vec::new() };
        let rule = Rule { act: vec![Act::NeverShare, Act::Nocompress], files: vec![file], ..Rule::default() };
        let text = serde_json::to_string(&rule).expect("it has a text");
        assert_eq!(serde_json::from_str::<Rule>(&text).expect("a rule"), rule);
        assert!(text.contains("never-share"), "{text}");
        assert!(serde_json::from_str::<Rule>(r#"{"act":["nodedup"],"fiel":"*.mp4"}"#).is_err(), "a mistyped key is no condition");
    }
}
