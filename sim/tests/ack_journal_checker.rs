//! The set checker of the acknowledgement journal reports each violation that it can detect: promises and writes by hand, right and wrong.

use onefold_engine::fingerprint::{Digest, Fingerprint};
use onefold_engine::format::entry::FingerprintEntry;
use onefold_engine::interface::{IoId, Promise, Promised};
use onefold_engine::units::{Epoch, Lbn, Pbn};
use onefold_sim::checkers::ack_journal_check::AckJournalChecker;
use onefold_sim::device::disk::{IoOutcome, SimDisk};
use onefold_sim::device::volume::Volume;
use onefold_sim::explorer::options::Shape;
use onefold_sim::explorer::prepare::Prepared;
use onefold_sim::ground::content::{Shared, pattern};
use onefold_sim::ground::violation::Violation;
use std::rc::Rc;

const PBN: u64 = 5;

/// A test bench: a device, its checker, and functions that write.
struct Bench {
    volume: Rc<Volume>,
    disk: SimDisk,
    checker: AckJournalChecker,
}

type Checked = Result<(), Violation>;

impl Bench {
    fn new() -> Self {
        let prepared = Prepared::new(Shape::Tiny, false).expect("a prepared volume");
        Self { volume: prepared.volume.clone(), disk: prepared.disk.clone(), checker: AckJournalChecker::default() }
    }

    fn block(&self) -> u64 {
        self.volume.block_of(PBN)
    }

    /// Issues a write that stays under way.
    fn begin(&mut self, io: u64, content: &Shared) -> Checked {
        let block = self.block();
        self.checker.about_to_change(block, Some(content), &self.volume)?;
        self.disk.write(IoId(io), block, std::slice::from_ref(content))
    }

    fn write(&mut self, io: u64, content: &Shared) -> Checked {
        self.begin(io, content)?;
        self.disk.finish(IoId(io), IoOutcome::Done);
        Ok(())
    }

    fn link(&self, content: &Shared) -> Promised {
        let Digest::Of(proof) = self.volume.digest(content) else { panic!("a pattern has a fingerprint") };
        Promised::Link { lbn: Lbn(1), pbn: Pbn(PBN), slot: 0, proof: FingerprintEntry::of(proof) }
    }

    fn promise(&mut self, epoch: u64, what: Promised) -> Checked {
        self.checker.remember(&[Promise { epoch: Epoch(epoch), what }], &self.disk, &self.volume)
    }
}

#[test]
fn a_block_is_promised_when_its_write_has_completed() {
    let (mut bench, content) = (Bench::new(), pattern("promised"));
    bench.begin(1, &content).expect("nothing stands");
    let early = bench.promise(7, bench.link(&content)).expect_err("what was there before may be left");
    assert!(early.to_string().contains("a kill could leave something else"), "{early}");
    bench.disk.finish(IoId(1), IoOutcome::Done);
    bench.checker = AckJournalChecker::default();
    bench.promise(7, bench.link(&content)).expect("it is there");
}

#[test]
fn a_discard_that_came_last_leaves_nothing_to_promise() {
    let (mut bench, content) = (Bench::new(), pattern("promised"));
    bench.write(1, &content).expect("nothing stands");
    let block = bench.block();
    bench.disk.discard(IoId(2), block, 1).expect("it is on the device");
    bench.disk.finish(IoId(2), IoOutcome::Done);
    bench.promise(7, bench.link(&content)).expect_err("it may be zeros");
}

#[test]
fn what_is_promised_stays_until_its_epoch_is_durable() {
    let (mut bench, content) = (Bench::new(), pattern("promised"));
    bench.write(1, &content).expect("nothing stands");
    bench.promise(7, bench.link(&content)).expect("it is there");
    bench.write(2, &content).expect("the same content again is no change");
    bench.checker.forget(Epoch(6));
    bench.checker.about_to_change(bench.block(), Some(&pattern("another")), &bench.volume).expect_err("epoch 7 is not durable");
    bench.checker.about_to_change(bench.block(), None, &bench.volume).expect_err("nor may it be discarded");
    bench.checker.forget(Epoch(7));
    bench.write(3, &pattern("another")).expect("nothing stands any more");
}

#[test]
fn what_the_last_server_promised_stays_until_it_is_replayed() {
    let (mut bench, content) = (Bench::new(), pattern("promised"));
    bench.write(1, &content).expect("nothing stands");
    bench.checker = AckJournalChecker::taking_over(&[bench.link(&content)]);
    bench.checker.forget(Epoch(u64::MAX));
    bench.checker.about_to_change(bench.block(), Some(&pattern("another")), &bench.volume).expect_err("it is being replayed");
    bench.checker.replayed();
    bench.write(2, &pattern("another")).expect("it is durable");
}

#[test]
fn a_slot_is_promised_only_in_a_carrier_that_has_it() {
    let (mut bench, content) = (Bench::new(), pattern("no slots"));
    bench.write(1, &content).expect("nothing stands");
    let what = Promised::Link { lbn: Lbn(1), pbn: Pbn(PBN), slot: 1, proof: FingerprintEntry::of(Fingerprint([1; 20])) };
    bench.promise(7, what).expect_err("it has no slots");
}
