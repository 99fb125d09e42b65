//! The client of a live replay: it sends requests by the rule, takes answers, and compares.

use super::figures::{Figures, Latencies, Sent};
use super::plan::Plan;
use onefold::memory::pool::Pool;
use onefold::runtime::passthrough::Passthrough;
use onefold::target::{Incoming, Target, TargetInfo};
use onefold_engine::buffer::BufferMut;
use onefold_engine::interface::{Op, Reply, RequestId, Segment};
use onefold_engine::memory::Part;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, index};
use onefold_trace::replay::bytes::Bytes;
use onefold_trace::replay::planned::PlannedRequest;
use onefold_trace::replay::rule::Rule;
use onefold_trace::replay::truth::Truth;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// An answer, and the time when it came.
struct Answer {
    id: RequestId,
    reply: Reply,
    at: Instant,
}

/// The expected content of a block; none where it is unknown.
type Expected = Option<Box<[u8; BLOCK_SIZE]>>;

/// Sends a trace's requests.
pub struct Client {
    target: Arc<Passthrough>,
    pool: Arc<Pool>,
    info: TargetInfo,
    think: bool,
    verify: bool,
    begin: Instant,
    rule: Rule,
    truth: Truth,
    bytes: Bytes,
    tell: Sender<Answer>,
    hear: Receiver<Answer>,
    requests: u64,
    /// The time when the last request was sent, or should have been where only the clock delayed it.
    sent_at: Instant,
    /// The beginnings of compared reads, and their expected data.
    reads: HashMap<RequestId, (u64, Vec<Expected>)>,
    sent: Sent,
    latencies: Latencies,
    phase: Began,
    /// The figures of phases that are over.
    over: (Duration, Latencies),
}

/// The state at the beginning of a phase.
struct Began {
    at: Instant,
    sent: Sent,
}

impl Client {
    /// Returns a client of `target`, whose memory is from `pool`.
    #[must_use]
    pub fn new(target: Arc<Passthrough>, pool: Arc<Pool>, plan: &Plan) -> Self {
        // By default the kernel lets sleeps last 50 us longer; think times are often shorter than that.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let (tell, hear) = channel();
        let now = Instant::now();
        Self {
            info: target.info(),
            target,
            pool,
            think: plan.think,
            verify: plan.verify,
            begin: now,
            rule: Rule::new(Some(plan.outstanding_max)),
            truth: Truth::default(),
            bytes: Bytes::default(),
            tell,
            hear,
            requests: 0,
            sent_at: now,
            reads: HashMap::new(),
            sent: Sent::default(),
            latencies: Latencies::new(),
            phase: Began { at: now, sent: Sent::default() },
            over: (Duration::ZERO, Latencies::new()),
        }
    }

    /// Sends a request as soon as its time has come, and the rule and memory allow it.
    ///
    /// # Errors
    /// When it does not fit the device, or an earlier one failed.
    pub fn send(&mut self, ask: PlannedRequest) -> Result<(), String> {
        let PlannedRequest { offset, length, .. } = ask;
        if length > self.info.bytes || offset > self.info.bytes - length {
            return Err(format!("{:?} of {length} bytes at {offset}: the device ends at {}", ask.op, self.info.bytes));
        }
        let due = if self.think { self.sent_at + Duration::from_nanos(ask.think_ns) } else { self.sent_at };
        let mut was_held = false;
        while !(self.rule.allows(&ask) && self.has_memory(&ask)) {
            was_held = true;
            let answer = self.heard();
            self.take(answer)?;
        }
        self.hear_until(due)?;
        let now = Instant::now();
        // A sleep that lasted too long is no think time: it does not add up over a trace.
        self.sent_at = if was_held && now > due + Duration::from_millis(1) { now } else { due.max(self.sent_at) };
        if !self.think {
            self.sent_at = now;
        }
        self.submit(&ask, now)
    }

    /// Waits for the next answer.
    fn heard(&self) -> Answer {
        self.hear.recv().expect("we hold a sender ourselves")
    }

    /// Takes answers until that time, and all further ones that have come.
    fn hear_until(&mut self, due: Instant) -> Result<(), String> {
        loop {
            match self.hear.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(answer) => self.take(answer)?,
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => unreachable!("we hold a sender ourselves"),
            }
        }
    }

    /// Whether there is enough memory that the target never waits for memory of an answer that this client has not taken yet.
    fn has_memory(&self, ask: &PlannedRequest) -> bool {
        let bytes = if matches!(ask.op, Op::Read | Op::Write) { blocks(ask) * BLOCK_BYTES } else { 0 };
        let accountant = self.pool.accountant();
        let held = accountant.used(Part::Requests);
        bytes == 0 || held == 0 || held + bytes <= accountant.limit(Part::Requests)
    }

    fn submit(&mut self, ask: &PlannedRequest, now: Instant) -> Result<(), String> {
        self.requests += 1;
        let id = RequestId(self.requests);
        self.rule.sent(id, ask, self.nanoseconds(now));
        let buffer = self.note(id, ask)?;
        let tell = self.tell.clone();
        // A reader that compares nothing needs no bytes: their memory is free at once.
        let wants_bytes = self.reads.contains_key(&id);
        let done = Box::new(move |reply: Reply| {
            let reply = if wants_bytes || matches!(reply, Reply::Failed(_)) { reply } else { Reply::Done };
            let _ = tell.send(Answer { id, reply, at: Instant::now() });
        });
        let PlannedRequest { op, fua, offset, length, .. } = *ask;
        self.target.submit(&mut vec![Incoming { op, offset, length, buffer, fua, done }]);
        Ok(())
    }

    /// Notes a request in the client's accounts, and returns a write's data.
    fn note(&mut self, id: RequestId, ask: &PlannedRequest) -> Result<Option<BufferMut>, String> {
        let range = ask.offset..ask.offset + ask.length;
        self.sent.fua += u64::from(ask.fua);
        match ask.op {
            Op::Write => {
                self.sent.writes += 1;
                let mut buffer = self.target.buffer(index(blocks(ask))).map_err(|f| format!("no memory for a write: {f:?}"))?;
                for (i, content) in ask.contents.iter().enumerate() {
                    self.bytes.meet(content);
                    self.bytes.write(&content.words, buffer.block_mut(i));
                    self.truth.write(ask.first_block() + i as u64, &content.words, &range);
                }
                self.sent.seen = self.truth.seen;
                return Ok(Some(buffer));
            }
            Op::Read => {
                self.sent.reads += 1;
                if self.verify {
                    let expected = self.expected(ask);
                    self.reads.insert(id, (ask.offset, expected));
                }
            }
            Op::Flush => self.sent.flushes += 1,
            Op::Discard | Op::WriteZeroes => {
                self.sent.discards += 1;
                self.truth.discard(&range, ask.op == Op::WriteZeroes);
            }
            Op::Extents => unreachable!("no trace has it"),
        }
        Ok(None)
    }

    fn expected(&self, ask: &PlannedRequest) -> Vec<Expected> {
        let block = |lbn| {
            self.truth.holds(lbn).then(|| {
                let mut block = Box::new([0; BLOCK_SIZE]);
                self.bytes.write(&self.truth.words(lbn), &mut block);
                block
            })
        };
        (ask.first_block()..ask.first_block() + blocks(ask)).map(block).collect()
    }

    fn take(&mut self, answer: Answer) -> Result<(), String> {
        let Answer { id, reply, at } = answer;
        let sent = self.rule.answered(id).ok_or_else(|| format!("request {} was answered twice", id.0))?;
        let took_ns = self.nanoseconds(at) - sent.at_ns;
        self.latencies.entry(sent.kind()).or_default().push(took_ns);
        let expected = self.reads.remove(&id);
        match (reply, expected) {
            (Reply::Failed(failure), _) => Err(format!("the device failed at a {}: {failure:?}", sent.kind())),
            (Reply::Data(segments), Some((offset, expected))) => compare(offset, &expected, &segments),
            _ => Ok(()),
        }
    }

    fn nanoseconds(&self, at: Instant) -> u64 {
        u64::try_from((at - self.begin).as_nanos()).expect("584 years pass before")
    }

    /// Waits until everything is answered.
    ///
    /// # Errors
    /// When something failed.
    pub fn settle(&mut self) -> Result<(), String> {
        let mut result = Ok(());
        while self.rule.unanswered() > 0 {
            let answer = self.heard();
            // All answers are taken, even if the first is a failure.
            result = result.and(self.take(answer));
        }
        result
    }

    /// Returns the figures since the last phase ended, when everything is answered.
    pub fn end_of_phase(&mut self) -> Figures {
        let time = self.phase.at.elapsed();
        let latencies = std::mem::take(&mut self.latencies);
        self.over.0 += time;
        for (&kind, ns) in &latencies {
            self.over.1.entry(kind).or_default().extend(ns);
        }
        let figures = Figures::between(&self.phase.sent, &self.sent, time, latencies);
        self.phase = Began { at: Instant::now(), sent: self.sent };
        figures
    }

    /// Waits for a time that belongs to no phase.
    pub fn idle(&mut self, time: Duration) {
        std::thread::sleep(time);
        self.sent_at = Instant::now();
        self.phase.at = self.sent_at;
    }

    /// Returns the figures of all phases.
    #[must_use]
    pub fn whole(&mut self) -> Figures {
        let (time, latencies) = std::mem::take(&mut self.over);
        Figures::between(&Sent::default(), &self.sent, time, latencies)
    }

    /// Reads every block that the trace has written; returns their number.
    ///
    /// # Errors
    /// With the first block of other content.
    pub fn look_at_everything(&mut self) -> Result<u64, String> {
        self.verify = true;
        let all = self.truth.mapped();
        let blocks_max = self.info.request_bytes_max / BLOCK_BYTES;
        let mut rest = &all[..];
        while let Some(&first) = rest.first() {
            let run = rest.iter().zip(first..first + blocks_max).take_while(|&(&lbn, expected)| lbn == expected).count();
            rest = &rest[run..];
            let (offset, length) = (first * BLOCK_BYTES, run as u64 * BLOCK_BYTES);
            self.think = false;
            self.send(PlannedRequest::read(offset, length))?;
        }
        self.settle()?;
        Ok(all.len() as u64)
    }
}

/// Returns the number of blocks that a read or write touches.
fn blocks(ask: &PlannedRequest) -> u64 {
    (ask.offset + ask.length).div_ceil(BLOCK_BYTES) - ask.first_block()
}

/// Compares a read's data with the expected data.
fn compare(offset: u64, expected: &[Expected], segments: &[Segment]) -> Result<(), String> {
    let mut at = offset;
    for segment in segments {
        let Segment::Data { slice, start, bytes } = segment else { return Err("a device answers with bytes".to_owned()) };
        let mut found = &slice.bytes()[*start..*start + *bytes];
        while !found.is_empty() {
            let within = index(at % BLOCK_BYTES);
            let (here, rest) = found.split_at((BLOCK_SIZE - within).min(found.len()));
            let block = expected.get(index(at / BLOCK_BYTES - offset / BLOCK_BYTES));
            let block = block.ok_or_else(|| format!("the read at {offset} brought too much"))?;
            if let Some(wrong) = block.as_ref().and_then(|block| (0..here.len()).find(|&i| here[i] != block[within + i])) {
                return Err(format!(
                    "block {} holds something else than was written, from its byte {} on",
                    at / BLOCK_BYTES,
                    within + wrong
                ));
            }
            at += here.len() as u64;
            found = rest;
        }
    }
    Ok(())
}
