//! The options of a run, all drawn from the run's seed: some runs do much of one thing and nothing of another, so that rare states are
//! frequent.

use fastrand::Rng;
use onefold_engine::format::{CommitMode, REFS_MAX};
use onefold_engine::settings::{Compression, Persistence, Settings};
use std::fmt;

/// The volumes that runs work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A thin volume: more logical blocks than physical ones, in one sector of refs.
    Tiny,
    /// A volume that is not thin, with a few free blocks among many that do not change, in several sectors and pages of every region.
    Spread,
    /// A thin volume with many more pages of map than memory holds.
    Wide,
    /// A thin volume with room for epochs of hundreds of new blocks.
    Roomy,
    /// Like `Tiny`, with two contents that have nearly as many links as a real volume's block may have.
    Linked,
}

/// The commit modes of the lives of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// All lives have the same mode.
    One(CommitMode),
    /// Each life draws its own mode: a volume that ended in one mode, crashed or not, is opened in the other.
    Any,
}

impl Modes {
    /// Returns whether lives may have a log.
    #[must_use]
    pub fn log(self) -> bool {
        self != Self::One(CommitMode::Ordered)
    }

    /// Returns whether lives may have none.
    #[must_use]
    pub fn ordered(self) -> bool {
        self != Self::One(CommitMode::Log)
    }

    /// Draws the mode of a life.
    #[must_use]
    pub fn draw(self, rng: &mut Rng) -> CommitMode {
        match self {
            Self::One(mode) => mode,
            Self::Any if rng.bool() => CommitMode::Log,
            Self::Any => CommitMode::Ordered,
        }
    }
}

/// The weights of the clients' operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    pub write: u32,
    pub part: u32,
    pub read: u32,
    pub flush: u32,
    pub discard: u32,
    pub zeroes: u32,
}

/// The number of blocks that a run on a roomy volume writes to, and the largest number of blocks of a write.
pub const ROOMY_LBNS: usize = 320;
pub const ROOMY_BLOCKS: u64 = 16;

/// The options of one run.
#[derive(Clone, Debug)]
pub struct Options {
    pub shape: Shape,
    pub settings: Settings,
    pub mix: Mix,
    /// The number of different contents that writes choose from; other contents are unique.
    pub alphabet: u32,
    /// The odds, in 256, that a write's block is unique, or all zeros.
    pub unique: u8,
    pub zero: u8,
    /// The odds, in 256, that a write asks for FUA.
    pub fua: u8,
    /// The odds, in 256, that a read or discard is delayed for long.
    pub delay: u8,
    /// The odds, in 256, that a digest or a compression is late by many requests.
    pub late: u8,
    /// Whether contents differ only after their first sector, and parts of blocks are written so that the blocks become equal to others.
    pub coincide: bool,
    /// The odds, in 256, that time jumps to the next timer at a step.
    pub jump: u8,
    /// Whether the store's file system runs short of room from time to time.
    pub runs_short: bool,
    /// The store is a file, whose host writes metadata of its own where nothing was written yet.
    pub in_file: bool,
    /// Whether it then has room for few blocks, or for none.
    pub runs_out: bool,
    /// The odds, in 256, that somebody gives an order to the work out of line at a step.
    pub orders: u8,
    /// The odds, in 256, that somebody gives an order to the scrub at a step.
    pub scrubs: u8,
    /// The odds, in 256, that a write is deferred: it gets a checksum, and no fingerprint.
    pub deferred: u8,
    /// The odds, in 256, that ranges are protected at a step.
    pub protects: u8,
    /// The odds, in 256, that a request brings a policy for its blocks.
    pub hinted: u8,
    /// The odds, in 256, that a request says which streams its blocks belong to.
    pub streams: u8,
    /// The number of requests at a time.
    pub depth: usize,
    /// The largest number of blocks of a write.
    pub blocks: u64,
    /// The number of blocks that writes go to.
    pub lbns: usize,
    /// The number of metadata pages that memory has room for; none for the whole share.
    pub pages: Option<u64>,
    /// The approximate number of blocks that the read cache has room for; none for the whole share.
    pub cached: Option<u64>,
}

impl Options {
    /// Draws the number of live records that memory is meant for.
    pub fn live_records_max(rng: &mut Rng) -> u64 {
        [1, 4, 16, u64::MAX, u64::MAX][rng.usize(0..5)]
    }

    /// Draws options, and the mode of the first life.
    #[must_use]
    pub fn draw_in(modes: Modes, rng: &mut Rng) -> Self {
        let mut options = Self::draw(rng);
        options.settings.commit_mode = modes.draw(rng);
        options
    }

    /// Draws the settings that the run's own generator decides.
    fn settings(persistence: Persistence, shape: Shape, refs_limit: u8, rng: &mut Rng) -> Settings {
        let mut settings = Settings { persistence, memory_bytes: 2 << 20, ..Settings::default() };
        let (facts, knobs) = (&mut settings.facts, &mut settings.knobs);
        knobs.compact_beyond = [2, 4, 8, 2048][rng.usize(0..4)];
        knobs.checkpoint_beyond = [3, 12, 4096][rng.usize(0..3)];
        knobs.live_records_max = Self::live_records_max(rng);
        // Drawn from a copy, so that a seed finds again what it has found.
        knobs.ledger_units_max = [4, 32, 16_384, 16_384][rng.clone().usize(0..4)];
        settings.compression = [Compression::Off, Compression::Carriers, Compression::All, Compression::All][rng.usize(0..4)];
        settings.noncritical_delay_ms = [0, 5, 100, 30_000][rng.usize(0..4)];
        settings.commit_period_ms = [5, 1000, 1000][rng.usize(0..3)];
        settings.anticipation_ms = [0, 1][rng.usize(0..2)];
        settings.verify_reads = rng.u8(..) < 230;
        settings.verify_duplicates = rng.u8(..) < 32;
        settings.discard_freed = rng.u8(..) < 200;
        knobs.discard_batch_blocks = [1, 4, 1024][rng.usize(0..3)];
        knobs.refs_limit = refs_limit;
        knobs.recount_window_blocks = [16, 64, 1 << 20][rng.usize(0..3)];
        knobs.recount_pages_per_second = [1000, 100_000][rng.usize(0..2)];
        knobs.rebuild_reads_per_second = [0, 1000, 100_000][rng.usize(0..3)];
        facts.device_takes_fua = rng.u8(..) < 96;
        facts.keeps_journal = rng.u8(..) < if shape == Shape::Linked { 128 } else { 64 };
        facts.journal_records_max = [16, 64, 1 << 16][rng.usize(0..3)];
        facts.journal_contents_max = [0, 2, 8, 1 << 10][rng.usize(0..4)];
        settings
    }

    /// Draws options.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let some = |rng: &mut Rng, most: u32| if rng.bool() { 0 } else { rng.u32(0..=most) };
        let shape = [Shape::Tiny, Shape::Tiny, Shape::Tiny, Shape::Spread, Shape::Spread, Shape::Spread, Shape::Wide][rng.usize(0..7)];
        let refs_limit = [3, 3, 3, 4, 4, rng.u8(5..=9), REFS_MAX, REFS_MAX][rng.usize(0..8)];
        let shape = if refs_limit == REFS_MAX && shape != Shape::Wide && rng.bool() { Shape::Linked } else { shape };
        let persistence = if rng.u8(..) < 48 { Persistence::Strong } else { Persistence::Weak };
        // Draws from this generator do not change any other draws.
        let mut aside = Rng::with_seed(!rng.clone().u64(..));
        let mut streams = Rng::with_seed(rng.clone().u64(..).rotate_left(32));
        let mut sieve = Rng::with_seed(rng.clone().u64(..).rotate_left(16));
        let mut settings = Self::settings(persistence, shape, refs_limit, rng);
        let (facts, knobs) = (&mut settings.facts, &mut settings.knobs);
        settings.keep_ms = [0, 0, 500][aside.usize(0..3)];
        settings.full_wait_ms = [0, 0, 20, 500][aside.usize(0..4)];
        facts.retries_when_full = aside.bool();
        let runs_short = aside.bool();
        knobs.index_bytes_max = [0, u64::MAX][aside.usize(0..2)];
        knobs.skipped_bytes_max = [256, u64::MAX][aside.usize(0..2)];
        knobs.out_of_line_reads_per_second = [0, 1000, 100_000][aside.usize(0..3)];
        knobs.out_of_line_delay_ms = [0, 20, 30_000][aside.usize(0..3)];
        settings.adapts_to_duplication = aside.bool();
        knobs.skipped_save_ms = [0, 50, 600_000][aside.usize(0..3)];
        settings.min_run = [1, 1, 1, 3][aside.usize(0..4)];
        let in_file = aside.bool();
        knobs.stock_piece_blocks = [4, 4, 256][aside.usize(0..3)];
        facts.trim_rest_ms = [0, 500][aside.usize(0..2)];
        knobs.container_blocks = [2, 8, 64, 1000][streams.usize(0..4)];
        knobs.always_sieves = sieve.u8(..) < 96;
        Self {
            shape,
            settings,
            runs_short,
            in_file,
            runs_out: runs_short && aside.u8(..) < 80,
            orders: 0,
            deferred: [0, 0, 40, 200][aside.usize(0..4)],
            scrubs: [0, 0, 0, 0, 0, 0, 0, 8][aside.usize(0..8)],
            hinted: [0, 0, 40, 200][aside.usize(0..4)],
            streams: [0, 0, 128, 255][streams.usize(0..4)],
            protects: [0, 0, 0, 6][aside.usize(0..4)],
            mix: Mix {
                write: rng.u32(4..=20),
                part: some(rng, 8),
                read: some(rng, 10),
                flush: rng.u32(0..=8),
                discard: some(rng, 6),
                zeroes: some(rng, 3),
            },
            alphabet: [2, 4, 8, 20][rng.usize(0..4)],
            unique: [0, 20, 128, 255][rng.usize(0..4)],
            zero: [0, 10, 40][rng.usize(0..3)],
            fua: [0, 0, 30][rng.usize(0..3)],
            delay: [0, 20, 100][rng.usize(0..3)],
            late: [0, 0, 0, 20][rng.usize(0..4)],
            coincide: false,
            jump: [1, 10, 60][rng.usize(0..3)],
            depth: [1, 2, 4, 8][rng.usize(0..4)],
            blocks: [1, 1, 2, 4][rng.usize(0..4)],
            lbns: [4, 8, 24, 64][rng.usize(0..4)],
            pages: (shape == Shape::Wide).then(|| pages_of_little_memory(rng)),
            cached: None,
        }
    }

    /// Makes a variant in which most pages of metadata find no room in memory: reads evict them, and few commits bring new content, so that
    /// these rely on pages alone.
    #[must_use]
    pub fn in_little_memory(mut self, rng: &mut Rng) -> Self {
        (self.shape, self.pages) = (Shape::Wide, Some(pages_of_little_memory(rng)));
        (self.mix.read, self.mix.flush, self.unique, self.zero) = (20, 1, 0, 0);
        // What is filtered is new content.
        self.settings.min_run = 1;
        self.settings.noncritical_delay_ms = [0, 5][rng.usize(0..2)];
        self
    }

    /// Makes a variant in which a refs page is written early with an open epoch's increments, is evicted, and is read again, unchanged,
    /// when the epoch commits. Few writes among many reads evict it, and time does not jump to the epoch's end before. All content repeats,
    /// so that nothing but the page needs the flush; and a duplicate is compared with a block that has to be read: meanwhile its page is
    /// back.
    #[must_use]
    pub fn turning_pages_out(self, rng: &mut Rng) -> Self {
        let mut options = self.in_little_memory(rng);
        (options.pages, options.cached) = (Some(rng.u64(16..30)), Some(8));
        options.mix = Mix { write: 2, part: 0, read: 100, flush: 1, discard: 0, zeroes: 0 };
        (options.alphabet, options.lbns, options.blocks, options.depth) = (20, 64, 1, 8);
        (options.fua, options.delay, options.jump) = (0, 100, 0);
        (options.settings.persistence, options.settings.commit_period_ms) = (Persistence::Weak, 1000);
        (options.settings.verify_duplicates, options.settings.knobs.refs_limit) = (true, 254);
        options
    }

    /// Makes a variant in which epochs become large: several units of the log, and content that is flushed before them.
    #[must_use]
    pub fn with_large_epochs(mut self, rng: &mut Rng) -> Self {
        (self.shape, self.pages) = (Shape::Roomy, None);
        (self.mix.write, self.mix.part, self.mix.flush, self.mix.read) = (60, 0, rng.u32(0..=1), 1);
        (self.depth, self.jump) = (8, 1);
        // The content that was read for a part of a block becomes outdated while its digest is late.
        self.coincide = rng.u8(..) < 160;
        if self.coincide {
            self.settings.compression = Compression::All;
            (self.mix.part, self.depth, self.late) = (900, 64, 255);
        }
        (self.unique, self.zero, self.fua) = ([200, 255][rng.usize(0..2)], 0, 0);
        (self.blocks, self.lbns) = (ROOMY_BLOCKS, ROOMY_LBNS);
        (self.settings.persistence, self.settings.commit_period_ms) = (Persistence::Weak, 1000);
        // With less memory, an epoch is sealed before its records fill a unit.
        self.settings.memory_bytes = 8 << 20;
        self
    }

    /// Makes a variant in which the index finds few of many duplicates, and the work out of line finds the others. Few blocks are written
    /// again soon, since only what is durable is looked up.
    #[must_use]
    pub fn out_of_line(mut self, rng: &mut Rng) -> Self {
        let (shape, knobs) = ([Shape::Tiny, Shape::Spread][rng.usize(0..2)], &mut self.settings.knobs);
        (knobs.index_bytes_max, knobs.out_of_line_reads_per_second) = (0, 100_000);
        knobs.out_of_line_delay_ms = [0, 5, 50][rng.usize(0..3)];
        (self.shape, self.pages, self.settings.verify_duplicates) = (shape, None, false);
        (self.alphabet, self.unique, self.zero, self.blocks) = (20, [0, 20][rng.usize(0..2)], 0, [1, 4][rng.usize(0..2)]);
        (self.mix.write, self.mix.flush, self.lbns) = (20, rng.u32(2..=12), 64);
        (self.orders, self.jump) = ([0, 8][rng.usize(0..2)], [10, 60][rng.usize(0..2)]);
        self
    }

    /// Makes a variant for blocks that rot: each content lies several times, and what a life finds is not kept by a journal of its
    /// acknowledgements.
    #[must_use]
    pub fn rotting(mut self) -> Self {
        (self.settings.verify_reads, self.settings.facts.keeps_journal) = (true, false);
        (self.alphabet, self.unique, self.zero) = (self.alphabet.min(8), self.unique.min(20), 0);
        self
    }

    /// Makes a variant in which the volume fills: nothing repeats, and little is freed.
    #[must_use]
    pub fn filling(mut self) -> Self {
        self.shape = Shape::Tiny;
        self.pages = None;
        (self.mix.write, self.mix.discard, self.mix.zeroes, self.mix.read) = (20, 0, 0, 1);
        (self.unique, self.zero, self.lbns) = (255, 0, 64);
        self
    }
}

fn pages_of_little_memory(rng: &mut Rng) -> u64 {
    rng.u64(30..60)
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
