//! What an epoch changes, and what a commit writes for it.

use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::interface::Class;
use onefold_engine::units::{BLOCK_SIZE, Bytes};
use std::collections::BTreeMap;

/// The last value of every entry that an epoch touched.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// LBN → PBN, or unmapped.
    pub map: BTreeMap<u64, Option<u64>>,
    /// PBN → links, that of the fingerprint included.
    pub refs: BTreeMap<u64, u32>,
    /// PBN → its fingerprint, and whether it has it still.
    pub names: BTreeMap<u64, (Fingerprint, bool)>,
    /// Blocks to use again when this is durable.
    pub freed: Vec<u64>,
}

impl Changes {
    /// Entries changed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len() + self.refs.len() + self.names.len()
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One write of a scheme: whole blocks.
#[derive(Clone, Debug)]
pub struct PageWrite {
    pub at: Bytes,
    pub data: Slice,
    pub class: Class,
}

impl PageWrite {
    /// A write of one page.
    ///
    /// # Panics
    /// When there are more bytes than a block holds; fewer are followed by zeros.
    #[must_use]
    pub fn page(at: Bytes, bytes: &[u8], class: Class) -> Self {
        assert!(bytes.len() <= BLOCK_SIZE, "{} bytes for one page", bytes.len());
        let mut buffer = BufferMut::zeroed(1);
        buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        Self { at, data: buffer.freeze().slice(0, 1), class }
    }
}
