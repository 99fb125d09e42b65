//! The superblock: everything that is needed to open a volume.
//!
//! 1. In every version of the format the magic stands at byte 0, the version at byte 8, and the CRC32C of all before it in the last four bytes.
//! 2. The checksum covers the number of the copy, so that a copy at another's place is found.
//! 3. One superblock has one encoding: what decodes, encodes to the same bytes. So reserved bytes are zero.
//! 4. What decodes is consistent in itself, and each of its numbers lies within its bounds (`superblock/bounds.rs`); whether it fits the device is
//!    for `copies` to say.

mod bounds;
mod settings;

use super::anchor::{Anchor, LOG_ANCHOR_BYTES};
use super::authenticator::Authenticator;
use super::geometry::{EXTENTS_MAX, Extent, ExtentKind, Geometry, GeometryError};
use super::layout::{Field, layout};
use crate::class::Class;
use crate::fingerprint::{Algorithm, Fingerprinter};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, Epoch, Lbn, Pbn, count, index};
use std::fmt;

pub use settings::{CommitMode, Persistence, StartSettings};

/// How every superblock begins.
pub const MAGIC: [u8; 8] = *b"ONEFOLD\0";
/// The version of the format that this program reads and writes. Until the first release there is no other.
pub const VERSION: u32 = 3;
/// Bytes of a label, in UTF-8.
pub const LABEL_BYTES_MAX: usize = 64;
/// The most protected ranges.
pub const PROTECTED_MAX: usize = 64;

/// Incompatible feature bits that are taken: a live log, which may hold what no page does; slots: client blocks that lie compressed in others; and a guard
/// block, which has to be claimed before anything is written.
pub const INCOMPATIBLE_LIVE_LOG: u64 = 1;
pub const INCOMPATIBLE_SLOTS: u64 = 2;
pub const INCOMPATIBLE_GUARD: u64 = 4;
/// Compatible feature bits that are taken: an index on the medium.
pub const COMPATIBLE_INDEX: u64 = 1;
/// The incompatible features that this version knows.
const INCOMPATIBLE_KNOWN: u64 = INCOMPATIBLE_LIVE_LOG | INCOMPATIBLE_SLOTS | INCOMPATIBLE_GUARD;
/// The features without which a volume can be read but not written, that this version knows.
const READ_ONLY_KNOWN: u64 = 0;

const STATE_CLEAN: u64 = 1;
const STATE_GARBAGE_POSSIBLE: u64 = 2;
const CLASS_SLOTS: usize = 8;

layout! {
    /// The superblock's fields.
    at, "Superblock", BLOCK_SIZE;
    MAGIC 8,
    VERSION 4,
    COPY 4,
    FEATURES_COMPATIBLE 8,
    FEATURES_READ_ONLY 8,
    FEATURES_INCOMPATIBLE 8,
    UUID 16,
    LABEL LABEL_BYTES_MAX,
    BLOCK_BYTES 4,
    SECTOR_BYTES 4,
    DEVICE_BYTES 8,
    LOGICAL_BLOCKS 8,
    RESERVE_BLOCKS 8,
    GENERATION 8,
    INCARNATION 8,
    MOUNT_COUNT 8,
    LAST_EPOCH 8,
    LAST_LOG_SEQUENCE 8,
    STATE 4,
    EXTENT_COUNT 2,
    PROTECTED_COUNT 2,
    RECOUNT_POSITION 8,
    ALLOCATION_CURSOR 8,
    ALGORITHM 1,
    PERSISTENCE 1,
    COMMIT_MODE 1,
    VERIFY_READS 1,
    VERIFY_DUPLICATES 1,
    DISCARD_FREED 1,
    RESERVED_SETTINGS 2,
    NONCRITICAL_DELAY_MS 8,
    COMMIT_PERIOD_MS 8,
    ANTICIPATION_MS 8,
    FINGERPRINT_KEY 32,
    CLIENT_WRITE_UNITS 8,
    DEVICE_FLUSHES 8,
    LEDGER at_class::LAYOUT.bytes * CLASS_SLOTS,
    EXTENTS at_extent::LAYOUT.bytes * EXTENTS_MAX,
    PROTECTED at_range::LAYOUT.bytes * PROTECTED_MAX,
    LOG_ANCHOR LOG_ANCHOR_BYTES,
    GUARD_MS 4,
    RESERVED 272,
    CHECKSUM 4,
}

layout! {
    /// One extent of the region table. Its first entry follows from the extents before it.
    at_extent, "Extent", 24;
    KIND 4,
    INSTANCE 4,
    OFFSET 8,
    LENGTH 8,
}

layout! {
    /// One protected range.
    at_range, "Protected range", 12;
    FIRST_LBN 8,
    BLOCKS 4,
}

layout! {
    /// One class of the lifetime ledger.
    at_class, "Ledger class", 24;
    UNITS 8,
    BYTES 8,
    COMMANDS 8,
}

// What invariant 1 promises to every later version, and the parts that others find by their offset.
const _: () = assert!(at::MAGIC.offset == 0 && at::VERSION.offset == 8 && at::CHECKSUM.offset == 4092);
const _: () = assert!(at::UUID.offset == 40 && at::LABEL.offset == 56 && at::GENERATION.offset == 152);
const _: () = assert!(at::LEDGER.offset == 296 && at::EXTENTS.offset == 488 && at::PROTECTED.offset == 2024);
const _: () = assert!(at::LOG_ANCHOR.offset == 2792);
const _: () = assert!(Class::ALL.len() <= CLASS_SLOTS);

/// Why these bytes are no superblock of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    #[error("it does not begin with the magic of a Onefold volume")]
    NotOnefold,
    #[error("its checksum is {stored:08x}, its bytes give {computed:08x}")]
    Checksum { stored: u32, computed: u32 },
    #[error("its format version is {found}, this program knows version {VERSION}; use the program that made the volume")]
    OtherVersion { found: u32 },
    #[error("it is copy {found} at the place of copy {expected}")]
    Misplaced { found: u32, expected: usize },
    #[error("it uses features that this program does not know (incompatible bits {bits:#x}); use a newer program")]
    UnknownFeatures { bits: u64, uuid: [u8; 16], generation: u64 },
    #[error("its {field} is {value}, which has no meaning in format version {VERSION}")]
    UnknownValue { field: &'static str, value: u64 },
    #[error("its {field} is {value}, where the volume allows at most {limit}")]
    OutOfRange { field: &'static str, value: u64, limit: u64 },
    #[error("its label is not UTF-8 after byte {valid_up_to}")]
    Label { valid_up_to: usize },
    #[error("its log is live, but it does not say where the log begins")]
    NoAnchor,
    #[error("its anchor of the log names places that no volume has")]
    Places,
    #[error("its region table: {0}")]
    Geometry(#[from] GeometryError),
    #[error("byte {offset} is reserved and should be {expected:#04x}, but is {found:#04x}")]
    Reserved { offset: usize, found: u8, expected: u8 },
}

/// A volume's key. It never shows in debug output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(withheld)")
    }
}

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

/// What a volume ever sent to its device, for one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassTotals {
    /// 4 KiB units.
    pub units: u64,
    pub bytes: u64,
    /// Write commands.
    pub commands: u64,
}

/// What a volume ever did: as exact as its last superblock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// By the order of [`Class::ALL`].
    pub classes: [ClassTotals; Class::ALL.len()],
    /// 4 KiB units that clients wrote.
    pub client_write_units: u64,
    pub device_flushes: u64,
}

/// Logical blocks that are written in place of dedup (superblock copies of file systems).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedRange {
    pub first: Lbn,
    pub blocks: u32,
}

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub features: Features,
    pub uuid: [u8; 16],
    /// At most [`LABEL_BYTES_MAX`] bytes, none of them zero.
    pub label: String,
    /// The sector size that clients see: 512 or 4096.
    pub sector_bytes: u32,
    pub geometry: Geometry,
    /// Counts the updates; the copy with the highest counts.
    pub generation: u64,
    /// Counts the openings for writing.
    pub incarnation: u64,
    pub mount_count: u64,
    /// No epoch that was ever used is above it in a clean volume; never repeats.
    pub last_epoch: Epoch,
    pub last_log_sequence: u64,
    /// Closed in order: no recovery is needed.
    pub clean: bool,
    /// Only a finished recount clears it.
    pub garbage_possible: bool,
    /// Where a recount that was cut off goes on.
    pub recount_position: Pbn,
    /// The newest allocation: the index is refilled backwards from it.
    pub allocation_cursor: Pbn,
    pub algorithm: Algorithm,
    pub key: Key,
    pub settings: StartSettings,
    pub lifetime: Lifetime,
    /// At most [`PROTECTED_MAX`].
    pub protected: Vec<ProtectedRange>,
    /// Where the walk through the log begins; none where no log was ever begun.
    pub anchor: Option<Anchor>,
    /// How often a server writes the guard block, in milliseconds; 0 where the volume has none. [`set_guard`](Self::set_guard) sets it.
    pub guard_ms: u32,
}

impl Superblock {
    /// The superblock of a new volume: generation 1, clean, nothing written.
    #[must_use]
    pub fn new(geometry: Geometry, uuid: [u8; 16], key: [u8; 32], algorithm: Algorithm, settings: impl Into<StartSettings>) -> Self {
        Self {
            features: Features::default(),
            uuid,
            label: String::new(),
            sector_bytes: 4096,
            geometry,
            generation: 1,
            incarnation: 0,
            mount_count: 0,
            last_epoch: Epoch(0),
            last_log_sequence: 0,
            clean: true,
            garbage_possible: false,
            recount_position: Pbn(0),
            allocation_cursor: Pbn(0),
            algorithm,
            key: Key(key),
            settings: settings.into(),
            lifetime: Lifetime::default(),
            protected: Vec::new(),
            anchor: None,
            guard_ms: 0,
        }
    }

    /// Whether an LBN lies in a protected range, whose blocks are not for dedup.
    #[must_use]
    pub fn is_protected(&self, lbn: Lbn) -> bool {
        self.protected.iter().any(|range| range.first <= lbn && lbn.0 - range.first.0 < u64::from(range.blocks))
    }

    /// The fingerprinter of this volume.
    #[must_use]
    pub const fn fingerprinter(&self) -> Fingerprinter {
        Fingerprinter::new(self.algorithm, self.key.0)
    }

    /// What tells the units of this volume's log from all else.
    #[must_use]
    pub fn authenticator(&self) -> Authenticator {
        Authenticator::new(&self.key, &self.uuid)
    }

    /// Whether opening the volume gives exact counts without a recount: it was closed, or has a log that says what the pages lack.
    #[must_use]
    pub const fn keeps_counts(&self) -> bool {
        self.clean || self.is_log_live()
    }

    /// Whether the log may hold what the pages do not.
    #[must_use]
    pub const fn is_log_live(&self) -> bool {
        self.features.incompatible & INCOMPATIBLE_LIVE_LOG != 0
    }

    /// Says that the log may hold what the pages do not, or that it holds nothing.
    pub fn set_log_live(&mut self, live: bool) {
        let others = self.features.incompatible & !INCOMPATIBLE_LIVE_LOG;
        self.features.incompatible = others | if live { INCOMPATIBLE_LIVE_LOG } else { 0 };
    }

    /// Whether client blocks may lie in slots.
    #[must_use]
    pub const fn has_slots(&self) -> bool {
        self.features.incompatible & INCOMPATIBLE_SLOTS != 0
    }

    /// Says that client blocks may lie in slots. They may for ever: no count says when the last one is gone.
    pub fn set_slots(&mut self) {
        self.features.incompatible |= INCOMPATIBLE_SLOTS;
    }

    /// Whether the volume has a guard block.
    #[must_use]
    pub const fn is_guarded(&self) -> bool {
        self.features.incompatible & INCOMPATIBLE_GUARD != 0
    }

    /// Gives a new volume, whose geometry has room for it, a guard block that is written every `interval_ms` milliseconds.
    pub fn set_guard(&mut self, interval_ms: u32) {
        self.features.incompatible |= INCOMPATIBLE_GUARD;
        self.guard_ms = interval_ms;
    }

    /// The features, unknown to this program, for which it may read the volume but not write it; 0 where it may write.
    #[must_use]
    pub const fn read_only_because(&self) -> u64 {
        self.features.read_only & !READ_ONLY_KNOWN
    }

    /// Writes copy number `copy` (0 to 3).
    ///
    /// # Panics
    /// When there are more extents, protected ranges or places than a superblock holds, when the label is too long or holds a zero byte, when a
    /// number is out of its bounds (`bounds.rs`), and when the log is live without an anchor.
    pub fn encode(&self, copy: usize, out: &mut [u8; BLOCK_SIZE]) {
        assert_eq!(self.check_bounds(), Ok(()));
        assert!(self.label.len() <= LABEL_BYTES_MAX && !self.label.contains('\0'), "no label: {:?}", self.label);
        out.fill(0);
        at::MAGIC.of_mut(out).copy_from_slice(&MAGIC);
        at::VERSION.set(out, u64::from(VERSION));
        at::COPY.set(out, count(copy));
        at::FEATURES_COMPATIBLE.set(out, self.features.compatible);
        at::FEATURES_READ_ONLY.set(out, self.features.read_only);
        at::FEATURES_INCOMPATIBLE.set(out, self.features.incompatible);
        at::UUID.of_mut(out).copy_from_slice(&self.uuid);
        at::LABEL.of_mut(out)[..self.label.len()].copy_from_slice(self.label.as_bytes());
        at::BLOCK_BYTES.set(out, BLOCK_BYTES);
        at::SECTOR_BYTES.set(out, u64::from(self.sector_bytes));
        at::DEVICE_BYTES.set(out, self.geometry.device_bytes.get());
        at::LOGICAL_BLOCKS.set(out, self.geometry.logical_blocks);
        at::RESERVE_BLOCKS.set(out, self.geometry.reserve_blocks);
        at::GENERATION.set(out, self.generation);
        at::INCARNATION.set(out, self.incarnation);
        at::MOUNT_COUNT.set(out, self.mount_count);
        at::LAST_EPOCH.set(out, self.last_epoch.get());
        at::LAST_LOG_SEQUENCE.set(out, self.last_log_sequence);
        let flag = |set, bit| if set { bit } else { 0 };
        at::STATE.set(out, flag(self.clean, STATE_CLEAN) | flag(self.garbage_possible, STATE_GARBAGE_POSSIBLE));
        at::RECOUNT_POSITION.set(out, self.recount_position.get());
        at::ALLOCATION_CURSOR.set(out, self.allocation_cursor.get());
        at::ALGORITHM.set(out, algorithm_number(self.algorithm));
        at::FINGERPRINT_KEY.of_mut(out).copy_from_slice(&self.key.0);
        self.settings.encode(out);
        self.lifetime.encode(out);
        encode_extents(&self.geometry.extents, out);
        encode_protected(&self.protected, out);
        Anchor::encode(self.anchor.as_ref(), at::LOG_ANCHOR.of_mut(out));
        at::GUARD_MS.set(out, u64::from(self.guard_ms));
        let checksum = crc32c::crc32c(&out[..at::CHECKSUM.offset]);
        at::CHECKSUM.set(out, u64::from(checksum));
    }

    /// Reads copy number `copy`.
    ///
    /// # Errors
    /// When anything about it is not as this program would have written it.
    pub fn decode(bytes: &[u8; BLOCK_SIZE], copy: usize) -> Result<Self, SuperblockError> {
        if at::MAGIC.of(bytes) != MAGIC {
            return Err(SuperblockError::NotOnefold);
        }
        let (stored, computed) = (word(at::CHECKSUM, bytes), crc32c::crc32c(&bytes[..at::CHECKSUM.offset]));
        if stored != computed {
            return Err(SuperblockError::Checksum { stored, computed });
        }
        let version = word(at::VERSION, bytes);
        if version != VERSION {
            return Err(SuperblockError::OtherVersion { found: version });
        }
        let found = word(at::COPY, bytes);
        if u64::from(found) != count(copy) {
            return Err(SuperblockError::Misplaced { found, expected: copy });
        }
        let superblock = Self::decode_fields(bytes)?;
        superblock.check_bounds()?;
        // Invariant 3: whatever differs was not written by this version.
        let mut again = [0; BLOCK_SIZE];
        superblock.encode(copy, &mut again);
        match (0..at::CHECKSUM.offset).find(|&i| bytes[i] != again[i]) {
            Some(offset) => Err(SuperblockError::Reserved { offset, found: bytes[offset], expected: again[offset] }),
            None => Ok(superblock),
        }
    }

    fn decode_fields(bytes: &[u8; BLOCK_SIZE]) -> Result<Self, SuperblockError> {
        let features = Features {
            compatible: at::FEATURES_COMPATIBLE.get(bytes),
            read_only: at::FEATURES_READ_ONLY.get(bytes),
            incompatible: at::FEATURES_INCOMPATIBLE.get(bytes),
        };
        let (uuid, generation) = (at::UUID.array(bytes), at::GENERATION.get(bytes));
        let bits = features.incompatible & !INCOMPATIBLE_KNOWN;
        if bits != 0 {
            return Err(SuperblockError::UnknownFeatures { bits, uuid, generation });
        }
        one_of(at::BLOCK_BYTES, bytes, &[BLOCK_BYTES])?;
        let sector_bytes = one_of(at::SECTOR_BYTES, bytes, &[512, 4096])?;
        let state = one_of(at::STATE, bytes, &[0, STATE_CLEAN, STATE_GARBAGE_POSSIBLE, STATE_CLEAN | STATE_GARBAGE_POSSIBLE])?;
        let algorithm = one_of(at::ALGORITHM, bytes, &Algorithm::ALL.map(algorithm_number))?;
        let geometry = Geometry::of_extents(
            Bytes(at::DEVICE_BYTES.get(bytes)),
            at::LOGICAL_BLOCKS.get(bytes),
            at::RESERVE_BLOCKS.get(bytes),
            decode_extents(bytes)?,
        )?;
        Ok(Self {
            features,
            uuid,
            label: decode_label(bytes)?,
            sector_bytes: u32::try_from(sector_bytes).expect("512 or 4096"),
            geometry,
            generation,
            incarnation: at::INCARNATION.get(bytes),
            mount_count: at::MOUNT_COUNT.get(bytes),
            last_epoch: Epoch(at::LAST_EPOCH.get(bytes)),
            last_log_sequence: at::LAST_LOG_SEQUENCE.get(bytes),
            clean: state & STATE_CLEAN != 0,
            garbage_possible: state & STATE_GARBAGE_POSSIBLE != 0,
            recount_position: Pbn(at::RECOUNT_POSITION.get(bytes)),
            allocation_cursor: Pbn(at::ALLOCATION_CURSOR.get(bytes)),
            algorithm: Algorithm::ALL[index(algorithm)],
            key: Key(at::FINGERPRINT_KEY.array(bytes)),
            settings: StartSettings::decode(bytes)?,
            lifetime: Lifetime::decode(bytes),
            protected: decode_protected(bytes)?,
            anchor: Anchor::decode(at::LOG_ANCHOR.of(bytes))?,
            guard_ms: word(at::GUARD_MS, bytes),
        })
    }
}

impl Lifetime {
    fn encode(&self, out: &mut [u8]) {
        at::CLIENT_WRITE_UNITS.set(out, self.client_write_units);
        at::DEVICE_FLUSHES.set(out, self.device_flushes);
        for (class, out) in self.classes.iter().zip(at::LEDGER.of_mut(out).chunks_exact_mut(at_class::LAYOUT.bytes)) {
            at_class::UNITS.set(out, class.units);
            at_class::BYTES.set(out, class.bytes);
            at_class::COMMANDS.set(out, class.commands);
        }
    }

    fn decode(bytes: &[u8]) -> Self {
        let mut classes = [ClassTotals::default(); Class::ALL.len()];
        for (class, bytes) in classes.iter_mut().zip(at::LEDGER.of(bytes).chunks_exact(at_class::LAYOUT.bytes)) {
            class.units = at_class::UNITS.get(bytes);
            class.bytes = at_class::BYTES.get(bytes);
            class.commands = at_class::COMMANDS.get(bytes);
        }
        Self { classes, client_write_units: at::CLIENT_WRITE_UNITS.get(bytes), device_flushes: at::DEVICE_FLUSHES.get(bytes) }
    }
}

fn encode_extents(extents: &[Extent], out: &mut [u8]) {
    assert!(extents.len() <= EXTENTS_MAX, "{} extents", extents.len());
    at::EXTENT_COUNT.set(out, count(extents.len()));
    for (extent, out) in extents.iter().zip(at::EXTENTS.of_mut(out).chunks_exact_mut(at_extent::LAYOUT.bytes)) {
        at_extent::KIND.set(out, u64::from(extent.kind.number()));
        at_extent::INSTANCE.set(out, u64::from(extent.instance));
        at_extent::OFFSET.set(out, extent.offset.get());
        at_extent::LENGTH.set(out, extent.length.get());
    }
}

fn decode_extents(bytes: &[u8]) -> Result<Vec<Extent>, SuperblockError> {
    let extents_count = count_of(at::EXTENT_COUNT, bytes, EXTENTS_MAX)?;
    let mut extents: Vec<Extent> = Vec::with_capacity(extents_count);
    for bytes in at::EXTENTS.of(bytes).chunks_exact(at_extent::LAYOUT.bytes).take(extents_count) {
        let number = word(at_extent::KIND, bytes);
        let unknown = SuperblockError::UnknownValue { field: "extent kind", value: u64::from(number) };
        let kind = ExtentKind::of_number(number).ok_or(unknown)?;
        // A table that is not sound gives a first entry that the geometry refuses, or nothing at all.
        let first_entry = extents
            .iter()
            .filter(|e| e.kind == kind)
            .fold(0, |n: u64, e| n.saturating_add(e.pages().saturating_mul(kind.entries_per_page())));
        let (offset, length) = (Bytes(at_extent::OFFSET.get(bytes)), Bytes(at_extent::LENGTH.get(bytes)));
        extents.push(Extent { kind, instance: word(at_extent::INSTANCE, bytes), first_entry, offset, length });
    }
    Ok(extents)
}

fn encode_protected(ranges: &[ProtectedRange], out: &mut [u8]) {
    assert!(ranges.len() <= PROTECTED_MAX, "{} protected ranges", ranges.len());
    at::PROTECTED_COUNT.set(out, count(ranges.len()));
    for (range, out) in ranges.iter().zip(at::PROTECTED.of_mut(out).chunks_exact_mut(at_range::LAYOUT.bytes)) {
        at_range::FIRST_LBN.set(out, range.first.get());
        at_range::BLOCKS.set(out, u64::from(range.blocks));
    }
}

fn decode_protected(bytes: &[u8]) -> Result<Vec<ProtectedRange>, SuperblockError> {
    let ranges = count_of(at::PROTECTED_COUNT, bytes, PROTECTED_MAX)?;
    let bytes = at::PROTECTED.of(bytes).chunks_exact(at_range::LAYOUT.bytes);
    Ok(bytes.take(ranges).map(|b| ProtectedRange { first: Lbn(at_range::FIRST_LBN.get(b)), blocks: word(at_range::BLOCKS, b) }).collect())
}

fn decode_label(bytes: &[u8]) -> Result<String, SuperblockError> {
    let label = at::LABEL.of(bytes);
    let length = label.iter().position(|&b| b == 0).unwrap_or(label.len());
    match std::str::from_utf8(&label[..length]) {
        Ok(label) => Ok(label.to_owned()),
        Err(error) => Err(SuperblockError::Label { valid_up_to: error.valid_up_to() }),
    }
}

fn algorithm_number(algorithm: Algorithm) -> u64 {
    count(Algorithm::ALL.iter().position(|&a| a == algorithm).expect("it is one of all"))
}

fn word(field: Field, bytes: &[u8]) -> u32 {
    u32::from_le_bytes(field.array(bytes))
}

/// A field that has few meanings.
fn one_of(field: Field, bytes: &[u8], meanings: &[u64]) -> Result<u64, SuperblockError> {
    let value = field.get(bytes);
    if meanings.contains(&value) { Ok(value) } else { Err(SuperblockError::UnknownValue { field: field.name, value }) }
}

/// A field that counts the entries of a table.
fn count_of(field: Field, bytes: &[u8], most: usize) -> Result<usize, SuperblockError> {
    let value = field.get(bytes);
    if value > count(most) {
        return Err(SuperblockError::UnknownValue { field: field.name, value });
    }
    Ok(index(value))
}
