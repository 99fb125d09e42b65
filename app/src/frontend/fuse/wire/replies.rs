//! The messages that a server writes to /dev/fuse.

use super::MAJOR;
use zerocopy::{Immutable, IntoBytes};

/// The code of the notification by which a server asks for requests again.
pub const NOTIFY_RESEND: i32 = 7;
/// The codes of those by which it makes the kernel forget what it knows of an inode, and gives it a part of its content.
pub const NOTIFY_INVAL_INODE: i32 = 2;
pub const NOTIFY_STORE: i32 = 4;

/// A notification by which the kernel forgets the attributes of an inode, and pages of it.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct InvalidateInode {
    header: OutHeader,
    node: u64,
    /// The pages from here on; none where it is negative.
    offset: i64,
    /// 0: to the end.
    length: i64,
}

/// A notification with a sector of a file's content. The kernel then knows that the file is at least as long as that.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct StoreSector {
    header: OutHeader,
    node: u64,
    offset: u64,
    size: u32,
    padding: u32,
    content: [u8; 512],
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct OutHeader {
    len: u32,
    error: i32,
    unique: u64,
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct InitOut {
    major: u32,
    minor: u32,
    max_readahead: u32,
    flags: u32,
    max_background: u16,
    congestion_threshold: u16,
    max_write: u32,
    time_gran: u32,
    max_pages: u16,
    map_alignment: u16,
    flags2: u32,
    unused: [u32; 7],
}

/// The attributes of an inode that `stat` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Attr {
    pub ino: u64,
    pub size: u64,
    /// The number of units of 512 bytes.
    pub blocks: u64,
    pub atime: u64,
    pub mtime: u64,
    pub ctime: u64,
    pub atimensec: u32,
    pub mtimensec: u32,
    pub ctimensec: u32,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub blksize: u32,
    pub flags: u32,
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct EntryOut {
    node: u64,
    generation: u64,
    entry_valid: u64,
    attr_valid: u64,
    entry_valid_nsec: u32,
    attr_valid_nsec: u32,
    attr: Attr,
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct AttrOut {
    attr_valid: u64,
    attr_valid_nsec: u32,
    dummy: u32,
    attr: Attr,
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct OpenOut {
    fh: u64,
    flags: u32,
    backing: u32,
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct WriteOut {
    size: u32,
    padding: u32,
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct StatfsOut {
    blocks: u64,
    bfree: u64,
    bavail: u64,
    files: u64,
    ffree: u64,
    bsize: u32,
    namelen: u32,
    frsize: u32,
    padding: u32,
    spare: [u32; 6],
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Dirent {
    ino: u64,
    next: u64,
    name_bytes: u32,
    kind: u32,
}

const _: () = {
    assert!(size_of::<OutHeader>() == 16 && size_of::<InitOut>() == 64 && size_of::<Attr>() == 88);
    assert!(size_of::<EntryOut>() == 128 && size_of::<AttrOut>() == 104);
    assert!(size_of::<StatfsOut>() == 80 && size_of::<Dirent>() == 24);
    assert!(size_of::<InvalidateInode>() == 40 && size_of::<StoreSector>() == 552);
};

/// The time for which the kernel may remember names and attributes: they change only when a volume grows, which is announced.
const FOR_EVER_S: u64 = 1 << 32;

/// Returns the beginning of a reply to request `unique`, followed by `payload_bytes`, or with a (positive) error number and nothing after
/// it.
///
/// # Panics
/// When the payload has 4 GiB or more; no reply is that large.
#[must_use]
pub fn reply_header(unique: u64, errno: i32, payload_bytes: usize) -> [u8; 16] {
    let len = u32::try_from(size_of::<OutHeader>() + payload_bytes).expect("a reply is shorter than 4 GiB");
    zerocopy::transmute!(OutHeader { len, error: -errno, unique })
}

/// Returns the message that makes the kernel send all unanswered requests again.
#[must_use]
pub fn resend() -> [u8; 16] {
    zerocopy::transmute!(OutHeader { len: 16, error: NOTIFY_RESEND, unique: 0 })
}

/// Returns the messages by which the kernel learns that a file has become longer: one raises the size that it keeps, and the other makes it
/// forget the attributes, and the zeros of the first one.
#[must_use]
pub fn resized(node: u64, bytes: u64) -> [Vec<u8>; 2] {
    let header = |len: usize, error| OutHeader { len: len as u32, error, unique: 0 };
    let store = StoreSector {
        header: header(size_of::<StoreSector>(), NOTIFY_STORE),
        node,
        offset: bytes.saturating_sub(512),
        size: 512,
        padding: 0,
        content: [0; 512],
    };
    let forget = InvalidateInode { header: header(size_of::<InvalidateInode>(), NOTIFY_INVAL_INODE), node, offset: 0, length: 0 };
    [store.as_bytes().to_vec(), forget.as_bytes().to_vec()]
}

/// The agreed parameters of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    pub minor: u32,
    pub max_readahead: u32,
    /// See [`init`](super::init).
    pub flags: u64,
    /// The number of requests that the kernel sends ahead.
    pub max_background: u16,
    /// The largest write, in bytes.
    pub max_write: u32,
    /// The largest request, in kernel pages.
    pub max_pages: u16,
}

/// Returns the reply to INIT.
#[must_use]
pub fn init_out(agreed: &Agreement) -> [u8; 64] {
    let low = u32::try_from(agreed.flags & u64::from(u32::MAX)).expect("masked to 32 bits");
    let high = u32::try_from(agreed.flags >> 32).expect("shifted down to 32 bits");
    zerocopy::transmute!(InitOut {
        major: MAJOR,
        minor: agreed.minor,
        max_readahead: agreed.max_readahead,
        flags: low,
        max_background: agreed.max_background,
        congestion_threshold: agreed.max_background,
        max_write: agreed.max_write,
        time_gran: 1,
        max_pages: agreed.max_pages,
        map_alignment: 0,
        flags2: high,
        unused: [0; 7],
    })
}

/// Returns the reply to LOOKUP.
#[must_use]
pub fn entry_out(attr: Attr) -> [u8; 128] {
    zerocopy::transmute!(EntryOut {
        node: attr.ino,
        generation: 0,
        entry_valid: FOR_EVER_S,
        attr_valid: FOR_EVER_S,
        entry_valid_nsec: 0,
        attr_valid_nsec: 0,
        attr,
    })
}

/// Returns the reply to GETATTR and SETATTR.
#[must_use]
pub fn attr_out(attr: Attr) -> [u8; 104] {
    zerocopy::transmute!(AttrOut { attr_valid: FOR_EVER_S, attr_valid_nsec: 0, dummy: 0, attr })
}

/// Returns the reply to OPEN and OPENDIR. `flags` as in [`fopen`](super::fopen).
#[must_use]
pub fn open_out(fh: u64, flags: u32) -> [u8; 16] {
    zerocopy::transmute!(OpenOut { fh, flags, backing: 0 })
}

/// Returns the reply to WRITE: the number of bytes that were taken.
#[must_use]
pub fn write_out(bytes: u32) -> [u8; 8] {
    zerocopy::transmute!(WriteOut { size: bytes, padding: 0 })
}

/// Returns the reply to STATFS: full, of `blocks` blocks of `block_bytes`, with one file.
#[must_use]
pub fn statfs_out(blocks: u64, block_bytes: u32) -> [u8; 80] {
    zerocopy::transmute!(StatfsOut {
        blocks,
        bfree: 0,
        bavail: 0,
        files: 1,
        ffree: 0,
        bsize: block_bytes,
        namelen: 255,
        frsize: block_bytes,
        padding: 0,
        spare: [0; 6],
    })
}

/// Adds a directory entry to a reply to READDIR (or READDIRPLUS, with `plus`) if it fits into `limit_bytes`; returns whether it did. The
/// kernel asks for `next` to go on after it.
pub fn push_dirent(reply: &mut Vec<u8>, limit_bytes: usize, attr: Attr, name: &[u8], next: u64, plus: bool) -> bool {
    let entry_bytes = if plus { size_of::<EntryOut>() } else { 0 };
    let bytes = (entry_bytes + size_of::<Dirent>() + name.len()).next_multiple_of(8);
    if reply.len() + bytes > limit_bytes {
        return false;
    }
    let end = reply.len() + bytes;
    if plus {
        // "." and ".." carry no inode number for the kernel to remember: it skips entries whose node is 0.
        let is_dots = name.iter().all(|&b| b == b'.');
        let entry = if is_dots { [0; 128] } else { entry_out(attr) };
        reply.extend_from_slice(&entry);
    }
    let name_bytes = u32::try_from(name.len()).expect("a file name is short");
    reply.extend_from_slice(Dirent { ino: attr.ino, next, name_bytes, kind: attr.mode >> 12 }.as_bytes());
    reply.extend_from_slice(name);
    reply.resize(end, 0);
    true
}
