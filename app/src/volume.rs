//! The content of a store: the superblock of a volume, something else, or nothing.

use crate::device::backing::Backing;
use crate::device::signature::{holds_data, recognised};
use crate::exit::{Exit, Failed, Outcome};
use onefold_engine::buffer::{BufferMut, Frame};
use onefold_engine::format::{self, Chosen, claimed_bytes, copies, end_copies};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

type Page = Box<[u8; BLOCK_SIZE]>;

/// Reads the valid superblock, through `read`, from a device of `bytes`.
fn choose(bytes: u64, read: impl Fn(u64) -> Option<Page>) -> Result<Chosen, format::OpenError> {
    let [a, b] = [0, BLOCK_BYTES].map(&read);
    let [c, d] = end_copies([a.as_deref(), b.as_deref()], Bytes(bytes)).map(|at| read(at.get()));
    format::copies::choose([a.as_deref(), b.as_deref(), c.as_deref(), d.as_deref()], Bytes(bytes))
}

/// Reads one page through the store's own descriptor; none where the device fails or ends before that.
fn page_of(backing: &Backing, at: u64) -> Option<Page> {
    let mut buffer = BufferMut::zeroed(1);
    if let Err(error) = backing.read(at, &mut buffer) {
        tracing::warn!(%error, at, "cannot read a superblock");
        return None;
    }
    Some(Box::new(*buffer.block(0)))
}

/// Returns the superblock of an open store.
///
/// # Errors
/// When there is no volume on it, or none that this program can use.
pub fn load(backing: &Backing) -> Result<Chosen, format::OpenError> {
    choose(backing.facts().length, |at| page_of(backing, at))
}

/// Returns the sizes of volumes in superblocks, sound or not: formatting has to destroy all of them.
#[must_use]
pub fn traces(backing: &Backing) -> Vec<Bytes> {
    let places = copies(Bytes(backing.facts().length));
    let mut sizes: Vec<Bytes> = places.iter().filter_map(|at| page_of(backing, at.get()).and_then(|page| claimed_bytes(&page))).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Returns the existing content of an open store, for people; none where it seems to hold nothing. `path` is its path.
///
/// # Errors
/// When it cannot be read.
pub fn content(path: &Path, backing: &Backing) -> std::io::Result<Option<String>> {
    if !traces(backing).is_empty() {
        return Ok(Some("a Onefold volume".to_owned()));
    }
    if let Some(content) = recognised(path) {
        return Ok(Some(content));
    }
    Ok(holds_data(backing)?.then(|| "data of no known kind".to_owned()))
}

/// Returns the superblock of a store that may be in use: read once, without the lock.
///
/// # Errors
/// When it cannot be read, or there is no volume on it.
pub fn peek(path: &Path) -> Outcome<Chosen> {
    use std::io::ErrorKind as K;
    let failed = |error: std::io::Error| {
        let exit = match error.kind() {
            K::NotFound => Exit::NotFound,
            K::PermissionDenied => Exit::NotPermitted,
            _ => Exit::System,
        };
        Failed::new(exit, format!("cannot open {}: {error}", path.display()))
    };
    let mut file = File::open(path).map_err(failed)?;
    let length = file.seek(SeekFrom::End(0)).map_err(failed)?;
    let read = |at| {
        let mut frame = Box::new(Frame::ZERO);
        file.read_exact_at(&mut frame.0, at).ok()?;
        Some(Box::new(frame.0))
    };
    choose(length, read).map_err(|error| {
        let failed = Failed::from(error);
        Failed { message: format!("{}: {}", path.display(), failed.message), ..failed }
    })
}
