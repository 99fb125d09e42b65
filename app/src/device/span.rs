//! Ranges of bytes, as locks have them.

/// A range of bytes of a file or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub(super) start: u64,
    /// The length; none for all up to the end, wherever that is.
    pub(super) bytes: Option<u64>,
}

impl Span {
    pub const WHOLE: Self = Self { start: 0, bytes: None };

    /// Translates this range of a device that shows `bytes` (none: all) of the layer below from `offset` on, into a range of that layer.
    #[must_use]
    pub fn below(self, offset: u64, bytes: Option<u64>) -> Self {
        let rest = bytes.map(|bytes| bytes.saturating_sub(self.start));
        let bytes = match (self.bytes, rest) {
            (Some(own), Some(rest)) => Some(own.min(rest)),
            (own, rest) => own.or(rest),
        };
        Self { start: offset.saturating_add(self.start), bytes }
    }

    /// Returns the kernel's form: start, and length, where 0 is to the end.
    #[must_use]
    pub fn numbers(self) -> (i64, i64) {
        let start = i64::try_from(self.start).unwrap_or(i64::MAX);
        (start, self.bytes.and_then(|bytes| i64::try_from(bytes).ok()).filter(|bytes| start.checked_add(*bytes).is_some()).unwrap_or(0))
    }

    /// Whether a locked range, first byte and last (none: to the end), overlaps this one.
    #[must_use]
    pub fn meets(self, first: u64, last: Option<u64>) -> bool {
        self.bytes.is_none_or(|bytes| first < self.start.saturating_add(bytes)) && last.is_none_or(|last| last >= self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn span(start: u64, bytes: u64) -> Span {
        Span { start, bytes: Some(bytes) }
    }

    #[test]
    fn a_range_of_a_device_is_a_range_of_what_is_below() {
        assert_eq!(Span::WHOLE.below(0, None), Span::WHOLE);
        assert_eq!(Span::WHOLE.below(4096, Some(100)), span(4096, 100));
        // A partition of a loop device that begins within its file.
        assert_eq!(span(512, 1024).below(4096, None), span(4608, 1024));
        assert_eq!(span(512, 1024).below(4096, Some(1000)), span(4608, 488), "no more than the device shows");
    }

    #[test]
    fn ranges_meet_where_they_share_a_byte() {
        assert!(span(100, 10).meets(109, Some(200)) && span(100, 10).meets(0, Some(100)) && span(100, 10).meets(0, None));
        assert!(!span(100, 10).meets(110, None) && !span(100, 10).meets(0, Some(99)));
        assert!(Span::WHOLE.meets(u64::MAX, None));
    }
}
