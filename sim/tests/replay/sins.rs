//! What a replay must not let pass: a machine that lies, and one that loses a write.

use crate::{on, records, trace};
use onefold_engine::interface::{Action, Event, Legacy, Op, Reply};
use onefold_engine::units::Time;
use onefold_sim::account::Account;
use onefold_sim::machine::Machine;
use onefold_sim::replay::run::{Plan, replay, replay_on};
use onefold_sim::replay::scheme::{Ready, ready};

const TRACE: &str = "0 W 0 2 W a b\n1 W 9 1 W c\n2 F 0 0\n3 R 0 2\n";

#[derive(Clone, Copy, PartialEq)]
enum Sin {
    None,
    LeavesAFlushOut,
    CountsAUnitMore,
    LosesAWrite,
    NeverAnswers,
}

struct Sinner {
    machine: Box<dyn Machine>,
    sin: Sin,
}

impl Machine for Sinner {
    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        match &event {
            Event::Request(r) if self.sin == Sin::LosesAWrite && r.op == Op::Write && r.offset.0 == 9 * 4096 => {
                out.push(Action::Reply { request: r.id, reply: Reply::Done });
            }
            Event::Request(r) if self.sin == Sin::NeverAnswers && r.op == Op::Flush => {}
            _ => self.machine.step(now, event, out),
        }
    }

    fn recall(&mut self, legacy: Legacy) {
        self.machine.recall(legacy);
    }

    fn account(&self) -> Account {
        let mut account = self.machine.account();
        let ledger = account.ledger.as_mut().expect("the engine keeps a ledger");
        match self.sin {
            Sin::LeavesAFlushOut => ledger.device_flushes -= 1,
            Sin::CountsAUnitMore => ledger.written[1].units += 1,
            Sin::None | Sin::LosesAWrite | Sin::NeverAnswers => {}
        }
        account
    }
}

fn replay_with(sin: Sin, plan: &Plan) -> Result<(), String> {
    let made = ready(plan.scheme, plan.persistence, 100, plan.memory_bytes).expect("a volume");
    let machine = Box::new(Sinner { machine: made.machine, sin });
    replay_on(Ready { machine, ..made }, "sin", records(&trace(TRACE)), plan).map(drop)
}

#[test]
fn a_ledger_that_differs_from_the_device_is_an_error() {
    assert_eq!(replay_with(Sin::None, &on("instant")), Ok(()));
    let flush = replay_with(Sin::LeavesAFlushOut, &on("instant")).unwrap_err();
    assert!(flush.contains("flushes"), "{flush}");
    let unit = replay_with(Sin::CountsAUnitMore, &on("instant")).unwrap_err();
    assert!(unit.contains("Refs written"), "{unit}");
}

#[test]
fn a_lost_write_is_found_by_whoever_reads_it() {
    let lost = replay_with(Sin::LosesAWrite, &on("instant")).unwrap_err();
    assert!(lost.contains("block 9") || lost.contains("from 9 on") || lost.contains("in place of"), "{lost}");
    // Nobody reads block 9, unless everything is read in the end.
    assert_eq!(replay_with(Sin::LosesAWrite, &Plan { verify: false, ..on("instant") }), Ok(()));
}

#[test]
fn a_machine_that_never_answers_ends_the_run() {
    assert!(replay_with(Sin::NeverAnswers, &on("instant")).unwrap_err().contains("nothing will ever happen"));
}

#[test]
fn a_bad_record_is_an_error_with_its_reason() {
    let records = [Err::<onefold_trace::record::Record, _>("x.tsv:7: three columns")];
    let error = replay("bad", records.into_iter(), 100, &on("instant")).unwrap_err();
    assert!(error.contains("x.tsv:7"), "{error}");
    let beyond = replay("far", crate::records(&trace("0 W 100 1 W a\n")), 100, &on("instant")).unwrap_err();
    assert!(beyond.contains("beyond the end"), "{beyond}");
}
