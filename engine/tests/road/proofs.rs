//! Reads that prove what a server left: their order, how much is read at once, and the result where a block cannot be read.

use crate::machine::Machine;
use crate::media::blank;
use crate::replay::{MODES, at_the_limit, bring_one, noise, settings, written_over};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Event, IoFailure, Notice};

/// The block has been proved, but takes no further link, so it is read once more, to be copied to another block.
#[test]
fn what_was_promised_is_lost_where_it_cannot_be_read_to_be_copied() {
    let (m, settings) = at_the_limit(4);
    let mut next = m.left(m.medium.clone(), settings());
    next.keeps_reads = true;
    next.feed(Event::Tick);
    let mut reads_of_it = 0;
    while !next.kept_reads.is_empty() {
        let mut read = next.kept_reads.remove(0);
        let Event::Read { buffer, result, .. } = &mut read else { panic!("{read:?}") };
        if buffer.block(0)[..] == noise(5, 1) {
            reads_of_it += 1;
            if reads_of_it > 1 {
                *result = Err(IoFailure);
            }
        }
        next.feed(read);
    }
    next.keeps_reads = false;
    assert!(next.notices.contains(&Notice::AcknowledgedLost { writes: 2 }), "{:?}", next.notices);
    assert!(next.flush_fails() && !next.flush_fails(), "the first flush reports it");
    assert_eq!(next.read(0, 4096), noise(5, 1));
    assert_eq!(next.read(4096 * 300, 4096 * 2), [0; 4096 * 2]);
}

/// The acknowledgement journal refers to few blocks, and the map is long.
#[test]
fn nobody_counts_links_before_what_was_promised_is_kept() {
    const PAGES: u64 = 40;
    let mut m = Machine::open(blank(32 << 20, Some(800 * PAGES)), settings(CommitMode::Ordered));
    (0..PAGES).for_each(|page| m.write(800 * 4096 * page, &noise(page, 1)));
    m.flush();
    m.write(0, &noise(PAGES, 1));
    let mut next = m.left(m.medium.clone(), settings(CommitMode::Ordered));
    next.keeps_reads = true;
    next.feed(Event::Tick);
    let mut pages = 0;
    while !next.notices.contains(&Notice::Serving) {
        pages = next.engine.ledger().read[Class::Map as usize].units;
        assert!(bring_one(&mut next));
    }
    assert_eq!(pages, 2, "that of the journal entry, and that of the trace");
    next.keeps_reads = false;
    while bring_one(&mut next) {}
    next.wait(20);
    assert!(next.notices.iter().any(|notice| matches!(notice, Notice::Recounted { .. })), "{:?}", next.notices);
    assert_eq!(next.read(0, 4096), noise(PAGES, 1));
}

/// Blocks that lie side by side take few commands, and the reads never take much memory.
#[test]
fn what_is_to_be_proved_is_read_sixteen_blocks_at_a_time_and_sixty_four_at_once() {
    for mode in MODES {
        let (m, _) = written_over(mode, 100, 100);
        let mut next = m.left(m.medium.clone(), settings(mode));
        next.keeps_reads = true;
        next.feed(Event::Tick);
        let blocks = |read: &Event| if let Event::Read { buffer, .. } = read { buffer.blocks() } else { 0 };
        // Pages come one by one.
        let proofs = |m: &Machine| m.kept_reads.iter().map(blocks).filter(|&blocks| blocks > 2).collect::<Vec<_>>();
        while proofs(&next).is_empty() {
            assert!(bring_one(&mut next), "{mode:?}");
        }
        assert_eq!(proofs(&next), [16; 4], "{mode:?}");
    }
}

/// The device fails to read now and then: each block is tried by itself, three times.
#[test]
fn what_cannot_be_read_at_once_is_tried_again_to_prove_it() {
    let (old, new) = (noise(1, 4), noise(2, 4));
    for (mode, failures) in MODES.into_iter().flat_map(|mode| [(mode, 2), (mode, 3)]) {
        let (m, _) = written_over(mode, 4, 0);
        let mut next = m.left(m.medium.clone(), settings(mode));
        next.keeps_reads = true;
        next.feed(Event::Tick);
        let mut failed = [0; 4];
        while !next.kept_reads.is_empty() {
            let mut read = next.kept_reads.remove(0);
            let Event::Read { buffer, result, .. } = &mut read else { panic!("{read:?}") };
            let which = new.chunks(4096).position(|block| block == buffer.block(0));
            match which {
                Some(_) if buffer.blocks() > 1 => *result = Err(IoFailure),
                Some(block) if failed[block] < failures => {
                    failed[block] += 1;
                    *result = Err(IoFailure);
                }
                _ => {}
            }
            next.feed(read);
        }
        next.keeps_reads = false;
        next.wait(3);
        assert_eq!(failed, [failures; 4], "{mode:?}");
        let is_lost = failures > 2;
        assert!(next.read(0, 4 * 4096) == if is_lost { old.clone() } else { new.clone() }, "{mode:?}, {failures} failures");
        assert_eq!(next.notices.contains(&Notice::AcknowledgedLost { writes: 4 }), is_lost, "{mode:?}: {:?}", next.notices);
    }
}
