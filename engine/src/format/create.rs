//! Formatting a volume, as an ordered list of steps ("Opening, formatting, growing" in `docs/ordering.md`).
//!
//! 1. Every copy of a superblock that could be found, of a volume that was there before too, is gone durably before anything else changes.
//!    So a format that was interrupted leaves no volume, never half of one.
//! 2. The metadata is durably blank before a superblock says that there is a volume.
//! 3. The pair of copies that the first update leaves alone is durable before the other is written: a format that was interrupted between
//!    them leaves a volume that opens, and whose opening does not overwrite the only copy that can be found.
//! 4. The guard block, where there is one, is durable before that too.
//! 5. Pages of *written* are sealed from the beginning: zeros are never trusted there.

use super::copies::{copies, pair_of};
use super::geometry::{Extent, ExtentKind};
use super::guard::{GUARD_AT, Guard};
use super::page::{PageContent, PageId, Region, seal};
use super::superblock::Superblock;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes};

/// Zeroed in one step at most, so that progress can be shown.
const ZERO_BYTES_MAX: u64 = 64 << 20;

/// One step. Steps between two flushes may be carried out in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatStep {
    /// Make these bytes zero: written, or by a command that promises zeros; never by a discard.
    Zero { at: Bytes, length: Bytes },
    /// Write this page.
    Write { at: Bytes, page: Box<[u8; BLOCK_SIZE]> },
    /// Make everything before durable.
    Flush,
}

/// The steps that format a volume.
///
/// `device_bytes` is the size of the device, which may be larger than the volume; `old_volumes` are the sizes that superblocks found on the
/// device give their volumes, whatever else is wrong with them (`copies::claimed_bytes`).
///
/// # Panics
/// When the volume is guarded: [`format_guarded`] formats that.
pub fn format<'a>(superblock: &'a Superblock, device_bytes: Bytes, old_volumes: &[Bytes]) -> impl Iterator<Item = FormatStep> + use<'a> {
    format_guarded(superblock, None, device_bytes, old_volumes)
}

/// The steps of [`format()`], for a guarded volume too, which comes with the content of its guard block.
///
/// # Panics
/// When only one of superblock and guard says that the volume is guarded.
pub fn format_guarded<'a>(
    superblock: &'a Superblock,
    guard: Option<&Guard>,
    device_bytes: Bytes,
    old_volumes: &[Bytes],
) -> impl Iterator<Item = FormatStep> + use<'a> {
    assert_eq!(guard.is_some(), superblock.is_guarded(), "a guarded volume, and no other, has a guard block");
    let geometry = &superblock.geometry;
    let zero = |at| FormatStep::Zero { at, length: Bytes(BLOCK_BYTES) };
    let old = places_of_copies([device_bytes].iter().chain(old_volumes), device_bytes);
    // An old volume may have its data at the places of the new volume's end copies: they are not touched before that volume is gone.
    let mut own = places_of_copies([geometry.device_bytes].iter(), device_bytes);
    own.retain(|at| !old.contains(at));
    let (destroy, own) = (old.into_iter().map(zero), own.into_iter().map(zero));
    let blank = geometry
        .extents
        .iter()
        .filter(|e| matches!(e.kind, ExtentKind::Pages(Region::Refs | Region::Fingerprints | Region::Map)))
        .flat_map(zeroes_of);
    let written = (0..geometry.pages(Region::Written)).map(|index| write_bits(superblock, index, &mut PageContent::empty()));
    let guard = guard.map(|guard| {
        let mut page = Box::new([0; BLOCK_SIZE]);
        guard.encode(&mut page);
        FormatStep::Write { at: GUARD_AT, page }
    });
    let begin = |generation| write_pair(superblock, pair_of(generation));
    let flush = || std::iter::once(FormatStep::Flush);
    let (first, second) = (begin(superblock.generation), begin(superblock.generation + 1));
    destroy
        .chain(flush())
        .chain(own)
        .chain(blank)
        .chain(written)
        .chain(guard)
        .chain(flush())
        .chain(first)
        .chain(flush())
        .chain(second)
        .chain(flush())
}

/// The places on the device of the copies of volumes of these sizes.
fn places_of_copies<'a>(sizes: impl Iterator<Item = &'a Bytes>, device: Bytes) -> Vec<Bytes> {
    let room = device.get() / BLOCK_BYTES * BLOCK_BYTES;
    let mut places: Vec<Bytes> = sizes.copied().flat_map(copies).filter(|at| at.get() <= room.saturating_sub(BLOCK_BYTES)).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// The step that writes a page of *written*.
pub(super) fn write_bits(superblock: &Superblock, index: u64, content: &mut PageContent) -> FormatStep {
    let id = PageId { region: Region::Written, index };
    let mut page = Box::new([0; BLOCK_SIZE]);
    seal(&superblock.origin, id, content, &mut page);
    FormatStep::Write { at: superblock.geometry.page_at(id), page }
}

/// The steps that write a pair of copies.
pub(super) fn write_pair(superblock: &Superblock, pair: [usize; 2]) -> impl Iterator<Item = FormatStep> + use<> {
    let places = copies(superblock.geometry.device_bytes);
    pair.map(|copy| {
        let mut page = Box::new([0; BLOCK_SIZE]);
        superblock.encode(copy, &mut page);
        FormatStep::Write { at: places[copy], page }
    })
    .into_iter()
}

/// The steps that zero an extent.
pub(super) fn zeroes_of(extent: &Extent) -> impl Iterator<Item = FormatStep> + use<> {
    let (first, length) = (extent.offset, extent.length.get());
    (0..length.div_ceil(ZERO_BYTES_MAX)).map(move |i| {
        let done = i * ZERO_BYTES_MAX;
        FormatStep::Zero { at: first + done, length: Bytes(ZERO_BYTES_MAX.min(length - done)) }
    })
}
