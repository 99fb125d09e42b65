//! Tests of the model of a volume's blocks, with small histories.

use super::*;
use crate::ground::content::pattern;

fn whole(label: &str) -> Patch {
    Patch::Whole(pattern(label))
}

fn survives(oracle: &Oracle, label: &str) -> bool {
    oracle.may_survive(3, pattern(label).id())
}

#[test]
fn a_flush_promises_what_was_acknowledged_before_it_was_sent() {
    let mut oracle = Oracle::new(Vec::new());
    let a = oracle.send(3, whole("a"), true);
    oracle.acknowledge(a);
    let promise = oracle.promised_by_flush();
    let b = oracle.send(3, whole("b"), true);
    oracle.acknowledge(b);
    assert!(oracle.may_survive(3, Content::zero().id()), "nothing is promised yet");
    promise.into_iter().for_each(|m| oracle.raise(m));
    assert!(survives(&oracle, "a") && survives(&oracle, "b") && !oracle.may_survive(3, Content::zero().id()));
}

#[test]
fn a_read_sees_what_was_acknowledged_before_it() {
    let mut oracle = Oracle::new(vec![pattern("z"); 4]);
    let a = oracle.send(3, whole("a"), true);
    let before = oracle.acknowledged(3);
    assert!(oracle.may_read(before, 0, pattern("z").bytes()) && oracle.may_read(before, 0, pattern("a").bytes()));
    oracle.acknowledge(a);
    let after = oracle.acknowledged(3);
    assert!(!oracle.may_read(after, 512, &pattern("z").bytes()[512..1024]) && oracle.may_read(after, 0, pattern("a").bytes()));
    assert!(survives(&oracle, "z"), "an acknowledgement alone promises no survival");
}

#[test]
fn a_part_stands_on_the_version_before() {
    let mut oracle = Oracle::new(Vec::new());
    let a = oracle.send(3, whole("a"), true);
    oracle.acknowledge(a);
    let part = oracle.send(3, Patch::Part { at: 512, bytes: pattern("b").bytes()[512..1024].into() }, true);
    let mixed = pattern("a").patched(512, &pattern("b").bytes()[512..1024]);
    oracle.raise(part);
    assert!(oracle.may_survive(3, mixed.id()) && !survives(&oracle, "a"));
}

#[test]
fn a_failed_operation_may_have_been_done_or_not() {
    let mut oracle = Oracle::new(vec![pattern("z"); 4]);
    let a = oracle.send(3, whole("a"), true);
    oracle.fail(a);
    let part = oracle.send(3, Patch::Part { at: 0, bytes: [7; 512].into() }, true);
    oracle.acknowledge(part);
    oracle.raise(part);
    for label in ["a", "z"] {
        assert!(oracle.may_survive(3, pattern(label).patched(0, &[7; 512]).id()));
    }
    assert!(!survives(&oracle, "a"));
}

#[test]
fn operations_under_way_together_have_no_order() {
    let mut oracle = Oracle::new(vec![pattern("z"); 4]);
    let a = oracle.send(3, whole("a"), true);
    let b = oracle.send(3, Patch::Part { at: 0, bytes: [7; 512].into() }, true);
    oracle.acknowledge(b);
    oracle.raise(b);
    let patched = |label| pattern(label).patched(0, &[7; 512]).id();
    assert!(oracle.may_survive(3, patched("z")) && oracle.may_survive(3, patched("a")) && survives(&oracle, "a"));
    assert!(!survives(&oracle, "z"), "b is durable, alone or with a");
    let c = oracle.send(3, Patch::Part { at: 512, bytes: [8; 512].into() }, true);
    for mark in [a, c] {
        oracle.acknowledge(mark);
        oracle.raise(mark);
    }
    let all = |label| pattern(label).patched(0, &[7; 512]).patched(512, &[8; 512]).id();
    assert!(oracle.may_survive(3, all("a")), "a first");
    assert!(oracle.may_survive(3, pattern("a").patched(512, &[8; 512]).id()), "a after b, c after a");
    assert!(survives(&oracle, "a"), "a last");
    assert!(!oracle.may_survive(3, patched("a")) && !oracle.may_survive(3, all("z")), "c before b is not possible");
}

#[test]
fn what_was_read_after_a_recovery_stays() {
    let mut oracle = Oracle::new(vec![pattern("z"); 4]);
    oracle.send(3, whole("a"), true);
    oracle.reopen();
    assert!(survives(&oracle, "a") && survives(&oracle, "z"));
    let read = oracle.acknowledged(3);
    oracle.learn(read, 0, pattern("a").bytes());
    assert!(survives(&oracle, "a") && !survives(&oracle, "z"));
}
