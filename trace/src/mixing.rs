//! The rounds of SplitMix64's finalizer, for names of content and for the streams of made traces.
//!
//! They are written out here, and stay as they are, since they define data: the same content has the same name in transcripts and counts,
//! and the same seed makes the same trace, whatever version of a crate of random numbers is at hand.

/// Golden ratio, as the generator adds it.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a number by both rounds, and adds another between them. The caller shifts the result once more, if it needs the low bits mixed.
///
/// The rounds are those of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA '14), as the generator
/// SplitMix64 has them; there `shift` is 30, and nothing is added.
pub(crate) const fn rounds(number: u64, shift: u32, between: u64) -> u64 {
    let x = (number ^ (number >> shift)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(between);
    (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the generator with seed 1234567, as its reference implementation gives them.
    #[test]
    fn the_rounds_are_those_of_the_generator() {
        let next = |n: u64| {
            let x = rounds(1_234_567_u64.wrapping_add(GOLDEN.wrapping_mul(n)), 30, 0);
            x ^ (x >> 31)
        };
        assert_eq!([1, 2, 3].map(next), [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
