//! Numbers of one to ten bytes, seven bits each, the lowest first; the upper bit says that more follow (LEB128).
//!
//! 1. Each number has one encoding: a last byte of zero behind others is refused, and so is what goes beyond 64 bits.
//! 2. A difference is folded, so that small ones of either sign are short: 0, -1, 1, -2, 2 are 0, 1, 2, 3, 4. Differences are taken modulo
//!    2^64, so every two numbers have one.

const MORE: u8 = 0x80;

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | MORE);
    }
}

/// Takes a number from the front of `bytes`; none where there is none in its one encoding.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & !MORE);
        if (part << shift) >> shift != part {
            return None;
        }
        value |= part << shift;
        if byte & MORE == 0 {
            return (byte != 0 || shift == 0).then_some(value);
        }
    }
    None
}

/// The folded difference between one number and another.
pub(super) const fn difference(from: u64, to: u64) -> u64 {
    let way = to.wrapping_sub(from);
    (way << 1) ^ 0u64.wrapping_sub(way >> 63)
}

/// The number at this folded difference from another.
pub(super) const fn beyond(from: u64, folded: u64) -> u64 {
    from.wrapping_add((folded >> 1) ^ 0u64.wrapping_sub(folded & 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, value);
        bytes
    }

    #[test]
    fn numbers_have_these_bytes() {
        assert_eq!(bytes_of(0), [0]);
        assert_eq!(bytes_of(127), [127]);
        assert_eq!(bytes_of(128), [0x80, 1]);
        assert_eq!(bytes_of(300), [0xac, 2]);
        assert_eq!(bytes_of(u64::MAX), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    }

    #[test]
    fn numbers_come_back() {
        for value in (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, u64::MAX >> bit]) {
            let mut bytes = bytes_of(value);
            bytes.push(0x55);
            let mut rest = bytes.as_slice();
            assert_eq!(take(&mut rest), Some(value));
            assert_eq!(rest, [0x55]);
        }
    }

    #[test]
    fn other_encodings_are_refused() {
        for bytes in [&[][..], &[0x80], &[0xff; 9], &[0x80, 0], &[0xff, 0x80, 0], &[0xff; 11]] {
            assert_eq!(take(&mut &*bytes), None, "{bytes:x?}");
        }
        let mut beyond_64_bits = [0xff; 10];
        beyond_64_bits[9] = 2;
        assert_eq!(take(&mut &beyond_64_bits[..]), None);
    }

    #[test]
    fn differences_are_folded() {
        let folded: Vec<u64> = [7, 6, 8, 5, 9].iter().map(|&to| difference(7, to)).collect();
        assert_eq!(folded, [0, 1, 2, 3, 4]);
        for (from, to) in [(0, u64::MAX), (u64::MAX, 0), (5, 1 << 63), (1 << 63, 5), (0, 0)] {
            assert_eq!(beyond(from, difference(from, to)), to);
        }
    }
}
