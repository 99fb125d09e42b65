//! Edge cases: the last link that a block may have, the last byte of a volume, a write of parts of two blocks, content that only a
//! comparison tells apart.

use crate::carriers::{served, settings, soft};
use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::Digest;
use onefold_engine::format::{CommitMode, Superblock};
use onefold_engine::interface::{Class, Failure, Op, Payload, Reply};
use onefold_engine::settings::Settings;

const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];

fn in_mode(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, ..Settings::default() }
}

/// The write covers the second half of one block and the first half of the next, and one of the two cannot be read.
#[test]
fn a_write_fails_whichever_of_its_blocks_fails() {
    for damaged in [0, 1] {
        let content = pattern(3, 8192);
        let mut m = Machine::open(blank(32 << 20, None), Settings::default());
        m.write(0, &content);
        m.flush();
        let mut medium = m.close();
        let block = &content[damaged * 4096..][..4096];
        let at = medium.windows(4096).position(|stored| stored == block).expect("it is stored as it is");
        medium[at + 9] ^= 1;

        let mut m = Machine::open(medium, Settings::default());
        m.read(4096 * 100, 512);
        let mut buffer = BufferMut::zeroed(2);
        buffer.bytes_mut().fill(7);
        let payload = Payload { buffer: buffer.freeze(), digests: vec![Digest::Partial; 2] };
        let reply = m.request(Op::Write, 2048, 4096, Some(payload), false);
        assert!(matches!(reply, Reply::Failed(Failure::Io)), "block {damaged} is damaged: {reply:?}");
    }
}

#[test]
fn content_that_has_all_the_links_a_count_holds_goes_to_another_block() {
    const COPIES: u64 = 600;
    for (mode, content) in MODES.into_iter().flat_map(|mode| [(mode, soft(1, 1)), (mode, pattern(1, 4096))]) {
        for writes_a_flush in [1, 50] {
            let mut m = Machine::open(blank(32 << 20, None), in_mode(mode));
            for lbn in 0..COPIES {
                m.write(4096 * lbn, &content);
                if (lbn + 1) % writes_a_flush == 0 {
                    m.flush();
                }
            }
            // A count is at most 254, of which the fingerprint is one.
            assert_eq!((m.engine.ledger().new_blocks, m.engine.ledger().duplicates), (3, COPIES - 3), "{mode:?}");
            let mut m = Machine::open(m.close(), in_mode(mode));
            assert!((0..COPIES).all(|lbn| m.read(4096 * lbn, 4096) == content), "{mode:?}");
        }
    }
}

#[test]
fn contents_of_one_fingerprint_in_slots_are_told_apart() {
    let (one, other) = (soft(1, 1), soft(2, 1));
    let settings = || Settings { verify_duplicates: true, ..settings() };
    let mut m = Machine::open(blank(32 << 20, None), settings());
    m.write(0, &one);
    m.flush();
    let medium = m.close();
    for (written, duplicates) in [(&one, 1), (&other, 0)] {
        // Its slot is known again, and nothing of it is in memory.
        let mut m = Machine::open(medium.clone(), settings());
        m.read(4096 * 100, 512);
        m.wait(200);
        m.write_as(4096 * 7, written, &one);
        m.flush();
        assert!(m.read(4096 * 7, 4096) == *written && m.read(0, 4096) == one);
        assert_eq!(m.engine.ledger().duplicates, duplicates);
    }
}

/// It is read at most once, and not at all if it is in memory.
#[test]
fn a_duplicate_is_compared_with_its_block() {
    for mode in MODES {
        let settings = || Settings { verify_duplicates: true, ..in_mode(mode) };
        let mut m = Machine::open(blank(32 << 20, None), settings());
        let content = pattern(1, 4096);
        m.write(0, &content);
        m.flush();
        let mut m = Machine::open(m.close(), settings());
        m.read(4096 * 100, 512);
        m.wait(200);
        let counts = |m: &Machine| (m.engine.ledger().duplicates, m.engine.ledger().read[Class::Data as usize].units);
        let (_, before) = counts(&m);
        m.write(4096, &content);
        assert_eq!(counts(&m), (1, before + 1), "{mode:?}");
        assert_eq!(m.read(0, 4096), content);
        let (_, before) = counts(&m);
        m.write(8192, &content);
        assert_eq!(counts(&m), (2, before), "{mode:?}");
        m.close();
    }
}

/// A block gets a link and loses it within the open epoch, while the last epoch packs it: the link is removed from where the block went.
#[test]
fn a_link_that_was_cancelled_moves_with_its_block() {
    let mut m = Machine::open(blank(32 << 20, None), settings().with_facts(|facts| facts.keeps_journal = true));
    m.read(0, 512);
    let (content, later) = (soft(1, 1), soft(2, 1));
    m.codec_keeps = 1;
    m.write(0, &content);
    let flush = m.begin(Op::Flush, 0, 0, None, false);
    assert!(!m.is_answered(flush), "its content is with the codec");
    m.codec_keeps = 3;
    let overwritten = [m.begin_write(4096 * 5, &content), m.begin_write(4096 * 5, &later)];
    assert!(overwritten.iter().all(|&write| m.is_answered(write)) && !m.is_answered(flush));
    m.codec_keeps = 0;
    m.finish(flush);
    m.flush();
    assert!(m.read(0, 4096) == content && m.read(4096 * 5, 4096) == later);
    // The last link to the block is gone: nothing is left of it.
    m.write(0, &later);
    m.flush();
    m.flush();
    assert_eq!(m.read(0, 4096), later);
    m.close();
}

#[test]
fn no_request_reaches_behind_the_end() {
    const END: u64 = 4000 * 4096;
    for mode in MODES {
        let mut m = Machine::open(blank(32 << 20, Some(4000)), in_mode(mode));
        m.write(END - 4096, &soft(1, 1));
        for (offset, length) in
            [(END, 512), (END - 512, 1024), (END - 4096, 8192), (END + 4096, 512), (u64::MAX - 511, 512), (u64::MAX - 511, 1024)]
        {
            for op in [Op::Read, Op::Discard, Op::WriteZeroes] {
                let reply = m.request(op, offset, length, None, false);
                assert!(matches!(reply, Reply::Failed(Failure::Invalid)), "{op:?} of {length} bytes at {offset}: {reply:?}");
            }
            let payload = Payload { buffer: BufferMut::zeroed(3).freeze(), digests: vec![Digest::Partial; 3] };
            let reply = m.request(Op::Write, offset, length, Some(payload), false);
            assert!(matches!(reply, Reply::Failed(Failure::Invalid)), "a write of {length} bytes at {offset}: {reply:?}");
        }
        assert_eq!(m.read(END - 4096, 4096), soft(1, 1), "the last block is still there");
    }
}

/// The block of the content has all the links that it may have, so one more link would take another block.
#[test]
fn what_is_there_already_is_written_once() {
    for content in [soft(1, 1), pattern(1, 4096)] {
        let open = |medium| Machine::open(medium, settings().with_knobs(|knobs| knobs.refs_limit = 4));
        let mut m = open(blank(32 << 20, None));
        (5000..5003).for_each(|lbn| m.write(4096 * lbn, &content));
        let mut medium = m.close();
        for opening in 0..3 {
            let mut m = open(medium);
            assert_eq!(m.read(4096 * 5000, 4096), content);
            m.wait(200);
            m.write(4096 * 5000, &content);
            m.flush();
            let ledger = m.engine.ledger();
            assert_eq!((ledger.new_blocks, ledger.duplicates, ledger.unchanged), (0, 0, 1), "opening {opening}");
            medium = m.close();
        }
        assert_eq!(served(medium).read(4096 * 5000, 4096), content);
    }
}

/// Content that comes far more often than a block may have links takes a new block each time that one is full, and hardly more. In a small
/// index that other content has nearly filled, the entry of a full block would hide that of the next one.
#[test]
fn content_of_many_copies_fills_each_block_with_links() {
    for mode in MODES {
        let settings = in_mode(mode).with_knobs(|knobs| (knobs.refs_limit, knobs.index_bytes_max) = (4, 16 << 10));
        let mut m = Machine::open(blank(32 << 20, None), settings);
        (0..2200).for_each(|n| m.write(4096 * n, &pattern(100 + n, 4096)));
        m.flush();
        let others = m.engine.ledger().new_blocks;
        for n in 0..10 {
            let content = pattern(n, 4096);
            (0..60).for_each(|copy| m.write(4096 * (3000 + 60 * n + copy), &content));
            // A read tells where it lies, which is no better.
            assert_eq!(m.read(4096 * (3000 + 60 * n), 4096), content);
        }
        m.flush();
        let stored = m.engine.ledger().new_blocks - others;
        assert!((200..=210).contains(&stored), "{mode:?}: {stored} blocks for ten contents of sixty copies each");
        assert!((0..600).all(|n| m.read(4096 * (3000 + n), 4096) == pattern(n / 60, 4096)));
    }
}

#[test]
fn a_write_that_lacks_some_of_its_content_or_digests_is_refused() {
    let mut m = Machine::open(blank(32 << 20, None), Settings::default());
    for (has_all, blocks, digests) in [(true, 2, 2), (true, 3, 3), (false, 1, 2), (false, 2, 1), (false, 2, 0)] {
        let payload = Payload { buffer: BufferMut::zeroed(blocks).freeze(), digests: vec![Digest::Zero; digests] };
        // A part of each of two blocks.
        let reply = m.request(Op::Write, 2048, 4096, Some(payload), false);
        assert!(matches!(reply, Reply::Done) == has_all, "{blocks} blocks and {digests} digests: {reply:?}");
        assert!(has_all || matches!(reply, Reply::Failed(Failure::Invalid)), "{reply:?}");
    }
    let reply = m.request(Op::Write, 0, 4096, None, false);
    assert!(matches!(reply, Reply::Failed(Failure::Invalid)), "{reply:?}");
    assert_eq!(m.engine.ledger().client_writes, 2);
}

/// Pages, units of the log and content are those of the volume that it was made as.
#[test]
fn a_volume_with_a_new_uuid_is_served_as_before() {
    for mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), in_mode(mode));
        m.write(0, &pattern(1, 4096 * 40));
        m.flush();
        let mut medium = m.close();
        let pages = |medium: &[u8]| [[0, 1], [medium.len() / 4096 - 2, medium.len() / 4096 - 1]].concat();
        for (copy, page) in pages(&medium).into_iter().enumerate() {
            let block: &mut [u8; 4096] = (&mut medium[page * 4096..][..4096]).try_into().expect("a block");
            let mut superblock = Superblock::decode(block, copy).expect("a copy");
            superblock.set_uuid([9; 16]);
            superblock.encode(copy, block);
        }
        let mut m = Machine::open(medium, in_mode(mode));
        assert_eq!(m.read(0, 4096 * 40), pattern(1, 4096 * 40), "{mode:?}");
        m.write(4096 * 50, &pattern(2, 4096 * 10));
        m.flush();
        // It is killed.
        let mut m = Machine::open(m.medium, in_mode(mode));
        assert_eq!(m.read(4096 * 50, 4096 * 10), pattern(2, 4096 * 10), "{mode:?}");
        m.wait(1000);
        let medium = m.close();
        assert_eq!(findings(&medium), [], "{mode:?}");
    }
}
