//! What each block write holds.
//!
//! 1. Kinds of content are drawn without putting back, from exactly as many as the shares give: the totals are exact, the order is chance.
//! 2. What cannot be had at its moment, because no such content is there yet, comes later; what cannot be had at all is counted as missing.

use super::distribution::Occurrences;
use super::order::Order;
use super::plan::{Contents, Plan};
use super::random::{Purpose, Random, part, stream};
use super::volume::{Among, Content, Volume};
use rand::RngExt;

/// Chooses contents.
#[derive(Debug)]
pub(super) enum Source {
    Drawn(Box<Drawn>),
    /// Each as often as a distribution says.
    Dealt(Dealt),
}

impl Source {
    /// For so many block writes.
    pub fn new(plan: &Plan, blocks: u64) -> Self {
        match &plan.contents {
            Contents::Distribution(distribution) => {
                Self::Dealt(Dealt { next: 0, order: Order::new(plan.seed, blocks), occurrences: distribution.occurrences() })
            }
            Contents::Shares { zero, live, ever, skew } => {
                Self::Drawn(Box::new(Drawn::new(plan.seed, blocks, (*zero, *live, *ever), *skew)))
            }
        }
    }

    /// What is written to this block next; none: zeros.
    pub fn next(&mut self, block: u64) -> Option<Content> {
        match self {
            Self::Drawn(drawn) => drawn.next(block),
            Self::Dealt(dealt) => dealt.next(),
        }
    }

    /// Block writes that should have been of a kind and could not; by kind.
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
    Again(Among),
}

#[derive(Debug)]
pub(super) struct Drawn {
    random: Random,
    skew: f64,
    volume: Volume,
    /// Block writes to come, by kind.
    left: Vec<(Kind, u64)>,
    blocks_left: u64,
}

impl Drawn {
    fn new(seed: u64, blocks: u64, (zero, live, ever): (f64, Option<f64>, Option<f64>), skew: f64) -> Self {
        let zeros = part(blocks, zero);
        let again = match (live, ever) {
            (None, None) => Vec::new(),
            (Some(live), None) => vec![(Kind::Again(Among::Live), part(blocks, live))],
            (None, Some(ever)) => vec![(Kind::Again(Among::All), part(blocks, ever))],
            (Some(live), Some(ever)) => {
                let live = part(blocks, live);
                vec![(Kind::Again(Among::Live), live), (Kind::Again(Among::Gone), part(blocks, ever) - live)]
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
        // The drawn kind, or the first one that can be had.
        for index in drawn.into_iter().chain(0..self.left.len()) {
            let (kind, left) = self.left[index];
            if left == 0 {
                continue;
            }
            let content = match kind {
                Kind::New => Some(self.volume.contents()),
                Kind::Zero => None,
                Kind::Again(among) => match self.volume.pick(among, self.skew, &mut self.random) {
                    Some(content) => Some(content),
                    None => continue,
                },
            };
            self.left[index].1 -= 1;
            return content;
        }
        // Nothing that is left can be had: it stays missing.
        Some(self.volume.contents())
    }
}

/// A distribution, dealt out in random order: place by place, the content that has this occurrence.
#[derive(Debug)]
pub(super) struct Dealt {
    next: u64,
    order: Order,
    occurrences: Occurrences,
}

impl Dealt {
    fn next(&mut self) -> Option<Content> {
        let content = self.occurrences.content_of(self.order.at(self.next));
        self.next += 1;
        content
    }
}
