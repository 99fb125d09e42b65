//! A machine's account of its own work. Its driver counts independently; the account is compared with that, or adds what no driver can see.

use onefold_engine::stats::{EpochCounts, Ledger, Stats, Units};
use serde::{Deserialize, Serialize};

/// Defines a struct of counts that never decrease.
macro_rules! counts {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$what:meta])* pub $field:ident: u64,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name { $($(#[$what])* pub $field: u64,)* }

        impl $name {
            /// Returns what was counted since an earlier account.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field - earlier.$field,)* }
            }
        }
    };
}

counts! {
    /// Epochs by the cause of their end.
    pub struct Epochs {
        pub flush: u64,
        pub fua: u64,
        pub strong: u64,
        pub timer: u64,
        /// Epochs that ended for lack of memory or space.
        pub memory: u64,
        pub close: u64,
    }
}

impl Epochs {
    /// Returns the number of all epochs.
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
    /// Epochs of one kind and what they sent: the engine's counts in a form that can be written as JSON.
    pub struct SentUnits {
        pub epochs: u64,
        pub new_blocks: u64,
        /// The new blocks that lie in slots of the epochs' own units.
        pub riders: u64,
        pub plain: u64,
        pub carriers: u64,
        pub flushes: u64,
    }
}

impl From<EpochCounts> for SentUnits {
    fn from(c: EpochCounts) -> Self {
        let EpochCounts { epochs, new_blocks, riders, plain, carriers, flushes, by_fua: _ } = c;
        Self { epochs, new_blocks, riders, plain, carriers, flushes }
    }
}

/// The log's epochs that wrote units, by whether blocks could be stored in the units' slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEpochs {
    /// Epochs of up to 64 new blocks, of which at least one compressed to 3,500 bytes or less.
    pub riding: SentUnits,
    /// Epochs of up to 64 new blocks, of which none did.
    pub bare: SentUnits,
    pub large: SentUnits,
    /// Epochs without a write of a client.
    pub removals: SentUnits,
    /// The packs of large epochs, and the blocks in them.
    pub packs: u64,
    pub packed_blocks: u64,
}

impl LogEpochs {
    /// Returns what was counted since an earlier account.
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

    /// Returns the counts of each kind of epoch.
    #[must_use]
    pub fn all(&self) -> [SentUnits; 4] {
        [self.riding, self.bare, self.large, self.removals]
    }

    /// Returns the number of epochs of up to 64 new blocks and of larger ones, without those that have no write of a client.
    #[must_use]
    pub fn small_and_large(&self) -> (u64, u64) {
        (self.riding.epochs + self.bare.epochs, self.large.epochs)
    }

    /// Returns the number of units without slots.
    #[must_use]
    pub fn plain(&self) -> u64 {
        self.all().iter().map(|sent| sent.plain).sum()
    }

    /// Returns the number of units with slots and records.
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
            // Blocks in the units' own slots are counted when their epoch is durable.
            packed_blocks: l.units.packed_blocks.saturating_sub(riders),
        }
    }
}

/// Numbers of blocks with content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockUsage {
    /// Blocks that an LBN maps to.
    pub linked: u64,
    /// Blocks that more than one LBN maps to; none if the machine does not know.
    pub shared: Option<u64>,
    /// Blocks that only their fingerprint refers to.
    pub kept: u64,
    pub free: Option<u64>,
    /// Blocks that a log uses for itself.
    pub log: u64,
}

/// A machine's account; a part that it does not keep is none.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// The ledger, which has to equal the device's own count in every unit.
    pub ledger: Option<Ledger>,
    pub epochs: Option<Epochs>,
    /// The counts of the log; none on a volume that never had one.
    pub log: Option<LogEpochs>,
    /// Units that were not written as new content: duplicates, zeros, and what a block held already.
    pub found: Option<u64>,
    pub usage: Option<BlockUsage>,
    /// Any other counts, by name.
    pub facts: Vec<(&'static str, u64)>,
}

impl From<Stats> for Account {
    fn from(s: Stats) -> Self {
        let l = &s.ledger;
        Self {
            epochs: Some(l.into()),
            log: (s.log.is_some() || l.units != Units::default()).then(|| l.into()),
            found: Some(l.duplicates + l.unchanged + l.zeroes),
            // Links that were removed since the last commit still count.
            usage: Some(BlockUsage {
                linked: s.unique_blocks + s.shared_blocks - s.gone.blocks,
                shared: Some(s.shared_blocks),
                kept: s.kept_blocks + s.gone.blocks,
                free: Some(s.free_blocks),
                log: s.log.map_or(0, |log| log.plain + log.places),
            }),
            facts: vec![("blocks reclaimed", l.reclaimed_blocks), ("contents at their limit of links", l.overflows)],
            ledger: Some(s.ledger),
        }
    }
}
