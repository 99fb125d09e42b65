//! Growing a volume that nobody serves, as an ordered list of steps ("Opening, formatting, growing" in `docs/ordering.md`).
//!
//! 1. What there is keeps its number and its place (`geometry/grow.rs`). So neither records of a live log nor counts that may be too high
//!    stand in the way: a volume that crashed grows as one that was closed does.
//! 2. The superblock may have been written by a server that was killed, and lie in the device's cache: it is flushed first.
//! 3. New pages are durably blank, and their bits of *written* durably clear, before a superblock says that there are such pages.
//! 4. Until both pairs of copies say that the volume has grown, nothing is written where the volume as it was has anything but unused
//!    bits. The pair with fewer sound copies is written first. So a growth that is cut off leaves the volume as it was, or as it will be,
//!    and either opens. The same command goes on from there; an opening writes both pairs before anything else.
//! 5. What lies where the new end copies will be is gone before the first of them is written: it may be a copy of an earlier growth
//!    that was cut off. The old end copies go last.

use super::copies::{Chosen, CopyState, copies, pair_of};
use super::create::{FormatStep, write_bits, write_pair, zeroes_of};
use super::geometry::{Extent, ExtentKind, GeometryError, SUPERBLOCKS_BYTES};
use super::page::{Opened, PageId, Region, open};
use super::superblock::Superblock;
use crate::units::{BLOCK_SIZE, Bytes, index};

/// The reason why a volume does not grow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrowError {
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    #[error("its counter {counter} has come to its end, at {at}: the volume can be read, but not written")]
    UsedUp { counter: &'static str, at: u64 },
    #[error("it uses features for which this program may read it, but not write it (read-only bits {bits:#x})")]
    ReadOnly { bits: u64 },
    #[error("its page of *written* at byte {at}, which gets bits of new pages, is damaged")]
    DamagedBits { at: Bytes },
}

/// A growth that is planned.
#[derive(Clone, Debug)]
pub struct Growth {
    before: Superblock,
    after: Superblock,
}

impl Growth {
    /// Plans the growth of a volume: all of a device of `device_bytes`, and `logical_blocks` for clients. None: the volume is like that
    /// already. One that an earlier growth has left with copies of the superblock as it was is not: both pairs are written again. See
    /// [`grown`](super::Geometry::grown).
    ///
    /// # Errors
    /// When the volume cannot grow so, or may not be written.
    pub fn plan(chosen: Chosen, device_bytes: Bytes, logical_blocks: Option<u64>) -> Result<Option<Self>, GrowError> {
        let was_cut_off = chosen.states.iter().any(|state| matches!(state, CopyState::Elsewhere { .. }));
        let before = chosen.into_service();
        let geometry = before.geometry.grown(device_bytes, logical_blocks)?;
        if let Some((counter, at)) = before.used_up() {
            return Err(GrowError::UsedUp { counter, at });
        }
        let bits = before.read_only_because();
        if bits != 0 {
            return Err(GrowError::ReadOnly { bits });
        }
        if geometry == before.geometry && !was_cut_off {
            return Ok(None);
        }
        let mut after = before.clone();
        after.set_grown(geometry);
        Ok(Some(Self { before, after }))
    }

    /// The superblock of the grown volume, without the generation that it will have.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        &self.after
    }

    /// The pages of *written* that the volume has already and that get bits of new pages. [`Self::steps`] wants them as they are.
    pub fn shared_pages(&self) -> impl Iterator<Item = PageId> + use<> {
        let geometry = &self.before.geometry;
        let (first, pages) = (self.bits_before() / Region::Written.entries_per_page(), geometry.pages(Region::Written));
        let is_any = self.bits_after() > self.bits_before();
        (first..if is_any { pages } else { first }).map(|index| PageId { region: Region::Written, index })
    }

    /// The place of such a page.
    #[must_use]
    pub fn place_of(&self, id: PageId) -> Bytes {
        self.before.geometry.page_at(id)
    }

    /// The steps of the growth, one after the other; those between two flushes may be carried out in any order. `shared` has the content of
    /// each of [`Self::shared_pages`], in their order.
    ///
    /// # Errors
    /// When one of these pages is damaged.
    pub fn steps(&self, shared: &[Box<[u8; BLOCK_SIZE]>]) -> Result<impl Iterator<Item = FormatStep> + use<>, GrowError> {
        let bits: Vec<FormatStep> = self.shared_pages().zip(shared).map(|(id, page)| self.cleared(id, page)).collect::<Result<_, _>>()?;
        let bits = bits.into_iter();
        let (new_pages, after) = (self.new_extents(), self.after.clone());
        let blank = new_pages.into_iter().filter(|e| e.kind != ExtentKind::Pages(Region::Written)).flat_map(|e| zeroes_of(&e));
        let written_before = self.before.geometry.pages(Region::Written);
        let written: Vec<FormatStep> = (written_before..after.geometry.pages(Region::Written))
            .map(|index| write_bits(&after, index, &mut super::PageContent::empty()))
            .collect();
        let end = after.geometry.device_bytes;
        let has_moved = end != self.before.geometry.device_bytes;
        let without_copies = |end| FormatStep::Zero { at: copies(end)[2], length: Bytes(SUPERBLOCKS_BYTES) };
        let no_new_copies = has_moved.then(|| without_copies(end));
        let no_old_copies = has_moved.then(|| [without_copies(self.before.geometry.device_bytes), FormatStep::Flush]);
        let flush = || std::iter::once(FormatStep::Flush);
        let pairs = (1..=2).flat_map(move |n| {
            let mut superblock = after.clone();
            superblock.generation += n;
            write_pair(&superblock, pair_of(superblock.generation)).chain(std::iter::once(FormatStep::Flush))
        });
        let before = flush().chain(no_new_copies).chain(bits).chain(blank).chain(written).chain(flush());
        Ok(before.chain(pairs).chain(no_old_copies.into_iter().flatten()))
    }

    /// A page of *written* with the bits of new pages clear.
    fn cleared(&self, id: PageId, page: &[u8; BLOCK_SIZE]) -> Result<FormatStep, GrowError> {
        let Opened { mut content, damaged, .. } = open(&self.before.origin, id, page, true);
        // Its bits would all be set from then on, and those of blank pages must not be.
        if damaged != 0 {
            return Err(GrowError::DamagedBits { at: self.place_of(id) });
        }
        let bits = Region::Written.entries_per_page();
        let first = self.bits_before().saturating_sub(id.index * bits);
        (first..bits).for_each(|bit| content.set_bit(index(bit), false));
        Ok(write_bits(&self.before, id.index, &mut content))
    }

    /// The extents of metadata that the volume does not have yet, or the parts by which they are longer.
    fn new_extents(&self) -> Vec<Extent> {
        let before = &self.before.geometry.extents;
        let longer = |e: &Extent| before.iter().find(|old| (old.kind, old.offset) == (e.kind, e.offset)).map_or(Bytes(0), |old| old.length);
        let pages = self.after.geometry.extents.iter().filter(|e| matches!(e.kind, ExtentKind::Pages(_)));
        let parts = pages.map(|e| Extent { offset: e.offset + longer(e).get(), length: Bytes(e.length - longer(e)), ..*e });
        parts.filter(|e| e.length > Bytes(0)).collect()
    }

    fn bits_before(&self) -> u64 {
        bits_of(&self.before)
    }

    fn bits_after(&self) -> u64 {
        bits_of(&self.after)
    }
}

/// The number of bits of *written* that stand for pages.
fn bits_of(superblock: &Superblock) -> u64 {
    [Region::Refs, Region::Fingerprints, Region::Map].into_iter().map(|region| superblock.geometry.pages(region)).sum()
}
