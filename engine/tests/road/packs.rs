//! Large epochs: the blocks that are packed, those that are not compressed, and the requests that wait for the codec.

use crate::carriers::{served, settings, soft, written};
use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::interface::{Class, Op};
use onefold_engine::memory::Part;
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

/// Content that is written again while it waits moves into a pack with all its LBNs, except for those that are overwritten meanwhile.
#[test]
fn what_several_lbns_mean_is_packed_with_all_its_names() {
    let mut m = served(blank(32 << 20, None));
    let content = soft(1, 90);
    m.write(0, &content);
    m.write(4096 * 200, &content);
    m.write(4096 * 400, &content[..4096 * 30]);
    // One LBN goes, another one comes back, and a block loses both of its LBNs.
    m.write(4096 * 5, &soft(2, 1));
    m.write(4096 * 207, &soft(3, 1));
    m.write(4096 * 207, &content[4096 * 7..4096 * 8]);
    m.write(4096 * 60, &soft(4, 1));
    m.write(4096 * 260, &soft(5, 1));
    m.flush();
    let right = |m: &mut Machine| {
        let with = |changed: &[(usize, u64)]| {
            let mut all = content.clone();
            changed.iter().for_each(|&(at, seed)| all[4096 * at..4096 * (at + 1)].copy_from_slice(&soft(seed, 1)));
            all
        };
        assert!(m.read(0, 4096 * 90) == with(&[(5, 2), (60, 4)]));
        assert!(m.read(4096 * 200, 4096 * 90) == with(&[(60, 5)]));
        assert!(m.read(4096 * 400, 4096 * 30) == content[..4096 * 30]);
    };
    right(&mut m);
    let (data, ..) = written(&mut m);
    assert!((30..=36).contains(&data), "three fit a block, and {data} blocks were written for 92");
    assert_eq!(m.engine.ledger().duplicates, 121);
    // A kill, another server, an orderly end.
    let mut m = served(std::mem::take(&mut m.medium));
    right(&mut m);
    m.request(Op::Discard, 0, 4096 * 90, None, false);
    m.flush();
    assert!(m.read(4096 * 400, 4096 * 30) == content[..4096 * 30]);
    let medium = m.close();
    assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
}

/// A pack has no more links than any block may have.
#[test]
fn what_very_many_lbns_mean_stays_in_a_block_of_its_own() {
    let mut m = served(blank(32 << 20, None));
    let content = soft(1, 70);
    let last = &content[4096 * 69..];
    m.write(0, &content);
    (0..40).for_each(|i| m.write(4096 * (200 + i), last));
    m.flush();
    assert!(m.read(0, 4096 * 70) == content && m.read(4096 * 200, 4096 * 40) == last.repeat(40));
    let (data, ..) = written(&mut m);
    assert_eq!(data, 1 + 23, "69 of them are packed, three to a block");
    let medium = m.close();
    assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
}

/// Noise between content that waits to be packed waits, too. If it were written at once, it and the packs would go out block by block.
#[test]
fn what_does_not_compress_goes_out_side_by_side_with_the_packs() {
    let mut m = served(blank(64 << 20, None));
    let commands = |m: &Machine| m.engine.ledger().written[Class::Data as usize].commands;
    let before = commands(&m);
    let mixed: Vec<u8> = (0..200).flat_map(|i| if i % 2 == 0 { soft(i, 1) } else { pattern(i, 4096) }).collect();
    m.write(0, &mixed);
    // These LBNs get content that others have.
    m.write(4096 * 400, &mixed[4096 * 100..][..4096 * 2]);
    m.flush();
    assert_eq!(written(&mut m), (100 + 34, 1, 2));
    assert!(commands(&m) - before <= 4, "{} commands", commands(&m) - before);
    let mut m = served(std::mem::take(&mut m.medium));
    assert_eq!(m.read(0, 4096 * 200), mixed);
    assert_eq!(m.read(4096 * 400, 4096 * 2), mixed[4096 * 100..][..4096 * 2]);
}

/// The content of slots is confirmed by their block's authenticator.
#[test]
fn a_read_of_packs_alone_computes_no_fingerprint() {
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

/// Returns blocks that compress, but of which no two fit into one block.
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
    // Content that looks like noise is not tried, except for a few blocks.
    m.asked = 0;
    m.write(4096 * 5000, &pattern(9, 4096 * 100));
    m.flush();
    assert!(m.asked < 9, "{} of 100", m.asked);
    assert_eq!(m.read(4096 * 1900, 4096 * 200), [firm(19, 100), soft(100, 100)].concat());
}

/// Held content takes at most a quarter of the memory for requests, with room for what it compresses to. The other half of that is for a
/// request of many blocks.
#[test]
fn writes_wait_for_the_codec_when_half_of_the_room_for_held_content_is_taken() {
    let mut m = served(blank(64 << 20, None));
    let half = m.accountant.limit(Part::Requests) / 4 / (2 * 4096) / 2;
    m.codec_keeps = 10_000;
    for lbn in 0..half {
        let id = m.begin_write(4096 * lbn, &soft(lbn, 1));
        assert!(m.is_answered(id), "{lbn} of {half}");
    }
    let id = m.begin_write(4096 * half, &soft(half, 1));
    assert!(!m.is_answered(id));
    m.finish(id);
    assert_eq!(m.asked, half + 1);
}

/// The content of small epochs says nothing of packs, which only large ones have.
#[test]
fn noise_shows_that_packs_save_nothing_only_where_epochs_are_large() {
    for (are_large, asked) in [(false, 100), (true, 64)] {
        let mut m = served(blank(64 << 20, None));
        for i in 0..25 {
            m.write(4096 * 60 * i, &pattern(i, 4096 * 60));
            if !are_large {
                m.flush();
            }
        }
        m.flush();
        m.asked = 0;
        m.write(4096 * 3000, &firm(1, 100));
        assert_eq!(m.asked, asked, "large: {are_large}");
    }
}

/// A commit is due because there are many records, and waits for the blocks that are being compressed. A discard, which takes records too,
/// waits as a write does, and both go on when their turn comes.
#[test]
fn a_discard_waits_behind_a_write_that_memory_holds_back() {
    let mut m = served(blank(256 << 20, None));
    m.write(0, &pattern(1, 4096 * 200));
    m.flush();
    m.codec_keeps = 10;
    m.write(4096 * 200, &soft(2, 70));
    // These are duplicates of the first blocks.
    let known = pattern(1, 4096 * 200);
    let mut write = |i: u64| {
        let id = m.begin_write(4096 * (300 + i), &known[index(i % 200) * 4096..][..4096]);
        (i, id, m.is_answered(id))
    };
    let (i, id, _) =
        (0..50_000).map(&mut write).find(|&(.., is_answered)| !is_answered).expect("sooner or later there are too many records");
    assert!(i > 1000, "{i}: it waits for something else");
    let discard = m.begin(Op::Discard, 4096 * 300, 4096 * i, None, false);
    assert!(!m.is_answered(discard));
    m.finish(id);
    m.finish(discard);
    assert_eq!(m.read(4096 * 300, 4096), [0; 4096]);
}

/// Two writes change different sectors of one LBN. The second is acknowledged and flushed while the first waits for its digest. Packing
/// moves the content of another LBN to the block that the first write has read, and the second write has just that content as its result:
/// so the LBN means the block of that number again.
#[test]
fn writes_of_different_sectors_do_not_undo_each_other_where_blocks_are_packed() {
    let (lbn, other) = (40usize, 87usize);
    let mut blocks: Vec<Vec<u8>> = [soft(1, 70), pattern(2, 4096 * 30)].concat().chunks(4096).map(<[u8]>::to_vec).collect();
    let tail = pattern(77, 3072);
    blocks[other] = [&blocks[lbn][..1024], &tail].concat();
    let mut m = served(blank(32 << 20, None));
    for (i, block) in blocks.iter().enumerate() {
        m.write(4096 * i as u64, block);
    }
    let at = 4096 * lbn as u64;
    m.keeps_digests = true;
    let first = m.begin_write(at, &[0x5A; 512]);
    m.flush();
    let second = m.begin_write(at + 1024, &tail);
    let of_second = m.digests.pop().expect("it is under way");
    m.feed(of_second);
    m.finish(second);
    m.flush();
    assert_eq!(m.read(at, 4096), blocks[other]);
    let of_first = m.digests.pop().expect("it is under way");
    m.feed(of_first);
    m.keeps_digests = false;
    // It begins again, on what the second has left.
    std::mem::take(&mut m.digests).into_iter().for_each(|digested| m.feed(digested));
    m.finish(first);
    m.flush();
    let now = m.read(at, 4096);
    assert_eq!(now[..512], [0x5A; 512]);
    assert!(now[1024..] == tail, "3072 bytes that were acknowledged, flushed and read are gone");
}

/// A block that a write in flight has read gets no other content, although its own has moved into a carrier since (R7).
#[test]
fn a_pinned_block_that_was_carried_away_is_not_handed_out() {
    let noise = pattern(77, 4096);
    let place_of_noise = |pinned: bool| {
        let mut m = served(blank(32 << 20, None));
        m.write(0, &soft(1, 2));
        m.keeps_digests = true;
        let first = pinned.then(|| m.begin_write(0, &[0x5A; 512]));
        // The blocks' own places are free again, and are the next to be used.
        m.flush();
        m.write(4096 * 50, &noise);
        m.keeps_digests = false;
        std::mem::take(&mut m.digests).into_iter().for_each(|digested| m.feed(digested));
        first.into_iter().for_each(|first| m.finish(first));
        m.flush();
        m.medium.chunks(4096).position(|block| block == noise).expect("it is written")
    };
    assert_ne!(place_of_noise(true), place_of_noise(false));
}

#[test]
fn a_pinned_block_is_not_packed() {
    for pinned in [false, true] {
        let mut m = served(blank(32 << 20, None));
        m.write(0, &soft(1, 66));
        m.keeps_digests = true;
        let first = pinned.then(|| m.begin_write(0, &[0x5A; 512]));
        m.flush();
        // Three fit a block; the pinned one keeps its own.
        assert_eq!(written(&mut m).0, 22 + u64::from(pinned));
        m.keeps_digests = false;
        std::mem::take(&mut m.digests).into_iter().for_each(|digested| m.feed(digested));
        first.into_iter().for_each(|first| m.finish(first));
    }
}

#[test]
fn a_write_of_a_part_that_was_overtaken_begins_again_though_the_block_is_the_same() {
    for means_zero in [false, true] {
        let mut m = served(blank(32 << 20, None));
        let (before, between) = (pattern(1, 4096), pattern(2, 4096));
        if !means_zero {
            m.write(0, &before);
            m.flush();
        }
        m.keeps_digests = true;
        let first = m.begin_write(512, &[0x5A; 512]);
        m.write(0, &between);
        if means_zero {
            m.request(Op::Discard, 0, 4096, None, false);
        } else {
            m.write(0, &before);
        }
        let digested = m.digests.pop().expect("it is under way");
        m.feed(digested);
        assert!(!m.is_answered(first));
        let again = m.digests.pop().expect("it has begun again");
        m.feed(again);
        m.finish(first);
    }
}

/// A client that goes on writing must not delay another's flush for as long as some of its content is being compressed.
#[test]
fn what_comes_while_a_flush_waits_for_the_codec_belongs_to_the_next_epoch() {
    let mut m = served(blank(32 << 20, None));
    m.codec_keeps = 10;
    m.write(0, &soft(1, 70));
    let flush = m.begin(Op::Flush, 0, 0, None, false);
    assert!(!m.is_answered(flush), "ten blocks are being compressed");
    let later = [m.begin_write(4096 * 100, &pattern(2, 4096)), m.begin(Op::Discard, 0, 4096, None, false)];
    assert!(!later.iter().any(|&request| m.is_answered(request)));
    m.finish(flush);
    later.into_iter().for_each(|request| m.finish(request));
    m.flush();
    let epochs = m.engine.ledger().log_epochs;
    assert_eq!((epochs.large.epochs, epochs.large.new_blocks, epochs.bare.epochs, epochs.bare.new_blocks), (1, 70, 1, 1));
    assert_eq!(m.read(4096 * 100, 4096), pattern(2, 4096));
}

/// A commit that is due waits for the codec. Meanwhile the engine must not ask to be woken at once, again and again.
#[test]
fn an_epoch_that_waits_for_the_codec_lets_the_engine_rest() {
    let mut m = served(blank(32 << 20, None));
    m.codec_keeps = 10;
    m.write(0, &soft(1, 70));
    let flush = m.begin(Op::Flush, 0, 0, None, false);
    m.wait(3);
    assert!(!m.is_answered(flush), "ten blocks are being compressed");
    m.finish(flush);
    assert_eq!(m.engine.ledger().log_epochs.large.epochs, 1);
}
