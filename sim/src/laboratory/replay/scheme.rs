//! The schemes that a trace is replayed on: each is a [`Machine`] on a new device.

use crate::laboratory::counts::device::Device;
use crate::machine::Machine;
use crate::machine::account::{Account, BlockUsage, Epochs};
use crate::rivals::none::Plain;
use crate::rivals::{self, Baseline, caftl, journal, shadow};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Action, Event, Legacy};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::{Compression, Knobs, Persistence, Settings};
use onefold_engine::units::{Blocks, Bytes, Time};
use onefold_trace::counted::volume::NewVolume;
use std::sync::Arc;

/// The memory for CAFTL's fingerprints: all that SmartDedup's paper gives it (section 4.1).
const CAFTL_BYTES: u64 = 3_500_000;

/// The schemes to compare (OrderMergeDedup section 4.2, and a journal).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// No deduplication.
    None,
    /// Deduplication with a redo journal.
    Journal,
    /// Dmdedup's copy-on-write trees.
    Shadow,
    /// Deduplication in the flash's translation layer, with pre-hashing and without.
    Caftl,
    CaftlNoPreHash,
    /// The engine with every page written right after its commit, and no anticipation.
    OrderedOnly,
    /// The engine with non-critical updates delayed for 30 s.
    Ordered,
    /// The same with anticipation as the paper has it: for its whole period, or not at all.
    OrderedPeriod,
    /// The same with all of anticipation: the default settings of mode `ordered`.
    OrderedAnticipate,
    /// The log, with plain units only.
    Log,
    /// The log with at most one compressed block in a unit, if it is small enough.
    Carried,
    /// The log with as many blocks in a unit as fit, and packs: the default settings in mode `log`, which is the default of a volume.
    Packed,
}

impl Scheme {
    /// The schemes of every figure, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::Journal,
        Self::Shadow,
        Self::OrderedOnly,
        Self::Ordered,
        Self::OrderedAnticipate,
        Self::Log,
        Self::Carried,
        Self::Packed,
    ];
    /// The schemes with a log.
    pub const LOGS: [Self; 3] = [Self::Log, Self::Carried, Self::Packed];

    /// Returns the name as users type it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Journal => "journal",
            Self::Shadow => "shadow",
            Self::Caftl => "caftl",
            Self::CaftlNoPreHash => "caftl-without-pre-hashing",
            Self::OrderedOnly => "ordered-only",
            Self::Ordered => "ordered",
            Self::OrderedPeriod => "ordered-period",
            Self::OrderedAnticipate => "ordered-anticipate",
            Self::Log => "log",
            Self::Carried => "carried",
            Self::Packed => "packed",
        }
    }

    /// Returns whether it is no engine of Onefold's.
    #[must_use]
    pub const fn is_rival(self) -> bool {
        matches!(self, Self::None | Self::Journal | Self::Shadow | Self::Caftl | Self::CaftlNoPreHash)
    }

    /// Returns the scheme with this name.
    ///
    /// # Errors
    /// Fails if there is none, and lists the known names.
    pub fn named(name: &str) -> Result<Self, String> {
        let all = || Self::ALL.into_iter().chain([Self::OrderedPeriod, Self::Caftl, Self::CaftlNoPreHash]);
        let known = || all().map(Self::name).collect::<Vec<_>>().join(", ");
        all().find(|s| s.name() == name).ok_or_else(|| format!("no scheme is called {name}; there are {}", known()))
    }
}

/// The limits of what the engine finds in a replay.
#[derive(Clone, Copy, Debug)]
pub struct IndexLimits {
    /// The bytes of its index.
    pub bytes_max: u64,
    /// Whether duplicates that it does not find are looked for out of line.
    pub is_out_of_line: bool,
    /// The shortest run of duplicates that is linked to in line.
    pub min_run: u64,
}

impl Default for IndexLimits {
    /// Sets no limit but memory.
    fn default() -> Self {
        Self { bytes_max: u64::MAX, is_out_of_line: true, min_run: 1 }
    }
}

impl IndexLimits {
    fn apply(self, knobs: &mut Knobs) {
        knobs.index_bytes_max = self.bytes_max;
        if !self.is_out_of_line {
            knobs.out_of_line_reads_per_second = 0;
        }
        // A replay idles for a minute between phases, and its device takes no time.
        if self.bytes_max < u64::MAX {
            knobs.out_of_line_delay_ms = 1000;
        }
    }
}

/// A scheme that is ready to serve.
pub struct ReadyScheme {
    pub machine: Box<dyn Machine>,
    pub device: Device,
    /// The size of the device that the scheme needs.
    pub device_bytes: Bytes,
    /// The accountant that the client asks for its requests' memory.
    pub accountant: Arc<Accountant>,
}

impl ReadyScheme {
    /// Makes a rival on a bare device with its format.
    fn rival<B: Baseline + 'static>(baseline: B, memory_bytes: u64) -> Self {
        let (mut device, device_bytes) = (Device::default(), baseline.device_bytes());
        baseline.format().into_iter().for_each(|(at, page)| device.format_page(at, &page));
        Self { machine: Box::new(RivalMachine(baseline)), device, device_bytes, accountant: Accountant::new(memory_bytes) }
    }
}

/// A rival as a machine with an account of its work.
struct RivalMachine<B>(B);

impl<B: Baseline> Machine for RivalMachine<B> {
    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        self.0.step(now, event, out);
    }

    fn replay_journal(&mut self, legacy: Legacy) {
        self.0.replay_journal(legacy);
    }

    fn account(&self) -> Account {
        let report = self.0.report();
        let epoch = |cause: &str| report.epochs.iter().find(|(name, _)| *name == cause).map_or(0, |&(_, n)| n);
        let epochs = Epochs {
            flush: epoch("flush"),
            fua: epoch("fua"),
            strong: epoch("strong"),
            timer: epoch("timer"),
            memory: epoch("pressure"),
            close: epoch("close"),
        };
        let found = ["duplicates", "unchanged blocks", "zero blocks"].map(|name| report.fact(name));
        let usage = || {
            let kept = report.fact("blocks kept by their fingerprint alone")?;
            Some(BlockUsage { linked: report.fact("blocks in use")? - kept, shared: None, kept, free: None, log: 0 })
        };
        Account {
            ledger: None,
            epochs: (!report.epochs.is_empty()).then_some(epochs),
            log: None,
            found: found.into_iter().sum(),
            usage: usage(),
            facts: report.facts,
        }
    }
}

/// Makes Dmdedup's design with this much of its metadata in memory.
#[must_use]
pub fn shadow_with_cache(persistence: Persistence, blocks: u64, memory_bytes: u64, cache: Bytes) -> ReadyScheme {
    let settings = rivals::Settings { metadata_cache: Some(cache), ..rivals::Settings::new(persistence, Blocks(blocks)) };
    ReadyScheme::rival(shadow::machine(settings), memory_bytes)
}

fn log(settings: Settings) -> Settings {
    Settings { commit_mode: CommitMode::Log, ..settings }
}

/// Makes a scheme's machine on a new device, for a client that sees `blocks`.
///
/// # Errors
/// Fails if there can be no volume of that size.
pub fn ready(scheme: Scheme, persistence: Persistence, blocks: u64, memory_bytes: u64, index: IndexLimits) -> Result<ReadyScheme, String> {
    let rival = rivals::Settings::new(persistence, Blocks(blocks));
    let defaults =
        Settings { persistence, memory_bytes, min_run: index.min_run, ..Settings::default() }.with_knobs(|knobs| index.apply(knobs));
    let settings = match scheme {
        Scheme::None => return Ok(ReadyScheme::rival(Plain::new(rival), memory_bytes)),
        Scheme::Journal => return Ok(ReadyScheme::rival(journal::machine(rival), memory_bytes)),
        Scheme::Shadow => return Ok(ReadyScheme::rival(shadow::machine(rival), memory_bytes)),
        Scheme::Caftl | Scheme::CaftlNoPreHash => {
            let bytes = index.bytes_max.min(CAFTL_BYTES);
            return Ok(ReadyScheme::rival(caftl::Caftl::new(rival, bytes, scheme == Scheme::Caftl), memory_bytes));
        }
        Scheme::OrderedOnly => Settings { noncritical_delay_ms: 0, anticipation_ms: 0, ..defaults },
        Scheme::Ordered => Settings { anticipation_ms: 0, ..defaults },
        Scheme::OrderedPeriod => defaults.with_knobs(|knobs| knobs.anticipates_by_shares = false),
        Scheme::OrderedAnticipate => defaults,
        Scheme::Log => Settings { compression: Compression::Off, ..log(defaults) },
        Scheme::Carried => Settings { compression: Compression::Carriers, ..log(defaults) }.with_knobs(|knobs| knobs.carrier_slots_max = 1),
        Scheme::Packed => log(defaults),
    };
    let NewVolume { engine, device, bytes, accountant } = NewVolume::of(blocks, settings)?;
    Ok(ReadyScheme { machine: Box::new(engine), device, device_bytes: bytes, accountant })
}
