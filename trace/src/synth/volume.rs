//! What a blank volume holds as it is written to: which contents some block holds, which are gone.
//!
//! Memory: 16 bytes for each content, 4 for each named block write, and about 24 for each block that is written.

use super::random::{Random, float};
use rand::RngExt;
use rand_distr::{Distribution as _, Zipf};
use rustc_hash::FxHashMap;

/// The number of a content.
pub(super) type Content = u32;

/// Which contents to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// Some block holds it.
    Live,
    /// It was written, and no block holds it any more.
    Gone,
    /// It was written.
    All,
}

/// How often a content that is not wanted may be drawn before one is taken from a list.
const DRAWS_MAX: usize = 32;

/// Contents by number, as they were written.
#[derive(Debug, Default)]
pub(super) struct Volume {
    held: FxHashMap<u64, Content>,
    /// For each content the blocks that hold it.
    holders: Vec<u32>,
    /// For each content its place in `live` or, without holders, in `gone`.
    places: Vec<u32>,
    live: Vec<Content>,
    gone: Vec<Content>,
    /// The contents of all block writes, in order.
    history: Vec<Content>,
}

impl Volume {
    /// Contents so far.
    pub fn contents(&self) -> Content {
        number(self.holders.len())
    }

    /// Blocks of a named content, written so far.
    pub fn written(&self) -> u64 {
        self.history.len() as u64
    }

    /// A block is written: with this content, or with zeros.
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

    /// A content that was written: the one `k` block writes ago as likely as `k` to the power of −`skew`, of those that are wanted.
    pub fn pick(&self, among: Among, skew: f64, random: &mut Random) -> Option<Content> {
        let list = match among {
            Among::Live => &self.live,
            Among::Gone => &self.gone,
            Among::All => &self.history,
        };
        if list.is_empty() {
            return None;
        }
        if let Ok(zipf) = Zipf::new(float(self.written()), skew) {
            for _ in 0..DRAWS_MAX {
                let back = super::random::rounded(zipf.sample(random)).clamp(1, self.written());
                let content = self.history[self.history.len() - usize::try_from(back).expect("an index")];
                let is_live = self.holders[content as usize] > 0;
                if among == Among::All || is_live == (among == Among::Live) {
                    return Some(content);
                }
            }
        }
        Some(list[random.random_range(0..list.len())])
    }
}

/// The plan is checked for having no more block writes than this.
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

    /// The obvious way: a map of what is held, looked through each time.
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
            for (among, is_live) in [(Among::Live, true), (Among::Gone, false)] {
                let picked = volume.pick(among, 1.0, &mut random);
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
                (0..2001).map(|_| 10_000 - u64::from(volume.pick(Among::Live, skew, &mut random).expect("all live"))).collect();
            back.sort_unstable();
            back[1000]
        };
        // Uniform: half of them within the last 5000. Harmonic: within the square root of twice that, about.
        let (none, harmonic, strong) = (median(0.0), median(1.0), median(2.0));
        assert!((4500..5500).contains(&none) && (50..130).contains(&harmonic) && strong <= 2, "{none} {harmonic} {strong}");
    }
}
