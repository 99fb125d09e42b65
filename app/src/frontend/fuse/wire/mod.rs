//! The kernel's FUSE protocol, as much of it as one file needs, byte for byte as in `linux/fuse.h`: requests here, [`replies`] there.
//!
//! 1. Parsing is total: any bytes give a [`Request`] or [`Malformed`], never a panic. Only the shape of a request is checked; `files`
//!    decides whether its numbers make sense.
//! 2. All integers are the machine's own, native-endian, and every structure is a multiple of 8 bytes.
//! 3. The fixed part of each request that is answered lies within its first [`HEAD_BYTES`] bytes. So a write's payload, which begins right
//!    after them, can be received in a place of its own.

pub mod replies;

use rustix::fs::OFlags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The size of the header and a write's fixed part, after which a write's payload begins.
pub const HEAD_BYTES: usize = size_of::<InHeader>() + size_of::<WriteIn>();
/// The longest name that a look-up brings whole in its first [`HEAD_BYTES`], with the zero after it.
pub const NAME_BYTES_MAX: usize = HEAD_BYTES - size_of::<InHeader>() - 1;
/// The major version of the protocol. Others are refused.
pub const MAJOR: u32 = 7;
/// The newest minor version that has these structures.
pub const MINOR: u32 = 40;
/// The oldest minor version that lets requests be larger than 128 KiB.
pub const MINOR_MIN: u32 = 28;

/// The number of the root directory's inode, given by the protocol.
pub const ROOT: u64 = 1;

/// Set in the number of a request that was sent again.
pub const UNIQUE_RESEND: u64 = 1 << 63;

/// Flags of INIT. The upper half is in `flags2`.
pub mod init {
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const INIT_EXT: u64 = 1 << 30;
    /// The kernel can send again what a dead server had taken.
    pub const HAS_RESEND: u64 = 1 << 39;
}

/// Flags of an opened file.
pub mod fopen {
    pub const DIRECT_IO: u32 = 1 << 0;
    pub const CACHE_DIR: u32 = 1 << 3;
    pub const NOFLUSH: u32 = 1 << 5;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Bits of `SetAttr::valid`.
pub mod setattr {
    pub const SIZE: u32 = 1 << 3;
    pub const FH: u32 = 1 << 6;
    pub const LOCKOWNER: u32 = 1 << 9;
}

/// Bits of `fallocate`'s mode.
pub mod falloc {
    pub const KEEP_SIZE: u32 = 1;
    pub const PUNCH_HOLE: u32 = 2;
    pub const ZERO_RANGE: u32 = 16;
}

mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const SYMLINK: u32 = 6;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;
}

/// The beginning of every request.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct InHeader {
    /// The number of bytes of the whole request.
    pub len: u32,
    pub opcode: u32,
    /// Its number, with [`UNIQUE_RESEND`] where it was sent before. The reply repeats it unchanged.
    pub unique: u64,
    pub node: u64,
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
    /// Extensions at the end, in units of 8 bytes.
    pub extensions: u16,
    padding: u16,
}

#[derive(FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct InitIn {
    major: u32,
    minor: u32,
    max_readahead: u32,
    flags: u32,
}

/// The fixed part of reads and of writes.
#[derive(FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct WriteIn {
    fh: u64,
    offset: u64,
    size: u32,
    flags: u32,
    lock_owner: u64,
    open_flags: u32,
    padding: u32,
}

#[derive(FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct SetAttrIn {
    valid: u32,
    padding: u32,
    fh: u64,
    size: u64,
}

#[derive(FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct FallocateIn {
    fh: u64,
    offset: u64,
    length: u64,
    mode: u32,
    padding: u32,
}

const _: () = assert!(size_of::<InHeader>() == 40 && size_of::<WriteIn>() == 40 && HEAD_BYTES == 80 && size_of::<FallocateIn>() == 32);

/// The operation that the kernel asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    Init {
        major: u32,
        minor: u32,
        max_readahead: u32,
        /// See [`init`].
        flags: u64,
    },
    /// The session ends.
    Destroy,
    /// The request wants no reply.
    Forget,
    /// The name, or `None` where it is too long to lie within the first [`HEAD_BYTES`].
    Lookup {
        name: Option<&'a [u8]>,
    },
    GetAttr,
    SetAttr {
        valid: u32,
        size: u64,
    },
    Open {
        flags: u32,
    },
    OpenDir,
    Release,
    Read {
        offset: u64,
        bytes: u32,
    },
    /// A write, whose payload follows the first [`HEAD_BYTES`] bytes.
    Write {
        offset: u64,
        bytes: u32,
        /// The file was opened, or the write sent, with `O_DSYNC` or `O_SYNC`.
        fua: bool,
    },
    Statfs,
    /// A sync of a file or of the whole file system.
    Sync,
    SyncDir,
    ReadDir {
        offset: u64,
        bytes: u32,
        plus: bool,
    },
    /// `mode` as in [`falloc`].
    Fallocate {
        offset: u64,
        bytes: u64,
        mode: u32,
    },
    /// A client no longer waits for a request.
    Interrupt,
    /// An operation that would change the directory.
    Change,
    /// An operation that this file system lacks.
    Other,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub header: InHeader,
    pub ask: Operation<'a>,
}

/// Bytes that are no request. Where they have a number, the kernel can get an error for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed FUSE request of {received} bytes, operation {opcode:?}")]
pub struct Malformed {
    pub received: usize,
    pub opcode: Option<u32>,
    pub unique: Option<u64>,
}

/// Reads a request of `received` bytes, of which `head` holds the first [`HEAD_BYTES`] (all, where there are fewer).
///
/// # Errors
/// When the bytes are fewer than the request needs, or the length they state is another.
pub fn parse(head: &[u8], received: usize) -> Result<Request<'_>, Malformed> {
    let no_request = Malformed { received, opcode: None, unique: None };
    let head = &head[..head.len().min(received)];
    let Ok((header, body)) = InHeader::read_from_prefix(head) else {
        return Err(no_request);
    };
    let malformed = Malformed { opcode: Some(header.opcode), unique: Some(header.unique), ..no_request };
    if u64::from(header.len) != received as u64 {
        return Err(malformed);
    }
    let ask = parse_body(header.opcode, body, received, head.len()).ok_or(malformed)?;
    Ok(Request { header, ask })
}

fn parse_body(code: u32, body: &[u8], received: usize, head_bytes: usize) -> Option<Operation<'_>> {
    Some(match code {
        opcode::INIT => {
            let (fixed, rest) = InitIn::read_from_prefix(body).ok()?;
            let low = u64::from(fixed.flags);
            let high = match u32::read_from_prefix(rest) {
                Ok((flags2, _)) if low & init::INIT_EXT != 0 => u64::from(flags2) << 32,
                _ => 0,
            };
            Operation::Init { major: fixed.major, minor: fixed.minor, max_readahead: fixed.max_readahead, flags: low | high }
        }
        opcode::DESTROY => Operation::Destroy,
        opcode::FORGET | opcode::BATCH_FORGET => Operation::Forget,
        opcode::LOOKUP => match body.iter().position(|&b| b == 0) {
            Some(end) => Operation::Lookup { name: Some(&body[..end]) },
            None if received > head_bytes => Operation::Lookup { name: None },
            None => return None,
        },
        opcode::GETATTR => Operation::GetAttr,
        opcode::SETATTR => {
            let (fixed, _) = SetAttrIn::read_from_prefix(body).ok()?;
            Operation::SetAttr { valid: fixed.valid, size: fixed.size }
        }
        opcode::OPEN => Operation::Open { flags: u32::read_from_prefix(body).ok()?.0 },
        opcode::OPENDIR => Operation::OpenDir,
        opcode::RELEASE | opcode::RELEASEDIR => Operation::Release,
        opcode::READ | opcode::READDIR | opcode::READDIRPLUS | opcode::WRITE => {
            let (fixed, _) = WriteIn::read_from_prefix(body).ok()?;
            let (offset, bytes) = (fixed.offset, fixed.size);
            match code {
                opcode::READ => Operation::Read { offset, bytes },
                opcode::WRITE if received as u64 == HEAD_BYTES as u64 + u64::from(bytes) => {
                    let fua = fixed.open_flags & OFlags::DSYNC.bits() != 0;
                    Operation::Write { offset, bytes, fua }
                }
                opcode::WRITE => return None,
                _ => Operation::ReadDir { offset, bytes, plus: code == opcode::READDIRPLUS },
            }
        }
        opcode::STATFS => Operation::Statfs,
        opcode::FSYNC | opcode::SYNCFS => Operation::Sync,
        opcode::FSYNCDIR => Operation::SyncDir,
        opcode::FALLOCATE => {
            let (fixed, _) = FallocateIn::read_from_prefix(body).ok()?;
            Operation::Fallocate { offset: fixed.offset, bytes: fixed.length, mode: fixed.mode }
        }
        opcode::INTERRUPT => Operation::Interrupt,
        opcode::MKNOD
        | opcode::MKDIR
        | opcode::UNLINK
        | opcode::RMDIR
        | opcode::RENAME
        | opcode::RENAME2
        | opcode::LINK
        | opcode::SYMLINK
        | opcode::CREATE
        | opcode::TMPFILE => Operation::Change,
        _ => Operation::Other,
    })
}

#[cfg(test)]
mod tests;
