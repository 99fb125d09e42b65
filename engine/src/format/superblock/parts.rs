//! Parts of the superblock, each with its bytes.

use super::fields::{COMPARISON_ASKED, COMPARISON_PAUSED, LABEL_BYTES_MAX, PROTECTED_MAX, RANGE_FOUND, at, at_class, at_extent, at_range};
use super::values::{count_of, one_of};
use crate::class::Class;
use crate::format::geometry::{EXTENTS_MAX, Extent, ExtentKind};
use crate::format::refused::SuperblockError;
use crate::format::regions::Regions;
use crate::units::{Bytes, Lbn, count};

/// Feature bits, as ext4 divides them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// A program that does not know one of these may use the volume.
    pub compatible: u64,
    /// A program that does not know one of these may only read it.
    pub read_only: u64,
    /// A program that does not know one of these leaves it alone.
    pub incompatible: u64,
}

/// The traffic that a volume ever sent to its device, of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassTotals {
    /// 4 KiB units.
    pub units: u64,
    pub bytes: u64,
    /// Write commands.
    pub commands: u64,
}

impl ClassTotals {
    /// Adds what was written. A total that would overflow stays at the most.
    pub(crate) fn add(&mut self, units: u64, bytes: u64, commands: u64) {
        self.units = self.units.saturating_add(units);
        self.bytes = self.bytes.saturating_add(bytes);
        self.commands = self.commands.saturating_add(commands);
    }
}

/// The traffic of a volume since it was made, as exact as its last superblock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// The totals in the order of [`Class::ALL`].
    pub classes: [ClassTotals; Class::ALL.len()],
    /// 4 KiB units that clients wrote.
    pub client_write_units: u64,
    pub device_flushes: u64,
}

impl Lifetime {
    /// Adds the units that clients wrote, and flushes of the device. A total that would overflow stays at the most.
    pub(crate) fn add(&mut self, client_units: u64, flushes: u64) {
        self.client_write_units = self.client_write_units.saturating_add(client_units);
        self.device_flushes = self.device_flushes.saturating_add(flushes);
    }
}

/// The work out of line that is still to be done, as exact as the last superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToCompare {
    /// The regions with LBNs that may have duplicates which nobody has looked for.
    pub regions: Regions,
    /// Somebody has asked for some of it.
    pub is_asked: bool,
    /// Somebody has paused the work.
    pub is_paused: bool,
}

/// Logical blocks that are written instead of dedup (superblock copies of file systems).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedRange {
    pub first: Lbn,
    /// Less than 2^31.
    pub blocks: u32,
    /// It comes from a file system's layout; otherwise the owner of the volume has chosen it.
    pub is_found: bool,
}

impl ToCompare {
    pub(super) fn encode(&self, out: &mut [u8]) {
        at::TO_COMPARE.of_mut(out).copy_from_slice(&self.regions.encode());
        let flag = |set, bit| if set { bit } else { 0 };
        at::COMPARISON.set(out, flag(self.is_asked, COMPARISON_ASKED) | flag(self.is_paused, COMPARISON_PAUSED));
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let flags = one_of(at::COMPARISON, bytes, &[0, COMPARISON_ASKED, COMPARISON_PAUSED, COMPARISON_ASKED | COMPARISON_PAUSED])?;
        Ok(Self {
            regions: Regions::decode(at::TO_COMPARE.array(bytes)),
            is_asked: flags & COMPARISON_ASKED != 0,
            is_paused: flags & COMPARISON_PAUSED != 0,
        })
    }
}

impl Lifetime {
    pub(super) fn encode(&self, out: &mut [u8]) {
        at::CLIENT_WRITE_UNITS.set(out, self.client_write_units);
        at::DEVICE_FLUSHES.set(out, self.device_flushes);
        for (class, out) in self.classes.iter().zip(at::LEDGER.of_mut(out).chunks_exact_mut(at_class::LAYOUT.bytes)) {
            at_class::UNITS.set(out, class.units);
            at_class::BYTES.set(out, class.bytes);
            at_class::COMMANDS.set(out, class.commands);
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Self {
        let mut classes = [ClassTotals::default(); Class::ALL.len()];
        for (class, bytes) in classes.iter_mut().zip(at::LEDGER.of(bytes).chunks_exact(at_class::LAYOUT.bytes)) {
            class.units = at_class::UNITS.get(bytes);
            class.bytes = at_class::BYTES.get(bytes);
            class.commands = at_class::COMMANDS.get(bytes);
        }
        Self { classes, client_write_units: at::CLIENT_WRITE_UNITS.get(bytes), device_flushes: at::DEVICE_FLUSHES.get(bytes) }
    }
}

pub(super) fn encode_extents(extents: &[Extent], out: &mut [u8]) {
    assert!(extents.len() <= EXTENTS_MAX, "{} extents", extents.len());
    at::EXTENT_COUNT.set(out, count(extents.len()));
    for (extent, out) in extents.iter().zip(at::EXTENTS.of_mut(out).chunks_exact_mut(at_extent::LAYOUT.bytes)) {
        at_extent::KIND.set(out, u64::from(extent.kind.number()));
        at_extent::INSTANCE.set(out, u64::from(extent.instance));
        at_extent::OFFSET.set(out, extent.offset.get());
        at_extent::LENGTH.set(out, extent.length.get());
    }
}

pub(super) fn decode_extents(bytes: &[u8]) -> Result<Vec<Extent>, SuperblockError> {
    let extents_count = count_of(at::EXTENT_COUNT, bytes, EXTENTS_MAX)?;
    let mut extents: Vec<Extent> = Vec::with_capacity(extents_count);
    for bytes in at::EXTENTS.of(bytes).chunks_exact(at_extent::LAYOUT.bytes).take(extents_count) {
        let number = at_extent::KIND.word(bytes);
        let unknown = SuperblockError::UnknownValue { field: "extent kind", value: u64::from(number) };
        let kind = ExtentKind::of_number(number).ok_or(unknown)?;
        // A table that is not sound gives a first entry that the geometry refuses, or nothing at all.
        let first_entry = extents
            .iter()
            .filter(|e| e.kind == kind)
            .fold(0, |n: u64, e| n.saturating_add(e.pages().saturating_mul(kind.entries_per_page())));
        let (offset, length) = (Bytes(at_extent::OFFSET.get(bytes)), Bytes(at_extent::LENGTH.get(bytes)));
        extents.push(Extent { kind, instance: at_extent::INSTANCE.word(bytes), first_entry, offset, length });
    }
    Ok(extents)
}

pub(super) fn encode_protected(ranges: &[ProtectedRange], out: &mut [u8]) {
    assert!(ranges.len() <= PROTECTED_MAX, "{} protected ranges", ranges.len());
    at::PROTECTED_COUNT.set(out, count(ranges.len()));
    for (range, out) in ranges.iter().zip(at::PROTECTED.of_mut(out).chunks_exact_mut(at_range::LAYOUT.bytes)) {
        at_range::FIRST_LBN.set(out, range.first.get());
        at_range::BLOCKS.set(out, u64::from(range.blocks | if range.is_found { RANGE_FOUND } else { 0 }));
    }
}

pub(super) fn decode_protected(bytes: &[u8]) -> Result<Vec<ProtectedRange>, SuperblockError> {
    let ranges = count_of(at::PROTECTED_COUNT, bytes, PROTECTED_MAX)?;
    let bytes = at::PROTECTED.of(bytes).chunks_exact(at_range::LAYOUT.bytes);
    let range = |b: &[u8]| {
        let blocks = at_range::BLOCKS.word(b);
        ProtectedRange { first: Lbn(at_range::FIRST_LBN.get(b)), blocks: blocks & !RANGE_FOUND, is_found: blocks & RANGE_FOUND != 0 }
    };
    Ok(bytes.take(ranges).map(range).collect())
}

/// # Panics
/// When the label is too long or holds a zero byte.
pub(super) fn encode_label(label: &str, out: &mut [u8]) {
    assert!(label.len() <= LABEL_BYTES_MAX && !label.contains('\0'), "no label: {label:?}");
    at::LABEL.of_mut(out)[..label.len()].copy_from_slice(label.as_bytes());
}

pub(super) fn decode_label(bytes: &[u8]) -> Result<String, SuperblockError> {
    let label = at::LABEL.of(bytes);
    let length = label.iter().position(|&b| b == 0).unwrap_or(label.len());
    match std::str::from_utf8(&label[..length]) {
        Ok(label) => Ok(label.to_owned()),
        Err(error) => Err(SuperblockError::Label { valid_up_to: error.valid_up_to() }),
    }
}
