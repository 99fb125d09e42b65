//! Transfers that wait: whole ones, in spite of signals and of a kernel that stops halfway.

use super::Work;
use super::backing::Backing;
use onefold_engine::buffer::Slice;
use rustix::io::ReadWriteFlags;
use std::io::{self, IoSlice};

/// Pieces of one vectored transfer at most (IOV_MAX).
pub const PIECES_MAX: usize = 1024;

/// Which way bytes go, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

/// Calls `step` with the bytes done so far until all `bytes` are done.
///
/// # Errors
/// Of `step`; [`io::ErrorKind::UnexpectedEof`] where a step does nothing.
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

/// A transfer that met the end of the device says so; other errors stay.
pub fn ended(error: io::Error, direction: Direction, at: u64, bytes: usize) -> io::Error {
    if error.kind() != io::ErrorKind::UnexpectedEof {
        return error;
    }
    let verb = if direction == Direction::Read { "read" } else { "write" };
    io::Error::new(error.kind(), format!("the device ends within a {verb} of {bytes} bytes at {at}"))
}

/// The bytes of `data` from `from` on, `bytes` of them, as at most [`PIECES_MAX`] pieces.
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

/// Carries out one command and waits for it.
///
/// # Errors
/// When the device fails, ends before, or cannot transfer such a stretch.
pub fn carry_out(backing: &Backing, work: &mut Work) -> io::Result<()> {
    match work {
        Work::Read { at, buffer, skip, bytes } => backing.read_bytes(*at, &mut buffer.bytes_mut()[*skip..*skip + *bytes]),
        Work::Write { at, data, skip, bytes, fua } => {
            let (at, skip, bytes) = (*at, *skip, *bytes);
            let flags = if *fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
            all(bytes, |done| {
                let rest: Vec<_> = pieces(data, skip + done, bytes - done).map(IoSlice::new).collect();
                Ok(rustix::io::pwritev2(backing.file(), &rest, at + done as u64, flags)?)
            })
            .map_err(|e| ended(e, Direction::Write, at, bytes))
        }
        Work::Flush => backing.flush(),
        Work::Discard { at, length } => backing.discard(*at, *length),
        Work::Zero { at, length } => backing.zero(*at, *length),
    }
}

/// Refuses what the device cannot do, by the same words on every back-end.
///
/// # Errors
/// A misaligned or out-of-range stretch.
pub fn admit(backing: &Backing, work: &Work) -> io::Result<()> {
    let (at, length) = match work {
        Work::Read { at, bytes, skip, .. } | Work::Write { at, bytes, skip, .. } => {
            let align = backing.facts().memory_align;
            if *skip as u64 % align != 0 {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("memory at {skip}: not a multiple of {align}")));
            }
            (*at, *bytes as u64)
        }
        Work::Discard { at, length } | Work::Zero { at, length } => (*at, *length),
        Work::Flush => return Ok(()),
    };
    match backing.misfit(at, length) {
        Some(misfit) => Err(io::Error::new(io::ErrorKind::InvalidInput, misfit)),
        None => Ok(()),
    }
}
