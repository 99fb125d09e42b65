//! The replay itself: a client that sends a trace's requests, and the accounts of the results.
//!
//! 1. The next request is sent after the recorded think time since the last one, and not before the rule and memory allow it.
//! 2. Before a phase begins, and after the last one, everything is answered, and the client idles until delayed work has been written, so
//!    that each phase bears its own cost. After the last one it idles until no duplicate is left to be looked for out of line, too.
//! 3. Blocks compress to the sizes that the trace gives; if it gives none, to an assumed one (`streams.rs`) or not at all.
//! 4. Every read is compared with what the client wrote; on request, every block is read and compared at the end.

use crate::laboratory::counts::Rig;
use crate::laboratory::counts::names::SECTORS;
use crate::laboratory::counts::times::DeviceTimes;
use crate::laboratory::flash::Flash;
use crate::laboratory::replay::bound::Bound;
use crate::laboratory::replay::figures::{Accounts, ClientCounts, Space};
use crate::laboratory::replay::flash::FlashAccount;
use crate::laboratory::replay::phases::{Latencies, MEASURED, Phases};
pub use crate::laboratory::replay::plan::Plan;
use crate::laboratory::replay::planned::{Next, PlannedRequest, PlannedRequests};
use crate::laboratory::replay::reads::compare_read;
use crate::laboratory::replay::report::Report;
use crate::laboratory::replay::rule::Rule;
use crate::laboratory::replay::scheme::{ReadyScheme, ready};
use crate::laboratory::replay::streams::{Hinting, assume_sizes};
use crate::laboratory::replay::truth::Truth;
use onefold_engine::check::{CheckSettings, check};
use onefold_engine::interface::{Event, Failure, Op, Payload, Reply, Request, RequestId};
use onefold_engine::units::{BLOCK_BYTES, Bytes, SECTOR_BYTES};
use onefold_trace::counted::request::{Memory, request_bytes_max};
use onefold_trace::record::Record;
use rustc_hash::FxHashMap;
use std::fmt::Display;

/// The time that the client idles between phases: twice the delay of non-critical updates, plus the commit period.
const IDLE_NS: u64 = 62_000_000_000;
/// The largest number of blocks of a read that verifies the volume at the end.
const LOOK_BLOCKS_MAX: u64 = 256;
/// The name of the device model in the report of a replay with a flash.
const FLASH: &str = "flash";

/// Replays a trace on a scheme of its own name, for a volume of `blocks`.
///
/// # Errors
/// Fails if a record cannot be read, and like [`replay_on`].
pub fn replay<E: Display>(
    trace: &str,
    records: impl Iterator<Item = Result<Record, E>>,
    blocks: u64,
    plan: &Plan,
) -> Result<Report, String> {
    replay_on(ready(plan.scheme, plan.persistence, blocks, plan.memory_bytes, plan.index)?, trace, records, plan)
}

/// Replays a trace on any machine that is ready to serve.
///
/// # Errors
/// Fails if a record cannot be read, a request fails, a block reads as something that the client did not write, the device's account
/// differs from the machine's ledger, or `check` finds something at the end.
pub fn replay_on<E: Display>(
    ready: ReadyScheme,
    trace: &str,
    records: impl Iterator<Item = Result<Record, E>>,
    plan: &Plan,
) -> Result<Report, String> {
    replay_with_flash(ready, trace, records, plan).map(|(report, _)| report)
}

/// Replays a trace on any machine that is ready to serve, and returns the flash as it is after the close, too, if the plan has one.
///
/// # Errors
/// Fails like [`replay_on`].
pub fn replay_with_flash<E: Display>(
    ready: ReadyScheme,
    trace: &str,
    records: impl Iterator<Item = Result<Record, E>>,
    plan: &Plan,
) -> Result<(Report, Option<Flash>), String> {
    let request_bytes_max = request_bytes_max(&ready.accountant).min(plan.request_bytes_max);
    let mut run = ReplayRun::open(ready, plan)?;
    run.truth.begin_stretch();
    let mut phases = Phases::new(run.accounts());
    for (number, next) in (1u64..).zip(PlannedRequests::new(records.map(|record| record.map(assume_sizes)), request_bytes_max)) {
        match next.map_err(|e| e.to_string())? {
            Next::PlannedRequest(ask) => run.send(ask).map_err(|e| format!("request {number}: {e}"))?,
            Next::Mark(name) => {
                run.settle()?;
                run.begin_phase(&mut phases, name, plan);
            }
        }
    }
    run.settle()?;
    run.finish_out_of_line()?;
    run.end_phase(&mut phases, String::new());
    let before = run.accounts();
    if plan.verify {
        run.look_at_everything()?;
    }
    let looked = run.accounts();
    run.rig.close()?;
    let mut closed = run.accounts();
    let extents = run.compare()?;
    closed.leave_out_reads(&before, &looked);
    let whole = phases.whole(&closed);
    let (phase, measured, space) = phases.measured.unwrap_or_else(|| ("whole".to_owned(), whole.clone(), phases.space));
    let report = Report {
        trace: trace.to_owned(),
        scheme: plan.scheme.name().to_owned(),
        persistence: if plan.group_max().is_some() { "strong" } else { "weak" }.to_owned(),
        outstanding: plan.group_max(),
        request_blocks_max: plan.request_blocks_max(),
        device_model: if plan.flash.is_some() { FLASH } else { plan.model.name }.to_owned(),
        phase,
        measured,
        space,
        whole,
        extents,
        facts: closed.machine.facts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
    };
    Ok((report, run.rig.times.into_flash()))
}

struct ReplayRun {
    rig: Rig,
    memory: Memory,
    rule: Rule,
    is_strong: bool,
    hinting: Hinting,
    is_copy: bool,
    reads_max: usize,
    truth: Truth,
    bound: Bound,
    client: ClientCounts,
    requests: u64,
    /// The time when the last request was sent.
    sent_ns: u64,
    /// The time spent idling between phases.
    idled_ns: u64,
    /// Whether something changed since the last flush was sent.
    is_changed: bool,
    /// A flush with nothing to commit, and the number of device flushes before it.
    idle: Option<(RequestId, u64)>,
    /// The words that reads have to find, sector by sector.
    reads: FxHashMap<RequestId, Vec<u64>>,
    latencies: Latencies,
}

impl ReplayRun {
    /// Opens what is ready to serve.
    fn open(ready: ReadyScheme, plan: &Plan) -> Result<Self, String> {
        let strong = plan.group_max();
        let times = plan.flash.as_ref().map_or_else(|| plan.model.into(), |flash| DeviceTimes::from(flash.as_ref().clone()));
        Ok(Self {
            rig: Rig::open(ready.machine, ready.device, times)?,
            memory: Memory::new(ready.accountant),
            rule: Rule::new(strong),
            is_strong: strong.is_some(),
            hinting: plan.hinting,
            is_copy: plan.is_copy,
            reads_max: plan.reads_max,
            truth: Truth::default(),
            bound: Bound::new(strong),
            client: ClientCounts::default(),
            requests: 0,
            sent_ns: 0,
            idled_ns: 0,
            is_changed: false,
            idle: None,
            reads: FxHashMap::default(),
            latencies: Latencies::new(),
        })
    }

    fn accounts(&mut self) -> Accounts {
        Accounts {
            at_ns: self.rig.now_ns() - self.idled_ns,
            client: self.client,
            seen: self.truth.seen,
            bound: self.bound.total(),
            device: self.rig.device.tally.clone(),
            machine: self.rig.machine.account(),
            flash: self.rig.times.flash().map(FlashAccount::of),
        }
    }

    /// Ends a phase, and begins the one of this name.
    fn begin_phase(&mut self, phases: &mut Phases, name: String, plan: &Plan) {
        let renews = name == MEASURED && !plan.keeps_flash;
        self.end_phase(phases, name);
        if let (true, Some(flash)) = (renews, &plan.flash) {
            self.rig.times.renew_flash(flash);
        }
    }

    /// Ends a phase, and begins the next one.
    fn end_phase(&mut self, phases: &mut Phases, next: String) {
        let accounts = self.accounts();
        let space = Space::of(self.truth.live(), accounts.machine.usage, self.rig.device.metadata_units());
        phases.begins(next, accounts, std::mem::take(&mut self.latencies), space, self.truth.stretch());
        self.truth.begin_stretch();
    }

    /// Waits until everything is answered and delayed work is written.
    fn settle(&mut self) -> Result<(), String> {
        while self.rule.unanswered() > 0 {
            self.rig.take_turn(None)?;
            self.take_replies()?;
        }
        self.idle()
    }

    /// Waits until no duplicate is left to be looked for out of line, an hour at most.
    fn finish_out_of_line(&mut self) -> Result<(), String> {
        for _ in 0..60 {
            if !self.rig.machine.waits_out_of_line() {
                return Ok(());
            }
            self.idle()?;
        }
        Err("the work out of line did not end within an hour".to_owned())
    }

    fn idle(&mut self) -> Result<(), String> {
        self.rig.idle(self.rig.now_ns() + IDLE_NS)?;
        self.idled_ns += IDLE_NS;
        self.sent_ns = self.rig.now_ns();
        Ok(())
    }

    /// Sends a request as soon as its time has come and the rule and memory allow it.
    fn send(&mut self, ask: PlannedRequest) -> Result<(), String> {
        let due_ns = self.sent_ns + ask.think_ns;
        loop {
            let waits_for_data = self.is_copy && ask.changes() && !self.reads.is_empty();
            let waits_for_reads = ask.op == Op::Read && self.reads.len() >= self.reads_max;
            let allowed = !waits_for_data && !waits_for_reads && self.rule.allows(&ask) && self.memory.has_room(&ask);
            let turn = self.rig.take_turn(allowed.then_some(due_ns))?;
            if turn {
                break;
            }
            self.take_replies()?;
        }
        self.sent_ns = self.rig.now_ns();
        self.requests += 1;
        let id = RequestId(self.requests);
        self.rule.sent(id, &ask, self.sent_ns);
        let (payload, policies) = (self.note(id, &ask), self.hinting.of(&ask));
        let PlannedRequest { op, fua, offset, length, .. } = ask;
        let (offset, length) = (Bytes(offset), Bytes(length));
        self.rig.feed(Event::Request(Request { id, op, offset, length, payload, fua, policies }))?;
        self.take_replies()
    }

    /// Enters a request into the client's accounts, and returns the payload of a write.
    fn note(&mut self, id: RequestId, ask: &PlannedRequest) -> Option<Payload> {
        let bytes = ask.offset..ask.offset + ask.length;
        // The rule already counts this request as sent.
        let unanswered = self.rule.unanswered() - 1;
        self.client.fua += u64::from(ask.fua);
        if ask.changes() {
            self.bound.request(ask.recorded_ns);
        }
        match ask.op {
            Op::Write => {
                self.client.writes += 1;
                let payload = self.memory.payload(ask, &mut self.rig.slots);
                for (lbn, content) in (ask.first_block()..).zip(&ask.contents) {
                    let meant = self.truth.write(lbn, &content.words, &bytes);
                    if meant.changed {
                        self.is_changed = true;
                        self.bound.changed(ask.recorded_ns);
                    }
                    if meant.new {
                        self.bound.new_block(content.compressed);
                    }
                }
                if ask.fua {
                    self.bound.cut();
                }
                return Some(payload);
            }
            Op::Read => {
                self.client.reads += 1;
                self.reads.insert(id, self.expected(ask));
            }
            Op::Flush => {
                self.client.flushes += 1;
                self.bound.cut();
                // Under strong persistence everything answered is durable.
                if !std::mem::take(&mut self.is_changed) || self.is_strong && unanswered == 0 {
                    self.client.idle_flushes += 1;
                    self.idle = Some((id, self.rig.device.tally.flushes));
                }
            }
            Op::Discard | Op::WriteZeroes => {
                self.client.discards += 1;
                if self.truth.discard(&bytes, ask.op == Op::WriteZeroes) {
                    self.is_changed = true;
                    self.bound.changed(ask.recorded_ns);
                }
            }
            Op::Extents => unreachable!("no trace has it"),
        }
        None
    }

    fn expected(&self, ask: &PlannedRequest) -> Vec<u64> {
        let sectors = ask.offset / SECTOR_BYTES..(ask.offset + ask.length) / SECTOR_BYTES;
        let mut words = Vec::with_capacity((sectors.end - sectors.start) as usize);
        for lbn in ask.first_block()..(ask.offset + ask.length).div_ceil(BLOCK_BYTES) {
            let here = self.truth.words(lbn);
            let of_block = (lbn * SECTORS as u64..).zip(here);
            words.extend(of_block.filter(|(sector, _)| sectors.contains(sector)).map(|(_, word)| word));
        }
        words
    }

    fn take_replies(&mut self) -> Result<(), String> {
        let mut replies = std::mem::take(&mut self.rig.replies);
        for (id, reply) in replies.drain(..) {
            let sent = self.rule.answered(id).ok_or_else(|| format!("request {} was answered twice, or never sent", id.0))?;
            match reply {
                Reply::Done if sent.op != Op::Read => {}
                Reply::Data(segments) if sent.op == Op::Read => {
                    let expected = self.reads.remove(&id).expect("each read expects something");
                    compare_read(&expected, &segments)?;
                }
                Reply::Failed(Failure::Invalid) => {
                    return Err(format!(
                        "a {:?} was refused: it lies beyond the end of the volume, or is not of whole blocks and the scheme takes no other",
                        sent.op
                    ));
                }
                other => return Err(format!("a {:?} was answered with {other:?}", sent.op)),
            }
            if let Some((_, before)) = self.idle.take_if(|(idle, _)| *idle == id) {
                self.client.idle_device_flushes += self.rig.device.tally.flushes - before;
            }
            self.latencies.entry(sent.kind()).or_default().push(self.rig.now_ns() - sent.at_ns);
        }
        self.rig.replies = replies;
        Ok(())
    }

    /// Reads every block that holds something.
    fn look_at_everything(&mut self) -> Result<(), String> {
        let blocks = self.truth.mapped();
        let mut rest = &blocks[..];
        while let Some(&first) = rest.first() {
            let run = rest.iter().zip(first..first + LOOK_BLOCKS_MAX).take_while(|&(&lbn, expected)| lbn == expected).count();
            rest = &rest[run..];
            let (offset, length) = (first * BLOCK_BYTES, run as u64 * BLOCK_BYTES);
            self.send(PlannedRequest::read(offset, length)).map_err(|e| format!("at the end, {run} blocks from {first} on: {e}"))?;
        }
        while self.rule.unanswered() > 0 {
            self.rig.take_turn(None)?;
            self.take_replies()?;
        }
        self.latencies.clear();
        Ok(())
    }

    /// Compares the device's account with the machine's ledger, and checks the content of the device. Returns the number of extents, if it
    /// holds a volume.
    fn compare(&mut self) -> Result<Option<u64>, String> {
        if let Some(ledger) = self.rig.machine.account().ledger {
            self.rig.device.tally.compare(&ledger)?;
        }
        let Some(bytes) = self.rig.device.geometry().map(|g| g.device_bytes) else { return Ok(None) };
        let mut findings = Vec::new();
        let settings = CheckSettings { memory_bytes: 64 << 20, data: false };
        let checked = check(&mut self.rig.device, bytes, &settings, &mut |f| findings.push(f)).map_err(|e| e.to_string())?;
        match findings.first() {
            None => Ok(Some(checked.counts.extents)),
            Some(first) => Err(format!("check found {} things after a clean close, the first: {first:?}", findings.len())),
        }
    }
}
