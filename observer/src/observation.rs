//! The kernel's knowledge of one bio, in the words of a server.

use std::fmt;
use std::sync::Arc;

/// The kind of a request, as it arrives at the server.
///
/// A disk below a loop device cannot tell a discard from a write of zeroes that may free the blocks: both arrive as a hole that is to be
/// punched. A request of either kind is therefore joined to the observations of both; [`Observation::operation`] has the bio's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Operation {
    Read,
    Write,
    /// A secure erase counts as one.
    Discard,
    WriteZeroes,
}

/// The expected life of the content, which its writer gave by `fcntl(F_SET_RW_HINT)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Lifetime {
    /// The writer gave none.
    NotSet,
    /// The writer does not know it.
    None,
    Short,
    Medium,
    Long,
    Extreme,
}

/// The place in the kernel where a bio's file was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Source {
    /// A page of the bio: buffered and mapped writes.
    PageCache,
    /// The request of a file system's direct I/O.
    Direct,
    /// Btrfs' own structure around the bio.
    Btrfs,
    /// A buffer of XFS' metadata; [`File::name`] is its kind, and there is no inode.
    XfsBuffer,
    /// Pages of the disk itself: metadata of a file system (its journal too), or a buffered write to the disk. The inode is the disk's.
    DiskCache,
    /// Direct I/O to the disk itself; there is no inode.
    Disk,
}

/// The name of a process: at most 15 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Comm([u8; 16]);

/// A file name, without its directory. It need not be UTF-8.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name(Arc<[u8]>);

/// The file of a bio.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    pub source: Source,
    /// The inode's number; 0 if there is none.
    pub inode: u64,
    /// The owner of the file, in the numbers of the first user namespace.
    pub uid: u32,
    /// Another number when the inode's is given to another file; 0 if the file system has none.
    pub generation: u32,
    /// The inode's number of the directory; 0 if no name was found.
    pub directory: u64,
    /// The first 127 bytes of the name. `None` if names are not wanted, or if the kernel has forgotten it.
    pub name: Option<Name>,
    /// Bytes from the file's start, of the bio's first byte; a run has its own.
    pub(crate) offset: Option<u64>,
}

/// The kernel's knowledge of one bio.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observation {
    pub operation: Operation,
    /// The file system marked it as metadata.
    pub meta: bool,
    /// The write has to be durable when it is answered.
    pub fua: bool,
    pub lifetime: Lifetime,
    /// The process that submitted it; for a buffered write this may be a thread of the kernel.
    pub process: u32,
    pub comm: Comm,
    /// The number of the control group that the bio is charged to; 0 if it is not known.
    pub cgroup: u64,
    pub file: Option<File>,
    /// Bytes from the disk's start.
    pub(crate) at: u64,
    /// The bio's bytes follow each other in the file.
    pub(crate) linear: bool,
}

impl File {
    /// Makes the file of a bio whose place in it is not known.
    pub fn new(source: Source, inode: u64, name: Option<&[u8]>) -> Self {
        Self { source, inode, uid: 0, generation: 0, directory: 0, name: name.map(Name::new), offset: None }
    }
}

impl Observation {
    /// Makes an observation by which nothing is known but the operation.
    pub fn new(operation: Operation) -> Self {
        Self {
            operation,
            meta: false,
            fua: false,
            lifetime: Lifetime::NotSet,
            process: 0,
            comm: Comm::new([0; 16]),
            cgroup: 0,
            file: None,
            at: 0,
            linear: false,
        }
    }

    /// Returns the place in the file of a byte of the disk, if it is known.
    pub(crate) fn file_offset(&self, at: u64) -> Option<u64> {
        let offset = self.file.as_ref()?.offset?;
        (self.linear && at >= self.at).then(|| offset + (at - self.at))
    }

    /// Returns whether two observations say the same of each block of the disk.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        // The difference between the places in the file and on the disk is what two parts of one extent have in common.
        let shift = |of: &Self| of.file.as_ref().and_then(|file| file.offset).map(|offset| offset.wrapping_sub(of.at));
        let same_file = match (&self.file, &other.file) {
            (None, None) => true,
            (Some(mine), Some(theirs)) => {
                (mine.source, mine.inode, mine.generation, mine.uid, mine.directory, &mine.name)
                    == (theirs.source, theirs.inode, theirs.generation, theirs.uid, theirs.directory, &theirs.name)
                    && shift(self) == shift(other)
                    && (self.linear && other.linear || mine.offset.is_none())
            }
            _ => false,
        };
        let facts = |of: &Self| (of.operation, of.meta, of.fua, of.lifetime, of.process, of.comm, of.cgroup);
        same_file && facts(self) == facts(other)
    }
}

impl Lifetime {
    /// Decodes the kernel's `enum rw_hint`. A value that is not known says nothing.
    pub(crate) fn of_hint(hint: u8) -> Self {
        match hint {
            1 => Self::None,
            2 => Self::Short,
            3 => Self::Medium,
            4 => Self::Long,
            5 => Self::Extreme,
            _ => Self::NotSet,
        }
    }
}

impl Comm {
    /// Makes the name of a process from its first 15 bytes.
    pub fn of(name: &str) -> Self {
        let mut bytes = [0; 16];
        let kept = name.len().min(15);
        bytes[..kept].copy_from_slice(&name.as_bytes()[..kept]);
        Self(bytes)
    }

    /// Takes the name up to the first zero.
    pub(crate) fn new(bytes: [u8; 16]) -> Self {
        let mut clean = [0; 16];
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        clean[..end].copy_from_slice(&bytes[..end]);
        Self(clean)
    }

    /// Returns the name without padding.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

impl Name {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Returns the name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}
