//! The parameters of a synthetic trace.

use super::choice::Choice;
use super::distribution::Distribution;
use super::random::{float, part, rounded};
use onefold_engine::units::BLOCK_BYTES;

/// The largest number of block writes of a trace: contents are numbered by 32 bits.
pub const BLOCKS_MAX: u64 = u32::MAX as u64;
/// The largest number of blocks of a request: 16 MiB.
const REQUEST_BLOCKS_MAX: u64 = 4096;

/// The length of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The number of block writes.
    Blocks(u64),
    /// The number of reads and writes.
    Requests(u64),
}

/// The pattern of the blocks that requests touch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Access {
    Uniform,
    /// One request follows another, and the last is followed by the first.
    Sequential,
    /// The given share of the requests goes to the given share of the blocks, the first ones; the other requests go to the other blocks.
    HotSpot {
        requests: f64,
        blocks: f64,
    },
    /// TPC-C's NURand, as DEDISbench has it: ((random(0, A) | random(0, n − 1)) + C) mod n, with A a tenth of n.
    NuRand,
}

/// The contents that are written.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// Contents by shares of the block writes.
    Shares {
        /// The share of all-zero blocks.
        zero: f64,
        /// The share of contents that some block holds at that moment. If it is missing and `ever` is given, it is left open.
        live: Option<f64>,
        /// The share of contents that had been written before. If it is missing, everything that is not live is new.
        ever: Option<f64>,
        /// The exponent of recency: the content of `k` block writes ago recurs with a probability in proportion to `k` to the power of
        /// minus this.
        skew: f64,
    },
    /// Each content as often as the distribution says, in random order.
    Distribution(Distribution),
}

/// The conditions for flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flushes {
    /// The number of writes after which a flush follows.
    pub every_writes: Option<u64>,
    /// The time after which a flush follows, if anything was written.
    pub every_ns: Option<u64>,
    /// The share of writes that are FUA.
    pub fua: f64,
}

/// The parameters of a synthetic trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub seed: u64,
    /// The length of the trace; a distribution determines it itself.
    pub length: Length,
    /// The share of reads among reads and writes.
    pub reads: f64,
    /// The number of blocks of a request.
    pub sizes: Choice,
    pub access: Access,
    /// The number of blocks that requests lie in; unused with a share of overwrites, which determines how many blocks are written.
    pub working_set: u64,
    /// The share of block writes that go to a block that had been written before.
    pub overwrites: Option<f64>,
    pub contents: Contents,
    /// The compressed sizes of contents, in bytes; unknown if none.
    pub compressed: Option<Choice>,
    pub flushes: Flushes,
    /// The number of reads and writes a second.
    pub rate: f64,
    /// Whether requests arrive at equal intervals; otherwise they arrive randomly (Poisson).
    pub even: bool,
}

impl Default for Plan {
    /// Plans 100,000 block writes of unique content, one by one, uniformly over 256 MiB.
    fn default() -> Self {
        Self {
            seed: 0,
            length: Length::Blocks(100_000),
            reads: 0.0,
            sizes: Choice::only(1),
            access: Access::Uniform,
            working_set: 65_536,
            overwrites: None,
            contents: Contents::Shares { zero: 0.0, live: None, ever: None, skew: 1.0 },
            compressed: None,
            flushes: Flushes::default(),
            rate: 1000.0,
            even: false,
        }
    }
}

/// An impossible plan, described in terms of the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

fn wrong<T>(text: String) -> Result<T, Wrong> {
    Err(Wrong(text))
}

/// The totals that a plan determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    pub writes: u64,
    pub reads: u64,
    pub blocks: u64,
    /// The number of blocks of the device that requests lie in.
    pub end: u64,
}

impl Plan {
    /// Refuses a plan that contradicts itself.
    ///
    /// # Errors
    /// Returns the option's name and its value if it does.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        let shares = [("--reads", Some(self.reads)), ("--overwrites", self.overwrites), ("--fua", Some(self.flushes.fua))];
        for (name, share) in shares {
            if share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
                return wrong(format!("{name} {}: a share lies between 0 and 1", share.unwrap_or_default()));
            }
        }
        let (smallest, largest) = self.sizes.ends();
        if smallest == 0 || largest > REQUEST_BLOCKS_MAX {
            return wrong(format!("--request-blocks {}: a request has 1 to {REQUEST_BLOCKS_MAX} blocks", self.sizes));
        }
        if let Some(sizes) = &self.compressed {
            let (smallest, largest) = sizes.ends();
            if smallest == 0 || largest > BLOCK_BYTES {
                return wrong(format!("--compressed {sizes}: a block is brought to 1 to {BLOCK_BYTES} bytes"));
            }
        }
        if self.working_set == 0 {
            return wrong("--working-set: give at least one block of 4 KiB".to_owned());
        }
        if self.flushes.every_writes == Some(0) || self.flushes.every_ns == Some(0) {
            return wrong("--flush-every and --flush-ms begin with 1".to_owned());
        }
        if !(self.rate > 0.0 && self.rate <= 1e9) {
            return wrong(format!("--rate {}: give requests a second, up to 1000000000", self.rate));
        }
        if let Access::HotSpot { requests, blocks } = self.access {
            let (some_blocks, is_share) = (blocks > 0.0, [requests, blocks].iter().all(|share| (0.0..=1.0).contains(share)));
            if !some_blocks || !is_share {
                return wrong(format!("--hotspot {}/{}: both are per cent, the second not 0", requests * 100.0, blocks * 100.0));
            }
        }
        self.check_contents()
    }

    fn check_contents(&self) -> Result<(), Wrong> {
        let Contents::Shares { zero, live, ever, skew } = &self.contents else { return Ok(()) };
        for (name, share) in [("--zero", Some(*zero)), ("--duplication", *live), ("--duplication-ever", *ever)] {
            if share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
                return wrong(format!("{name} {}: a share lies between 0 and 1", share.unwrap_or_default()));
            }
        }
        if let (Some(live), Some(ever)) = (live, ever) {
            if ever < live {
                return wrong(format!("--duplication-ever {ever} is less than --duplication {live}: a live content was written before"));
            }
        }
        let known = ever.or(*live).unwrap_or(0.0);
        if zero + known > 1.0 + 1e-9 {
            return wrong(format!("--zero {zero} and duplication {known} are more than 1 together: zeros are counted apart"));
        }
        if !(0.0..=10.0).contains(skew) {
            return wrong(format!("--locality {skew}: give an exponent between 0, all alike, and 10"));
        }
        Ok(())
    }

    /// Computes the totals for these sizes of the writes.
    ///
    /// # Errors
    /// Returns the option's name and its value if the plan is impossible.
    pub(super) fn totals(&self, sizes: impl Iterator<Item = u64>) -> Result<Totals, Wrong> {
        let length = match &self.contents {
            Contents::Distribution(distribution) => Length::Blocks(distribution.blocks()),
            Contents::Shares { .. } => self.length,
        };
        let (writes, reads, blocks) = match length {
            Length::Blocks(blocks) if self.reads >= 1.0 => {
                return wrong(format!("--reads {} leaves no writes: give --requests instead of {blocks} block writes", self.reads));
            }
            Length::Blocks(blocks) => {
                if blocks > BLOCKS_MAX {
                    return wrong(format!("{blocks} block writes: {BLOCKS_MAX} are the most"));
                }
                let mut left = blocks;
                let writes = sizes
                    .take_while(|size| {
                        let is_needed = left > 0;
                        left = left.saturating_sub(*size);
                        is_needed
                    })
                    .count() as u64;
                (writes, rounded(float(writes) * self.reads / (1.0 - self.reads)), blocks)
            }
            Length::Requests(requests) => {
                if requests > BLOCKS_MAX {
                    return wrong(format!("--requests {requests}: {BLOCKS_MAX} are the most"));
                }
                let reads = part(requests, self.reads);
                let writes = requests - reads;
                let blocks = sizes.take(usize::try_from(writes).unwrap_or(usize::MAX)).sum();
                if blocks > BLOCKS_MAX {
                    return wrong(format!("--requests {requests} write {blocks} blocks: {BLOCKS_MAX} are the most"));
                }
                (writes, reads, blocks)
            }
        };
        let end = match self.overwrites {
            Some(share) => (blocks - part(blocks, share)).max(1),
            None => self.working_set,
        };
        let (_, largest) = self.sizes.ends();
        if largest > end {
            let what = match self.overwrites {
                Some(share) => format!("--overwrites {share} leaves {end} blocks that are ever written"),
                None => format!("the working set has {end} blocks"),
            };
            return wrong(format!("{what}, and --request-blocks {} asks for {largest} at once", self.sizes));
        }
        if end > i64::MAX as u64 / BLOCK_BYTES {
            return wrong(format!("--working-set: {end} blocks lie beyond any device"));
        }
        Ok(Totals { writes, reads, blocks, end })
    }
}
