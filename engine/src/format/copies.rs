//! The four copies of the superblock: their places, which one an update writes, and which one counts.
//!
//! 1. Copies 0 and 1 lie at the front, 2 and 3 at the end of the volume, which is not always the end of the device.
//! 2. An update writes one front and one end copy; the other pair stays whole, whatever becomes of it. The first update of an opening goes
//!    to the pair with fewer sound copies.
//! 3. Copies compete by generation only within one volume, that of the first copy that is sound: they have one origin.
//! 4. Where a growth was cut off, front copies differ in the size of the volume. One of another size than the newest is not sound: it leads
//!    to other end copies.
//! 5. A copy that a newer program wrote is not skipped in favour of an older one.

pub use super::front::COPIES;
use super::geometry::VOLUME_BYTES_MIN;
use super::superblock::{MAGIC, Superblock, SuperblockError, VERSION, at};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes};

/// The number of copies at the front, one behind the other.
pub const FRONT_COPIES: usize = 2;

/// One page of a device, or none where it could not be read.
pub type Page<'a> = Option<&'a [u8; BLOCK_SIZE]>;

/// The places of the copies of a volume of `device_bytes`. A device with no room for four has some of them at one place, and no volume.
#[must_use]
pub fn copies(device_bytes: Bytes) -> [Bytes; COPIES] {
    let end = device_bytes.get() / BLOCK_BYTES * BLOCK_BYTES;
    [Bytes(0), Bytes(BLOCK_BYTES), Bytes(end.saturating_sub(2 * BLOCK_BYTES)), Bytes(end.saturating_sub(BLOCK_BYTES))]
}

/// The front and the end copy that the update to `generation` writes.
#[must_use]
pub const fn pair_of(generation: u64) -> [usize; 2] {
    if generation % 2 == 0 { [0, 2] } else { [1, 3] }
}

/// The places of the end copies, as the front copies say; where these are of no use, the end of the device.
#[must_use]
pub fn end_copies(front: [Page; 2], device_bytes: Bytes) -> [Bytes; 2] {
    let sound = front.iter().enumerate().filter_map(|(i, page)| Superblock::decode((*page)?, i).ok());
    let newest = newest_of_first_volume(sound);
    let [_, _, a, b] = copies(newest.map_or(device_bytes, |s| s.geometry.device_bytes));
    [a, b]
}

/// The size that a page gives its volume if it looks like a superblock at all, sound or not. Formatting over it destroys the copies of that
/// volume.
#[must_use]
pub fn claimed_bytes(page: &[u8; BLOCK_SIZE]) -> Option<Bytes> {
    (at::MAGIC.of(page) == MAGIC).then(|| Bytes(at::DEVICE_BYTES.get(page)))
}

fn newest_of_first_volume(sound: impl Iterator<Item = Superblock>) -> Option<Superblock> {
    sound.reduce(|best, next| if next.origin == best.origin && next.generation > best.generation { next } else { best })
}

/// The state of one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// Sound; the newest, or the one before it.
    Sound {
        generation: u64,
    },
    /// Sound, but of another volume.
    Foreign {
        uuid: [u8; 16],
    },
    /// The device could not read it, or ends before it.
    Unreadable,
    /// Sound, but of another size than the volume has: a growth was cut off, and it is of the volume as it was; or no volume of its size
    /// has a copy at this place.
    Elsewhere {
        device_bytes: Bytes,
    },
    Bad(SuperblockError),
}

/// The superblock that counts, and the state of all copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub superblock: Superblock,
    pub states: [CopyState; COPIES],
}

impl Chosen {
    /// The superblock to serve with. Its generation is raised by one where the next update would otherwise go to the pair that can be
    /// relied on more: a format or an update that was interrupted, or damage, may have left one sound copy, and that one must outlive the
    /// next update.
    #[must_use]
    pub fn into_service(self) -> Superblock {
        let Self { mut superblock, states } = self;
        // Without a front copy nobody finds an end copy of a volume that is shorter than its device.
        let worth = |pair: [usize; 2]| pair.map(|copy| matches!(states[copy], CopyState::Sound { .. }));
        let next = superblock.generation + 1;
        if worth(pair_of(next)) > worth(pair_of(next + 1)) {
            superblock.generation = next;
        }
        superblock
    }
}

/// The reason why a device cannot be opened as a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("there is no Onefold volume on it")]
    NotOnefold,
    #[error("its format version is {found}, this program knows version {VERSION}; use the program that made the volume")]
    OtherVersion { found: u32 },
    #[error("the volume uses features that this program does not know (incompatible bits {bits:#x}); use a newer program")]
    UnknownFeatures { bits: u64 },
    #[error("none of the four superblocks can be read; look for errors of the device in the kernel's log")]
    Unreadable,
    #[error("all four superblocks are damaged; the first: {}", first_bad(.states))]
    Damaged { states: Box<[CopyState; COPIES]> },
    #[error("the volume has {volume_bytes} bytes, but the device only {device_bytes}; was the device or file cut short?")]
    DeviceTooSmall { volume_bytes: u64, device_bytes: u64 },
}

fn first_bad(states: &[CopyState; COPIES]) -> String {
    let bad = |s: &CopyState| match s {
        CopyState::Bad(error) if *error != SuperblockError::NotOnefold => Some(error.to_string()),
        _ => None,
    };
    states.iter().find_map(bad).unwrap_or_else(|| "it cannot be read".to_owned())
}

/// Chooses among the copies, those at the end read from where [`end_copies`] says.
///
/// # Errors
/// When none can be used, or the device is smaller than the volume.
pub fn choose(pages: [Page; COPIES], device_bytes: Bytes) -> Result<Chosen, OpenError> {
    let places = {
        let [a, b] = end_copies([pages[0], pages[1]], device_bytes);
        [Bytes(0), Bytes(BLOCK_BYTES), a, b]
    };
    let decoded: [_; COPIES] = std::array::from_fn(|i| match pages[i].map(|page| Superblock::decode(page, i)) {
        None => Err(CopyState::Unreadable),
        Some(Err(error)) => Err(CopyState::Bad(error)),
        Some(Ok(s)) if copies(s.geometry.device_bytes)[i] != places[i] => {
            Err(CopyState::Elsewhere { device_bytes: s.geometry.device_bytes })
        }
        Some(Ok(s)) => Ok(s),
    });
    let newest = newest_of_first_volume(decoded.iter().flatten().cloned());
    let found = newest.as_ref().map(|s| (s.origin, s.geometry.device_bytes));
    let states = decoded.map(|copy| match copy {
        Ok(s) if Some((s.origin, s.geometry.device_bytes)) == found => CopyState::Sound { generation: s.generation },
        Ok(s) if found.is_some_and(|(origin, _)| s.origin == origin) => CopyState::Elsewhere { device_bytes: s.geometry.device_bytes },
        Ok(s) => CopyState::Foreign { uuid: s.uuid },
        Err(state) => state,
    });
    refuse_newer(&states, newest.as_ref())?;
    let Some(superblock) = newest else { return Err(nothing_usable(states, device_bytes)) };
    let volume_bytes = superblock.geometry.device_bytes;
    if volume_bytes > device_bytes {
        return Err(OpenError::DeviceTooSmall { volume_bytes: volume_bytes.get(), device_bytes: device_bytes.get() });
    }
    Ok(Chosen { superblock, states })
}

/// Invariant 5. A copy of another version has a sound checksum, so it is no damage.
fn refuse_newer(states: &[CopyState; COPIES], newest: Option<&Superblock>) -> Result<(), OpenError> {
    for state in states {
        match *state {
            CopyState::Bad(SuperblockError::OtherVersion { found }) => return Err(OpenError::OtherVersion { found }),
            CopyState::Bad(SuperblockError::UnknownFeatures { bits, uuid, generation })
                if newest.is_none_or(|s| s.uuid == uuid && generation > s.generation) =>
            {
                return Err(OpenError::UnknownFeatures { bits });
            }
            _ => (),
        }
    }
    Ok(())
}

fn nothing_usable(states: [CopyState; COPIES], device_bytes: Bytes) -> OpenError {
    let not_onefold = |s: &CopyState| matches!(s, CopyState::Bad(SuperblockError::NotOnefold));
    if states.iter().all(|s| *s == CopyState::Unreadable) {
        // A device without room for a volume is not at fault when nothing can be read.
        if device_bytes.get() < VOLUME_BYTES_MIN { OpenError::NotOnefold } else { OpenError::Unreadable }
    } else if states.iter().all(|s| *s == CopyState::Unreadable || not_onefold(s)) {
        OpenError::NotOnefold
    } else {
        OpenError::Damaged { states: Box::new(states) }
    }
}
