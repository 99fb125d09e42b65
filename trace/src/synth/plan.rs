//! What a synthetic trace shall be like.

use super::choice::Choice;
use super::distribution::Distribution;
use super::random::{float, part, rounded};
use onefold_engine::units::BLOCK_BYTES;

/// Block writes of a trace at most: contents are numbered by 32 bits.
pub const BLOCKS_MAX: u64 = u32::MAX as u64;
/// Blocks of a request at most: 16 MiB.
const REQUEST_BLOCKS_MAX: u64 = 4096;

/// How long a trace shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many block writes.
    Blocks(u64),
    /// So many reads and writes.
    Requests(u64),
}

/// Which blocks requests touch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Access {
    Uniform,
    /// One behind the other, and from the beginning again.
    Sequential,
    /// This share of the requests in this share of the blocks, the first ones; the others in the others.
    HotSpot {
        requests: f64,
        blocks: f64,
    },
    /// TPC-C's NURand, as DEDISbench has it: ((random(0, A) | random(0, n − 1)) + C) mod n, with A a tenth of n.
    NuRand,
}

/// What is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// Shares of the block writes.
    Shares {
        /// All zeros.
        zero: f64,
        /// Some block holds the content at that moment. Without it and with `ever`, nothing is said of that.
        live: Option<f64>,
        /// It had been written before. Without it, what is not live is new.
        ever: Option<f64>,
        /// The content of `k` block writes ago comes again as likely as `k` to the power of minus this.
        skew: f64,
    },
    /// Each content as often as this says, in random order.
    Distribution(Distribution),
}

/// When a trace shall flush.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flushes {
    /// After so many writes.
    pub every_writes: Option<u64>,
    /// After so long, where anything was written.
    pub every_ns: Option<u64>,
    /// Share of the writes that are FUA.
    pub fua: f64,
}

/// A synthetic trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub seed: u64,
    /// A distribution says itself how long it is.
    pub length: Length,
    /// Share of the requests, flushes left out.
    pub reads: f64,
    /// Blocks of a request.
    pub sizes: Choice,
    pub access: Access,
    /// Blocks that requests lie in; not with a share of overwrites, which says how many are written.
    pub working_set: u64,
    /// Share of the block writes that go to a block that had been written before.
    pub overwrites: Option<f64>,
    pub contents: Contents,
    /// Bytes that a content is brought to; unknown without.
    pub compressed: Option<Choice>,
    pub flushes: Flushes,
    /// Reads and writes a second.
    pub rate: f64,
    /// Always the same time between them; else as if by chance (Poisson).
    pub even: bool,
}

impl Default for Plan {
    /// 100,000 block writes of unique content, one by one, all over 256 MiB.
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

/// What cannot be had, in the words of the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

fn wrong<T>(text: String) -> Result<T, Wrong> {
    Err(Wrong(text))
}

/// What a plan comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    pub writes: u64,
    pub reads: u64,
    pub blocks: u64,
    /// Blocks of the device that requests lie in.
    pub end: u64,
}

impl Plan {
    /// Refuses what contradicts itself.
    ///
    /// # Errors
    /// With the option's name and its value.
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
                return wrong(format!("--duplication-ever {ever} is less than --duplication {live}: what is live was written before"));
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

    /// What it comes to, of these sizes of the writes.
    ///
    /// # Errors
    /// With the option's name and its value, where that does not work out.
    pub(super) fn totals(&self, sizes: impl Iterator<Item = u64>) -> Result<Totals, Wrong> {
        let length = match &self.contents {
            Contents::Distribution(distribution) => Length::Blocks(distribution.blocks()),
            Contents::Shares { .. } => self.length,
        };
        let (writes, reads, blocks) = match length {
            Length::Blocks(blocks) if self.reads >= 1.0 => {
                return wrong(format!("--reads {} leaves no writes: give --requests in place of {blocks} block writes", self.reads));
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
