//! The bytes that a client has sent and that nobody has read yet.

/// Bytes in the order of arrival, in one stretch of memory of fixed size.
pub struct Inbox {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Inbox {
    /// Makes an inbox of `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes].into_boxed_slice(), start: 0, end: 0 }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the place of the next bytes. Unread bytes are first moved to the front: at most a request and
    /// [`DIRECT_MIN`](super::connection::DIRECT_MIN) bytes of its payload.
    pub fn vacant(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    /// Notes that `bytes` bytes were put where [`vacant`](Self::vacant) pointed.
    pub fn filled(&mut self, bytes: usize) {
        self.end += bytes;
        assert!(self.end <= self.bytes.len());
    }

    /// Returns the first `N` bytes, if they are there.
    #[must_use]
    pub fn peek<const N: usize>(&self) -> Option<&[u8; N]> {
        self.bytes[self.start..self.end].first_chunk()
    }

    /// Throws away at most `bytes` bytes; returns their number.
    pub fn discard(&mut self, bytes: usize) -> usize {
        let gone = bytes.min(self.len());
        self.start += gone;
        gone
    }

    /// Moves as many bytes as there are into `out`; returns their number.
    pub fn copy(&mut self, out: &mut [u8]) -> usize {
        let many = out.len().min(self.len());
        out[..many].copy_from_slice(&self.bytes[self.start..self.start + many]);
        self.discard(many)
    }
}
