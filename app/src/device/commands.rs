//! A command on a backing store: it is refused where it does not fit, or carried out and waited for.

use super::backing::Backing;
use super::interface::Work;
use super::transfer::{Direction, all, ended, pieces};
use rustix::io::ReadWriteFlags;
use std::io::{self, IoSlice};

/// Carries out one command and waits for it.
///
/// # Errors
/// When the device fails, ends before that, or cannot transfer such a range.
pub fn carry_out(backing: &Backing, work: &mut Work) -> io::Result<()> {
    match work {
        Work::Read { at, buffer, skip, bytes, .. } => backing.read_bytes(*at, &mut buffer.bytes_mut()[*skip..*skip + *bytes]),
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
        Work::Fill { at, length } => backing.fill(*at, *length),
    }
}

/// Refuses what the device cannot do, with the same message on every back-end.
///
/// # Errors
/// When the range is misaligned or beyond the end.
pub fn admit(backing: &Backing, work: &Work) -> io::Result<()> {
    let (at, length) = match work {
        Work::Read { at, bytes, skip, .. } | Work::Write { at, bytes, skip, .. } => {
            let align = backing.facts().memory_align;
            if *skip as u64 % align != 0 {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("memory at {skip}: not a multiple of {align}")));
            }
            (*at, *bytes as u64)
        }
        Work::Discard { at, length } | Work::Zero { at, length } | Work::Fill { at, length } => (*at, *length),
        Work::Flush => return Ok(()),
    };
    match backing.misfit(at, length) {
        Some(misfit) => Err(io::Error::new(io::ErrorKind::InvalidInput, misfit)),
        None => Ok(()),
    }
}
