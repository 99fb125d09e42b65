//! The guard block: which server of which host has the volume, and a number by which other hosts see that it lives (decision 0086).
//!
//! 1. It lies behind the front copies of the superblock of a guarded volume. A volume without a guard has no such block.
//! 2. Every write of it differs from every other: openings draw a server's name at random, and each write raises the sequence.
//! 3. One guard has one encoding; reserved bytes are zero.

use super::counter::COUNTER_MAX;
use super::layout::{Field, layout};
use crate::units::BLOCK_SIZE;

pub use super::front::GUARD_AT;

/// The shortest interval at which a server writes it, in milliseconds.
pub const GUARD_MS_MIN: u32 = 1000;
/// The longest interval at which a server writes it, in milliseconds.
pub const GUARD_MS_MAX: u32 = 60_000;

const MAGIC: [u8; 8] = *b"1FGUARD1";
const FREE: u64 = 0;
const SERVED: u64 = 1;

layout! {
    /// The guard block's fields.
    at, "Guard", BLOCK_SIZE;
    MAGIC 8,
    UUID 16,
    SERVER 16,
    HOST 16,
    STORE 16,
    SEQUENCE 8,
    STATE 4,
    RESERVED 4008,
    CHECKSUM 4,
}

/// The content of a guard block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The volume's.
    pub uuid: [u8; 16],
    /// The name of the server that wrote it: random, of one opening.
    pub server: [u8; 16],
    /// The kernel on which that server runs: its boot id.
    pub host: [u8; 16],
    /// The identity of the backing store on that host: see the app's `Facts::identity`.
    pub store: (u64, u64),
    /// Raised by each write; at most 2^62.
    pub sequence: u64,
    pub state: GuardState,
}

/// Whether a server has the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardState {
    /// The last server closed the volume.
    Free,
    /// A server has it, or had it when it died.
    Served,
}

/// The reason why these bytes are no guard of this volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    #[error("it does not begin with the magic of a guard block")]
    NotAGuard,
    #[error("its checksum is {stored:08x}, its bytes give {computed:08x}")]
    Checksum { stored: u64, computed: u64 },
    #[error("it is of another volume")]
    OtherVolume,
    #[error("its {field} is {value}, which has no meaning")]
    UnknownValue { field: &'static str, value: u64 },
    #[error("byte {offset} is reserved and should be zero, but is {found:#04x}")]
    Reserved { offset: usize, found: u8 },
}

impl Guard {
    /// The guard of a new volume, created on this host and store. No server has had it.
    #[must_use]
    pub const fn new(uuid: [u8; 16], host: [u8; 16], store: (u64, u64)) -> Self {
        Self { uuid, server: [0; 16], host, store, sequence: 0, state: GuardState::Free }
    }

    /// The guard that the same server writes next.
    #[must_use]
    pub const fn next(self) -> Self {
        // The server's name makes it differ from what another wrote at the same number.
        let sequence = if self.sequence >= COUNTER_MAX { 1 } else { self.sequence + 1 };
        Self { sequence, ..self }
    }

    /// Writes the block.
    pub fn encode(&self, out: &mut [u8; BLOCK_SIZE]) {
        out.fill(0);
        at::MAGIC.of_mut(out).copy_from_slice(&MAGIC);
        at::UUID.of_mut(out).copy_from_slice(&self.uuid);
        at::SERVER.of_mut(out).copy_from_slice(&self.server);
        at::HOST.of_mut(out).copy_from_slice(&self.host);
        let (first, second) = at::STORE.halves();
        first.set(out, self.store.0);
        second.set(out, self.store.1);
        at::SEQUENCE.set(out, self.sequence);
        at::STATE.set(out, if self.state == GuardState::Served { SERVED } else { FREE });
        let checksum = crc32c::crc32c(&out[..at::CHECKSUM.offset]);
        at::CHECKSUM.set(out, u64::from(checksum));
    }

    /// Reads the block of the volume of this UUID.
    ///
    /// # Errors
    /// When it is not one that this program would have written for this volume.
    pub fn decode(bytes: &[u8; BLOCK_SIZE], uuid: &[u8; 16]) -> Result<Self, GuardError> {
        if at::MAGIC.of(bytes) != MAGIC {
            return Err(GuardError::NotAGuard);
        }
        let (stored, computed) = (at::CHECKSUM.get(bytes), u64::from(crc32c::crc32c(&bytes[..at::CHECKSUM.offset])));
        if stored != computed {
            return Err(GuardError::Checksum { stored, computed });
        }
        if at::UUID.of(bytes) != uuid {
            return Err(GuardError::OtherVolume);
        }
        let unknown = |field: Field| GuardError::UnknownValue { field: field.name, value: field.get(bytes) };
        let state = match at::STATE.get(bytes) {
            FREE => GuardState::Free,
            SERVED => GuardState::Served,
            _ => return Err(unknown(at::STATE)),
        };
        let sequence = at::SEQUENCE.get(bytes);
        if sequence > COUNTER_MAX {
            return Err(unknown(at::SEQUENCE));
        }
        if let Some(i) = at::RESERVED.of(bytes).iter().position(|&byte| byte != 0) {
            let offset = at::RESERVED.offset + i;
            return Err(GuardError::Reserved { offset, found: bytes[offset] });
        }
        let (first, second) = at::STORE.halves();
        Ok(Self {
            uuid: *uuid,
            server: at::SERVER.array(bytes),
            host: at::HOST.array(bytes),
            store: (first.get(bytes), second.get(bytes)),
            sequence,
            state,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: [u8; 16] = [3; 16];

    fn served() -> Guard {
        Guard { uuid: UUID, server: [4; 16], host: [5; 16], store: (6, u64::MAX), sequence: COUNTER_MAX, state: GuardState::Served }
    }

    fn encoded(guard: &Guard) -> [u8; BLOCK_SIZE] {
        let mut page = [0; BLOCK_SIZE];
        guard.encode(&mut page);
        page
    }

    /// The error of a served guard that was changed, with a checksum that fits.
    fn forged(change: impl FnOnce(&mut [u8; BLOCK_SIZE])) -> Option<GuardError> {
        let mut page = encoded(&served());
        change(&mut page);
        let checksum = crc32c::crc32c(&page[..at::CHECKSUM.offset]);
        at::CHECKSUM.set(&mut page, u64::from(checksum));
        Guard::decode(&page, &UUID).err()
    }

    #[test]
    fn guards_come_back() {
        for guard in [Guard::new(UUID, [1; 16], (2, 3)), served()] {
            assert_eq!(Guard::decode(&encoded(&guard), &UUID), Ok(guard));
        }
    }

    #[test]
    fn each_write_differs_from_the_one_before() {
        assert_eq!(Guard { sequence: 7, ..served() }.next(), Guard { sequence: 8, ..served() });
        assert_eq!(served().next().sequence, 1, "it never leaves its bounds");
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        let good = encoded(&served());
        for bit in 0..BLOCK_SIZE * 8 {
            let mut page = good;
            page[bit / 8] ^= 1 << (bit % 8);
            let error = Guard::decode(&page, &UUID).expect_err("a flipped bit");
            assert_eq!(matches!(error, GuardError::NotAGuard), bit < 64, "bit {bit}: {error}");
        }
    }

    #[test]
    fn what_a_server_would_not_have_written_is_refused() {
        assert_eq!(Guard::decode(&[0; BLOCK_SIZE], &UUID), Err(GuardError::NotAGuard));
        assert_eq!(Guard::decode(&encoded(&served()), &[9; 16]), Err(GuardError::OtherVolume));
        let past_the_end = COUNTER_MAX + 1;
        for (field, value) in [(at::STATE, 2), (at::SEQUENCE, past_the_end), (at::SEQUENCE, u64::MAX)] {
            let error = forged(|page| field.set(page, value));
            assert_eq!(error, Some(GuardError::UnknownValue { field: field.name, value }));
        }
        for offset in [at::RESERVED.offset, at::CHECKSUM.offset - 1] {
            assert_eq!(forged(|page| page[offset] = 1), Some(GuardError::Reserved { offset, found: 1 }));
        }
        assert_eq!(forged(|_| ()), None);
    }
}
