//! Work out of line on a volume that has been full: what was written last lies before what it is a copy of.

use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{backwards, blank};
use crate::out_of_line::{ask, counts, discard, on_demand, reads, write_content};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::Event;

/// The contents of which there will be copies, where they lie and where their copies lie.
const BLOCKS: u64 = 200;
const FIRST: u64 = 3000;
const COPY: u64 = 3500;

/// A volume with the first blocks of its device free, and contents behind them. Then with copies of these in front of them.
fn copies_in_front(mode: CommitMode) -> Machine {
    let mut m = Machine::open(blank(18 << 20, Some(4000)), on_demand(mode));
    m.feed(Event::Tick);
    (0..FIRST).for_each(|n| write_content(&mut m, n, 10_000 + n));
    (0..BLOCKS).for_each(|n| write_content(&mut m, FIRST + n, n));
    m.flush();
    (0..FIRST).for_each(|n| discard(&mut m, n));
    m.flush();
    // Up to the end of the device, and on from its beginning.
    (0..1500).for_each(|n| write_content(&mut m, n, 20_000 + n));
    m.flush();
    backwards(BLOCKS).for_each(|n| write_content(&mut m, COPY + n, n));
    m.flush();
    m
}

#[test]
fn a_copy_in_front_of_its_original_is_linked_to_it() {
    for mode in [CommitMode::Log, CommitMode::Ordered] {
        let mut m = copies_in_front(mode);
        let before = counts(&m).linked;
        // Only the copies are looked up.
        ask(&mut m, COPY, COPY + BLOCKS);
        m.flush();
        assert_eq!(counts(&m).linked - before, BLOCKS, "{mode:?}: {:?}", counts(&m));
        write_content(&mut m, 3900, 30_000);
        m.flush();
        assert_eq!(m.engine.stats().shared_blocks, BLOCKS, "{mode:?}");
        assert!((0..BLOCKS).all(|n| reads(&mut m, FIRST + n, n) && reads(&mut m, COPY + n, n)), "{mode:?}");
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{mode:?}: {:?}", findings(&medium));
    }
}

/// A pair that is looked up as a whole meets at its first block, and does not change places.
#[test]
fn two_that_are_looked_up_meet_once() {
    for mode in [CommitMode::Log, CommitMode::Ordered] {
        let mut m = copies_in_front(mode);
        ask(&mut m, FIRST, COPY + BLOCKS);
        m.flush();
        assert_eq!(counts(&m).linked, BLOCKS, "{mode:?}: {:?}", counts(&m));
        ask(&mut m, FIRST, COPY + BLOCKS);
        assert_eq!(counts(&m).linked, BLOCKS, "{mode:?}: nothing is left to be linked");
        assert!((0..BLOCKS).all(|n| reads(&mut m, FIRST + n, n) && reads(&mut m, COPY + n, n)), "{mode:?}");
        assert!(findings(&m.close()).is_empty(), "{mode:?}");
    }
}
