//! Transfers that are waited for: they are whole, in spite of signals and of a kernel that stops halfway.

use onefold_engine::buffer::Slice;
use std::io;

/// The largest number of pieces of one vectored transfer (IOV_MAX).
pub const PIECES_MAX: usize = 1024;

/// The direction of the bytes, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

/// Calls `step` with the bytes done so far until all `bytes` are done.
///
/// # Errors
/// The error of `step`; [`io::ErrorKind::UnexpectedEof`] where a step does nothing.
pub fn all(bytes: usize, mut step: impl FnMut(usize) -> io::Result<usize>) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        match step(done) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the error of a transfer: one that met the end of the device names it; others stay as they are.
pub fn ended(error: io::Error, direction: Direction, at: u64, bytes: usize) -> io::Error {
    if error.kind() != io::ErrorKind::UnexpectedEof {
        return error;
    }
    let verb = if direction == Direction::Read { "read" } else { "write" };
    io::Error::new(error.kind(), format!("the device ends within a {verb} of {bytes} bytes at {at}"))
}

/// Returns `bytes` of the bytes of `data`, from `from` on, as at most [`PIECES_MAX`] pieces.
pub fn pieces(data: &[Slice], from: usize, bytes: usize) -> impl Iterator<Item = &[u8]> {
    let (mut skip, mut left) = (from, bytes);
    data.iter()
        .filter_map(move |slice| {
            let whole = slice.bytes();
            let start = skip.min(whole.len());
            skip -= start;
            let piece = &whole[start..];
            let piece = &piece[..piece.len().min(left)];
            left -= piece.len();
            (!piece.is_empty()).then_some(piece)
        })
        .take(PIECES_MAX)
}
