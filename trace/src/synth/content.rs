//! The content of each block write of a synthetic trace.
//!
//! 1. Kinds of content are drawn without replacement, from exactly as many as the shares give: the totals are exact, the order is random.
//! 2. A kind that is not possible yet, because no such content exists, is drawn later; what was not possible at all is counted as missing.

use super::distribution::Occurrences;
use super::order::Order;
use super::plan::{Contents, Plan};
use super::random::{Purpose, Random, part, stream};
use super::volume::{Candidates, Content, Volume};
use rand::RngExt;

/// Chooses contents.
#[derive(Debug)]
pub(super) enum Source {
    Drawn(Box<DrawnContents>),
    /// Deals out each content as often as a distribution says.
    Dealt(DealtContents),
}

impl Source {
    /// Makes a source for this many block writes.
    pub fn new(plan: &Plan, blocks: u64) -> Self {
        match &plan.contents {
            Contents::Distribution(distribution) => {
                Self::Dealt(DealtContents { next: 0, order: Order::new(plan.seed, blocks), occurrences: distribution.occurrences() })
            }
            Contents::Shares { zero, live, ever, skew } => {
                Self::Drawn(Box::new(DrawnContents::new(plan.seed, blocks, (*zero, *live, *ever), *skew)))
            }
        }
    }

    /// Returns the content of the next write to this block; none for zeros.
    pub fn next(&mut self, block: u64) -> Option<Content> {
        match self {
            Self::Drawn(drawn) => drawn.next(block),
            Self::Dealt(dealt) => dealt.next(),
        }
    }

    /// Returns the number of block writes that should have been of a kind but could not be, by kind.
    pub fn missing(&self) -> Vec<(Kind, u64)> {
        match self {
            Self::Drawn(drawn) => drawn.left.iter().copied().filter(|(_, left)| *left > 0).collect(),
            Self::Dealt(_) => Vec::new(),
        }
    }
}

/// A kind of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    New,
    Zero,
    Again(Candidates),
}

#[derive(Debug)]
pub(super) struct DrawnContents {
    random: Random,
    skew: f64,
    volume: Volume,
    /// The number of block writes that remain, by kind.
    left: Vec<(Kind, u64)>,
    blocks_left: u64,
}

impl DrawnContents {
    fn new(seed: u64, blocks: u64, (zero, live, ever): (f64, Option<f64>, Option<f64>), skew: f64) -> Self {
        let zeros = part(blocks, zero);
        let again = match (live, ever) {
            (None, None) => Vec::new(),
            (Some(live), None) => vec![(Kind::Again(Candidates::Live), part(blocks, live))],
            (None, Some(ever)) => vec![(Kind::Again(Candidates::All), part(blocks, ever))],
            (Some(live), Some(ever)) => {
                let live = part(blocks, live);
                vec![(Kind::Again(Candidates::Live), live), (Kind::Again(Candidates::Gone), part(blocks, ever) - live)]
            }
        };
        let known: u64 = again.iter().map(|(_, blocks)| blocks).sum();
        let new = blocks.saturating_sub(zeros).saturating_sub(known);
        let mut left = vec![(Kind::New, new), (Kind::Zero, zeros)];
        left.extend(again);
        Self { random: stream(seed, Purpose::Contents), skew, volume: Volume::default(), left, blocks_left: blocks }
    }

    fn next(&mut self, block: u64) -> Option<Content> {
        let content = self.choose();
        self.blocks_left = self.blocks_left.saturating_sub(1);
        self.volume.write(block, content);
        content
    }

    fn choose(&mut self) -> Option<Content> {
        let mut at = self.random.random_range(0..self.blocks_left.max(1));
        let drawn = self.left.iter().position(|(_, left)| {
            let is_here = at < *left;
            at = at.saturating_sub(*left);
            is_here
        });
        // Take the drawn kind or, failing that, the first kind that is possible.
        for index in drawn.into_iter().chain(0..self.left.len()) {
            let (kind, left) = self.left[index];
            if left == 0 {
                continue;
            }
            let content = match kind {
                Kind::New => Some(self.volume.contents()),
                Kind::Zero => None,
                Kind::Again(candidates) => match self.volume.pick(candidates, self.skew, &mut self.random) {
                    Some(content) => Some(content),
                    None => continue,
                },
            };
            self.left[index].1 -= 1;
            return content;
        }
        // No remaining kind is possible: it stays missing.
        Some(self.volume.contents())
    }
}

/// A distribution that is dealt out in random order: for each place in the order, the content of that occurrence.
#[derive(Debug)]
pub(super) struct DealtContents {
    next: u64,
    order: Order,
    occurrences: Occurrences,
}

impl DealtContents {
    fn next(&mut self) -> Option<Content> {
        let content = self.occurrences.content_of(self.order.at(self.next));
        self.next += 1;
        content
    }
}
