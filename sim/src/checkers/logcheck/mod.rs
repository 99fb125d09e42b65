//! The set checker of lives with a log: it checks the rules of `docs/log.md` over *all* states that a power loss could leave, after every
//! device event.
//!
//! It reads what the engine sends to the device, and derives from it the map, refs and fingerprints of the last durable epoch. It
//! enumerates no state and opens nothing, because a power loss can leave only two kinds of states: those that replay to the last durable
//! epoch and, while an epoch's units are being written, those that also have some of its records. So it checks, at each write and discard
//! that is issued and at each flush or write with FUA that completes:
//!
//! 1. **Pages** (L7, L1): each sector holds the result of the records up to its tag, and only of epochs that a later unit or a superblock
//!    confirms as durable. Fingerprints may be those that blocks of large epochs got later; counts may have fallen, where garbage is
//!    possible, to no less than the links.
//! 2. **Reuse** (R4, L6, L8): no write or discard affects a block that the last durable epoch links to or names, that gets its entry in the
//!    epoch under way, or that was unlinked but not freed; nor a unit, compacted unit or place that a superblock which may be on the device
//!    leads to.
//! 3. **Content** (R1, L5): the records of an epoch agree with the content of its new blocks: certainly once the epoch is durable, and for
//!    a large epoch when its units are written; and each LBN then has a version at or above its floor (P1, P2).
//! 4. **Log tail** (L8, L3): when a superblock is written, pages hold all that precedes the log tail, compacted units agree with the units
//!    that they stand for, bits are set, and the other pair of copies is intact.
//! 5. **Units** (L2, L3, L9, L10): each unit is in the place that was named for it, in order, of a durable incarnation, and says correctly
//!    what is flushed; one epoch is written at a time.
//!
//! It learns about an epoch from units, which it decodes with the volume's key; it interprets records by its own code (`records.rs`). It
//! begins when the volume serves and nothing is undecided (`seed.rs`). It does not check the opening, the result of recovery (the explorer
//! does), the acknowledgement journal, or requests that are not acknowledged.

mod epoch;
mod log_tail;
mod model;
mod pages;
mod pending;
mod records;
mod seed;

use crate::checkers::setcheck::View;
use crate::device::volume::{BlockUse, Volume};
use crate::ground::content::Shared;
use crate::ground::violation::{Violation, violation};
use model::Model;
use onefold_engine::format::{PageId, Region, Superblock, UnitKind};
use pending::Pending;
use records::Change;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A unit of the log.
struct UnitAt {
    pbn: u64,
    sequence: u64,
    incarnation: u64,
}

/// The checker of one volume's device, while it serves with a log.
pub struct LogChecker {
    volume: Rc<Volume>,
    model: Model,
    /// The last durable epoch, and its last unit.
    durable: (u64, u64),
    /// The last epoch that more than its own units confirms as durable; the last unit that is said to be flushed, and the last that a unit
    /// says is flushed.
    confirmed: u64,
    reported: u64,
    reported_by_units: u64,
    /// The sequence number of the next unit.
    next: u64,
    pending: Option<Pending>,
    /// Every superblock that a power loss could leave.
    superblocks: Vec<Rc<Superblock>>,
    /// The incarnation of the newest durable superblock.
    incarnation: u64,
    /// The generation of the newest superblock when the checker began: units may have replaced the places that it names.
    generation: u64,
    garbage_possible: bool,
    /// The units from the oldest log tail on.
    units: VecDeque<UnitAt>,
    unit_blocks: FxHashSet<u64>,
    /// The places of the next units.
    places: VecDeque<u64>,
    place_blocks: FxHashSet<u64>,
    /// The blocks of compacted units that a superblock names, and the known content of these blocks.
    compacted: FxHashSet<u64>,
    copies_known: FxHashMap<u64, u64>,
    /// For each PBN the number of times that it was unlinked but not freed; and the blocks that each epoch, by its last unit, holds.
    held: FxHashMap<u64, u32>,
    held_by: VecDeque<(u64, Vec<u64>)>,
    /// The number of each epoch by its last unit; and its changes, from the newest log tail on.
    ends: BTreeMap<u64, u64>,
    history: BTreeMap<u64, (u64, Vec<Change>)>,
    /// The pages that were written and may have no *written* bit.
    without_bit: FxHashSet<PageId>,
}

impl LogChecker {
    fn empty(volume: Rc<Volume>, model: Model, garbage_possible: bool) -> Self {
        Self {
            volume,
            model,
            durable: (0, 0),
            confirmed: 0,
            reported: 0,
            reported_by_units: 0,
            next: 1,
            pending: None,
            superblocks: Vec::new(),
            incarnation: 0,
            generation: 0,
            garbage_possible,
            units: VecDeque::new(),
            unit_blocks: FxHashSet::default(),
            places: VecDeque::new(),
            place_blocks: FxHashSet::default(),
            compacted: FxHashSet::default(),
            copies_known: FxHashMap::default(),
            held: FxHashMap::default(),
            held_by: VecDeque::new(),
            ends: BTreeMap::new(),
            history: BTreeMap::new(),
            without_bit: FxHashSet::default(),
        }
    }

    fn add_unit(&mut self, unit: UnitAt) {
        self.unit_blocks.insert(unit.pbn);
        self.units.push_back(unit);
    }

    fn add_place(&mut self, pbn: u64) {
        self.place_blocks.insert(pbn);
        self.places.push_back(pbn);
    }

    /// Checks a write that is about to be issued.
    ///
    /// # Errors
    /// Fails if it breaks a rule.
    pub fn about_to_write(&mut self, block: u64, content: &Shared, view: View) -> Result<(), Violation> {
        match self.volume.place(block) {
            BlockUse::Superblock => self.superblock_written(block, content, view),
            BlockUse::Page(id) if id.region == Region::Written => self.bits_written(id, content, view.disk),
            BlockUse::Page(id) => self.model.page_written(id, content, self.confirmed, self.garbage_possible, view.disk),
            BlockUse::Data(pbn) => match self.volume.unit(pbn, content).filter(|unit| unit.header.kind == UnitKind::Log) {
                Some(unit) => self.unit_written(pbn, &unit, content, view),
                None => self.content_written(pbn, content),
            },
            BlockUse::Unused => Err(violation!("format: block {block} of the device belongs to no region, and is written")),
        }
    }

    fn content_written(&self, pbn: u64, content: &Shared) -> Result<(), Violation> {
        // Content of a small epoch may be written after its units.
        let is_awaited = self.pending.as_ref().is_some_and(|pending| pending.says(pbn, |name| self.volume.says(name, content)));
        if is_awaited { Ok(()) } else { self.must_be_free(pbn, "a write") }
    }

    /// Checks a discard that is about to be issued.
    ///
    /// # Errors
    /// Fails if something may still refer to it.
    pub fn about_to_discard(&self, block: u64) -> Result<(), Violation> {
        match self.volume.place(block) {
            BlockUse::Data(pbn) => self.must_be_free(pbn, "a discard"),
            place => Err(violation!("R4: a discard of {place:?}")),
        }
    }

    /// Checks the device after a write or discard was issued.
    ///
    /// # Errors
    /// Fails if a superblock that may be on the device leads nowhere.
    pub fn changed(&mut self, block: u64, view: View) -> Result<(), Violation> {
        match self.volume.place(block) {
            BlockUse::Superblock => self.read_superblocks(view.disk)?,
            BlockUse::Page(id) => self.note_bit(id, view.disk),
            _ => {}
        }
        Ok(())
    }

    /// Notes that a flush, or a write with FUA, has completed and decided these blocks.
    ///
    /// # Errors
    /// Fails if what is durable now breaks a rule.
    pub fn decided(&mut self, blocks: &[u64], view: View) -> Result<(), Violation> {
        let mut has_superblock = false;
        for &block in blocks {
            match self.volume.place(block) {
                BlockUse::Superblock => has_superblock = true,
                BlockUse::Page(id) if id.region != Region::Written => self.model.page_decided(id, view.disk.cell(block).durable()),
                _ => {}
            }
        }
        if has_superblock {
            self.read_superblocks(view.disk)?;
        }
        self.commit_if_durable(view)
    }

    /// Checks an LBN whose floor was raised: its content as of the last durable epoch may not be older.
    ///
    /// # Errors
    /// Returns P1 or P2 if it is.
    pub fn floor_raised(&self, lbn: u64, view: View) -> Result<(), Violation> {
        let to = self.model.map(lbn);
        let zero = crate::ground::content::Content::zero();
        let content = match to.pbn() {
            None => &zero,
            Some(pbn) => {
                let cell = view.disk.cell(self.volume.block_of(pbn.get()));
                cell.settled().ok_or_else(|| violation!("R1: LBN {lbn} refers to {pbn}, whose content is undecided"))?
            }
        };
        self.check_content(lbn, to, content, view)
    }

    /// Checks that nothing refers to a block, whatever a power loss leaves.
    fn must_be_free(&self, pbn: u64, what: &str) -> Result<(), Violation> {
        let users = self.users(pbn);
        if users.is_empty() {
            return Ok(());
        }
        let rule = if users.contains("held") {
            "L6"
        } else if self.unit_blocks.contains(&pbn) || self.place_blocks.contains(&pbn) || self.compacted.contains(&pbn) {
            "L8"
        } else {
            "R4"
        };
        Err(violation!("{rule}: {what} at PBN {pbn}, which is in use: {users}"))
    }

    /// Describes what refers to a block.
    fn users(&self, pbn: u64) -> String {
        let links = self.model.links(pbn);
        let is_new = self.pending.as_ref().is_some_and(|pending| pending.gives_entry(pbn));
        let held = self.held.contains_key(&pbn);
        let (unit, place) = (self.unit_blocks.contains(&pbn), self.place_blocks.contains(&pbn));
        let compacted = self.compacted.contains(&pbn);
        if links == 0 && !(is_new || held || unit || place || compacted) {
            return String::new();
        }
        let mut users = if links > 0 { vec![format!("{links} links")] } else { Vec::new() };
        let words = [
            (is_new, "new in the epoch under way"),
            (held, "held since it was unlinked"),
            (unit, "a unit of the log"),
            (place, "a place of a coming unit"),
            (compacted, "a compacted unit"),
        ];
        users.extend(words.iter().filter(|(is, _)| *is).map(|(_, word)| (*word).to_owned()));
        users.join(", ")
    }
}
