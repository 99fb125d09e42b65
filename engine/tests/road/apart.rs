//! Blocks that stay apart, because somebody above knows that they have no duplicates, or are to be stored twice.

use crate::carriers::soft;
use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{blank, pattern};
use crate::out_of_line::{SOON_MS, reads, write_content};
use crate::replay::MODES;
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Deduplicate, Event, Policies, Policy};
use onefold_engine::settings::Settings;
use onefold_engine::units::Lbn;

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, ..Settings::default() }
}

fn opened(medium: Vec<u8>, mode: CommitMode) -> Machine {
    let mut m = Machine::open(medium, settings(mode));
    m.feed(Event::Tick);
    m.patience = 10;
    m
}

/// A volume on which LBNs 1 to 8 have contents 1 to 8, apart, and that has said on the medium that blocks may be.
fn with_blocks_apart(mode: CommitMode) -> Machine {
    let mut m = opened(blank(32 << 20, None), mode);
    m.policies = Policies::Same(Policy::DEFAULT.apart());
    // The first one has the superblock updated, which takes two commits: one for each pair of its copies.
    for lbn in [0, 20] {
        write_content(&mut m, lbn, 100 + lbn);
        m.flush();
        m.pass_ms(10);
    }
    (1..=8).for_each(|n| write_content(&mut m, n, n));
    m.flush();
    m.policies = Policies::default();
    m
}

/// The work out of line compares everything.
fn compare_all(m: &mut Machine) -> u64 {
    let before = m.engine.linked_out_of_line();
    m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(0), end: Lbn(2000) }));
    m.pass_ms(SOON_MS);
    m.flush();
    m.engine.linked_out_of_line() - before
}

#[test]
fn nothing_is_linked_to_a_block_that_stays_apart() {
    for mode in MODES {
        let mut m = with_blocks_apart(mode);
        let before = m.engine.ledger().new_blocks;
        (1..=8).for_each(|n| write_content(&mut m, 1000 + n, n));
        m.flush();
        assert_eq!(m.engine.ledger().new_blocks - before, 8, "{mode:?}: none was found");
        assert_eq!(compare_all(&mut m), 0, "{mode:?}: neither is it out of line");
        // Copies of what does not stay apart are found.
        (1..=8).for_each(|n| write_content(&mut m, 1100 + n, n));
        assert_eq!(m.engine.ledger().duplicates, 8, "{mode:?}");
        // Another life knows it, too.
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{mode:?}: {:?}", findings(&medium));
        let mut m = opened(medium, mode);
        assert_eq!(compare_all(&mut m), 0, "{mode:?}: in the next life");
        assert!((1..=8).all(|n| reads(&mut m, n, n) && reads(&mut m, 1000 + n, n)), "{mode:?}");
    }
}

/// Blocks that came before the superblock had the feature count as deferred: that is a duplicate that is found, and nothing worse.
#[test]
fn entries_say_so_only_after_the_superblock() {
    for mode in MODES {
        let mut m = with_blocks_apart(mode);
        write_content(&mut m, 1000, 100);
        m.flush();
        assert_eq!(compare_all(&mut m), 1, "{mode:?}: the very first one");
    }
}

#[test]
fn what_stays_apart_survives_a_kill() {
    for mode in MODES {
        let m = with_blocks_apart(mode);
        let mut m = opened(m.medium, mode);
        assert!((1..=8).all(|n| reads(&mut m, n, n)), "{mode:?}");
        (1..=8).for_each(|n| write_content(&mut m, 1000 + n, n));
        assert_eq!(m.engine.ledger().new_blocks, 8, "{mode:?}");
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{mode:?}: {:?}", findings(&medium));
    }
}

/// A request may be made of several writes, of which different things are known.
#[test]
fn each_block_of_a_request_has_its_own_policy() {
    for mode in MODES {
        let mut m = with_blocks_apart(mode);
        m.policies = Policies::Each([Policy::DEFAULT.apart(), Policy::DEFAULT, Policy::DEFAULT.apart()].into());
        let contents: Vec<u8> = (50..54).flat_map(|n| pattern(n, 4096)).collect();
        m.write(500 * 4096, &contents);
        m.flush();
        m.policies = Policies::default();
        let before = m.engine.ledger().duplicates;
        (50..54).for_each(|n| m.write((600 + n) * 4096, &pattern(n, 4096)));
        assert_eq!(m.engine.ledger().duplicates - before, 2, "{mode:?}: the second and the fourth");
    }
}

/// A part of a block, written under a policy, makes the whole block stay apart.
#[test]
fn a_part_that_is_written_keeps_its_policy() {
    for mode in MODES {
        let mut m = with_blocks_apart(mode);
        m.policies = Policies::Same(Policy::DEFAULT.apart());
        m.write(700 * 4096 + 512, &[7; 1024]);
        m.flush();
        m.policies = Policies::default();
        let whole = m.read(700 * 4096, 4096);
        let before = m.engine.ledger().new_blocks;
        m.write(701 * 4096, &whole);
        assert_eq!(m.engine.ledger().new_blocks - before, 1, "{mode:?}");
    }
}

#[test]
fn the_index_does_not_take_what_it_is_not_to_have() {
    for mode in MODES {
        let mut m = opened(blank(32 << 20, None), mode);
        let entries = m.engine.stats().index_entries;
        m.policies = Policies::Same(Policy::DEFAULT.unindexed());
        (1..=8).for_each(|n| write_content(&mut m, n, n));
        m.flush();
        m.policies = Policies::default();
        assert_eq!(m.engine.stats().index_entries, entries, "{mode:?}");
        (1..=8).for_each(|n| write_content(&mut m, 1000 + n, n));
        m.flush();
        assert_eq!(m.engine.ledger().duplicates, 0, "{mode:?}");
        // It knows that it may lack them, so they are candidates of the work out of line.
        assert!(m.engine.stats().out_of_line.skipped.named.used >= 8, "{mode:?}");
        assert_eq!(compare_all(&mut m), 8, "{mode:?}");
    }
}

/// In a large epoch, blocks that stay apart are named by a run, with four bytes of each checksum. A kill leaves that, and it still shows
/// whether the content has rotted.
#[test]
fn a_run_of_blocks_apart_survives_a_kill() {
    let mut m = with_blocks_apart(CommitMode::Log);
    let units = |m: &Machine| m.engine.ledger().written[Class::Log as usize].units;
    let before = units(&m);
    m.policies = Policies::Same(Policy::DEFAULT.apart());
    let contents: Vec<u8> = (300..500).flat_map(|n| pattern(n, 4096)).collect();
    m.write(300 * 4096, &contents);
    m.flush();
    m.policies = Policies::default();
    assert_eq!(units(&m) - before, 1, "a record for each block would take two");
    let mut m = opened(m.medium, CommitMode::Log);
    assert!((300..500).all(|n| reads(&mut m, n, n)));
    let before = m.engine.ledger().new_blocks;
    (300..500).for_each(|n| write_content(&mut m, 1000 + n, n));
    m.flush();
    assert_eq!(m.engine.ledger().new_blocks - before, 200, "they stay apart");
    assert_eq!(compare_all(&mut m), 0);
    let mut medium = m.close();
    assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
    let at = medium.windows(4096).step_by(4096).position(|block| block == pattern(333, 4096)).expect("it is stored as it is");
    medium[4096 * at + 99] ^= 1;
    let mut m = opened(medium, CommitMode::Log);
    assert!(m.fails_to_read(333) && reads(&mut m, 334, 334));
}

/// Packing gives a block another place, which is no reason for the index to take it.
#[test]
fn the_index_does_not_take_it_when_it_is_packed_either() {
    for blocks in [3, 90] {
        let mut m = opened(blank(32 << 20, None), CommitMode::Log);
        let entries = m.engine.stats().index_entries;
        m.policies = Policies::Same(Policy::DEFAULT.unindexed());
        m.write(0, &soft(1, blocks));
        m.flush();
        m.policies = Policies::default();
        assert!(m.engine.stats().carriers > Some(0), "{blocks} blocks are packed");
        assert_eq!(m.engine.stats().index_entries, entries, "{blocks} blocks");
        m.write(4096 * 500, &soft(2, blocks));
        m.flush();
        assert!(m.engine.stats().index_entries > entries, "{blocks} blocks that may be in it");
    }
}
