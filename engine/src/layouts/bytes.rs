//! Numbers in the structures of others, and the checksums that the engine has no crate for.
//!
//! 1. A field beyond the end of the bytes reads as zero: a structure that is cut short is refused by its sanity, and panics nowhere.

use std::ops::Range;

/// The bytes of a field, or zeroes.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk::<N>).copied().unwrap_or([0; N])
}

pub(super) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

pub(super) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(super) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

pub(super) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

pub(super) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

pub(super) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(bytes, at))
}

/// One byte as a number.
pub(super) fn byte(bytes: &[u8], at: usize) -> u8 {
    array::<1>(bytes, at)[0]
}

/// The part of a range of bytes that is there.
pub(super) fn part(bytes: &[u8], range: Range<usize>) -> &[u8] {
    let end = range.end.min(bytes.len());
    &bytes[range.start.min(end)..end]
}

/// Two to the power of a number of a structure, or `None` if it is above `max`.
pub(super) fn power(exponent: u32, max: u32) -> Option<u64> {
    (exponent <= max && max < u64::BITS).then(|| 1 << exponent)
}

const CRC32_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
            bit += 1;
        }
        table[byte as usize] = sum;
        byte += 1;
    }
    table
};

/// The CRC-32 of Ethernet over `bytes` from the state `seed`. It is inverted neither before nor after, since not all formats do that.
pub(super) fn crc32(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |sum, byte| sum >> 8 ^ CRC32_TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_beyond_the_end_are_zero() {
        let bytes = [1, 2, 3, 4];
        assert_eq!((le16(&bytes, 2), le16(&bytes, 3), le32(&bytes, 0), le64(&bytes, 0)), (0x0403, 0, 0x0403_0201, 0));
        assert_eq!((be16(&bytes, 0), be32(&bytes, 0), be32(&bytes, usize::MAX), byte(&bytes, 4)), (0x0102, 0x0102_0304, 0, 0));
        assert_eq!((part(&bytes, 2..9), part(&bytes, 7..9)), (&[3, 4][..], &[][..]));
    }

    #[test]
    fn the_check_value_of_crc32_comes_out() {
        assert_eq!(!crc32(!0, b"123456789"), 0xcbf4_3926);
    }
}
