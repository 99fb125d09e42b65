//! Runs a load on the real engine over the counting device, in virtual time.
//!
//! 1. The client asks the accountant for each request's memory, as a front-end does, and waits while there is none.

use crate::laboratory::counts::Rig;
use crate::laboratory::counts::device::{Device, Tally};
use crate::laboratory::counts::load::{ClientRequest, Load};
use crate::laboratory::counts::names::{digest_of, write_name};
use crate::laboratory::counts::pace::Pace;
use crate::laboratory::counts::pool::Pool;
use crate::laboratory::counts::slots::Slots;
use onefold_engine::Engine;
use onefold_engine::buffer::Home;
use onefold_engine::check::{CheckSettings, Finding, check};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::{Geometry, Superblock, Wish};
use onefold_engine::interface::{Event, Op, Payload, Policies, Reply, Request, RequestId};
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::settings::Settings;
use onefold_engine::stats::Ledger;
use onefold_engine::units::{BLOCK_BYTES, Blocks, Bytes, Time};
use std::sync::Arc;

/// The largest number of unanswered requests.
const DEPTH: usize = 32;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub device_bytes: u64,
    pub settings: Settings,
    pub pace: Pace,
    /// The size to which each block compresses, in bytes; none if nothing compresses.
    pub compressed: Option<u16>,
}

/// The counts of a run.
pub struct Outcome {
    pub load: Load,
    /// The counts when service began, when the load was over, and when the volume was closed.
    pub opened: Tally,
    pub served: Tally,
    pub closed: Tally,
    pub ledger: Ledger,
    pub client_units: u64,
    pub client_flushes: u64,
    /// The virtual time that the load took.
    pub served_ns: u64,
    /// The findings of wrong content and of `check`; empty if all is well.
    pub findings: Vec<Finding>,
}

struct Client {
    accountant: Arc<Accountant>,
    memory: Arc<Pool>,
    think_ns: u64,
    load: Load,
    request: Option<ClientRequest>,
    /// The time at which its think time ends.
    next_ns: u64,
    unanswered: usize,
    flushing: bool,
    requests: u64,
    units: u64,
    flushes: u64,
}

/// Runs a load on a new volume, from its opening to its clean close.
///
/// # Errors
/// Fails if the engine's ledger does not agree with the device's account, damage is reported, or the engine stops answering.
///
/// # Panics
/// Panics if a request fails.
pub fn run(plan: &Plan, load: Load) -> Result<Outcome, String> {
    let geometry = Geometry::plan(Bytes(plan.device_bytes), &Wish::default()).map_err(|e| e.to_string())?;
    let superblock = Superblock::new(geometry, *b"onefold-sim-uuid", [7; 32], Algorithm::Blake3, &plan.settings);
    let (device, superblock) = Device::formatted(&superblock);
    let accountant = Accountant::divided(plan.settings.memory_bytes, plan.settings.commit_mode.has_log());
    let engine = Engine::open(superblock, plan.settings.clone(), Pool::plain(), accountant.clone(), Time(0));
    let mut rig = Rig::open(Box::new(engine), device, plan.pace.model)?;
    rig.slots = plan.compressed.map_or_else(Slots::default, Slots::of_size);
    let (opened, began_ns) = (rig.device.tally.clone(), rig.now_ns());
    let mut client = Client {
        memory: Pool::of_requests(accountant.clone()),
        accountant,
        think_ns: plan.pace.think_ns,
        load,
        request: None,
        next_ns: began_ns,
        unanswered: 0,
        flushing: false,
        requests: 0,
        units: 0,
        flushes: 0,
    };
    while client.goes_on() {
        if rig.take_turn(client.may_send().then_some(client.next_ns))? {
            client.send(&mut rig)?;
        }
        client.take_replies(&mut rig);
    }
    let (served, served_ns) = (rig.device.tally.clone(), rig.now_ns() - began_ns);
    rig.close()?;
    let closed = rig.device.tally.clone();
    let ledger = rig.machine.account().ledger.expect("the engine keeps a ledger");
    closed.compare(&ledger)?;
    let mut findings = Vec::new();
    let settings = CheckSettings { memory_bytes: 64 << 20, data: false };
    check(&mut rig.device, Bytes(plan.device_bytes), &settings, &mut |f| findings.push(f)).map_err(|e| e.to_string())?;
    Ok(Outcome {
        ledger,
        opened,
        served,
        closed,
        client_units: client.units,
        client_flushes: client.flushes,
        served_ns,
        load: client.load,
        findings,
    })
}

impl Client {
    /// Returns false when the load is over and everything is answered.
    fn goes_on(&mut self) -> bool {
        if self.request.is_none() {
            self.request = self.load.next();
        }
        self.request.is_some() || self.unanswered > 0
    }

    fn may_send(&self) -> bool {
        if self.flushing {
            return false;
        }
        match &self.request {
            None => false,
            Some(ClientRequest::Flush) => self.unanswered == 0,
            Some(ClientRequest::Write { contents, .. }) => {
                let bytes = Blocks(contents.len() as u64).bytes().0;
                let held = self.accountant.used(Part::Requests);
                self.unanswered < DEPTH && (held == 0 || held + bytes <= self.accountant.limit(Part::Requests))
            }
        }
    }

    fn send(&mut self, rig: &mut Rig) -> Result<(), String> {
        let request = self.request.take().expect("there was something to send");
        self.requests += 1;
        self.unanswered += 1;
        self.next_ns = rig.now_ns() + self.think_ns;
        let (op, offset, length, payload) = match request {
            ClientRequest::Flush => {
                self.flushing = true;
                self.flushes += 1;
                (Op::Flush, 0, 0, None)
            }
            ClientRequest::Write { first, contents } => {
                let blocks = contents.len() as u64;
                assert!(self.accountant.try_take(Part::Requests, blocks * BLOCK_BYTES), "there was room");
                self.units += blocks;
                let mut buffer = self.memory.clone().take(contents.len());
                contents.iter().enumerate().for_each(|(i, &name)| write_name(name, buffer.block_mut(i)));
                let digests = contents.iter().map(|&name| digest_of(name)).collect();
                (Op::Write, first * BLOCK_BYTES, blocks * BLOCK_BYTES, Some(Payload { buffer: buffer.freeze(), digests }))
            }
        };
        let id = RequestId(self.requests);
        rig.feed(Event::Request(Request {
            id,
            op,
            offset: Bytes(offset),
            length: Bytes(length),
            payload,
            fua: false,
            policies: Policies::default(),
        }))
    }

    fn take_replies(&mut self, rig: &mut Rig) {
        for (request, reply) in rig.replies.drain(..) {
            assert!(matches!(reply, Reply::Done), "request {} was answered with {reply:?}", request.0);
            self.unanswered -= 1;
            self.flushing = false;
        }
    }
}
