//! Policies: the treatment of blocks because of what is known of them beforehand (Using Hints, section 3).
//!
//! 1. A policy is advice: a wrong, late or missing one costs duplicates or units, never data.
//! 2. A block belongs to a stream: who it comes from. Blocks of which that is not known are a stream, too.
//! 3. A request brings one for each of its blocks. What holds for a block in the end, `Medium::policy_of` says, and nobody else.

use std::sync::Arc;

/// The policy for the blocks of a write, or of a read. The default knows nothing: blocks are deduplicated, compressed and in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy(u8);

const APART: u8 = 1;
const PLAIN: u8 = 2;
const UNINDEXED: u8 = 4;
const PREFETCHED: u8 = 8;
const STREAM_SHIFT: u32 = 4;

/// The number of streams, the unknown one included.
pub const STREAMS: usize = 16;

/// The stream of a block: who it comes from, as a small number (APP-Dedupe, section III).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(u8);

impl Stream {
    /// The stream of blocks of which it is not known.
    pub const UNKNOWN: Self = Self(0);

    /// Returns the stream of this number; none from [`STREAMS`] on.
    #[must_use]
    pub fn new(number: usize) -> Option<Self> {
        u8::try_from(number).ok().filter(|_| number < STREAMS).map(Self)
    }

    /// Its number, 0 for the unknown one.
    #[must_use]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }
}

impl Policy {
    /// The policy of a block of which nothing is known.
    pub const DEFAULT: Self = Self(0);

    /// The policy, and the block stays apart: nothing looks its content up, and no other LBN is ever linked to it (NODEDUP).
    #[must_use]
    pub const fn apart(self) -> Self {
        Self(self.0 | APART)
    }

    /// The policy, and the block is not compressed.
    #[must_use]
    pub const fn plain(self) -> Self {
        Self(self.0 | PLAIN)
    }

    /// The policy, and the index in memory does not take the block's fingerprint.
    #[must_use]
    pub const fn unindexed(self) -> Self {
        Self(self.0 | UNINDEXED)
    }

    /// The policy, and what is read is likely to be written again soon (PREFETCH).
    #[must_use]
    pub const fn prefetched(self) -> Self {
        Self(self.0 | PREFETCHED)
    }

    /// The policy, and the block belongs to this stream.
    #[must_use]
    pub const fn of_stream(self, stream: Stream) -> Self {
        Self(self.0 & ((1 << STREAM_SHIFT) - 1) | stream.0 << STREAM_SHIFT)
    }

    /// The policy that asks for all that either of two asks for. The stream is that of the first one, if that knows it.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let stream = if self.stream().0 == 0 { other.stream() } else { self.stream() };
        Self(self.0 | other.0).of_stream(stream)
    }

    /// The stream that the block belongs to.
    #[must_use]
    pub const fn stream(self) -> Stream {
        Stream(self.0 >> STREAM_SHIFT)
    }

    /// Whether the block stays apart: it has a checksum and no fingerprint.
    #[must_use]
    pub const fn is_apart(self) -> bool {
        self.0 & APART != 0
    }

    /// Whether the block may be compressed. The slots of a carrier have fingerprints, so one that stays apart is in none.
    #[must_use]
    pub const fn compresses(self) -> bool {
        self.0 & (APART | PLAIN) == 0
    }

    /// Whether the index takes the block's fingerprint.
    #[must_use]
    pub const fn is_indexed(self) -> bool {
        self.0 & (APART | UNINDEXED) == 0
    }

    /// Whether the content that is read is likely to be written again soon.
    #[must_use]
    pub const fn is_prefetched(self) -> bool {
        self.0 & PREFETCHED != 0
    }
}

/// The policies of a request's blocks, in their order.
#[derive(Clone, Debug)]
pub enum Policies {
    /// All blocks have the same.
    Same(Policy),
    /// One for each block. Blocks behind the last one have the default.
    Each(Arc<[Policy]>),
}

impl Default for Policies {
    fn default() -> Self {
        Self::Same(Policy::DEFAULT)
    }
}

impl Policies {
    /// The policy of the request's block `i`, counted from its first one.
    #[must_use]
    pub fn of(&self, i: usize) -> Policy {
        match self {
            Self::Same(policy) => *policy,
            Self::Each(policies) => policies.get(i).copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_stays_apart_is_neither_compressed_nor_indexed() {
        let apart = Policy::DEFAULT.apart();
        assert!(apart.is_apart() && !apart.compresses() && !apart.is_indexed() && !apart.is_prefetched());
        let (plain, unindexed) = (Policy::DEFAULT.plain(), Policy::DEFAULT.unindexed());
        assert!(!plain.is_apart() && !plain.compresses() && plain.is_indexed());
        assert!(!unindexed.is_apart() && unindexed.compresses() && !unindexed.is_indexed());
        assert!(plain.and(unindexed) == Policy::DEFAULT.unindexed().plain());
    }

    #[test]
    fn a_stream_goes_along_and_the_first_one_counts() {
        let [one, last] = [1, STREAMS - 1].map(|number| Stream::new(number).expect("there are as many"));
        assert_eq!(Stream::new(STREAMS), None);
        let policy = Policy::DEFAULT.prefetched().of_stream(last).apart();
        assert!(
            policy.stream() == last
                && policy.is_apart()
                && policy.is_prefetched()
                && policy.compresses() == Policy::DEFAULT.apart().compresses()
        );
        assert_eq!(policy.and(Policy::DEFAULT.of_stream(one).plain()), policy.plain());
        assert_eq!(Policy::DEFAULT.plain().and(Policy::DEFAULT.of_stream(one)), Policy::DEFAULT.plain().of_stream(one));
        assert_eq!(policy.of_stream(Stream::UNKNOWN).stream(), Stream::UNKNOWN);
    }

    #[test]
    fn blocks_behind_the_last_policy_have_the_default() {
        let each = Policies::Each([Policy::DEFAULT, Policy::DEFAULT.plain()].into());
        assert_eq!([0, 1, 2].map(|i| each.of(i)), [Policy::DEFAULT, Policy::DEFAULT.plain(), Policy::DEFAULT]);
        assert_eq!(Policies::Same(Policy::DEFAULT.plain()).of(7), Policy::DEFAULT.plain());
    }
}
