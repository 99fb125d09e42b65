//! Reports about an open volume that need no I/O.

use super::Engine;
use crate::format::geometry::Geometry;
use crate::interface::Progress;
use crate::ledger::Ledger;
use crate::memory::Part;
use crate::stats::Stats;
use crate::units::Pbn;

impl Engine {
    /// All counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let Self { parts, scheme, background, .. } = self;
        let (space, geometry, accountant) = (&parts.pool.space, &parts.pool.geometry, &parts.pool.memory.accountant);
        let gone = space.removed_links(&parts.pool.tables, scheme.unlinked().chain(parts.pool.settle.unlinked()));
        Stats {
            ledger: parts.pool.io.ledger.clone(),
            phase: self.phase(),
            opening: self.progress(),
            failed: parts.pool.io.has_failed(),
            read_only: parts.pool.io.is_read_only(),
            full: space.shows_full(gone.blocks, parts.pool.io.stage()),
            full_on_host: space.is_full_on_host(parts.pool.io.stage()),
            data_blocks: geometry.data_blocks,
            logical_blocks: geometry.logical_blocks,
            reserve_blocks: geometry.reserve_blocks,
            free_blocks: space.census.free,
            kept_blocks: space.census.kept,
            unique_blocks: space.census.unique,
            shared_blocks: space.census.shared,
            free_complete: space.scan_complete(),
            map_links: space.map_links(),
            gone,
            lifetime: parts.pool.medium.lifetime(&parts.pool.io.ledger),
            saved_generation: parts.pool.medium.saved_generation(),
            has_slots: parts.pool.medium.superblock.has_slots(),
            carriers: space.carriers.all(),
            unpacked: space.unpacked(parts.pool.carriers()),
            log: scheme.blocks_kept(&parts.pool.space),
            index_entries: parts.pool.index.entries(),
            index_capacity: parts.pool.index.capacity(),
            prefetched: parts.pool.prefetched.counts(),
            out_of_line: background.out_of_line.counts(parts),
            scrub: background.scrub.counts(&parts.pool.io, &parts.pool.medium, &parts.pool.geometry),
            adaptation: parts.volume.adaptation.counts(),
            garbage_possible: parts.pool.medium.superblock.garbage_possible,
            recount_running: background.recount.running(),
            memory: Part::ALL.iter().map(|&p| (p.name(), accountant.used(p), accountant.peak(p), accountant.limit(p))).collect(),
        }
    }

    /// Whether writes that the store refuses for want of room are to be sent again.
    #[must_use]
    pub fn waits_for_room(&self) -> bool {
        self.parts.pool.space.waits_for_room(&self.parts.pool.io)
    }

    /// Whether acknowledged writes of the last server are lost, and no flush has failed yet to report it.
    #[must_use]
    pub fn owes_word_of_loss(&self) -> bool {
        self.answers.ack_journal.has_lost()
    }

    /// The counts since the volume was opened.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.parts.pool.io.ledger
    }

    /// The LBNs that the work out of line has mapped to another block, since the volume was opened.
    #[must_use]
    pub fn linked_out_of_line(&self) -> u64 {
        self.background.out_of_line.linked()
    }

    /// The share of writes that are to get their fingerprint at once, in per cent. The runtime defers the others
    /// ([`is_selected`](crate::adaptation::is_selected), [`Fingerprinter::defer`](crate::fingerprint::Fingerprinter::defer)).
    #[must_use]
    pub fn selectivity(&self) -> u8 {
        self.parts.volume.adaptation.selectivity()
    }

    /// The blocks of content that were found damaged since the volume was opened, and that were not written anew, in order.
    pub fn suspects(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.parts.pool.contents.suspects.all()
    }

    /// The volume's work for its own consistency, in one word: for reports, and for the explorer's table.
    #[must_use]
    pub fn phase(&self) -> &'static str {
        self.parts.pool.io.stage().name().or_else(|| self.scheme.phase()).unwrap_or("idle")
    }

    /// The geometry of the volume.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.parts.pool.geometry
    }

    /// The progress of an opening that reads a log. None if the volume serves, or has no log to read.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        self.phase.progress(&self.parts.pool.tables, &self.parts.pool.settings)
    }
}
