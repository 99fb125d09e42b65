//! What a machine tells of its own work. Its driver counts for itself; this is held against it, or adds what no driver can see.

use onefold_engine::stats::{EpochCounts, Ledger, Stats, Units};
use serde::Serialize;

/// Counts that only grow.
macro_rules! counts {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$what:meta])* pub $field:ident: u64,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct $name { $($(#[$what])* pub $field: u64,)* }

        impl $name {
            /// What has come since an earlier account.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field - earlier.$field,)* }
            }
        }
    };
}

counts! {
    /// Epochs by what ended them.
    pub struct Epochs {
        pub flush: u64,
        pub fua: u64,
        pub strong: u64,
        pub timer: u64,
        /// Memory or space.
        pub memory: u64,
        pub close: u64,
    }
}

impl Epochs {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.flush + self.fua + self.strong + self.timer + self.memory + self.close
    }
}

impl From<&Ledger> for Epochs {
    fn from(l: &Ledger) -> Self {
        let (timer, memory) = (l.epochs_timer, l.epochs_pressure);
        Self { flush: l.epochs_flush, fua: l.epochs_fua, strong: l.epochs_strong, timer, memory, close: 0 }
    }
}

counts! {
    /// Epochs of one kind, and what they sent: the engine's counts, which it does not know to write as JSON.
    pub struct Sent {
        pub epochs: u64,
        pub new_blocks: u64,
        /// Of those, in slots of the epochs' own units.
        pub riders: u64,
        pub plain: u64,
        pub carriers: u64,
        pub flushes: u64,
    }
}

impl From<EpochCounts> for Sent {
    fn from(c: EpochCounts) -> Self {
        let EpochCounts { epochs, new_blocks, riders, plain, carriers, flushes, by_fua: _ } = c;
        Self { epochs, new_blocks, riders, plain, carriers, flushes }
    }
}

/// The log's epochs that wrote units, by what could ride in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogEpochs {
    /// Of up to 64 new blocks, one of which at least came to 3,500 bytes or less.
    pub riding: Sent,
    /// Of up to 64 new blocks, none of which did.
    pub bare: Sent,
    pub large: Sent,
    /// Of no client.
    pub removals: Sent,
    /// Of large epochs, and the blocks in them.
    pub packs: u64,
    pub packed_blocks: u64,
}

impl LogEpochs {
    /// What has come since an earlier account.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            riding: self.riding.since(&earlier.riding),
            bare: self.bare.since(&earlier.bare),
            large: self.large.since(&earlier.large),
            removals: self.removals.since(&earlier.removals),
            packs: self.packs - earlier.packs,
            packed_blocks: self.packed_blocks - earlier.packed_blocks,
        }
    }

    /// Each kind of epoch.
    #[must_use]
    pub fn all(&self) -> [Sent; 4] {
        [self.riding, self.bare, self.large, self.removals]
    }

    /// Epochs of up to 64 new blocks, and larger ones; those of no client left out.
    #[must_use]
    pub fn small_and_large(&self) -> (u64, u64) {
        (self.riding.epochs + self.bare.epochs, self.large.epochs)
    }

    /// Units without slots.
    #[must_use]
    pub fn plain(&self) -> u64 {
        self.all().iter().map(|sent| sent.plain).sum()
    }

    /// Units with slots and records.
    #[must_use]
    pub fn carriers(&self) -> u64 {
        self.all().iter().map(|sent| sent.carriers).sum()
    }
}

impl From<&Ledger> for LogEpochs {
    fn from(l: &Ledger) -> Self {
        let e = l.log_epochs;
        let riders = [e.riding, e.bare, e.large, e.removals].iter().map(|counts| counts.riders).sum::<u64>();
        Self {
            riding: e.riding.into(),
            bare: e.bare.into(),
            large: e.large.into(),
            removals: e.removals.into(),
            packs: l.units.packs,
            // Riders are counted when their epoch is durable.
            packed_blocks: l.units.packed_blocks.saturating_sub(riders),
        }
    }
}

/// Blocks of content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// That an LBN maps to.
    pub linked: u64,
    /// Of these, that more than one maps to; none: it cannot tell.
    pub shared: Option<u64>,
    /// By their fingerprint alone.
    pub kept: u64,
    pub free: Option<u64>,
    /// Blocks that a log keeps for itself.
    pub log: u64,
}

/// A machine's account; none where it keeps none.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// To be held against the device's own count, to the unit.
    pub ledger: Option<Ledger>,
    pub epochs: Option<Epochs>,
    /// Where there is a log, or was one.
    pub log: Option<LogEpochs>,
    /// Units that it did not write as new content: duplicates, zeros, what a block held already.
    pub found: Option<u64>,
    pub filled: Option<Filled>,
    /// Anything else, by name.
    pub facts: Vec<(&'static str, u64)>,
}

impl From<Stats> for Account {
    fn from(s: Stats) -> Self {
        let l = &s.ledger;
        Self {
            epochs: Some(l.into()),
            log: (s.log.is_some() || l.units != Units::default()).then(|| l.into()),
            found: Some(l.duplicates + l.unchanged + l.zeroes),
            filled: Some(Filled {
                linked: s.unique_blocks + s.shared_blocks,
                shared: Some(s.shared_blocks),
                kept: s.kept_blocks,
                free: Some(s.free_blocks),
                log: s.log.map_or(0, |log| log.plain + log.places),
            }),
            facts: vec![("blocks reclaimed", l.reclaimed_blocks), ("contents at their limit of links", l.overflows)],
            ledger: Some(s.ledger),
        }
    }
}
