//! The bound (`evaluation.md`): what a block device could do at best.
//!
//! 1. Epochs are as the client cuts them: at each flush and FUA write, under strong persistence after a group of so many writes, and 1 s of the
//!    trace's time after their first change. One that changes nothing is none; any other costs at least 1 unit.
//! 2. Of an epoch, the blocks whose content was never written before count. Those with a known size are packed, first fit, in windows.

/// Blocks that are packed together.
const WINDOW: usize = 64;
/// Of a packed block: what it has room for, what a slot costs besides its content, and how many there are.
const ROOM_BYTES: u32 = 4096 - 160;
const SLOT_BYTES: u32 = 30;
const SLOTS: u32 = 15;
/// What is larger takes a block of its own.
const PACKED_BYTES_MAX: u16 = 3500;
const PERIOD_NS: u64 = 1_000_000_000;

/// The account of it.
#[derive(Debug, Default)]
pub struct Bound {
    /// Writes of a group under strong persistence.
    group_max: Option<usize>,
    units: u64,
    epochs: u64,
    first_ns: Option<u64>,
    group: usize,
    /// Of the open epoch: blocks that are not packed, and sizes of those that are.
    whole: u64,
    sizes: Vec<u16>,
}

impl Bound {
    /// Nothing was written.
    #[must_use]
    pub fn new(group_max: Option<usize>) -> Self {
        Self { group_max, ..Self::default() }
    }

    /// Units, and epochs, up to now. The open epoch is cut.
    pub fn total(&mut self) -> (u64, u64) {
        self.cut();
        (self.units, self.epochs)
    }

    /// A request that changes something begins.
    pub fn request(&mut self, at_ns: u64) {
        let late = self.first_ns.is_some_and(|first| at_ns >= first + PERIOD_NS);
        if late || self.group_max.is_some_and(|most| self.group >= most) {
            self.cut();
        }
        self.group += 1;
    }

    /// A block changes.
    pub fn changed(&mut self, at_ns: u64) {
        self.first_ns.get_or_insert(at_ns);
    }

    /// A block brings new content, which the codec of slots brings to so many bytes.
    pub fn new_block(&mut self, compressed: Option<u16>) {
        match compressed {
            Some(bytes) if bytes <= PACKED_BYTES_MAX => self.sizes.push(bytes),
            _ => self.whole += 1,
        }
    }

    /// The epoch ends.
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

/// Blocks that these contents fill.
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
        // A second after its first change an epoch ends by itself.
        write(&mut b, PERIOD_NS, &[None]);
        write(&mut b, 2 * PERIOD_NS - 1, &[]);
        write(&mut b, 2 * PERIOD_NS, &[]);
        assert_eq!(b.total(), (5, 4));
    }

    #[test]
    fn what_compresses_shares_blocks() {
        let mut b = Bound::new(None);
        // Two of 1,900 fit 3,936 with their slots; a third does not; 64 goes into the first hole; 3,520 stands alone.
        write(&mut b, 0, &[Some(1900), Some(1900), Some(1900), Some(64), Some(3520)]);
        assert_eq!(b.total(), (3, 1));
        // Slots run out before the room does.
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
