//! Wishes for durability that the kernel drops before the bio is seen, since the disk has no write cache.

use crate::source::Seen;
use std::collections::VecDeque;

/// The most wishes that wait for their bios, which come at once.
const WAITING_MAX: usize = 256;

/// A wish that waits for its bio.
struct Wish {
    start: u64,
    end: u64,
    fua: bool,
    flushes: bool,
}

/// The wishes that wait for their bios.
#[derive(Default)]
pub(super) struct Wishes {
    waiting: VecDeque<Wish>,
}

impl Wishes {
    /// Keeps the wish of a bio that is to come.
    pub fn keep(&mut self, seen: &Seen) {
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
        }
        let (bio, flushes) = (&seen.bio, seen.flushes);
        self.waiting.push_back(Wish { start: bio.start, end: bio.end, fua: bio.observation.fua, flushes });
    }

    /// Gives a bio what was wished of it.
    pub fn fulfil(&mut self, seen: &mut Seen) {
        let is_of = |wish: &Wish| wish.start == seen.bio.start && wish.end == seen.bio.end;
        let Some(wish) = self.waiting.iter().position(is_of).and_then(|found| self.waiting.remove(found)) else { return };
        seen.bio.observation.fua |= wish.fua;
        seen.flushes |= wish.flushes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::Bio;
    use crate::observation::{Observation, Operation};

    fn seen(start: u64, fua: bool, flushes: bool) -> Seen {
        let mut observation = Observation::new(Operation::Write);
        observation.fua = fua;
        let bio = Bio { time: 1, start, end: start + 8, observation };
        Seen { bio, processor: 0, flushes, is_wish: false }
    }

    #[test]
    fn a_bio_gets_its_own_wish_once() {
        let mut wishes = Wishes::default();
        wishes.keep(&seen(8, true, true));
        wishes.keep(&seen(16, true, false));
        let fulfilled = |wishes: &mut Wishes, start| {
            let mut bio = seen(start, false, false);
            wishes.fulfil(&mut bio);
            (bio.bio.observation.fua, bio.flushes)
        };
        assert_eq!(fulfilled(&mut wishes, 0), (false, false));
        assert_eq!(fulfilled(&mut wishes, 16), (true, false));
        assert_eq!(fulfilled(&mut wishes, 8), (true, true));
        assert_eq!(fulfilled(&mut wishes, 8), (false, false), "it was its own wish");
        (0..2 * WAITING_MAX as u64).for_each(|start| wishes.keep(&seen(start, true, false)));
        assert_eq!(wishes.waiting.len(), WAITING_MAX);
    }
}
