//! Random numbers from a seed.
//!
//! 1. The same seed gives the same numbers on every machine: the generator is fixed, and its floats are computed without the system's
//!    library.
//! 2. Each purpose draws from a stream of its own, so that a change of the sizes does not change the addresses.

use crate::mixing::{GOLDEN, rounds};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The generator of all streams.
pub(super) type Random = Xoshiro256PlusPlus;

/// The purpose of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Sizes = 1,
    Places,
    Contents,
    Arrivals,
    Requests,
    Compressed,
    Order,
}

/// Returns the stream for this purpose.
pub(super) fn stream(seed: u64, purpose: Purpose) -> Random {
    Random::seed_from_u64(mix(seed, purpose as u64))
}

/// Mixes two numbers into one: number `b` of the generator with seed `a`.
pub(super) const fn mix(a: u64, b: u64) -> u64 {
    let z = rounds(a.wrapping_add(b.wrapping_add(1).wrapping_mul(GOLDEN)), 30, 0);
    z ^ (z >> 31)
}

/// Returns the nearest whole number, or 0 for a negative number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a cast from a float stops at both ends
pub(super) fn rounded(number: f64) -> u64 {
    number.round() as u64
}

/// Returns a share of `all`, rounded.
#[allow(clippy::cast_precision_loss)] // counts of a trace are far below 2^52
pub(super) fn part(all: u64, share: f64) -> u64 {
    rounded(all as f64 * share).min(all)
}

/// Converts a number to a float.
#[allow(clippy::cast_precision_loss)] // as above
pub(super) const fn float(number: u64) -> f64 {
    number as f64
}
