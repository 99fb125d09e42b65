//! The bound (`docs/evaluating.md`): the best that a block device could do.
//!
//! 1. Epochs end as the client demands: at each flush and FUA write, under strong persistence after a group of `group_max` writes, and 1 s
//!    of the trace's time after their first change. An epoch without a change does not count; any other costs at least 1 unit.
//! 2. The blocks of an epoch whose content was never written before count. Those of a known size are packed, by first fit, in windows.

/// The number of blocks that are packed together.
const WINDOW: usize = 64;
/// The room of a packed block, the overhead of a slot beside its content, and the number of slots.
const ROOM_BYTES: u32 = 4096 - 160;
const SLOT_BYTES: u32 = 30;
const SLOTS: u32 = 15;
/// The largest size that is packed; a larger one takes a block of its own.
const PACKED_BYTES_MAX: u16 = 3500;
const PERIOD_NS: u64 = 1_000_000_000;

/// The account of the bound.
#[derive(Debug, Default)]
pub struct Bound {
    /// The number of writes of a group under strong persistence.
    group_max: Option<usize>,
    units: u64,
    epochs: u64,
    first_ns: Option<u64>,
    group: usize,
    /// The blocks of the open epoch that are not packed, and the sizes of those that are.
    whole: u64,
    sizes: Vec<u16>,
}

impl Bound {
    /// Begins an account without writes.
    #[must_use]
    pub fn new(group_max: Option<usize>) -> Self {
        Self { group_max, ..Self::default() }
    }

    /// Returns the units and epochs up to now, and ends the open epoch.
    pub fn total(&mut self) -> (u64, u64) {
        self.cut();
        (self.units, self.epochs)
    }

    /// Notes a request that changes something.
    pub fn request(&mut self, at_ns: u64) {
        let late = self.first_ns.is_some_and(|first| at_ns >= first + PERIOD_NS);
        if late || self.group_max.is_some_and(|most| self.group >= most) {
            self.cut();
        }
        self.group += 1;
    }

    /// Notes a changed block.
    pub fn changed(&mut self, at_ns: u64) {
        self.first_ns.get_or_insert(at_ns);
    }

    /// Notes a block with new content, which the slot codec compresses to this size.
    pub fn new_block(&mut self, compressed: Option<u16>) {
        match compressed {
            Some(bytes) if bytes <= PACKED_BYTES_MAX => self.sizes.push(bytes),
            _ => self.whole += 1,
        }
    }

    /// Ends the epoch.
    pub fn cut(&mut self) {
        let packed: u64 = self.sizes.chunks(WINDOW).map(first_fit).sum();
        let units = self.whole + packed;
        if self.first_ns.take().is_some() {
            self.epochs += 1;
            self.units += units.max(1);
        } else {
            self.units += units;
        }
        (self.whole, self.group) = (0, 0);
        self.sizes.clear();
    }
}

/// Returns the number of blocks that these contents fill.
fn first_fit(sizes: &[u16]) -> u64 {
    let mut blocks: Vec<(u32, u32)> = Vec::new();
    for &size in sizes {
        let needed = u32::from(size) + SLOT_BYTES;
        match blocks.iter_mut().find(|(room, slots)| *room >= needed && *slots > 0) {
            Some((room, slots)) => (*room, *slots) = (*room - needed, *slots - 1),
            None => blocks.push((ROOM_BYTES - needed, SLOTS - 1)),
        }
    }
    blocks.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(bound: &mut Bound, at_ns: u64, new: &[Option<u16>]) {
        bound.request(at_ns);
        bound.changed(at_ns);
        new.iter().for_each(|&size| bound.new_block(size));
    }

    #[test]
    fn an_epoch_costs_its_new_blocks_and_at_least_one_unit() {
        let mut b = Bound::new(None);
        write(&mut b, 0, &[None, None]);
        b.cut();
        write(&mut b, 5, &[]);
        b.cut();
        b.cut();
        assert_eq!(b.total(), (3, 2));
        // An epoch ends by itself a second after its first change.
        write(&mut b, PERIOD_NS, &[None]);
        write(&mut b, 2 * PERIOD_NS - 1, &[]);
        write(&mut b, 2 * PERIOD_NS, &[]);
        assert_eq!(b.total(), (5, 4));
    }

    #[test]
    fn what_compresses_shares_blocks() {
        let mut b = Bound::new(None);
        // Two blocks of 1,900 fit 3,936 with their slots; a third does not; 64 goes into the first hole; 3,520 has a block of its own.
        write(&mut b, 0, &[Some(1900), Some(1900), Some(1900), Some(64), Some(3520)]);
        assert_eq!(b.total(), (3, 1));
        // The slots are used up before the room is.
        write(&mut b, 0, &[Some(64); 16]);
        assert_eq!(b.total(), (5, 2));
        // Nothing is packed across windows.
        write(&mut b, 0, &[Some(3500); WINDOW]);
        write(&mut b, 0, &[Some(64), Some(64)]);
        assert_eq!(b.total(), (5 + 64 + 1, 3));
    }

    #[test]
    fn under_strong_persistence_a_group_is_full_at_some_point() {
        let mut b = Bound::new(Some(2));
        (0..5).for_each(|_| write(&mut b, 0, &[]));
        assert_eq!(b.total(), (3, 3));
    }
}
