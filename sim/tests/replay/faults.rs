//! Faults that a replay must detect: a machine that lies, and one that loses a write.

use crate::{on, records, trace};
use onefold_engine::interface::{Action, Event, Legacy, Op, Reply};
use onefold_engine::units::Time;
use onefold_sim::laboratory::replay::run::{Plan, replay, replay_on};
use onefold_sim::laboratory::replay::scheme::{ReadyScheme, ready};
use onefold_sim::machine::Machine;
use onefold_sim::machine::account::Account;

const TRACE: &str = "0 W 0 2 W a b\n1 W 9 1 W c\n2 F 0 0\n3 R 0 2\n";

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    LeavesAFlushOut,
    CountsAUnitMore,
    LosesAWrite,
    NeverAnswers,
}

struct FaultyMachine {
    machine: Box<dyn Machine>,
    fault: Fault,
}

impl Machine for FaultyMachine {
    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        match &event {
            Event::Request(r) if self.fault == Fault::LosesAWrite && r.op == Op::Write && r.offset.0 == 9 * 4096 => {
                out.push(Action::Reply { request: r.id, reply: Reply::Done });
            }
            Event::Request(r) if self.fault == Fault::NeverAnswers && r.op == Op::Flush => {}
            _ => self.machine.step(now, event, out),
        }
    }

    fn replay_journal(&mut self, legacy: Legacy) {
        self.machine.replay_journal(legacy);
    }

    fn account(&self) -> Account {
        let mut account = self.machine.account();
        let ledger = account.ledger.as_mut().expect("the engine keeps a ledger");
        match self.fault {
            Fault::LeavesAFlushOut => ledger.device_flushes -= 1,
            Fault::CountsAUnitMore => ledger.written[1].units += 1,
            Fault::None | Fault::LosesAWrite | Fault::NeverAnswers => {}
        }
        account
    }
}

fn replay_with(fault: Fault, plan: &Plan) -> Result<(), String> {
    let made = ready(plan.scheme, plan.persistence, 100, plan.memory_bytes, plan.index).expect("a volume");
    let machine = Box::new(FaultyMachine { machine: made.machine, fault });
    replay_on(ReadyScheme { machine, ..made }, "sin", records(&trace(TRACE)), plan).map(drop)
}

#[test]
fn a_ledger_that_differs_from_the_device_is_an_error() {
    assert_eq!(replay_with(Fault::None, &on("instant")), Ok(()));
    let flush = replay_with(Fault::LeavesAFlushOut, &on("instant")).unwrap_err();
    assert!(flush.contains("flushes"), "{flush}");
    let unit = replay_with(Fault::CountsAUnitMore, &on("instant")).unwrap_err();
    assert!(unit.contains("Refs written"), "{unit}");
}

#[test]
fn a_lost_write_is_found_by_whoever_reads_it() {
    let lost = replay_with(Fault::LosesAWrite, &on("instant")).unwrap_err();
    assert!(lost.contains("block 9") || lost.contains("from 9 on") || lost.contains("instead of"), "{lost}");
    // No request reads block 9, unless everything is read at the end.
    assert_eq!(replay_with(Fault::LosesAWrite, &Plan { verify: false, ..on("instant") }), Ok(()));
}

#[test]
fn a_machine_that_never_answers_ends_the_run() {
    assert!(replay_with(Fault::NeverAnswers, &on("instant")).unwrap_err().contains("nothing can happen any more"));
}

#[test]
fn a_bad_record_is_an_error_with_its_reason() {
    let records = [Err::<onefold_trace::record::Record, _>("x.tsv:7: three columns")];
    let error = replay("bad", records.into_iter(), 100, &on("instant")).unwrap_err();
    assert!(error.contains("x.tsv:7"), "{error}");
    let beyond = replay("far", crate::records(&trace("0 W 100 1 W a\n")), 100, &on("instant")).unwrap_err();
    assert!(beyond.contains("beyond the end"), "{beyond}");
}
