//! The contents of a volume that is blank at first and then written to: those that some block holds, and those that are gone.
//!
//! It takes 16 bytes of memory for each content, 4 for each block write of a named content, and about 24 for each written block.

use super::random::{Random, float};
use rand::RngExt;
use rand_distr::{Distribution as _, Zipf};
use rustc_hash::FxHashMap;

/// The number of a content.
pub(super) type Content = u32;

/// The contents to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidates {
    /// Contents that some block holds.
    Live,
    /// Contents that were written and that no block holds any more.
    Gone,
    /// Contents that were written.
    All,
}

/// The number of times that an unwanted content may be drawn before one is taken from a list.
const DRAWS_MAX: usize = 32;

/// The contents by number, in the order in which they were first written.
#[derive(Debug, Default)]
pub(super) struct Volume {
    held: FxHashMap<u64, Content>,
    /// The number of blocks that hold each content.
    holders: Vec<u32>,
    /// The place of each content in `live` or, if no block holds it, in `gone`.
    places: Vec<u32>,
    live: Vec<Content>,
    gone: Vec<Content>,
    /// The contents of all block writes, in order.
    history: Vec<Content>,
}

impl Volume {
    /// Returns the number of contents so far.
    pub fn contents(&self) -> Content {
        number(self.holders.len())
    }

    /// Returns the number of block writes of a named content so far.
    pub fn written(&self) -> u64 {
        self.history.len() as u64
    }

    /// Applies a write of a block, with this content or with zeros.
    pub fn write(&mut self, block: u64, content: Option<Content>) {
        if let Some(before) = self.held.remove(&block) {
            let index = before as usize;
            self.holders[index] -= 1;
            if self.holders[index] == 0 {
                take_out(&mut self.live, &mut self.places, before);
                put_in(&mut self.gone, &mut self.places, before);
            }
        }
        let Some(content) = content else { return };
        let index = content as usize;
        if index == self.holders.len() {
            self.holders.push(0);
            self.places.push(0);
            put_in(&mut self.live, &mut self.places, content);
        } else if self.holders[index] == 0 {
            take_out(&mut self.gone, &mut self.places, content);
            put_in(&mut self.live, &mut self.places, content);
        }
        self.holders[index] += 1;
        self.held.insert(block, content);
        self.history.push(content);
    }

    /// Draws a content that was written: among the wanted ones, that of `k` block writes ago has a probability in proportion to `k` to the
    /// power of −`skew`.
    pub fn pick(&self, candidates: Candidates, skew: f64, random: &mut Random) -> Option<Content> {
        let list = match candidates {
            Candidates::Live => &self.live,
            Candidates::Gone => &self.gone,
            Candidates::All => &self.history,
        };
        if list.is_empty() {
            return None;
        }
        if let Ok(zipf) = Zipf::new(float(self.written()), skew) {
            for _ in 0..DRAWS_MAX {
                let back = super::random::rounded(zipf.sample(random)).clamp(1, self.written());
                let content = self.history[self.history.len() - usize::try_from(back).expect("an index")];
                let is_live = self.holders[content as usize] > 0;
                if candidates == Candidates::All || is_live == (candidates == Candidates::Live) {
                    return Some(content);
                }
            }
        }
        Some(list[random.random_range(0..list.len())])
    }
}

/// Converts a count. The plan was checked for having at most this many block writes.
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than 4 Gi contents")
}

fn put_in(list: &mut Vec<Content>, places: &mut [u32], content: Content) {
    places[content as usize] = number(list.len());
    list.push(content);
}

fn take_out(list: &mut Vec<Content>, places: &mut [u32], content: Content) {
    let place = places[content as usize];
    list.swap_remove(place as usize);
    if let Some(moved) = list.get(place as usize) {
        places[*moved as usize] = place;
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::{Purpose, stream};
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Compares the lists with the obvious way: a map of what each block holds, searched each time.
    #[test]
    fn lists_are_those_of_what_is_held() {
        let mut random = stream(3, Purpose::Contents);
        let (mut volume, mut held) = (Volume::default(), BTreeMap::new());
        for _ in 0..3000 {
            let block = random.random_range(0..40u64);
            let content = match random.random_range(0..10) {
                0 => None,
                n if n < 5 && volume.contents() > 0 => Some(random.random_range(0..volume.contents())),
                _ => Some(volume.contents()),
            };
            volume.write(block, content);
            held.remove(&block);
            content.map(|content| held.insert(block, content));
            let live: BTreeSet<Content> = held.values().copied().collect();
            assert_eq!(volume.live.iter().copied().collect::<BTreeSet<_>>(), live);
            assert_eq!(volume.live.len() + volume.gone.len(), volume.contents() as usize);
            assert!(volume.gone.iter().all(|content| !live.contains(content)));
            for (candidates, is_live) in [(Candidates::Live, true), (Candidates::Gone, false)] {
                let picked = volume.pick(candidates, 1.0, &mut random);
                assert!(picked.is_none_or(|content| live.contains(&content) == is_live));
            }
        }
    }

    #[test]
    fn the_skew_says_how_recent() {
        let mut volume = Volume::default();
        (0..10_000).for_each(|block| volume.write(block, Some(number(usize::try_from(block).expect("small")))));
        let median = |skew| {
            let mut random = stream(1, Purpose::Contents);
            let mut back: Vec<u64> =
                (0..2001).map(|_| 10_000 - u64::from(volume.pick(Candidates::Live, skew, &mut random).expect("all live"))).collect();
            back.sort_unstable();
            back[1000]
        };
        // A uniform draw has half of its results within the last 5000. A harmonic one has them within about the square root of twice that.
        let (none, harmonic, strong) = (median(0.0), median(1.0), median(2.0));
        assert!((4500..5500).contains(&none) && (50..130).contains(&harmonic) && strong <= 2, "{none} {harmonic} {strong}");
    }
}
