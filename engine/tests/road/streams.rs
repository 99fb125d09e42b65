//! Streams: the number that a request brings for each of its blocks counts with that block, whatever its place is.

use crate::machine::Machine;
use crate::media::{blank, pattern};
use crate::replay::MODES;
use onefold_engine::interface::{Event, Policies, Policy};
use onefold_engine::policy::Stream;
use onefold_engine::settings::Settings;

fn of(number: usize) -> Policy {
    Policy::DEFAULT.of_stream(Stream::new(number).expect("there are as many"))
}

/// The duplicates, zeros, new blocks and unchanged blocks of a stream.
fn counts(m: &Machine, stream: usize) -> [u64; 4] {
    let counts = m.engine.ledger().streams[stream];
    [counts.duplicates, counts.zeroes, counts.new_blocks, counts.unchanged]
}

#[test]
fn each_block_counts_for_its_own_stream() {
    for mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), Settings { commit_mode: mode, ..Settings::default() });
        m.feed(Event::Tick);
        let content = |n: u64| pattern(n, 4096);
        m.policies = Policies::Each([of(1), of(2), of(1), Policy::DEFAULT, of(15)].into());
        // New, new, the same as the first, zeros, new.
        m.write(0, &[content(1), content(2), content(1), vec![0; 4096], content(3)].concat());
        assert_eq!([1, 2, 0, 15].map(|stream| counts(&m, stream)), [[1, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0]], "{mode:?}");
        // A stream may write what another one has written, and what lies there already; a part of a block belongs to it, too.
        m.policies = Policies::Same(of(2));
        m.write(4096, &content(2));
        m.write(40_960, &content(3));
        m.write(512, &pattern(9, 512));
        m.flush();
        assert_eq!(counts(&m, 2), [1, 0, 2, 1], "{mode:?}");
        let ledger = m.engine.ledger();
        let sum = |of: usize| (0..16).map(|stream| counts(&m, stream)[of]).sum::<u64>();
        assert_eq!([0, 1, 2, 3].map(sum), [ledger.duplicates, ledger.zeroes, ledger.new_blocks, ledger.unchanged], "{mode:?}");
    }
}
