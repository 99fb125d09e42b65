//! The forecast of what a volume would have written of a disk's requests: by the engine, in virtual time, on a device that only counts.
//!
//! 1. Memory is bounded. A forecast for which it does not suffice ends, and says how much of the requests it covers.
//! 2. The time is that of the requests; the device takes none. What the engine delays is written when its time comes. Whoever asks for
//!    durability (a flush, FUA) waits for it before the next request comes: a volume answers later than the disk did, and what the disk's
//!    user sent meanwhile it would have sent later, too.
//! 3. A volume begins blank: a block that lay on the disk before is new to it when it is written.

mod likeness;

use likeness::Likeness;
use onefold_engine::Engine;
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Event, Failure, Op, Reply, Request, RequestId};
use onefold_engine::memory::Accountant;
use onefold_engine::policy::{Policies, Policy};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_BYTES, Bytes, count};
use onefold_trace::counted::device::Tally;
use onefold_trace::counted::request::{Memory, request_bytes_max};
use onefold_trace::counted::rig::Rig;
use onefold_trace::counted::volume::NewVolume;
use onefold_trace::model::{MODELS, Timetable};
use onefold_trace::record::Record;
use onefold_trace::replay::planned::{Next, PlannedRequest, PlannedRequests};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;

/// The time after the last request in which all that is delayed is written, in nanoseconds: twice the delay of pages, and a commit.
const SETTLE_NS: u64 = 62_000_000_000;
/// The most bytes that come at once: what a front-end hands over while a server compresses what came before. A part of the largest request
/// that a volume accepts, too: all of such a one would not fit where content is held back until it is packed.
const REQUEST_BYTES: u64 = 128 << 10;
const REQUEST_PART: u64 = 4;
/// The parts of the memory, in sixteenths, of the volume and of what its device holds.
const VOLUME_SHARE: u64 = 8;
const DEVICE_SHARE: u64 = 8;

/// The amounts that a volume would have written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Written {
    pub commit_mode: String,
    /// Blocks of 4 KiB that clients wrote while it was made, and what the device got for them, by class and together.
    pub client_blocks: u64,
    pub units: u64,
    pub data_units: u64,
    pub log_units: u64,
    pub metadata_units: u64,
    pub flushes: u64,
    /// Blocks that were found: duplicates, zeros, and blocks that did not change.
    pub found_blocks: u64,
    /// Why it ended before the requests did.
    pub ended: Option<String>,
}

/// The forecasts of all modes, of the same requests.
pub struct Forecasts {
    planned: PlannedRequests<Queue>,
    queue: Queue,
    likeness: Likeness,
    forecasts: Vec<Forecast>,
}

/// A forecast of one mode.
struct Forecast {
    mode: CommitMode,
    rig: Rig<Engine, Timetable>,
    memory: Memory,
    /// The largest request that its volume accepts.
    request_bytes_max: u64,
    opened: Tally,
    requests: u64,
    client_blocks: u64,
    device_bytes_max: u64,
    ended: Option<String>,
}

/// The records that have come and are not planned yet.
#[derive(Clone, Default)]
struct Queue(Rc<RefCell<VecDeque<Record>>>);

impl Iterator for Queue {
    type Item = Result<Record, Infallible>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.borrow_mut().pop_front().map(Ok)
    }
}

impl Forecasts {
    /// Begins forecasts for a disk of `bytes`, with at most `memory_bytes` of memory, but for the smallest volume.
    ///
    /// # Errors
    /// When there can be no volume of that size.
    pub fn new(bytes: u64, memory_bytes: u64) -> Result<Self, String> {
        let modes = [CommitMode::Log, CommitMode::Ordered];
        let each = memory_bytes / count(modes.len());
        let forecasts = modes.map(|mode| Forecast::new(mode, bytes.div_ceil(BLOCK_BYTES), each));
        let forecasts = forecasts.into_iter().collect::<Result<Vec<_>, _>>()?;
        let accepted = forecasts.iter().map(|forecast| forecast.request_bytes_max).min().unwrap_or(BLOCK_BYTES);
        let request_bytes = (accepted / REQUEST_PART).clamp(BLOCK_BYTES, REQUEST_BYTES);
        let queue = Queue::default();
        Ok(Self { planned: PlannedRequests::new(queue.clone(), request_bytes), queue, likeness: Likeness::default(), forecasts })
    }

    /// Takes a record. Content that was not seen counts like what came before it.
    pub fn take(&mut self, mut record: Record) {
        let filled = self.likeness.fill_in(&mut record);
        self.queue.0.borrow_mut().push_back(record);
        let before = self.found_blocks();
        while let Some(Ok(next)) = self.planned.next() {
            let Next::PlannedRequest(ask) = next else { continue };
            for forecast in &mut self.forecasts {
                forecast.take(&ask);
            }
        }
        self.likeness.learn(filled, self.found_blocks() - before);
    }

    /// Returns the blocks that all forecasts have found. While they go on, each finds the same.
    fn found_blocks(&self) -> u64 {
        self.forecasts.iter().map(Forecast::found_blocks).max().unwrap_or_default()
    }

    /// Returns what has been written so far; pages that are delayed are not.
    #[must_use]
    pub fn so_far(&self) -> Vec<Written> {
        self.forecasts.iter().map(Forecast::written).collect()
    }

    /// Writes what is delayed, and returns what was written.
    #[must_use]
    pub fn end(mut self) -> Vec<Written> {
        self.forecasts.iter_mut().for_each(Forecast::settle);
        self.so_far()
    }
}

impl Forecast {
    fn new(mode: CommitMode, blocks: u64, memory_bytes: u64) -> Result<Self, String> {
        let settings = Settings {
            commit_mode: mode,
            memory_bytes: (memory_bytes / 16 * VOLUME_SHARE).max(Accountant::BYTES_MIN),
            ..Settings::default()
        };
        let NewVolume { engine, mut device, accountant, .. } = NewVolume::of(blocks, settings)?;
        device.become_compact();
        let request_bytes_max = request_bytes_max(&accountant);
        let rig = Rig::open(engine, device, MODELS[0])?;
        let opened = rig.device.tally.clone();
        let (memory, device_bytes_max) = (Memory::new(accountant), memory_bytes / 16 * DEVICE_SHARE);
        Ok(Self { mode, rig, memory, request_bytes_max, opened, requests: 0, client_blocks: 0, device_bytes_max, ended: None })
    }

    fn take(&mut self, ask: &PlannedRequest) {
        if self.ended.is_some() || ask.op == Op::Read {
            return;
        }
        let sent = self.send(ask);
        let held = self.rig.device.held_bytes();
        self.ended = match sent {
            Err(fault) => Some(fault),
            Ok(()) if held > self.device_bytes_max => Some("its memory was used up".to_owned()),
            Ok(()) => None,
        };
    }

    fn send(&mut self, ask: &PlannedRequest) -> Result<(), String> {
        while !self.rig.take_turn(Some(ask.recorded_ns))? {}
        while !self.memory.has_room(ask) {
            self.rig.take_turn(None)?;
        }
        self.requests += 1;
        let payload = (ask.op == Op::Write).then(|| self.memory.payload(ask, &mut self.rig.slots));
        self.client_blocks += if ask.op == Op::Write { count(ask.contents.len()) } else { 0 };
        let PlannedRequest { op, fua, offset, length, .. } = *ask;
        let (id, policies) = (RequestId(self.requests), Policies::Same(Policy::DEFAULT));
        let (offset, length) = (Bytes(offset), Bytes(length));
        self.rig.feed(Event::Request(Request { id, op, offset, length, payload, fua, policies }))?;
        if op == Op::Flush || fua {
            while !self.rig.replies.iter().any(|(answered, _)| *answered == id) {
                self.rig.take_turn(None)?;
            }
        }
        self.rig.idle(self.rig.now_ns())?;
        let refused = self.rig.replies.drain(..).find_map(|(_, reply)| match reply {
            Reply::Failed(Failure::NoSpace | Failure::Full) => Some("its volume is full".to_owned()),
            Reply::Failed(failure) => Some(format!("its volume refused a request: {failure:?}")),
            _ => None,
        });
        refused.map_or(Ok(()), Err)
    }

    fn settle(&mut self) {
        if self.ended.is_none() {
            self.ended = self.rig.idle(self.rig.now_ns() + SETTLE_NS).err();
        }
    }

    fn found_blocks(&self) -> u64 {
        let ledger = self.rig.machine.stats().ledger;
        ledger.duplicates + ledger.unchanged + ledger.zeroes
    }

    fn written(&self) -> Written {
        let tally = self.rig.device.tally.since(&self.opened);
        let (data_units, log_units) = (tally.units_of(Class::Data), tally.units_of(Class::Log));
        Written {
            commit_mode: if self.mode.has_log() { "log" } else { "ordered" }.to_owned(),
            client_blocks: self.client_blocks,
            units: tally.units(),
            data_units,
            log_units,
            metadata_units: tally.units() - data_units - log_units,
            flushes: tally.flushes,
            found_blocks: self.found_blocks(),
            ended: self.ended.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_trace::record::{Block, ContentName, Op as Recorded};

    fn write(time_ns: u64, lbn: u64, names: &[(u8, Option<u16>)]) -> Record {
        let name = |name| if name == 0 { ContentName::Zero } else { ContentName::Of([name; 20]) };
        let blocks = names.iter().map(|&(of, compressed)| Block { name: name(of), compressed }).collect();
        let length = Bytes(names.len() as u64 * BLOCK_BYTES);
        Record { blocks, ..Record::new(time_ns, Recorded::Write, Bytes(lbn * BLOCK_BYTES), length) }
    }

    fn forecast(records: Vec<Record>) -> Vec<Written> {
        let mut forecasts = Forecasts::new(64 << 20, 32 << 20).expect("there can be such a volume");
        records.into_iter().for_each(|record| forecasts.take(record));
        forecasts.end()
    }

    #[test]
    fn a_volume_writes_each_content_once() {
        let contents: Vec<(u8, Option<u16>)> = (1..=64).map(|name| (name, Some(4096))).collect();
        let again = (1..=8).map(|copy| write(copy * 1_000_000_000, copy * 64, &contents));
        for written in forecast(again.collect()) {
            assert_eq!((written.client_blocks, written.found_blocks, written.ended.clone()), (512, 448, None), "{written:?}");
            assert_eq!(written.data_units, 64, "{written:?}");
            assert!(written.metadata_units + written.log_units > 0 && written.units < 128, "{written:?}");
        }
    }

    /// The disk's user waited for its flushes. Held up in the forecast, they would be answered together.
    #[test]
    fn each_flush_is_answered_before_the_next_request() {
        let pair = |n: u64| {
            let (time_ns, name) = (n * 100_000, u8::try_from(n + 1).expect("few"));
            let flush = Record::new(time_ns + 50_000, Recorded::Flush, Bytes(0), Bytes(0));
            [write(time_ns, n, &[(name, Some(4096))]), flush]
        };
        for written in forecast((0..50).flat_map(pair).collect()) {
            assert!(written.flushes >= 50, "{written:?}");
        }
        let fua = |n: u64| Record { fua: true, ..write(n * 100_000, n, &[(u8::try_from(n + 1).expect("few"), Some(4096))]) };
        for written in forecast((0..50).map(fua).collect()) {
            assert!(written.flushes >= 50, "{written:?}");
        }
    }

    #[test]
    fn content_that_was_not_seen_is_like_what_came_before() {
        let unseen =
            |time_ns, lbn, blocks: u64| Record::new(time_ns, Recorded::Write, Bytes(lbn * BLOCK_BYTES), Bytes(blocks * BLOCK_BYTES));
        let seen: Vec<(u8, Option<u16>)> = (1..=128).map(|name| (name, Some(500))).collect();
        for written in forecast(vec![write(1, 0, &seen), unseen(2, 200, 64)]) {
            assert_eq!((written.client_blocks, written.found_blocks), (192, 0), "new, and it compresses: {written:?}");
            assert!(written.commit_mode == "ordered" || written.data_units + written.log_units < 192 / 3, "{written:?}");
        }
        for written in forecast(vec![write(1, 0, &seen), write(2, 200, &seen), unseen(3, 400, 64)]) {
            assert_eq!((written.client_blocks, written.found_blocks), (320, 192), "found: {written:?}");
        }
    }

    /// A record of new contents that compress well, each with a number of its own.
    fn soft(time_ns: u64, lbn: u64, numbers: std::ops::Range<u64>) -> Record {
        let length = Bytes((numbers.end - numbers.start) * BLOCK_BYTES);
        let block = |number: u64| {
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            Block { name: ContentName::Of(bytes), compressed: Some(500) }
        };
        Record { blocks: numbers.map(block).collect(), ..Record::new(time_ns, Recorded::Write, Bytes(lbn * BLOCK_BYTES), length) }
    }

    /// A volume of little memory cannot hold back all blocks of a large request at once.
    #[test]
    fn a_large_request_is_packed_as_small_ones_are() {
        let mut forecasts = Forecasts::new(64 << 20, 64 << 20).expect("there can be such a volume");
        (0..8).for_each(|n| forecasts.take(soft(n * 1_000_000, n * 256, n * 256..(n + 1) * 256)));
        let written = &forecasts.end()[0];
        assert_eq!((written.commit_mode.as_str(), written.client_blocks), ("log", 2048), "{written:?}");
        // Seven fit into a block.
        assert!(written.data_units + written.log_units < 2048 / 6, "{written:?}");
    }

    #[test]
    fn a_forecast_without_memory_ends_and_keeps_its_counts() {
        let mut forecasts = Forecasts::new(1 << 30, 1 << 20).expect("there can be such a volume");
        for turn in 0..4000_u64 {
            forecasts.take(soft(turn, turn * 8, turn * 8..(turn + 1) * 8));
        }
        for written in forecasts.end() {
            assert_eq!(written.ended.as_deref(), Some("its memory was used up"), "{written:?}");
            assert!(written.client_blocks > 0 && written.client_blocks < 32_000, "{written:?}");
        }
    }
}
