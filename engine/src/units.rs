//! A type for each quantity, so that a logical number cannot be used as a physical one.
//!
//! All of them have 64 bits, whatever the machine's `usize` is.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Bytes in a block, the unit of deduplication.
pub const BLOCK_BYTES: u64 = 4096;
/// Bytes in a sector, the unit that a device writes atomically (A2).
pub const SECTOR_BYTES: u64 = 512;
/// `BLOCK_BYTES` for slices in memory.
pub const BLOCK_SIZE: usize = 4096;
/// `SECTOR_BYTES` for slices in memory.
pub const SECTOR_SIZE: usize = 512;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $label:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// The plain number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($label, "{}"), self.0)
            }
        }

        impl Add<u64> for $name {
            type Output = Self;
            fn add(self, n: u64) -> Self {
                Self(self.0 + n)
            }
        }

        impl AddAssign<u64> for $name {
            fn add_assign(&mut self, n: u64) {
                self.0 += n;
            }
        }

        impl Sub for $name {
            type Output = u64;
            fn sub(self, other: Self) -> u64 {
                self.0 - other.0
            }
        }
    };
}

quantity!(
    /// Logical block number: the number of a 4 KiB block of the volume.
    Lbn, "LBN "
);
quantity!(
    /// Physical block number: the number of a 4 KiB block of the data region.
    Pbn, "PBN "
);
quantity!(
    /// A count of 4 KiB blocks.
    Blocks, ""
);
quantity!(
    /// A count of bytes, or a byte offset.
    Bytes, ""
);
quantity!(
    /// The number of an epoch, unique on its volume.
    Epoch, "epoch "
);
quantity!(
    /// A point in time: nanoseconds since a moment that the runtime chooses.
    Time, ""
);

impl Blocks {
    /// This many blocks in bytes.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 * BLOCK_BYTES)
    }
}

impl Bytes {
    /// The whole blocks in this many bytes, rounded down.
    #[must_use]
    pub const fn blocks(self) -> Blocks {
        Blocks(self.0 / BLOCK_BYTES)
    }
}

impl Time {
    /// The time `ms` milliseconds later, or the last possible time.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        self.plus_ns(ms.saturating_mul(1_000_000))
    }

    /// The time `ns` nanoseconds later, or the last possible time.
    #[must_use]
    pub const fn plus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// A 64-bit count as an index into memory.
///
/// # Panics
/// When the machine's `usize` cannot hold the count: a table that large is never in memory.
#[must_use]
pub fn index(n: u64) -> usize {
    usize::try_from(n).expect("an index into memory fits the machine's word")
}

/// The low 32 bits of a number.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // It is what is asked for.
pub const fn low_half(n: u64) -> u32 {
    n as u32
}

/// A length in memory as a 64-bit count.
#[must_use]
pub fn count(n: usize) -> u64 {
    const _: () = assert!(usize::BITS <= u64::BITS);
    n as u64
}
