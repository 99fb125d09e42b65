//! The cache for PREFETCH, as Dmdedup with hints has it (Using Hints, section 4): the read of a marked block enters its hash with its PBN,
//! and a write looks there before it looks into the hash index. An entry goes when it is found; the oldest goes when there is no room.

use onefold_engine::fingerprint::Fingerprint;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The number of entries: half a MiB of hashes and PBNs. The paper gives none.
pub const ENTRIES_MAX: usize = 16_384;

/// The places of content that was read.
#[derive(Default)]
pub struct Prefetched {
    /// Each with the number of its coming.
    entries: FxHashMap<Fingerprint, (u64, u64)>,
    order: VecDeque<(Fingerprint, u64)>,
    came: u64,
}

impl Prefetched {
    /// Enters the place of content that was read.
    pub fn enter(&mut self, name: Fingerprint, pbn: u64) {
        self.came += 1;
        self.entries.insert(name, (pbn, self.came));
        self.order.push_back((name, self.came));
        while self.entries.len() > ENTRIES_MAX || self.order.len() > 2 * ENTRIES_MAX {
            let (oldest, number) = self.order.pop_front().expect("each entry is in the order");
            if self.entries.get(&oldest).is_some_and(|&(_, newest)| newest == number) {
                self.entries.remove(&oldest);
            }
        }
    }

    /// Takes the place of this content out.
    pub fn take(&mut self, name: &Fingerprint) -> Option<u64> {
        self.entries.remove(name).map(|(pbn, _)| pbn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u32) -> Fingerprint {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&n.to_le_bytes());
        Fingerprint(bytes)
    }

    #[test]
    fn an_entry_is_found_once_and_the_oldest_goes_first() {
        let mut cache = Prefetched::default();
        cache.enter(name(1), 7);
        assert_eq!((cache.take(&name(1)), cache.take(&name(1))), (Some(7), None));
        let room = u32::try_from(ENTRIES_MAX).expect("a small number");
        cache.enter(name(0), 0);
        (1..room).for_each(|n| cache.enter(name(n), u64::from(n)));
        // It comes again, so that the next one is the oldest.
        cache.enter(name(0), 9);
        cache.enter(name(room), 5);
        assert_eq!((cache.take(&name(1)), cache.take(&name(0)), cache.take(&name(room))), (None, Some(9), Some(5)));
    }
}
