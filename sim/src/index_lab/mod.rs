//! The policy lab: indexes of fingerprints over the writes of a trace, at any size of memory.
//!
//! 1. A policy has a number of bytes for what it keeps of fingerprints in memory, and nothing else is counted: no buffers, no code.
//! 2. In-line it answers from memory. What it passes over is worked off later, in batches, with what it keeps on the medium.
//! 3. A match counts only if the block that it names still holds that content.
//! 4. Where a paper leaves something open, the policy that is compared with Onefold's gets the better reading; each file says which.

pub mod adapting;
pub mod austere;
pub mod caftl;
pub mod compact;
pub mod groups;
pub mod ideal_parts;
pub mod known;
pub mod lab;
pub mod naming;
pub mod part;
pub mod parts;
pub mod recency;
pub mod recent;
pub mod runs;
pub mod shares;
pub mod stored;
pub mod streams;
pub mod swept;
pub mod table;
pub mod writes;

use parts::{Medium, Parts};
use stored::{Pbn, Stored};
use streams::Stream;
use writes::Content;

/// The units (4 KiB) that a policy has read and written for its level on the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct IndexIo {
    /// Units read to find out whether a fingerprint is there.
    pub looked_up: u64,
    /// Units read and written to move fingerprints to the medium, and there.
    pub read: u64,
    pub written: u64,
}

impl IndexIo {
    /// Returns all together.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.looked_up + self.read + self.written
    }
}

/// A block that was stored without a match, for the work out of line.
#[derive(Clone, Copy, Debug)]
pub struct Skipped {
    pub lbn: u32,
    pub pbn: Pbn,
    pub content: Content,
}

/// An index of fingerprints with a bound on its memory.
pub trait Index {
    /// Notes that the blocks that follow are those of a request of this stream.
    fn request_of(&mut self, _stream: Stream) {}

    /// Returns whether this block of a request is fingerprinted at all. It is called once for each block that is written.
    fn takes(&mut self, _content: Content, _is_first: bool) -> bool {
        true
    }

    /// Returns the block that holds this content, by what is in memory.
    fn look_up(&mut self, content: Content, lbn: u32, stored: &Stored) -> Option<Pbn>;

    /// Notes that a block with this content was stored.
    fn insert(&mut self, content: Content, pbn: Pbn, lbn: u32, stored: &Stored);

    /// Notes that a duplicate was linked to a block.
    fn linked(&mut self, _content: Content, _lbn: u32) {}

    /// Notes that a block is free.
    fn remove(&mut self, content: Content, pbn: Pbn);

    /// Returns whether content that it does not find in memory is stored nowhere else, so that there is no work out of line for it.
    fn is_whole_for(&self, _content: Content) -> bool {
        false
    }

    /// Finds, for each of these blocks, another one with the same content, by both levels. They are distinct, all in use, and in the order
    /// of their writes. A policy without a level on the medium finds none.
    fn find_out_of_line(&mut self, skipped: &[Skipped], _stored: &Stored) -> Vec<Option<Pbn>> {
        vec![None; skipped.len()]
    }

    /// Returns the units read and written so far.
    fn io(&self) -> IndexIo {
        IndexIo::default()
    }

    /// Returns the number of fingerprints in memory.
    fn resident(&self) -> u64;
}

/// The policies, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// All fingerprints in memory, whatever that takes.
    Full,
    /// Onefold's: the engine's index, and sweeps of the fingerprint table.
    Sweep,
    /// Another for Onefold: compact entries, and sorted runs on the medium.
    Runs,
    /// SmartDedup's groups in a prefix tree, which leave memory as a whole.
    GLru,
    /// The same, but fingerprints leave memory one by one.
    Lru,
    /// Dmdedup's B-tree, as a cache in memory.
    BTree,
    /// CAFTL with sampling and pre-hashing, and without the latter.
    Caftl,
    CaftlNoPreHash,
    /// AustereCache's buckets.
    Austere,
    /// APP-Dedupe's parts, which are swapped, and such whose entries the fingerprint table has together.
    Parts,
    PartsPlaced,
    /// A bound of what such parts could find with the engine's index.
    PartsIdeal,
    /// The parts' like without a division: the least recently used fingerprint leaves, whichever stream it is of.
    Undivided,
}

impl Policy {
    /// The policies that know no streams.
    pub const GLOBAL: [Self; 9] =
        [Self::Full, Self::Sweep, Self::Runs, Self::GLru, Self::Lru, Self::BTree, Self::Caftl, Self::CaftlNoPreHash, Self::Austere];
    /// Those with a part for each stream, and their like without.
    pub const DIVIDED: [Self; 4] = [Self::Parts, Self::PartsPlaced, Self::PartsIdeal, Self::Undivided];

    /// Lists all policies.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::GLOBAL.into_iter().chain(Self::DIVIDED)
    }

    /// Its name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Sweep => "sweep",
            Self::Runs => "runs",
            Self::GLru => "g-lru",
            Self::Lru => "lru",
            Self::BTree => "b-tree",
            Self::Caftl => "caftl",
            Self::CaftlNoPreHash => "caftl-without-pre-hashing",
            Self::Austere => "austere",
            Self::Parts => "parts",
            Self::PartsPlaced => "parts-placed",
            Self::PartsIdeal => "parts-ideal",
            Self::Undivided => "undivided",
        }
    }

    /// Returns the policy with this name.
    ///
    /// # Errors
    /// Fails if there is none; the text lists all.
    pub fn named(name: &str) -> Result<Self, String> {
        let names = || Self::all().map(Self::name).collect::<Vec<_>>().join(", ");
        Self::all().find(|policy| policy.name() == name).ok_or_else(|| format!("there is no policy '{name}'; give one of {}", names()))
    }

    /// Makes an index with this number of bytes, for a volume of at most `blocks` blocks and this many contents. A stream is active that
    /// has sent one of the last `active` requests.
    #[must_use]
    pub fn index(self, bytes: u64, blocks: u64, contents: u32, active: u64) -> Box<dyn Index> {
        match self {
            Self::Full => Box::new(recent::Recent::unbounded(contents)),
            Self::Sweep => Box::new(swept::Swept::new(bytes, blocks)),
            Self::Runs => Box::new(compact::Compact::new(bytes, blocks)),
            Self::GLru => Box::new(groups::Groups::new(bytes, blocks)),
            Self::Lru => Box::new(recent::Recent::with_groups_on_medium(bytes, blocks, contents)),
            Self::BTree => Box::new(recent::Recent::b_tree(bytes, contents)),
            Self::Caftl => Box::new(caftl::Caftl::new(bytes, contents, true)),
            Self::CaftlNoPreHash => Box::new(caftl::Caftl::new(bytes, contents, false)),
            Self::Austere => Box::new(austere::Austere::new(bytes)),
            Self::Parts => Box::new(Parts::new(bytes, blocks, contents, Medium::Swap, active)),
            Self::PartsPlaced => Box::new(Parts::new(bytes, blocks, contents, Medium::Placement, active)),
            Self::PartsIdeal => Box::new(ideal_parts::IdealParts::new(bytes, blocks)),
            Self::Undivided => Box::new(Parts::undivided(bytes, blocks, contents)),
        }
    }
}
