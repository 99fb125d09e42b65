//! Observations of the device's traffic: where in a commit the engine is, which rare situations are active, and how much was written.
//! Everything here is derived from the operations alone, so that it can be compared with the engine's own account.

mod step;

pub use step::Step;

use crate::device::disk::SimDisk;
use crate::device::volume::{BlockUse, Volume};
use crate::ground::content::Content;
use onefold_engine::format::{PageId, Region, unit};
use onefold_engine::interface::Class;
use rustc_hash::FxHashSet;

/// A rare situation that crashes have to meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Situation {
    DuplicatesOnly,
    RefsOverflow,
    IncrementsAndDecrements,
    Reclaim,
    Reuse,
    ClientDiscard,
    DeviceDiscard,
    SubBlock,
    NoSpace,
    Compaction,
    LogBeyondMemory,
    SingleFua,
    OutOfLine,
    Recount,
    TornSuperblock,
    TornPage,
    Recovery,
    Format,
}

impl Situation {
    /// All situations, in the order of tables.
    pub const ALL: [Self; 18] = [
        Self::DuplicatesOnly,
        Self::RefsOverflow,
        Self::IncrementsAndDecrements,
        Self::Reclaim,
        Self::Reuse,
        Self::ClientDiscard,
        Self::DeviceDiscard,
        Self::SubBlock,
        Self::NoSpace,
        Self::Compaction,
        Self::LogBeyondMemory,
        Self::SingleFua,
        Self::OutOfLine,
        Self::Recount,
        Self::TornSuperblock,
        Self::TornPage,
        Self::Recovery,
        Self::Format,
    ];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DuplicatesOnly => "commit of duplicates only",
            Self::RefsOverflow => "refs overflow",
            Self::IncrementsAndDecrements => "page with increments and decrements",
            Self::Reclaim => "reclaim",
            Self::Reuse => "reuse of a reclaimed block",
            Self::ClientDiscard => "client's discard",
            Self::DeviceDiscard => "discard of freed blocks",
            Self::SubBlock => "sub-block write",
            Self::NoSpace => "ENOSPC",
            Self::Compaction => "compaction of the log",
            Self::LogBeyondMemory => "opening without memory for its log",
            Self::SingleFua => "epoch of a single FUA write",
            Self::OutOfLine => "LBN linked out of line",
            Self::Recount => "recount",
            Self::TornSuperblock => "torn superblock",
            Self::TornPage => "torn page",
            Self::Recovery => "crash within recovery",
            Self::Format => "format over an old volume",
        }
    }
}

/// Counts of what was sent to the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The 4 KiB units written, by the order of [`Class::ALL`].
    pub units: [u64; Class::ALL.len()],
    /// The write commands, in the same order.
    pub commands: [u64; Class::ALL.len()],
    pub flushes: u64,
    pub discards: u64,
    pub reads: u64,
}

/// The number of completed flushes, or writes with FUA, until a situation ends: enough for what caused it to be durable.
const SITUATION_FLUSHES: u8 = 2;

/// The purpose of a write, as far as its bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Content,
    Increments,
    Links,
    Removals,
    /// Decrements, fingerprints, *written* bits.
    NonCritical,
}

/// A set of purposes.
#[derive(Clone, Copy, Debug, Default)]
struct Purposes(u8);

impl Purposes {
    fn add(&mut self, purpose: Purpose) {
        self.0 |= 1 << purpose as u8;
    }

    fn remove(&mut self, purpose: Purpose) {
        self.0 &= !(1 << purpose as u8);
    }

    fn has(self, purpose: Purpose) -> bool {
        (self.0 >> (purpose as u8)) & 1 == 1
    }
}

/// The observations about one volume.
#[derive(Clone, Debug)]
pub struct Traffic {
    pub tally: Tally,
    /// The device events so far: writes, discards and flushes, issued and completed.
    pub events: u64,
    pub serving: bool,
    pub closing: bool,
    /// Whether a superblock was written: the opening knows what it found.
    has_opened: bool,
    /// Whether a recount is due or under way.
    pub recounting: bool,
    /// The writes since the last flush was issued, and those before it that are not covered yet.
    since_flush: Purposes,
    covered: Purposes,
    flushes_in_flight: u32,
    /// The writes since the last commit's end.
    commit: Purposes,
    left: [u8; Situation::ALL.len()],
    reclaimed: FxHashSet<u64>,
    refs_limit: u8,
}

fn of(class: Class) -> usize {
    Class::ALL.iter().position(|c| *c == class).expect("a class")
}

impl Traffic {
    /// Begins without traffic.
    #[must_use]
    pub fn new(refs_limit: u8) -> Self {
        Self {
            tally: Tally::default(),
            events: 0,
            serving: false,
            closing: false,
            has_opened: false,
            recounting: false,
            since_flush: Purposes::default(),
            covered: Purposes::default(),
            flushes_in_flight: 0,
            commit: Purposes::default(),
            left: [0; Situation::ALL.len()],
            reclaimed: FxHashSet::default(),
            refs_limit,
        }
    }

    /// Notes that the volume serves.
    pub fn begin_serving(&mut self) {
        self.serving = true;
    }

    /// Notes that the volume is to close.
    pub fn begin_closing(&mut self) {
        self.closing = true;
    }

    /// Notes whether a recount is due or under way.
    pub fn set_recounting(&mut self, is_due: bool) {
        self.recounting = is_due;
    }

    /// Notes that a situation begins.
    pub fn note(&mut self, situation: Situation) {
        self.left[situation as usize] = SITUATION_FLUSHES;
    }

    /// Returns whether a situation is active.
    #[must_use]
    pub fn is_on(&self, situation: Situation) -> bool {
        self.left[situation as usize] > 0
    }

    /// Notes that a write is issued; `disk` is in the state before it.
    pub fn write(&mut self, class: Class, first: u64, contents: &[std::sync::Arc<Content>], disk: &SimDisk, volume: &Volume) {
        self.events += 1;
        self.tally.units[of(class)] += contents.len() as u64;
        self.tally.commands[of(class)] += 1;
        for (block, content) in (first..).zip(contents) {
            let place = volume.place(block);
            self.has_opened |= matches!(place, BlockUse::Superblock);
            if matches!(place, BlockUse::Page(_)) && !self.has_opened {
                self.note(Situation::LogBeyondMemory);
            }
            let purpose = match place {
                BlockUse::Page(id) => match id.region {
                    Region::Refs => self.refs_written(disk.cell(block).newest(), content),
                    Region::Fingerprints => self.fingerprints_written(id, disk.cell(block).newest(), content),
                    Region::Map => Purpose::Links,
                    Region::Written => Purpose::NonCritical,
                },
                BlockUse::Data(pbn) => {
                    if self.reclaimed.remove(&pbn) {
                        self.note(Situation::Reuse);
                    }
                    if class == Class::Log && unit::is_compacted(content.bytes()) {
                        self.note(Situation::Compaction);
                    }
                    // A unit of the log has the role of links: its waiters are answered after the next flush.
                    if class == Class::Log { Purpose::Links } else { Purpose::Content }
                }
                BlockUse::Superblock | BlockUse::Unused => continue,
            };
            self.since_flush.add(purpose);
            self.commit.add(purpose);
            if purpose == Purpose::Links && self.commit.has(Purpose::Increments) && !self.commit.has(Purpose::Content) {
                self.note(Situation::DuplicatesOnly);
            }
        }
    }

    fn refs_written(&mut self, old: &Content, new: &Content) -> Purpose {
        let (mut up, mut down) = (false, false);
        for sector in (0..8).filter(|&s| old.sector_id(s) != new.sector_id(s)) {
            for (a, b) in old.sector(sector)[..500].iter().zip(&new.sector(sector)[..500]) {
                up |= b > a;
                down |= b < a;
                if b > a && *b == self.refs_limit {
                    self.note(Situation::RefsOverflow);
                }
            }
        }
        if up && down {
            self.note(Situation::IncrementsAndDecrements);
        }
        if up { Purpose::Increments } else { Purpose::NonCritical }
    }

    fn fingerprints_written(&mut self, id: PageId, old: &Content, new: &Content) -> Purpose {
        let mut purpose = Purpose::NonCritical;
        for sector in (0..8).filter(|&s| old.sector_id(s) != new.sector_id(s)) {
            let entries = old.sector(sector)[..500].chunks_exact(20).zip(new.sector(sector)[..500].chunks_exact(20));
            for (i, (a, b)) in entries.enumerate() {
                if a[19] >> 6 != 0 && b[19] >> 6 == 0 {
                    self.note(Situation::Reclaim);
                    self.reclaimed.insert(id.sector(sector) * 25 + i as u64);
                    purpose = Purpose::Removals;
                }
            }
        }
        purpose
    }

    /// Notes that a discard is issued.
    pub fn discard(&mut self) {
        self.events += 1;
        self.tally.discards += 1;
        self.note(Situation::DeviceDiscard);
    }

    /// Notes that a flush is issued.
    pub fn flush(&mut self) {
        self.events += 1;
        self.tally.flushes += 1;
        self.flushes_in_flight += 1;
        self.covered.0 |= std::mem::take(&mut self.since_flush).0;
    }

    /// Notes that a write or discard completed.
    pub fn completed(&mut self) {
        self.events += 1;
    }

    /// Notes that a flush completed.
    pub fn flushed(&mut self) {
        self.events += 1;
        self.flushes_in_flight -= 1;
        if self.covered.has(Purpose::Links) {
            self.commit = Purposes::default();
        }
        self.covered = Purposes::default();
        self.situations_pass();
    }

    /// Notes that a write with FUA completed: its epoch is durable, as by a flush.
    pub fn fua_completed(&mut self) {
        self.events += 1;
        self.since_flush.remove(Purpose::Links);
        self.commit = Purposes::default();
        self.situations_pass();
    }

    fn situations_pass(&mut self) {
        for left in &mut self.left {
            *left = left.saturating_sub(1);
        }
    }

    /// Returns the step of a checkpoint of the log, which runs beside the commits that `step` describes.
    #[must_use]
    pub fn beside(&self) -> Option<Step> {
        let has = |purpose| self.since_flush.has(purpose) || self.covered.has(purpose);
        if !self.serving || self.closing {
            return None;
        }
        let steps = [
            (self.flushes_in_flight > 0 && self.covered.has(Purpose::Increments), Step::Flush1),
            (has(Purpose::Removals), Step::Reclaim),
            (self.since_flush.has(Purpose::Increments), Step::Refs),
            (has(Purpose::NonCritical), Step::NonCritical),
        ];
        let (_, step) = steps.into_iter().find(|&(is_on, _)| is_on)?;
        (step != self.step()).then_some(step)
    }

    /// Returns the place where the engine is.
    #[must_use]
    pub fn step(&self) -> Step {
        let since = |purpose| self.since_flush.has(purpose);
        if !self.serving {
            Step::Opening
        } else if self.closing {
            Step::Closing
        } else if self.flushes_in_flight > 0 && self.covered.has(Purpose::Links) {
            Step::Flush2
        } else if self.flushes_in_flight > 0 && (self.covered.has(Purpose::Increments) || self.covered.has(Purpose::Content)) {
            Step::Flush1
        } else if since(Purpose::Links) {
            Step::Links
        } else if since(Purpose::Removals) || self.covered.has(Purpose::Removals) {
            Step::Reclaim
        } else if since(Purpose::Increments) {
            Step::Refs
        } else if since(Purpose::NonCritical) || self.covered.has(Purpose::NonCritical) {
            Step::NonCritical
        } else if self.recounting {
            Step::Recount
        } else if since(Purpose::Content) {
            Step::Content
        } else {
            Step::Idle
        }
    }
}
