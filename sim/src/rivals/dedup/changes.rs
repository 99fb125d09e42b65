//! The changes of an epoch, and the writes of a commit.

use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::interface::Class;
use onefold_engine::units::{BLOCK_SIZE, Bytes};
use std::collections::BTreeMap;

/// The last value of every entry that an epoch changed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The PBN of each LBN, or none if it became unmapped.
    pub map: BTreeMap<u64, Option<u64>>,
    /// The links of each PBN, including that of the fingerprint.
    pub refs: BTreeMap<u64, u32>,
    /// The fingerprint of each PBN, and whether the PBN still has it.
    pub names: BTreeMap<u64, (Fingerprint, bool)>,
    /// The blocks that may be used again once this epoch is durable.
    pub freed: Vec<u64>,
}

impl Changes {
    /// Returns the number of changed entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len() + self.refs.len() + self.names.len()
    }

    /// Returns whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A page of metadata that a look-up reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRead {
    pub at: Bytes,
    pub class: Class,
}

/// A write of a scheme, in whole blocks.
#[derive(Clone, Debug)]
pub struct PageWrite {
    pub at: Bytes,
    pub data: Slice,
    pub class: Class,
}

impl PageWrite {
    /// Makes a write of one page.
    ///
    /// # Panics
    /// Panics if there are more bytes than a block holds; fewer are padded with zeros.
    #[must_use]
    pub fn page(at: Bytes, bytes: &[u8], class: Class) -> Self {
        assert!(bytes.len() <= BLOCK_SIZE, "{} bytes for one page", bytes.len());
        let mut buffer = BufferMut::zeroed(1);
        buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        Self { at, data: buffer.freeze().slice(0, 1), class }
    }
}
