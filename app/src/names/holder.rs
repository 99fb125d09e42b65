//! The answer: bytes of a device, and the holder of each.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Bytes of the device, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Named {
    /// The first byte, on the device.
    pub offset: u64,
    pub bytes: u64,
    #[serde(flatten)]
    pub holder: Holder,
}

/// The holder of some bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Holder {
    /// A file, or the entries of a directory.
    File { path: String, file_offset: u64 },
    /// Something of the file system that is mounted there.
    Metadata { mount: String },
    /// Nothing.
    Free { mount: String },
    /// One of both: no file has it, and the file system does not say more.
    MetadataOrFree { mount: String },
    /// It could not be found out.
    Unknown { mount: String, why: String },
    /// No file system is mounted that has these bytes.
    NotMounted,
}

impl Named {
    /// Returns these bytes with their holder.
    pub(super) fn of(range: &Range<u64>, holder: Holder) -> Self {
        Self { offset: range.start, bytes: range.end - range.start, holder }
    }

    /// Returns the bytes.
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, file_offset } => write!(f, "{path}, from byte {file_offset} on"),
            Self::Metadata { mount } => write!(f, "metadata of the file system at {mount}"),
            Self::Free { mount } => write!(f, "free space of the file system at {mount}"),
            Self::MetadataOrFree { mount } => write!(f, "metadata or free space of the file system at {mount}"),
            Self::Unknown { mount, why } => write!(f, "unknown, in the file system at {mount}: {why}"),
            Self::NotMounted => write!(f, "in no mounted file system"),
        }
    }
}

/// Returns the pieces in order of their offsets. Those that follow each other on the device and in their holder are one.
pub(super) fn join(mut named: Vec<Named>) -> Vec<Named> {
    named.sort_by(|a, b| (path(&a.holder), a.offset).cmp(&(path(&b.holder), b.offset)));
    named.dedup();
    let mut joined: Vec<Named> = Vec::new();
    for piece in named {
        match joined.last_mut() {
            Some(last) if last.offset + last.bytes == piece.offset && follows(last, &piece.holder) => last.bytes += piece.bytes,
            _ => joined.push(piece),
        }
    }
    joined.sort();
    joined
}

fn path(holder: &Holder) -> Option<&str> {
    if let Holder::File { path, .. } = holder { Some(path) } else { None }
}

fn follows(before: &Named, holder: &Holder) -> bool {
    match (&before.holder, holder) {
        (Holder::File { path, file_offset }, Holder::File { path: next, file_offset: at }) => {
            path == next && file_offset + before.bytes == *at
        }
        (before, holder) => before == holder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_where_they_go_on_in_their_holder() {
        let file = |path: &str, file_offset| Holder::File { path: path.to_owned(), file_offset };
        let free = Holder::Free { mount: "/".to_owned() };
        let named = |offset, holder: &Holder| Named { offset, bytes: 10, holder: holder.clone() };
        let pieces =
            [(20, file("b", 10)), (10, file("b", 0)), (10, file("a", 5)), (30, file("b", 50)), (40, free.clone()), (50, free.clone())];
        let joined = join(pieces.iter().map(|(offset, holder)| named(*offset, holder)).collect());
        let of = |named: &Named| (named.offset, named.bytes, named.holder.clone());
        let expected = [(10, 10, file("a", 5)), (10, 20, file("b", 0)), (30, 10, file("b", 50)), (40, 20, free)];
        assert_eq!(joined.iter().map(of).collect::<Vec<_>>(), expected);
    }
}
