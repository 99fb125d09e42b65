//! A device that has failed (A5): what it holds for links that were never committed is not to be trusted.

use crate::machine::Machine;
use crate::media::{Heap, blank, chosen, pattern};
use onefold_engine::buffer::Home;
use onefold_engine::format::{CommitMode, PageId, Region};
use onefold_engine::interface::{Class, Event, Failure, IoFailure, Op, Payload, Reply};
use onefold_engine::memory::Part;
use onefold_engine::settings::{Compression, Settings};
use std::sync::Arc;

/// A volume with one block that is written and not committed. Reads are not verified, so nothing would show that they return wrong content.
fn with_an_uncommitted_block(commit_mode: CommitMode) -> Machine {
    let mut m = Machine::open(blank(32 << 20, None), Settings { commit_mode, verify_reads: false, ..Settings::default() });
    m.write(4096 * 9, &pattern(2, 4096));
    m.flush();
    m.write(0, &pattern(1, 4096));
    m.flushes_fail = true;
    m.keeps_reads = true;
    m
}

fn fail(m: &mut Machine) {
    let reply = m.request(Op::Flush, 0, 0, None, false);
    assert!(matches!(reply, Reply::Failed(Failure::Io)), "{reply:?}");
}

fn bring(m: &mut Machine) {
    std::mem::take(&mut m.kept_reads).into_iter().for_each(|read| m.feed(read));
}

#[test]
fn a_read_that_was_under_way_when_the_device_failed_fails() {
    for mode in [CommitMode::Ordered, CommitMode::Log] {
        let mut m = with_an_uncommitted_block(mode);
        let (uncommitted, committed) = (m.begin(Op::Read, 0, 4096, None, false), m.begin(Op::Read, 4096 * 9, 4096, None, false));
        assert_eq!(m.kept_reads.len(), 2, "{mode:?}: both are read from the device");
        fail(&mut m);
        bring(&mut m);
        assert!(matches!(m.answer(uncommitted), Reply::Failed(Failure::Io)), "{mode:?}");
        assert!(matches!(m.answer(committed), Reply::Data(_)), "{mode:?}: what is committed reads on");
    }
}

#[test]
fn what_was_not_committed_is_not_read_any_more() {
    for mode in [CommitMode::Ordered, CommitMode::Log] {
        let mut m = with_an_uncommitted_block(mode);
        fail(&mut m);
        let uncommitted = m.begin(Op::Read, 0, 4096, None, false);
        bring(&mut m);
        assert!(matches!(m.answer(uncommitted), Reply::Failed(Failure::Io)), "{mode:?}");
        let committed = m.begin(Op::Read, 4096 * 9, 4096, None, false);
        bring(&mut m);
        assert!(matches!(m.answer(committed), Reply::Data(_)), "{mode:?}");
    }
}

/// A failed flush may take the *written* bit of a map page, although the page itself is durable.
#[test]
fn what_is_committed_is_read_although_the_failure_has_taken_its_written_bit() {
    const PAGES: u64 = 40;
    const LBNS_A_PAGE: u64 = 800;
    let settings = Settings { commit_mode: CommitMode::Ordered, noncritical_delay_ms: 0, ..Settings::default() };
    let mut m = Machine::open(blank(32 << 20, Some(PAGES * LBNS_A_PAGE)), settings);
    // Memory has room for a few pages.
    m.accountant.take(Part::Pages, m.accountant.limit(Part::Pages) - 16 * 4300);
    let written = m.engine.geometry().page_at(PageId { region: Region::Written, index: 0 }).get();
    let written = usize::try_from(written).expect("fits");
    let before = m.medium[written..written + 4096].to_vec();
    m.write(0, &pattern(1, 4096));
    m.flush();
    m.pass_ms(10);
    assert!(m.medium[written..written + 4096] != before, "the bit is written, and no flush has covered it");
    m.flushes_fail = true;
    m.write(4096, &pattern(2, 4096));
    fail(&mut m);
    m.medium[written..written + 4096].copy_from_slice(&before);
    for turn in 0..2000 {
        // All pages in memory were just used, so that any may be evicted next.
        (0..12).for_each(|page| drop(m.read((turn + page) % PAGES * LBNS_A_PAGE * 4096 + 3 * 4096, 4096)));
        assert!(m.read(0, 4096) == pattern(1, 4096), "turn {turn}");
    }
}

/// Writes that have failed keep no memory of requests. Otherwise the flush of the device would not be received, and `detach` of a volume
/// whose store is full would hang.
#[test]
fn what_a_failed_device_did_not_take_keeps_no_memory_of_requests() {
    for (commit_mode, compression, noise_bytes) in [
        (CommitMode::Ordered, Compression::Off, 4096),
        (CommitMode::Log, Compression::Off, 4096),
        (CommitMode::Log, Compression::Carriers, 1000),
        (CommitMode::Log, Compression::All, 1000),
    ] {
        let case = format!("{commit_mode:?}, {compression:?}");
        let mut m = Machine::open(blank(32 << 20, None), Settings { commit_mode, compression, ..Settings::default() });
        (m.keeps_writes_of, m.codec_keeps) = (Some(Class::Data), usize::MAX);
        let (home, fingerprinter) = (Arc::new(Heap::default()), chosen(&m.medium).expect("a volume").fingerprinter());
        let mut lbn = 0;
        for blocks in [1, 1, 4, 1, 16, 3] {
            let mut buffer = home.clone().take(blocks);
            (0..blocks).for_each(|i| buffer.block_mut(i)[..noise_bytes].copy_from_slice(&pattern(lbn + i as u64, noise_bytes)));
            let digests = (0..blocks).map(|i| fingerprinter.digest(buffer.block(i))).collect();
            let payload = Payload { buffer: buffer.freeze(), digests };
            m.begin(Op::Write, 4096 * lbn, 4096 * blocks as u64, Some(payload), false);
            lbn += blocks as u64;
        }
        assert!(home.blocks_out() > 0, "{case}: it waits for the device, or for more of its epoch");
        for mut written in std::mem::take(&mut m.kept_writes) {
            if let Event::Written { result, .. } = &mut written {
                *result = Err(IoFailure);
            }
            m.feed(written);
        }
        m.feed(Event::StoreFailed);
        m.codec_keeps = 0;
        m.feed(Event::Tick);
        assert_eq!(home.blocks_out(), 0, "{case}: blocks are kept");
        assert!((0..lbn).all(|lbn| m.fails_to_read(lbn)), "{case}: nothing of it was durable");
    }
}
