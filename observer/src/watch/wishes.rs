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
