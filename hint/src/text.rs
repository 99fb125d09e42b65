//! Text of bounded length in place: nothing is allocated.

use std::ffi::CStr;

/// At most `N` bytes.
#[derive(Clone, Copy)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// Returns the empty text.
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Keeps the first bytes alone.
    pub fn shorten(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends these bytes where there is room for all of them. Returns whether there was.
    #[must_use]
    pub fn push(&mut self, more: &[u8]) -> bool {
        let end = self.len + more.len();
        let Some(place) = self.bytes.get_mut(self.len..end) else { return false };
        place.copy_from_slice(more);
        self.len = end;
        true
    }

    /// Appends a number in decimal digits. Returns whether there was room.
    #[must_use]
    pub fn push_number(&mut self, mut number: u64) -> bool {
        const DIGITS: usize = 20;
        let mut digits = [b'0'; DIGITS];
        let mut count = 0;
        for place in digits.iter_mut().rev() {
            *place = b'0' + u8::try_from(number % 10).unwrap_or_default();
            number /= 10;
            count += 1;
            if number == 0 {
                break;
            }
        }
        self.push(digits.get(DIGITS - count..).unwrap_or_default())
    }

    /// Returns this text with a zero byte behind it; none where there is no room, or it has such a byte.
    pub fn with_zero(&mut self) -> Option<&CStr> {
        *self.bytes.get_mut(self.len)? = 0;
        CStr::from_bytes_with_nul(self.bytes.get(..=self.len)?).ok()
    }

    /// Lets `fill` write into the whole place and return how many bytes it wrote.
    pub fn fill(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) {
        self.len = fill(&mut self.bytes).min(N);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_takes_what_fits_and_nothing_of_the_rest() {
        let mut text = Text::<8>::new();
        assert!(text.push(b"abc") && text.push_number(1204) && !text.push(b"xy") && text.push(b"z") && !text.push_number(0));
        assert_eq!(text.bytes(), b"abc1204z");
        assert!(text.with_zero().is_none(), "the zero byte needs room as well");
    }

    #[test]
    fn numbers_have_all_their_digits() {
        for number in [0, 9, 10, 99, 1_000_000, u64::MAX] {
            let mut text = Text::<20>::new();
            assert!(text.push_number(number));
            assert_eq!(text.bytes(), number.to_string().as_bytes());
        }
    }
}
