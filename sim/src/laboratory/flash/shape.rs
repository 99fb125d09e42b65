//! The shape of a flash: its sizes, its latencies, and the policy of its cleaning.

use serde::{Deserialize, Serialize};

/// The choice of the block that is cleaned next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cleaning {
    /// The block with the fewest valid pages.
    Greedy,
    /// The block with the most benefit for its cost, (1 − u) ÷ 2u × age, where u is the share of its pages that are valid (Kawaguchi,
    /// Nishioka and Motoda, USENIX 1995). The age counts the host's pages that the plane wrote since the youngest page of the block.
    CostBenefit,
    /// The block that was filled first (LRU cleaning).
    Fifo,
}

impl Cleaning {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Greedy, Self::CostBenefit, Self::Fifo];

    /// Returns the name as users type it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Greedy => "greedy",
            Self::CostBenefit => "cost-benefit",
            Self::Fifo => "fifo",
        }
    }

    /// Returns the policy with this name.
    ///
    /// # Errors
    /// Fails if there is none, and lists the known names.
    pub fn named(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|c| c.name() == name).ok_or_else(|| format!("no cleaning is called {name}; there are {}", known()))
    }
}

/// The time of each operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// A page from the cells to the plane's register.
    pub read_ns: u64,
    /// A page from the register to the cells.
    pub program_ns: u64,
    /// A block.
    pub erase_ns: u64,
    /// A byte between the register and the host.
    pub transfer_ns_per_byte: u64,
}

impl Default for Latencies {
    /// Returns those of SSD DiskSim: Agrawal et al. 2008, Table 1, the data sheet of Samsung's K9XXG08UXM (SLC): 25 µs, 200 µs, 1.5 ms, and
    /// 100 µs for a page of 4 KiB.
    fn default() -> Self {
        Self { read_ns: 25_000, program_ns: 200_000, erase_ns: 1_500_000, transfer_ns_per_byte: 25 }
    }
}

/// The shape of a flash.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// The bytes that the host sees.
    pub bytes: u64,
    pub page_bytes: u64,
    pub block_pages: u32,
    /// The planes, which work in parallel.
    pub planes: u64,
    /// The pages that the host does not see, as a share of those that it sees.
    pub spare: f64,
    pub cleaning: Cleaning,
    pub latencies: Latencies,
}

/// The blocks that a plane has beyond what its logical pages fill, at least: the two open ones, a free one, and one of invalid pages, so
/// that cleaning always gains something.
const EXTRA_BLOCKS: u64 = 4;

impl Shape {
    /// Returns the shape of a flash of this size. Pages of 4 KiB, 64 in a block, and 8 packages are those of Agrawal et al.; 15 % of spare
    /// pages and greedy cleaning those of `APP-Dedupe`, too.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self {
            bytes,
            page_bytes: 4096,
            block_pages: 64,
            planes: 8,
            spare: 0.15,
            cleaning: Cleaning::Greedy,
            latencies: Latencies::default(),
        }
    }

    /// Returns the logical pages.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.bytes.div_ceil(self.page_bytes)
    }

    /// Returns the logical pages of each plane; the last ones of some planes may be beyond the end.
    #[must_use]
    pub const fn plane_pages(&self) -> u64 {
        self.pages().div_ceil(self.planes)
    }

    /// Returns the blocks of each plane.
    #[must_use]
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far below 2^52, and positive
    pub fn plane_blocks(&self) -> u64 {
        let block_pages = u64::from(self.block_pages);
        let with_spare = (self.plane_pages() as f64 * (1.0 + self.spare) / block_pages as f64).round() as u64;
        with_spare.max(self.plane_pages().div_ceil(block_pages) + EXTRA_BLOCKS)
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// Names the one that cannot be.
    pub fn check(&self) -> Result<(), String> {
        if !(512..=1 << 20).contains(&self.page_bytes) || !self.page_bytes.is_power_of_two() {
            return Err(format!("a page of {} bytes: it has to be a power of two, from 512 to 1048576", self.page_bytes));
        }
        if self.block_pages == 0 || self.planes == 0 || self.bytes == 0 {
            return Err("a flash needs a page in each block, a plane and a byte at least".to_owned());
        }
        if !(self.spare.is_finite() && (0.0..=10.0).contains(&self.spare)) {
            return Err(format!("a spare share of {}: it has to be from 0 to 10", self.spare));
        }
        if self.plane_blocks() * u64::from(self.block_pages) >= u64::from(u32::MAX) {
            return Err(format!("a plane of {} pages: there can be 2^32; more planes or larger pages have fewer", self.plane_pages()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_plane_has_its_share_of_the_spare_pages() {
        let shape = Shape::new(1 << 30);
        assert_eq!((shape.pages(), shape.plane_pages(), shape.plane_blocks()), (1 << 18, 1 << 15, 589));
        let none = Shape { spare: 0.0, ..shape };
        assert_eq!(none.plane_blocks(), 512 + EXTRA_BLOCKS, "cleaning needs a few blocks in any case");
        assert_eq!(Shape { planes: 3, bytes: 10 * 4096, ..shape }.plane_pages(), 4);
    }

    #[test]
    fn impossible_numbers_are_named() {
        let shape = Shape::new(1 << 30);
        assert_eq!(shape.check(), Ok(()));
        let complaint = |shape: Shape| shape.check().unwrap_err();
        assert!(complaint(Shape { page_bytes: 5000, ..shape }).contains("5000"));
        assert!(complaint(Shape { spare: f64::NAN, ..shape }).contains("NaN"));
        assert!(complaint(Shape { block_pages: 0, ..shape }).contains("each block"));
        assert!(complaint(Shape { bytes: 1 << 50, ..shape }).contains("more planes"));
        assert!(Cleaning::named("lazy").unwrap_err().contains("greedy, cost-benefit, fifo"));
    }
}
