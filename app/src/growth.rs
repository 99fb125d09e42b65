//! Growing a volume that no server has open, over its backing store.
//!
//! 1. The same call grows a volume that is detached and one that is handed from one server to the next. A volume that crashed grows, too
//!    (`engine/src/format/grow.rs`).
//! 2. A growth that was cut off is begun again by the same order. One that was done already does nothing.
//! 3. New pages are made blank in small pieces, so that a growth is broken off in time, and the beats of a guarded volume find their turn.

use crate::device::backing::Backing;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::size::Size;
use crate::volume;
use onefold_engine::buffer::BufferMut;
use onefold_engine::format::{Chosen, FormatStep, GeometryError, GrowError, Growth};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The most bytes that are made zero at once.
const ZERO_BYTES_MAX: u64 = 1 << 20;

/// The size that a volume is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The bytes that it takes of its store.
    pub device_bytes: u64,
    /// The blocks that clients see; none: as [`Geometry::grown`](onefold_engine::format::Geometry::grown) has it.
    pub logical_blocks: Option<u64>,
}

/// Plans the growth of the volume at `path`; none where it has that size already.
///
/// # Errors
/// When it cannot grow so.
pub fn plan(path: &Path, chosen: Chosen, order: &Order) -> Outcome<Option<Growth>> {
    Growth::plan(chosen, Bytes(order.device_bytes), order.logical_blocks).map_err(|error| refused(path, &error))
}

/// Grows the volume on a store that this process alone has open. Nothing is written any more once `may_go_on` says no.
///
/// # Errors
/// When it cannot grow so, or the device fails.
pub fn grow(backing: &Backing, order: &Order, may_go_on: impl Fn() -> bool) -> Outcome {
    let (path, length) = (&backing.facts().path, backing.facts().length);
    if order.device_bytes > length {
        let message = format!("{} has only {}, and the volume was to have {}", path.display(), Size(length), Size(order.device_bytes));
        return Err(Failed::new(Exit::State, message));
    }
    let Some(growth) = plan(path, volume::load(backing)?, order)? else {
        // Another process may have grown it and been killed before the last flush.
        return backing.flush().map_err(|error| failed(path, &error));
    };
    let shared = growth.shared_pages().map(|id| {
        let mut buffer = BufferMut::zeroed(1);
        backing.read(growth.place_of(id).get(), &mut buffer).map(|()| Box::new(*buffer.block(0)))
    });
    let shared: Vec<Box<[u8; BLOCK_SIZE]>> = shared.collect::<io::Result<_>>().map_err(|error| failed(path, &error))?;
    let mut buffer = BufferMut::zeroed(1);
    let may_go_on = || {
        let broken_off = || Failed::new(Exit::DeviceFailed, format!("{}: the growth was broken off", path.display()));
        may_go_on().then_some(()).ok_or_else(broken_off)
    };
    for step in growth.steps(&shared).map_err(|error| refused(path, &error))? {
        may_go_on()?;
        let done = match step {
            FormatStep::Zero { at, length } => {
                for (at, length) in pieces(at.get(), length.get()) {
                    may_go_on()?;
                    backing.zero(at, length).map_err(|error| failed(path, &error))?;
                }
                Ok(())
            }
            FormatStep::Write { at, page } => {
                buffer.block_mut(0).copy_from_slice(&page[..]);
                backing.write(at.get(), &buffer)
            }
            FormatStep::Flush => backing.flush(),
        };
        done.map_err(|error| failed(path, &error))?;
    }
    Ok(())
}

/// The pieces of a range in which it is made zero: the place and the length of each.
fn pieces(at: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..length.div_ceil(ZERO_BYTES_MAX)).map(move |i| (at + i * ZERO_BYTES_MAX, ZERO_BYTES_MAX.min(length - i * ZERO_BYTES_MAX)))
}

fn failed(path: &Path, error: &io::Error) -> Failed {
    Failed::new(Exit::DeviceFailed, format!("{}: the device failed before the volume had grown: {error}", path.display()))
        .next("The volume is whole. Look at the device; then the same command begins again.")
}

/// The message to the user when a volume does not grow.
fn refused(path: &Path, error: &GrowError) -> Failed {
    let failed = |exit| Failed::new(exit, format!("{}: {error}", path.display()));
    match error {
        GrowError::Geometry(GeometryError::TooManyExtents { .. }) => {
            let message = format!("{}: the volume has grown too often: its table of regions is full", path.display());
            Failed::new(Exit::Refused, message).next("Copy its content to a new volume.")
        }
        GrowError::Geometry(GeometryError::Shrinks { device_bytes, volume_bytes }) => {
            let (now, wanted) = (Size(*volume_bytes), Size(*device_bytes));
            Failed::new(Exit::State, format!("{}: the volume has {now} of its store, and cannot shrink to {wanted}", path.display()))
        }
        GrowError::Geometry(GeometryError::LogicalShrinks { logical_blocks, before }) => {
            let (now, wanted) = (Size(before * BLOCK_BYTES), Size(logical_blocks * BLOCK_BYTES));
            Failed::new(Exit::State, format!("{}: clients see {now}, and cannot see less: {wanted}", path.display()))
        }
        GrowError::Geometry(_) => failed(Exit::State),
        GrowError::UsedUp { .. } => failed(Exit::Damaged).next("Attach it with `--read-only`, and copy its content to a new volume."),
        GrowError::ReadOnly { .. } => failed(Exit::OtherFormat).next("Use a newer program."),
        GrowError::DamagedBits { .. } => failed(Exit::Damaged).next(format!("`onefold check --repair {}` repairs it.", path.display())),
    }
}
