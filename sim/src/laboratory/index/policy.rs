//! The policies by name, and the index that each makes.

use super::interface::Index;
use super::parts::{Medium, Parts};
use super::{austere, caftl, compact, groups, ideal_parts, recent, swept};

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
