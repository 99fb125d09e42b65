//! The offline repair of a volume that was closed, or whose log is damaged: what cannot be relied on is given up by name, and counts are
//! made anew.
//!
//! 1. A plan comes first, and changes nothing. What is done is what the plan says.
//! 2. A logical block is given up only where nothing says any more what it holds: its entry is damaged or has no meaning, or what it
//!    links to is not there. It is lost by name, and a read of it fails until it is written or discarded.
//! 3. A fingerprint entry that is damaged is none; that of a carrier is made anew of the carrier, which proves itself.
//! 4. Counts are those of the links and entries that are left.
//! 5. Links leave the map first. Of a page of counts and its entries, counts rise, then entries change, then counts fall, each flushed
//!    before the next. So a repair that is cut off at any write leaves no count below its links (P3), and the next one goes on.
//! 6. At the end all copies of the superblock are written, one pair after the other.
//! 7. A damaged log is cut off before its damage (`cut.rs`). The pages that its records change are written first of all.
//! 8. The plan may come from what a killed server has left in the device's cache: that is flushed before anything is written (R8).

mod bits;
mod counts;
mod cut;
mod entries;
mod error;
mod fates;
mod find;
mod links;
mod map;
mod superblock;
mod tags;
mod write;

use crate::check::{CheckSettings, Finding, Listener, ReadMedium, Teller, Windows};
use crate::format::{Chosen, CopyState, Region, Superblock};
use crate::units::{BLOCK_BYTES, Bytes, Pbn, count};
use counts::Tallies;
use cut::Cut;
pub use error::RepairError;
use fates::Fates;
use links::Reliable;
pub use superblock::{change_open_superblock, change_superblock};
pub use write::RepairMedium;
use write::Writer;

/// A repair that is planned.
#[derive(Debug)]
pub struct Plan {
    /// Copies of the superblock that cannot be used.
    pub superblock_copies: u64,
    /// Logical blocks that will be lost, and those that are already.
    pub lost: u64,
    pub lost_before: u64,
    /// Fingerprint entries that will be dropped, and those that will be made anew of the carrier that they are of.
    pub entries_dropped: u64,
    pub entries_rebuilt: u64,
    /// Blocks whose count will be another.
    pub counts: u64,
    /// Pages of metadata that will be written, bits of *written* not included.
    pub pages: u64,
    /// The superblock as it was read, and the cut of its log where that is damaged.
    superblock: Superblock,
    cut: Option<Cut>,
    fates: Fates,
    bits: Vec<u64>,
    map: Vec<u64>,
    groups: Vec<u64>,
}

impl Plan {
    /// The damage of the log before which it will be cut off.
    #[must_use]
    pub fn cut(&self) -> Option<&Finding> {
        self.cut.as_ref().map(|cut| &cut.damage)
    }

    /// Whether there is nothing to repair.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cut.is_none() && self.superblock_copies == 0 && self.bits.is_empty() && self.map.is_empty() && self.groups.is_empty()
    }
}

/// Plans a repair. With `settings.data` blocks that do not hold what their entries say are given up, too. Logical blocks that
/// will be lost are reported to the listener as lost entries.
///
/// # Errors
/// When no superblock can be used, when the volume may not be written, when it was not closed and its log is not damaged, or when more is
/// damaged than memory can hold.
pub fn plan<M: ReadMedium>(
    medium: &mut M,
    device_bytes: Bytes,
    settings: &CheckSettings,
    listener: &mut dyn Listener,
) -> Result<Plan, RepairError> {
    let chosen = superblock::writable(medium, device_bytes)?;
    let superblock_copies = count(chosen.states.iter().filter(|state| !matches!(state, CopyState::Sound { .. })).count());
    let superblock = Chosen::into_service(chosen);
    let cut = Cut::read(medium, &superblock, settings.memory_bytes)?;
    if cut.is_none() && !superblock.is_whole_in_pages() {
        return Err(RepairError::NotClosed);
    }
    let closed = cut.as_ref().map_or_else(|| superblock.clone(), |cut| cut.closed(&superblock));
    let mut teller = Teller::new(listener, bytes_of(&closed, settings));
    let bits = bits::damaged(medium, &closed, &mut teller);
    let fates = find::find(medium, &closed, cut.as_ref(), settings, &mut teller)?;
    let reliable = Reliable { superblock: &closed, cut: cut.as_ref(), fates: &fates };
    let map::Damaged { pages: map, lost, lost_before } = map::damaged(medium, &reliable, &mut teller);
    let mut groups = Vec::new();
    let mut tallies = Tallies::default();
    counts::judge(medium, &reliable, settings, &mut teller, &mut |_, mended| {
        if !mended.is_as_stored() {
            groups.push(mended.first);
            tallies.add(&mended);
        }
        Ok(())
    })?;
    let pages = cut.as_ref().map_or(0, Cut::pages) + count(map.len()) + tallies.pages;
    let Tallies { entries_dropped, entries_rebuilt, counts, .. } = tallies;
    Ok(Plan {
        superblock_copies,
        lost,
        lost_before,
        entries_dropped,
        entries_rebuilt,
        counts,
        pages,
        superblock,
        cut,
        fates,
        bits,
        map,
        groups,
    })
}

/// Carries out a plan.
///
/// # Errors
/// When the device fails. A repair that begins again goes on.
pub fn carry_out<M: RepairMedium>(
    medium: &mut M,
    plan: Plan,
    settings: &CheckSettings,
    listener: &mut dyn Listener,
) -> Result<(), RepairError> {
    let Plan { mut superblock, cut, fates, bits, map, groups, .. } = plan;
    medium.flush()?;
    if let Some(cut) = &cut {
        let mut damaged = cut.kept_damaged(&superblock);
        superblock::write(medium, &mut damaged)?;
        superblock = cut.closed(&damaged);
    }
    let closed = superblock.clone();
    let reliable = Reliable { superblock: &closed, cut: cut.as_ref(), fates: &fates };
    let mut teller = Teller::new(listener, bytes_of(&closed, settings));
    let mut writer = Writer::new(&closed);
    if let Some(cut) = &cut {
        cut.write(medium, &closed, &mut writer)?;
    }
    bits::write(medium, &closed, &bits, &mut writer)?;
    map::write(medium, &reliable, &map, &mut writer)?;
    medium.flush()?;
    let is_planned = |first: u64| groups.binary_search(&first).is_ok();
    counts::judge(medium, &reliable, settings, &mut teller, &mut |medium, mended| {
        if is_planned(mended.first) {
            mended.write(medium, &mut writer)?;
        }
        Ok(())
    })?;
    medium.flush()?;
    bits::set(medium, &closed, &mut writer)?;
    medium.flush()?;
    superblock.set_counts_exact();
    superblock.set_recount_position(Pbn(0));
    superblock::write(medium, &mut superblock)?;
    Ok(())
}

/// About as many bytes as a plan, or its execution, reads.
fn bytes_of(superblock: &Superblock, settings: &CheckSettings) -> u64 {
    let geometry = &superblock.geometry;
    let passes = Windows::new(geometry.data_blocks, settings.memory_bytes).passes();
    let tables = geometry.pages(Region::Refs) + 2 * geometry.pages(Region::Fingerprints) + (2 * passes + 1) * geometry.pages(Region::Map);
    (tables + if settings.data { geometry.data_blocks } else { 0 }) * BLOCK_BYTES
}
