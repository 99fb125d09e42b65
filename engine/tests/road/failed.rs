//! A device that has failed (A5): what it holds for links that were never committed is not to be trusted.

use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Failure, Op, Reply};
use onefold_engine::settings::Settings;

/// A volume on which a block was written, and no more: its content is with the device. Nothing would show what a read brings to be wrong.
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
