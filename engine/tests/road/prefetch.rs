//! Content that is read and then written again, where the index has no room for its fingerprints.

use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{blank, pattern};
use crate::replay::MODES;
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Policies, Policy};
use onefold_engine::settings::{Compression, Settings};

/// More blocks than a small index has entries.
const BLOCKS: u64 = 2000;
const COPY: u64 = 3000;

fn settings(commit_mode: CommitMode) -> Settings {
    let base = Settings { commit_mode, compression: Compression::Off, ..Settings::default() };
    base.with_knobs(|knobs| {
        knobs.index_bytes_max = 0;
        knobs.out_of_line_delay_ms = u64::MAX / 1_000_000_000;
    })
}

/// A volume that was opened with unique content at LBNs 0 to 1999, which its index does not have.
fn filled(mode: CommitMode) -> Machine {
    let mut m = Machine::open(blank(64 << 20, None), settings(mode));
    for n in 0..BLOCKS {
        m.write(4096 * n, &pattern(n, 4096));
        if n % 100 == 0 {
            m.flush();
        }
    }
    // Other content takes the places in the index.
    (0..600).for_each(|n| m.write(4096 * (6000 + n), &pattern(50_000 + n, 4096)));
    m.flush();
    m
}

/// Reads it, in requests of 8 blocks, and writes it again.
fn copied(m: &mut Machine, policies: Policies) -> u64 {
    for n in (0..BLOCKS).step_by(8) {
        m.policies = policies.clone();
        let content = m.read(4096 * n, 8 * 4096);
        m.policies = Policies::default();
        m.write(4096 * (COPY + n), &content);
    }
    m.flush();
    m.engine.ledger().duplicates
}

#[test]
fn a_marked_copy_is_found_without_the_index() {
    for mode in MODES {
        let mut m = filled(mode);
        assert_eq!(copied(&mut m, Policies::Same(Policy::DEFAULT.prefetched())), BLOCKS, "{mode:?}");
        let counts = m.engine.stats().prefetched;
        assert_eq!(counts.entries, 0, "{mode:?}: each entry went when it had hit");
        assert!(counts.hits > 0, "{mode:?}: {counts:?}");
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{mode:?}: {:?}", findings(&medium));
    }
}

#[test]
fn a_copy_is_recognised_by_itself() {
    for mode in MODES {
        let mut m = filled(mode);
        let found = copied(&mut m, Policies::default());
        assert!(found >= BLOCKS * 9 / 10, "{mode:?}: {found} of {BLOCKS}");
    }
}

/// Content that was overwritten since it was read is written as new, and nothing is linked to the block that had it and has other content
/// now.
#[test]
fn an_entry_does_not_outlive_its_block() {
    for mode in MODES {
        // Small enough for all blocks to be used again.
        let mut m = Machine::open(blank(16 << 20, None), settings(mode));
        (0..64).for_each(|n| m.write(4096 * n, &pattern(n, 4096)));
        m.flush();
        // Not from the cache of what was written.
        let mut m = Machine::open(m.close(), settings(mode));
        m.policies = Policies::Same(Policy::DEFAULT.prefetched());
        let content: Vec<Vec<u8>> = (0..64).map(|n| m.read(4096 * n, 4096)).collect();
        m.policies = Policies::default();
        assert_eq!(m.engine.stats().prefetched.entries, 64, "{mode:?}");
        (0..64).for_each(|n| m.write(4096 * n, &pattern(70_000 + n, 4096)));
        for round in 0..6 {
            (0..3000).for_each(|n| m.write(4096 * (100 + n), &pattern(100_000 + 10_000 * round + n, 4096)));
            m.flush();
        }
        for (n, content) in (0..).zip(&content) {
            m.write(4096 * (3200 + n), content);
        }
        m.flush();
        assert!((0..64).all(|n| m.read(4096 * (3200 + n), 4096) == pattern(n, 4096)), "{mode:?}");
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{mode:?}: {:?}", findings(&medium));
    }
}
