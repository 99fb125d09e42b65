//! Large epochs: what is packed, what is not compressed, and who waits for it.

use crate::carriers::{served, settings, soft, written};
use crate::machine::{Machine, blank, pattern};
use onefold_engine::interface::{Class, Op};
use onefold_engine::settings::{Compression, Settings};
use onefold_engine::units::index;
use std::collections::BTreeMap;

#[test]
fn what_compresses_of_a_large_epoch_is_packed() {
    let mut m = served(blank(32 << 20, None));
    let content = [soft(1, 66), pattern(2, 4096 * 10), soft(3, 60)].concat();
    m.write(0, &content);
    assert_eq!(m.read(0, 136 * 4096), content);
    m.flush();
    // Three fit a block.
    assert_eq!(written(&mut m), (10 + 42, 1, 2));
    assert_eq!(m.read(0, 136 * 4096), content);
    m.write(4096 * 200, &content[..65 * 4096]);
    m.flush();
    assert_eq!(written(&mut m), (0, 1, 1), "duplicates of slots in packs");
    let mut m = served(std::mem::take(&mut m.medium));
    assert_eq!(m.read(0, 136 * 4096), content);
    assert_eq!(m.read(4096 * 200, 65 * 4096), content[..65 * 4096]);
}

/// Else noise would go out block by block, between what waits to be packed, and packs where it left gaps.
#[test]
fn what_does_not_compress_goes_out_side_by_side_with_the_packs() {
    let mut m = served(blank(64 << 20, None));
    let commands = |m: &Machine| m.engine.ledger().written[Class::Data as usize].commands;
    let before = commands(&m);
    let mixed: Vec<u8> = (0..200).flat_map(|i| if i % 2 == 0 { soft(i, 1) } else { pattern(i, 4096) }).collect();
    m.write(0, &mixed);
    // These mean what others mean, and stay where they are.
    m.write(4096 * 400, &mixed[4096 * 100..][..4096 * 2]);
    m.flush();
    assert_eq!(written(&mut m), (100 + 34, 1, 2));
    assert!(commands(&m) - before <= 4, "{} commands", commands(&m) - before);
    let mut m = served(std::mem::take(&mut m.medium));
    assert_eq!(m.read(0, 4096 * 200), mixed);
    assert_eq!(m.read(4096 * 400, 4096 * 2), mixed[4096 * 100..][..4096 * 2]);
}

/// What slots hold is vouched for by their block's authenticator.
#[test]
fn a_read_of_packs_alone_has_no_block_named() {
    let mut m = served(blank(32 << 20, None));
    let (packed, plain) = (soft(1, 99), pattern(2, 4096 * 70));
    m.write(0, &packed);
    m.flush();
    m.write(4096 * 200, &plain);
    m.flush();
    let mut m = served(std::mem::take(&mut m.medium));
    m.digested = 0;
    assert_eq!(m.read(0, 4096 * 99), packed);
    assert_eq!(m.digested, 0);
    assert_eq!(m.read(4096 * 200, 4096 * 70), plain);
    assert_eq!(m.digested, 70);
}

#[test]
fn large_epochs_are_packed_only_where_all_is_compressed() {
    let mut m = Machine::open(blank(32 << 20, None), Settings { compression: Compression::Carriers, ..settings() });
    m.read(0, 512);
    (m.flushes, m.written) = (0, BTreeMap::new());
    m.write(0, &soft(1, 65));
    m.flush();
    assert_eq!(written(&mut m), (65, 1, 2));
    assert_eq!(m.read(0, 65 * 4096), soft(1, 65));
}

/// Two of them do not fit a block, however well each compresses.
fn firm(seed: u64, blocks: usize) -> Vec<u8> {
    let block = |i: u64| [pattern(seed * 1000 + i, 2100), vec![b'a'; 1996]].concat();
    (0..blocks as u64).flat_map(block).collect()
}

#[test]
fn what_packs_save_nothing_of_is_seldom_compressed_and_what_they_do_always() {
    let mut m = served(blank(64 << 20, None));
    (0..20).for_each(|i| m.write(4096 * 100 * i, &firm(i, 100)));
    assert!((2000 / 8..500).contains(&m.asked), "{} of 2000", m.asked);
    // The second run of sixteen that is tried shows it.
    m.asked = 0;
    (0..20).for_each(|i| m.write(4096 * 100 * (20 + i), &soft(100 + i, 100)));
    assert!(m.asked > 2000 - 2 * 8 * 16, "{} of 2000", m.asked);
    // What looks like noise is not tried, but for one block or the other.
    m.asked = 0;
    m.write(4096 * 5000, &pattern(9, 4096 * 100));
    m.flush();
    assert!(m.asked < 9, "{} of 100", m.asked);
    assert_eq!(m.read(4096 * 1900, 4096 * 200), [firm(19, 100), soft(100, 100)].concat());
}

/// A commit is due because there are many records, and waits for what is being compressed; meanwhile a discard leaves few records.
#[test]
fn a_commit_that_nobody_wants_any_more_keeps_no_write_waiting() {
    let mut m = served(blank(256 << 20, None));
    m.write(0, &pattern(1, 4096 * 200));
    m.flush();
    m.codec_keeps = 10;
    m.write(4096 * 200, &soft(2, 70));
    // Duplicates of the first.
    let known = pattern(1, 4096 * 200);
    let mut write = |i: u64| {
        let id = m.begin_write(4096 * (300 + i), &known[index(i % 200) * 4096..][..4096]);
        (i, id, m.is_answered(id))
    };
    let (i, id, _) =
        (0..50_000).map(&mut write).find(|&(.., is_answered)| !is_answered).expect("sooner or later there are too many records");
    assert!(i > 1000, "{i}: it waits for something else");
    m.request(Op::Discard, 4096 * 300, 4096 * i, None, false);
    m.finish(id);
    let ledger = m.engine.ledger();
    assert_eq!((ledger.epochs_timer, ledger.epochs_pressure), (0, 0), "it was let in at once");
}
