//! The cost of the work out of line on a large, full volume with little memory: the units that it reads for each candidate, and for each
//! unit that clients write meanwhile.
//!
//! 1. The real engine fills the volume with content that does not repeat, over the counting device. Then it is closed, and opened with
//!    little memory.
//! 2. A client overwrites single blocks at random places, a little apart. Some have the content of another block. Most of them are not
//!    in the index, which has room for a small part of the volume.
//! 3. The volume serves, and the client writes, until a pass over the fingerprint table is over that began with all that was skipped until
//!    then. The reads are the engine's own count.

use crate::ground::figure::{Figure, Relation, say};
use crate::ground::words::{above_zero, number};
use crate::laboratory::counts::device::Device;
use crate::laboratory::counts::names::{digest_of, write_name};
use crate::laboratory::counts::pool::Pool;
use fastrand::Rng;
use onefold_engine::Engine;
use onefold_engine::buffer::Home;
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Event, Op, Payload, Policies, Request, RequestId};
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::settings::Settings;
use onefold_engine::stats::OutOfLineCounts;
use onefold_engine::units::{BLOCK_BYTES, Bytes, Time};
use onefold_trace::counted::rig::Rig;
use onefold_trace::counted::volume::NewVolume;
use onefold_trace::model::{Model, Timetable};
use std::process::ExitCode;
use std::sync::Arc;

/// The blocks of one request while the volume is filled.
const FILL_BLOCKS: u64 = 64;
/// The memory while it is filled.
const FILL_BYTES: u64 = 64 << 20;
/// The time between two writes of the client.
const THINK_NS: u64 = 20_000_000;
/// One write in this many has the content of another block.
const DUPLICATE_EVERY: u64 = 10;

/// The parameters of a run.
struct Plan {
    blocks: u64,
    memory_bytes: u64,
    mode: CommitMode,
    seed: u64,
}

/// A volume over the counting device, and the accountant of its requests.
struct Volume {
    rig: Rig<Engine, Timetable>,
    accountant: Arc<Accountant>,
    memory: Arc<Pool>,
    next: u64,
}

impl Volume {
    fn open(engine: Engine, device: Device, accountant: Arc<Accountant>) -> Result<Self, String> {
        let memory = Pool::of_requests(accountant.clone());
        let model = Model::named("850pro")?;
        Ok(Self { rig: Rig::open(engine, device, model)?, accountant, memory, next: 0 })
    }

    fn request(&mut self, op: Op, first: u64, contents: &[u64]) -> Result<(), String> {
        let bytes = contents.len() as u64 * BLOCK_BYTES;
        while bytes > 0 && !self.accountant.try_take(Part::Requests, bytes) {
            self.rig.take_turn(None)?;
            self.rig.replies.clear();
        }
        let payload = (bytes > 0).then(|| {
            let mut buffer = self.memory.clone().take(contents.len());
            contents.iter().enumerate().for_each(|(i, &content)| write_name(content, buffer.block_mut(i)));
            Payload { buffer: buffer.freeze(), digests: contents.iter().map(|&content| digest_of(content)).collect() }
        });
        self.next += 1;
        let (id, offset, length) = (RequestId(self.next), Bytes(first * BLOCK_BYTES), Bytes(bytes));
        self.rig.feed(Event::Request(Request { id, op, offset, length, payload, fua: false, policies: Policies::default() }))?;
        self.rig.replies.clear();
        Ok(())
    }

    fn pass(&mut self, ns: u64) -> Result<(), String> {
        self.rig.idle(self.rig.now_ns() + ns)?;
        self.rig.replies.clear();
        Ok(())
    }

    fn counts(&self) -> OutOfLineCounts {
        self.rig.machine.stats().out_of_line
    }
}

/// The settings of a volume on which nothing is looked for.
fn filling(plan: &Plan) -> Settings {
    let settings = Settings { memory_bytes: FILL_BYTES, commit_mode: plan.mode, ..Settings::default() };
    settings.with_knobs(|knobs| (knobs.index_bytes_max, knobs.out_of_line_reads_per_second) = (0, 0))
}

/// Makes a volume each of whose blocks has content of its own, and closes it.
fn fill(plan: &Plan) -> Result<Device, String> {
    let NewVolume { engine, device, accountant, .. } = NewVolume::of(plan.blocks, filling(plan))?;
    let mut volume = Volume::open(engine, device, accountant)?;
    for first in (0..plan.blocks).step_by(usize::try_from(FILL_BLOCKS).map_err(|e| e.to_string())?) {
        let contents: Vec<u64> = (first..plan.blocks.min(first + FILL_BLOCKS)).map(|lbn| lbn + 1).collect();
        volume.request(Op::Write, first, &contents)?;
    }
    volume.rig.close()?;
    Ok(volume.rig.device)
}

/// The cost of a pass over the table.
struct Found {
    counts: OutOfLineCounts,
    /// The units that clients wrote, and the duplicates among them.
    written: u64,
    duplicates: u64,
    found_in_line: u64,
}

fn run(plan: &Plan) -> Result<Found, String> {
    let device = fill(plan)?;
    let settings = Settings { memory_bytes: plan.memory_bytes, commit_mode: plan.mode, ..Settings::default() };
    let accountant = Accountant::divided(settings.memory_bytes, settings.commit_mode.has_log());
    let engine = Engine::open(device.superblock(), settings, Pool::plain(), accountant.clone(), Time(0));
    let mut volume = Volume::open(engine, device, accountant)?;
    let (mut rng, mut written, mut duplicates) = (Rng::with_seed(plan.seed), 0, 0);
    // As many as a pass is for: when they have been set aside it begins by itself.
    let mut has_begun = false;
    loop {
        let counts = volume.counts();
        if has_begun && counts.candidates == 0 {
            break;
        }
        has_begun |= counts.looked_up > 0;
        written += 1;
        let copies = written % DUPLICATE_EVERY == 0;
        duplicates += u64::from(copies);
        let content = if copies { 1 + rng.u64(0..plan.blocks) } else { plan.blocks + written };
        volume.request(Op::Write, rng.u64(0..plan.blocks), &[content])?;
        volume.pass(THINK_NS)?;
        if written > plan.blocks {
            return Err(format!("no pass is over although each block was overwritten once: {counts:?}"));
        }
    }
    let counts = volume.counts();
    let found_in_line = volume.rig.machine.ledger().duplicates;
    Ok(Found { counts, written, duplicates, found_in_line })
}

#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { f64::INFINITY } else { a as f64 / b as f64 }
}

/// Runs `sweeps [sweep-units] [sweep-day] [--blocks N] [--memory-kib N] [--mode log|ordered] [--seed N] [--json]`.
///
/// # Errors
/// Returns what was typed wrong, or what the run found.
pub fn command(words: &[String]) -> Result<ExitCode, String> {
    let mut plan = Plan { blocks: 1 << 26, memory_bytes: 3500 << 10, mode: CommitMode::Log, seed: 1 };
    let (mut json, mut names) = (false, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => json = true,
            "--seed" => plan.seed = number(word, words.next())?,
            "--blocks" => plan.blocks = above_zero(word, words.next())?,
            "--memory-kib" => plan.memory_bytes = above_zero::<u64>(word, words.next())? << 10,
            "--mode" => match words.next().map(String::as_str) {
                Some("log") => plan.mode = CommitMode::Log,
                Some("ordered") => plan.mode = CommitMode::Ordered,
                other => return Err(format!("--mode {}: there are log and ordered", other.unwrap_or_default())),
            },
            "sweep-units" | "sweep-day" => names.push(word.as_str()),
            other => {
                let all = "sweep-units, sweep-day, --blocks N, --memory-kib N, --mode log|ordered, --seed N, --json";
                return Err(format!("sweeps has no option {other}; it has {all}"));
            }
        }
    }
    let found = run(&plan)?;
    let Found { counts, written, duplicates, found_in_line } = &found;
    if counts.linked == 0 {
        return Err(format!("nothing was linked out of line: {counts:?}"));
    }
    let figures = [
        Figure::new("sweep-units", ratio(counts.read_units, counts.looked_up), "units/candidate", Relation::AtMost, 4.0),
        Figure::new("sweep-day", ratio(counts.read_units, *written), "units/unit", Relation::AtMost, 2.0),
    ];
    let mode = if plan.mode == CommitMode::Log { "log" } else { "ordered" };
    let mut all_hold = true;
    for mut figure in figures {
        if !names.is_empty() && !names.contains(&figure.name) {
            continue;
        }
        figure.seed = plan.seed;
        figure.command = format!(
            "cargo run --release -p onefold-sim -- sweeps {} --blocks {} --memory-kib {} --mode {mode} --seed {}",
            figure.name,
            plan.blocks,
            plan.memory_bytes >> 10,
            plan.seed
        );
        figure.detail = serde_json::json!({ "blocks": plan.blocks, "memory_bytes": plan.memory_bytes, "mode": mode,
            "written": written, "duplicates": duplicates, "found_in_line": found_in_line, "candidates": counts.looked_up,
            "linked": counts.linked, "read_units": counts.read_units, "pages": counts.pages });
        all_hold &= figure.holds;
        let text = if json { serde_json::to_string(&figure).map_err(|e| e.to_string())? } else { format!("{figure}\n  {}", figure.detail) };
        if !say(text) {
            break;
        }
    }
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
