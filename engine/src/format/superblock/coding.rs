//! The bytes of the superblock.

use super::content::Superblock;
use super::fields::{INCOMPATIBLE_KNOWN, INCOMPATIBLE_OTHER_UUID, STATE_CLEAN, STATE_GARBAGE_POSSIBLE, at};
use super::parts::{
    Features, Lifetime, ToCompare, decode_extents, decode_label, decode_protected, encode_extents, encode_label, encode_protected,
};
use super::scrub::{EndedScrubs, ScrubProgress};
use super::settings::StartSettings;
use super::values::one_of;
use crate::fingerprint::Algorithm;
use crate::format::geometry::Geometry;
use crate::format::key::Key;
use crate::format::log_tail::LogTail;
use crate::format::refused::SuperblockError;
use crate::format::version::{MAGIC, VERSION};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, Epoch, Pbn, count, index};

impl Superblock {
    /// Writes copy number `copy` (0 to 3).
    ///
    /// # Panics
    /// When there are more extents, protected ranges or places than a superblock holds, when the label is too long or holds a zero byte,
    /// when a number is out of its bounds (`bounds.rs`), and when the log is live without a log tail.
    pub fn encode(&self, copy: usize, out: &mut [u8; BLOCK_SIZE]) {
        assert_eq!(self.check_bounds(), Ok(()));
        out.fill(0);
        at::MAGIC.of_mut(out).copy_from_slice(&MAGIC);
        at::VERSION.set(out, u64::from(VERSION));
        at::COPY.set(out, count(copy));
        at::FEATURES_COMPATIBLE.set(out, self.features.compatible);
        at::FEATURES_READ_ONLY.set(out, self.features.read_only);
        at::FEATURES_INCOMPATIBLE.set(out, self.features.incompatible);
        at::UUID.of_mut(out).copy_from_slice(&self.uuid);
        if self.has_other_uuid() {
            at::ORIGIN.of_mut(out).copy_from_slice(&self.origin);
        }
        encode_label(&self.label, out);
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
        at::ALGORITHM.set(out, self.algorithm.number());
        at::FINGERPRINT_KEY.of_mut(out).copy_from_slice(&self.key.0);
        self.settings.encode(out);
        self.lifetime.encode(out);
        encode_extents(&self.geometry.extents, out);
        encode_protected(&self.protected, out);
        LogTail::encode(self.log_tail.as_ref(), at::LOG_TAIL.of_mut(out));
        at::GUARD_MS.set(out, u64::from(self.guard_ms));
        self.to_compare.encode(out);
        ScrubProgress::encode(self.scrub.as_ref(), out);
        self.ended_scrubs.encode(out);
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
        let (stored, computed) = (at::CHECKSUM.word(bytes), crc32c::crc32c(&bytes[..at::CHECKSUM.offset]));
        if stored != computed {
            return Err(SuperblockError::Checksum { stored, computed });
        }
        let version = at::VERSION.word(bytes);
        if version != VERSION {
            return Err(SuperblockError::OtherVersion { found: version });
        }
        let found = at::COPY.word(bytes);
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
        one_of(at::SECTOR_BYTES, bytes, &[512, 4096])?;
        let state = one_of(at::STATE, bytes, &[0, STATE_CLEAN, STATE_GARBAGE_POSSIBLE, STATE_CLEAN | STATE_GARBAGE_POSSIBLE])?;
        let algorithm = one_of(at::ALGORITHM, bytes, &Algorithm::ALL.map(Algorithm::number))?;
        let geometry = Geometry::of_extents(
            Bytes(at::DEVICE_BYTES.get(bytes)),
            at::LOGICAL_BLOCKS.get(bytes),
            at::RESERVE_BLOCKS.get(bytes),
            decode_extents(bytes)?,
        )?;
        Ok(Self {
            features,
            uuid,
            origin: if features.incompatible & INCOMPATIBLE_OTHER_UUID != 0 { at::ORIGIN.array(bytes) } else { uuid },
            label: decode_label(bytes)?,
            sector_bytes: at::SECTOR_BYTES.word(bytes),
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
            log_tail: LogTail::decode(at::LOG_TAIL.of(bytes))?,
            guard_ms: at::GUARD_MS.word(bytes),
            to_compare: ToCompare::decode(bytes)?,
            scrub: ScrubProgress::decode(bytes)?,
            ended_scrubs: EndedScrubs::decode(bytes),
        })
    }
}
