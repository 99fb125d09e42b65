//! Requests that arrive while observations are hidden from the reader: none may get the facts of another write.

use super::tests::{PLENTY, bio};
use super::*;
use proptest::prelude::*;

const SECTORS: u64 = 64;

/// Writes that are under way at once, to different sectors.
#[derive(Clone, Debug)]
struct Batch {
    /// Borders of the writes.
    borders: Vec<u64>,
    /// Which of the writes were made, by bits.
    made: u8,
    /// Where each is split into two requests, and the order of the requests.
    splits: Vec<u64>,
    order: u64,
    /// The part of what is in the ring that the reader sees, in eighths, before each request.
    visible: Vec<u64>,
}

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let borders = proptest::collection::btree_set(0..=SECTORS, 2..6).prop_map(|borders| borders.into_iter().collect());
    let splits = proptest::collection::vec(0..SECTORS, 5);
    let batch = (borders, any::<u8>(), splits, any::<u64>(), proptest::collection::vec(0..=12_u64, 10));
    let batch = batch.prop_map(|(borders, made, splits, order, visible)| Batch { borders, made, splits, order, visible });
    proptest::collection::vec(batch, 1..12)
}

/// The ring with a reader that sees a part of it.
struct Reader {
    ring: VecDeque<Bio>,
    joiner: Joiner,
    now: u64,
}

impl Reader {
    /// Drains a part of the ring; returns whether something is hidden.
    fn drain(&mut self, eighths: u64) -> bool {
        let seen = (self.ring.len() * usize::try_from(eighths).unwrap()).div_ceil(8).min(self.ring.len());
        for bio in self.ring.drain(..seen) {
            self.joiner.insert(bio);
        }
        if self.ring.is_empty() {
            self.joiner.caught_up();
        }
        !self.ring.is_empty()
    }

    /// Brings a request of the write `number`, and checks what it gets.
    fn request(&mut self, number: u32, start: u64, end: u64, eighths: u64, are_all_seen: bool) -> Result<(), TestCaseError> {
        self.now += 1;
        let is_behind = self.drain(eighths);
        let (offset, length) = (start * SECTOR_BYTES, (end - start) * SECTOR_BYTES);
        for run in self.joiner.take(Operation::Write, offset, length, self.now, is_behind).iter() {
            match run.observation() {
                Some(seen) => prop_assert_eq!(seen.process, number, "the facts of another write"),
                None => prop_assert!(!are_all_seen, "unknown, and nothing was ever hidden"),
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_request_gets_the_facts_of_another_write(batches in batches(), are_all_seen in any::<bool>()) {
        let mut reader = Reader { ring: VecDeque::new(), joiner: Joiner::new(PLENTY), now: 0 };
        let mut number = 0;
        for batch in batches {
            let mut requests = Vec::new();
            for (at, border) in batch.borders.windows(2).enumerate() {
                if batch.made >> at & 1 == 0 {
                    continue;
                }
                number += 1;
                reader.now += 1;
                let (start, end) = (border[0], border[1]);
                reader.ring.push_back(bio(reader.now, number, start, end));
                let split = start + batch.splits[at] % (end - start);
                requests.extend([(number, start, split), (number, split, end)].into_iter().filter(|(_, from, to)| from < to));
            }
            let turn = usize::try_from(batch.order % 8).unwrap() % requests.len().max(1);
            requests.rotate_left(turn);
            for ((number, start, end), eighths) in requests.into_iter().zip(batch.visible) {
                reader.request(number, start, end, if are_all_seen { 8 } else { eighths }, are_all_seen)?;
            }
        }
        reader.drain(8);
        prop_assert_eq!((reader.joiner.pending(), reader.joiner.bytes()), (0, 0), "each request has used up its own");
    }
}
