//! The set checker of lives with a log: the rules of `docs/log.md` over *all* states that a cut could leave, after every device event.
//!
//! It reads what the engine sends to the device, and follows from it what the last durable epoch makes of map, refs and fingerprints. No state is
//! enumerated and nothing is opened, for a cut can leave two kinds of states only: those that replay as of the last durable epoch, and, where an
//! epoch's units are on their way, those that have some of its records too. So it checks, at each write and discard that is issued and each flush or
//! write with FUA that completes,
//!
//! 1. **Pages** (L7, L1): each sector holds what the records up to its tag make of it, and no epoch but such as a later unit or a superblock says
//!    is durable. Fingerprints may be the
//!    names that blocks of large epochs got later; counts may have fallen to no less than the links where garbage is possible.
//! 2. **Reuse** (R4, L6, L8): nothing is written over and nothing discarded that the last durable epoch links to or names, or that is born in the
//!    one on its way, or that was unlinked and not let go of; nor a unit, condensed unit or place that a superblock leads to which may be there.
//! 3. **Content** (R1, L5): what an epoch's records say of new blocks is so, for sure once the epoch is durable, and of a large one when its units
//!    are written; and each LBN then has a version at or above its floor (P1, P2).
//! 4. **Anchor** (L8, L3): when a superblock is written, pages hold all that lies before the anchor, condensed units say the same as the units that
//!    they stand for, bits are set, and the other pair of copies stands.
//! 5. **Units** (L2, L3, L9, L10): each in the place that was named for it, in order, of a durable incarnation, with what is flushed by then; one
//!    epoch at a time.
//!
//! What it learns of an epoch it learns from units that it decodes with the volume's key; records it reads by its own code (`records.rs`).
//! It begins when the volume serves and nothing is undecided (`seed.rs`). It does not check: the opening, what recovery makes of a state (the
//! explorer does), what the acknowledgement ring stands for, nor anything about requests that are not acknowledged.

mod anchor;
mod epoch;
mod model;
mod pages;
mod records;
mod seed;

use crate::content::Shared;
use crate::setcheck::View;
use crate::violation::{Violation, violation};
use crate::volume::{Place, Volume};
use epoch::Pending;
use model::Model;
use onefold_engine::format::{PageId, Region, Superblock, UnitKind};
use records::Change;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A unit of the walk.
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
    /// The last epoch that more than its own units says is durable; the last unit that is said to be flushed, and that a unit says is.
    vouched: u64,
    told: u64,
    told_by_units: u64,
    /// The sequence of the next unit.
    next: u64,
    pending: Option<Pending>,
    /// Every superblock that a cut could leave.
    said: Vec<Rc<Superblock>>,
    /// Of the newest durable superblock.
    incarnation: u64,
    /// The newest superblock when it began: what places that one names, units may have replaced.
    generation: u64,
    garbage_possible: bool,
    /// From the oldest anchor on.
    units: VecDeque<UnitAt>,
    unit_blocks: FxHashSet<u64>,
    /// Where the next units lie.
    places: VecDeque<u64>,
    place_blocks: FxHashSet<u64>,
    /// Blocks of condensed units that a superblock names, and what is known to lie there.
    condensed: FxHashSet<u64>,
    copies_known: FxHashMap<u64, u64>,
    /// By PBN: how often it was unlinked and not let go of; and by the last unit of which epoch.
    held: FxHashMap<u64, u32>,
    held_by: VecDeque<(u64, Vec<u64>)>,
    /// By its last unit: the number of each epoch; and what it did, from the newest anchor on.
    ends: BTreeMap<u64, u64>,
    history: BTreeMap<u64, (u64, Vec<Change>)>,
    /// Pages that were written and may have no *written* bit.
    without_bit: FxHashSet<PageId>,
}

impl LogChecker {
    fn empty(volume: Rc<Volume>, model: Model, garbage_possible: bool) -> Self {
        Self {
            volume,
            model,
            durable: (0, 0),
            vouched: 0,
            told: 0,
            told_by_units: 0,
            next: 1,
            pending: None,
            said: Vec::new(),
            incarnation: 0,
            generation: 0,
            garbage_possible,
            units: VecDeque::new(),
            unit_blocks: FxHashSet::default(),
            places: VecDeque::new(),
            place_blocks: FxHashSet::default(),
            condensed: FxHashSet::default(),
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

    /// A write is about to be issued.
    ///
    /// # Errors
    /// When it breaks a rule.
    pub fn about_to_write(&mut self, block: u64, content: &Shared, view: View) -> Result<(), Violation> {
        match self.volume.place(block) {
            Place::Superblock => self.superblock_written(block, content, view),
            Place::Page(id) if id.region == Region::Written => self.bits_written(id, content, view.disk),
            Place::Page(id) => self.model.page_written(id, content, self.vouched, self.garbage_possible, view.disk),
            Place::Data(pbn) => match self.volume.unit(pbn, content).filter(|unit| unit.header.kind == UnitKind::Log) {
                Some(unit) => self.unit_written(pbn, &unit, content, view),
                None => self.content_written(pbn, content),
            },
            Place::Unused => Err(violation!("format: block {block} of the device belongs to no region, and is written")),
        }
    }

    fn content_written(&self, pbn: u64, content: &Shared) -> Result<(), Violation> {
        // Content of a small epoch may come behind its units.
        let is_awaited = self.pending.as_ref().is_some_and(|pending| pending.says(pbn, |name| self.volume.says(name, content)));
        if is_awaited { Ok(()) } else { self.must_be_free(pbn, "a write") }
    }

    /// A discard is about to be issued.
    ///
    /// # Errors
    /// When something may yet lead there.
    pub fn about_to_discard(&self, block: u64) -> Result<(), Violation> {
        match self.volume.place(block) {
            Place::Data(pbn) => self.must_be_free(pbn, "a discard"),
            place => Err(violation!("R4: a discard of {place:?}")),
        }
    }

    /// A write or discard was issued.
    ///
    /// # Errors
    /// When a superblock that may be there leads nowhere.
    pub fn changed(&mut self, block: u64, view: View) -> Result<(), Violation> {
        match self.volume.place(block) {
            Place::Superblock => self.read_superblocks(view.disk)?,
            Place::Page(id) => self.note_bit(id, view.disk),
            _ => {}
        }
        Ok(())
    }

    /// A flush, or a write with FUA, has completed, and decided these blocks.
    ///
    /// # Errors
    /// When what is durable now breaks a rule.
    pub fn decided(&mut self, blocks: &[u64], view: View) -> Result<(), Violation> {
        let mut has_superblock = false;
        for &block in blocks {
            match self.volume.place(block) {
                Place::Superblock => has_superblock = true,
                Place::Page(id) if id.region != Region::Written => self.model.page_decided(id, view.disk.cell(block).durable()),
                _ => {}
            }
        }
        if has_superblock {
            self.read_superblocks(view.disk)?;
        }
        self.commit_if_durable(view)
    }

    /// The floor of an LBN was raised: what it means as of the last durable epoch is no older.
    ///
    /// # Errors
    /// P1 or P2 when it is.
    pub fn floor_raised(&self, lbn: u64, view: View) -> Result<(), Violation> {
        let to = self.model.map(lbn);
        let zero = crate::content::Content::zero();
        let content = match to.pbn() {
            None => &zero,
            Some(pbn) => {
                let cell = view.disk.cell(self.volume.block_of(pbn.get()));
                cell.settled().ok_or_else(|| violation!("R1: LBN {lbn} means {pbn}, whose content may be any of several"))?
            }
        };
        self.check_content(lbn, to, content, view)
    }

    /// That nothing leads to a block, whatever a cut leaves.
    fn must_be_free(&self, pbn: u64, what: &str) -> Result<(), Violation> {
        let users = self.users(pbn);
        if users.is_empty() {
            return Ok(());
        }
        let rule = if users.contains("held") {
            "L6"
        } else if self.unit_blocks.contains(&pbn) || self.place_blocks.contains(&pbn) || self.condensed.contains(&pbn) {
            "L8"
        } else {
            "R4"
        };
        Err(violation!("{rule}: {what} at PBN {pbn}, which is in use: {users}"))
    }

    /// What leads to a block.
    fn users(&self, pbn: u64) -> String {
        let links = self.model.links(pbn);
        let born = self.pending.as_ref().is_some_and(|pending| pending.born.contains(&pbn));
        let held = self.held.contains_key(&pbn);
        let (unit, place) = (self.unit_blocks.contains(&pbn), self.place_blocks.contains(&pbn));
        let condensed = self.condensed.contains(&pbn);
        if links == 0 && !(born || held || unit || place || condensed) {
            return String::new();
        }
        let mut users = if links > 0 { vec![format!("{links} links")] } else { Vec::new() };
        let words = [
            (born, "born in the epoch on its way"),
            (held, "held since it was unlinked"),
            (unit, "a unit of the walk"),
            (place, "a place of a coming unit"),
            (condensed, "a condensed unit"),
        ];
        users.extend(words.iter().filter(|(is, _)| *is).map(|(_, word)| (*word).to_owned()));
        users.join(", ")
    }
}
