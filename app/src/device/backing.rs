//! A backing store, opened: a file or a block device, locked, measured, and read and written by one descriptor.
//!
//! 1. One open file carries the lock and all I/O (R7). The files below it are locked too, and as long.
//! 2. A flush is honest: files are always fdatasync'ed; only a block device whose queue is "write through" is not flushed.
//! 3. O_DIRECT is used wherever the kernel has it, with the alignment that the kernel reports. Where it has none, a store is written only
//!    on request, and its cached pages are dropped before anything is read.

use super::facts::StorePlace;
pub use super::facts::{Facts, Kind};
use super::host_map;
use super::lock::open_locked;
use super::measure::{block_discard, drop_cached, is_block_read_only, measure, room_of};
pub use super::open_error::OpenError;
use super::transfer::{self, Direction};
use onefold_engine::buffer::BufferMut;
use onefold_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use rustix::fs::{FallocateFlags, IFlags, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The purpose for which a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Shared with other readers.
    Read,
    /// Exclusive, and past the page cache, or not at all.
    Write,
    /// Exclusive; through the page cache where there is no other way, with that way's risks.
    WriteBuffered,
}

impl Access {
    /// Returns the access of a server, as its user chose.
    #[must_use]
    pub fn of(is_read_only: bool, is_buffered: bool) -> Self {
        match (is_read_only, is_buffered) {
            (true, _) => Self::Read,
            (false, true) => Self::WriteBuffered,
            (false, false) => Self::Write,
        }
    }
}

/// The way in which a new file gets its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// All at once, so that the file system cannot run out of it later.
    Whole,
    /// Piece by piece, when it is written.
    Sparse,
}

/// The time that commands wait for a store that is in use: a server that was asked to end a moment ago may not be gone yet.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// The time that they wait for a store whose user has ended: its last requests hold the store until they are over, on a slow device for a
/// while (R7).
const PATIENCE_WITH_THE_DEAD: Duration = Duration::from_secs(30);

/// An open backing store.
#[derive(Debug)]
pub struct Backing {
    file: File,
    /// The files below it, locked like it.
    guards: Vec<File>,
    facts: Facts,
    /// The device refused a discard: it gets no further ones.
    has_no_discard: AtomicBool,
}

/// BTRFS_SUPER_MAGIC of linux/magic.h.
const BTRFS: rustix::fs::FsWord = 0x9123_683e;

/// The room of a file on its file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The space that this process may use.
    pub available: u64,
    /// The size of the file system.
    pub all: u64,
    /// The space that the file may still ask for.
    pub holes: u64,
}

impl Backing {
    /// Opens and locks a store. Where I/O goes through the page cache, the cached pages of the store are dropped first.
    ///
    /// # Errors
    /// When it is missing, may not be opened, is in use, or is no store; for writing, when it has no direct I/O and that was not allowed,
    /// and when its cached pages cannot be written.
    pub fn open(path: &Path, access: Access) -> Result<Self, OpenError> {
        let is_read_only = access == Access::Read;
        let (file, stat, guards) = open_locked(path, is_read_only)?;
        if !is_read_only && stat.st_mode & libc::S_IFMT == libc::S_IFBLK && is_block_read_only(file.as_fd()).unwrap_or(false) {
            return Err(OpenError::ReadOnly { path: path.to_owned() });
        }
        let facts = Facts { is_read_only, ..measure(path, &file, &stat).map_err(|e| OpenError::of_errno(path, "measure", e))? };
        if !facts.is_direct {
            if access == Access::Write {
                return Err(OpenError::NotDirect { path: path.to_owned() });
            }
            match drop_cached(&file, facts.kind) {
                // The next opening finds what is on the device: the kernel reports this loss once, and nothing of it is cached any more.
                Err(error) if !is_read_only => return Err(OpenError::of_errno(path, "write what was cached of", error)),
                Err(error) => {
                    tracing::error!(%error, path = %path.display(), "what was cached of this store could not be written, and is lost")
                }
                Ok(()) => tracing::warn!(path = %path.display(), "no direct I/O here: reads and writes go through the page cache"),
            }
        }
        Ok(Self { file, guards, facts, has_no_discard: AtomicBool::new(false) })
    }

    /// Opens a store like [`open`](Self::open), but retries for `patience` where it is in use, and longer where its user has ended: the
    /// last request of a dead server releases the store (R7).
    ///
    /// # Errors
    /// As `open`.
    pub fn open_patiently(path: &Path, access: Access, patience: Duration) -> Result<Self, OpenError> {
        let began = Instant::now();
        loop {
            match Self::open(path, access) {
                Err(OpenError::InUse { may_be_dead, .. })
                    if began.elapsed() < if may_be_dead { PATIENCE_WITH_THE_DEAD.max(patience) } else { patience } =>
                {
                    std::thread::sleep(Duration::from_millis(2));
                }
                other => return other,
            }
        }
    }

    /// Creates a file of `length` bytes that only its owner may read, and opens it.
    ///
    /// # Errors
    /// When it exists, or the file system has no room; and as [`open`](Self::open). No file is left then.
    pub fn create_file(path: &Path, length: u64, allocation: Allocation, access: Access) -> Result<Self, OpenError> {
        let error = |what, source| OpenError::System { path: path.to_owned(), what, source };
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fd = rustix::fs::open(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, mode)
            .map_err(|e| OpenError::of_errno(path, "create", e))?;
        // Only an empty file can have copy-on-write switched off, where the file system has any.
        if let Ok(flags) = rustix::fs::ioctl_getflags(&fd) {
            let _ = rustix::fs::ioctl_setflags(&fd, flags | IFlags::NOCOW);
        }
        let sized = rustix::fs::ftruncate(&fd, length).and_then(|()| match allocation {
            Allocation::Sparse => Ok(()),
            Allocation::Whole => allocate_whole(&fd, path, length),
        });
        if let Err(errno) = sized {
            // Nobody has seen the file yet, and half a file helps nobody.
            let _ = std::fs::remove_file(path);
            return Err(error("allocate", errno.into()));
        }
        drop(fd);
        Self::open(path, access).inspect_err(|_| drop(std::fs::remove_file(path)))
    }

    /// Returns its size and properties.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Sets the length of a file.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn resize(&mut self, length: u64, allocation: Allocation) -> io::Result<()> {
        rustix::fs::ftruncate(&self.file, length)?;
        if allocation == Allocation::Whole {
            allocate_whole(&self.file, &self.facts.path, length)?;
        }
        self.facts.length = length;
        Ok(())
    }

    /// Whether all bytes of a file have their space already, as those of block devices have.
    ///
    /// # Errors
    /// When the kernel cannot report it.
    pub fn is_allocated(&self) -> io::Result<bool> {
        let stat = rustix::fs::fstat(&self.file)?;
        Ok(self.facts.kind == Kind::Block || stat.st_blocks.unsigned_abs() * SECTOR_BYTES >= self.facts.length)
    }

    /// Returns the room of the file system below; none on a block device, and where a file system, such as ramfs, does not report its size.
    ///
    /// # Errors
    /// When the kernel cannot report it.
    pub fn room(&self) -> io::Result<Option<Room>> {
        if self.facts.kind == Kind::Block {
            return Ok(None);
        }
        let (file, below) = (rustix::fs::fstat(&self.file)?, rustix::fs::fstatvfs(&self.file)?);
        let holes = self.facts.length.saturating_sub(file.st_blocks.unsigned_abs() * SECTOR_BYTES);
        Ok(room_of(&below).map(|available| Room { available, all: below.f_blocks * below.f_frsize, holes }))
    }

    /// Returns the ranges of a file that its host has never written; none on a block device, and where the host does not say.
    ///
    /// # Errors
    /// When the host fails.
    pub fn unwritten(&self) -> io::Result<Option<Vec<Range<u64>>>> {
        if self.facts.kind == Kind::Block {
            return Ok(None);
        }
        Ok(host_map::unwritten(&self.file, self.facts.length)?)
    }

    /// Whether the file system below copies what is overwritten of this file; none where it never does.
    #[must_use]
    pub fn copy_on_write(&self) -> Option<bool> {
        let is_btrfs = self.facts.kind == Kind::File && rustix::fs::fstatfs(&self.file).is_ok_and(|below| below.f_type == BTRFS);
        is_btrfs.then(|| !rustix::fs::ioctl_getflags(&self.file).is_ok_and(|flags| flags.contains(IFlags::NOCOW)))
    }

    /// Gives a range of a sparse file its space. Does nothing on a block device.
    ///
    /// # Errors
    /// When the file system has no room.
    pub fn allocate(&self, at: u64, length: u64) -> io::Result<()> {
        if self.facts.kind == Kind::File && length > 0 {
            match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, at, length) {
                Err(Errno::OPNOTSUPP) | Ok(()) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    /// Reads from byte `at` until `buffer` is full, and waits for it.
    ///
    /// # Errors
    /// When the device fails or ends before that.
    pub fn read(&self, at: u64, buffer: &mut BufferMut) -> io::Result<()> {
        self.read_bytes(at, buffer.bytes_mut())
    }

    /// Writes all of `buffer` at byte `at`, and waits for it.
    ///
    /// # Errors
    /// When the device fails or ends before that.
    pub fn write(&self, at: u64, buffer: &BufferMut) -> io::Result<()> {
        let whole = buffer.bytes();
        transfer::all(whole.len(), |done| {
            let rest = IoSlice::new(&whole[done..]);
            Ok(rustix::io::pwritev(&self.file, &[rest], at + done as u64)?)
        })
        .map_err(|e| transfer::ended(e, Direction::Write, at, whole.len()))
    }

    /// Reads from byte `at` until `bytes` is full, and waits for it. The memory is aligned as the store needs it.
    ///
    /// # Errors
    /// When the device fails or ends before that.
    pub fn read_bytes(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let length = bytes.len();
        transfer::all(length, |done| {
            let rest = IoSliceMut::new(&mut bytes[done..]);
            Ok(rustix::io::preadv(&self.file, &mut [rest], at + done as u64)?)
        })
        .map_err(|e| transfer::ended(e, Direction::Read, at, length))
    }

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// When the device fails: nothing since the last successful flush is known to be durable (A5).
    pub fn flush(&self) -> io::Result<()> {
        if self.facts.is_write_through {
            return Ok(());
        }
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    /// Allows the store to forget these bytes. Does nothing where it has no discard.
    ///
    /// # Errors
    /// When the device fails.
    pub fn discard(&self, at: u64, length: u64) -> io::Result<()> {
        if self.has_no_discard.load(Ordering::Relaxed) {
            return Ok(());
        }
        let result = match self.facts.kind {
            Kind::File => rustix::fs::fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, length),
            Kind::Block => block_discard(self.file.as_fd(), at, length),
        };
        match result {
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => {
                self.has_no_discard.store(true, Ordering::Relaxed);
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Makes these bytes zeros: by the store's own means where it has some (which keep the space), otherwise by writing them.
    ///
    /// # Errors
    /// When the device fails.
    pub fn zero(&self, at: u64, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, at, length) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.write_zeros(at, length),
            other => Ok(other?),
        }
    }

    /// Makes these bytes of a file zeros that its host has written, durably: later writes of them need nothing of the host. Where the disk
    /// below can make zeros by itself (Linux 6.17 and newer), nothing is written.
    ///
    /// # Errors
    /// When the device fails.
    pub fn fill(&self, at: u64, length: u64) -> io::Result<()> {
        // FALLOC_FL_WRITE_ZEROES of linux/falloc.h.
        let write_zeroes = FallocateFlags::from_bits_retain(0x80);
        match rustix::fs::fallocate(&self.file, write_zeroes, at, length) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.write_zeros(at, length)?,
            other => other?,
        }
        self.flush()
    }

    fn write_zeros(&self, at: u64, length: u64) -> io::Result<()> {
        let zeros = BufferMut::zeroed(64);
        let mut done = 0;
        while done < length {
            let part = (length - done).min(64 * BLOCK_BYTES);
            let bytes = &zeros.bytes()[..usize::try_from(part).expect("at most 256 KiB")];
            transfer::all(bytes.len(), |n| Ok(rustix::io::pwritev(&self.file, &[IoSlice::new(&bytes[n..])], at + done + n as u64)?))
                .map_err(|e| transfer::ended(e, Direction::Write, at + done, bytes.len()))?;
            done += part;
        }
        Ok(())
    }

    /// Returns the current place of the store.
    #[must_use]
    pub fn place(&self) -> StorePlace {
        let descriptor = self.file.as_raw_fd();
        let stat = rustix::fs::fstat(&self.file).ok().filter(|_| self.facts.kind == Kind::File);
        let is_deleted = stat.is_some_and(|stat| stat.st_nlink == 0);
        let missing_bytes = stat.map_or(0, |stat| self.facts.length.saturating_sub(stat.st_size.unsigned_abs()));
        let named = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap_or_else(|_| self.facts.path.clone());
        // The kernel appends a note to the name of a file that is gone.
        let text = named.to_str().and_then(|text| text.strip_suffix(" (deleted)")).filter(|_| is_deleted);
        let path = text.map_or_else(|| named.clone(), PathBuf::from);
        let open_as = format!("/proc/{}/fd/{descriptor}", std::process::id()).into();
        StorePlace { path, is_deleted, open_as, missing_bytes }
    }

    /// Returns the reason why a range cannot be transferred, if there is one.
    #[must_use]
    pub fn misfit(&self, at: u64, bytes: u64) -> Option<String> {
        let Facts { offset_align, length, .. } = self.facts;
        if at % offset_align != 0 || bytes % offset_align != 0 {
            return Some(format!("{bytes} bytes at {at}: not multiples of {offset_align}"));
        }
        (bytes > length || at > length - bytes).then(|| format!("{bytes} bytes at {at}: beyond the end at {length}"))
    }

    /// Returns the file that carries the I/O, then the other locked files. A caller whose I/O in the kernel may outlive this process must
    /// let the kernel hold all of them (R7).
    pub(super) fn files(&self) -> Vec<RawFd> {
        std::iter::once(&self.file).chain(&self.guards).map(AsRawFd::as_raw_fd).collect()
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

fn allocate_whole(file: impl AsFd, path: &Path, length: u64) -> Result<(), Errno> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, length) {
        Err(Errno::OPNOTSUPP) => {
            tracing::warn!(path = %path.display(), "this file system cannot give a file its space in advance");
            Ok(())
        }
        other => other,
    }
}
