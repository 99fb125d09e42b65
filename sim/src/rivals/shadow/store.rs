//! The trees, and the writes of a transaction.

use super::backend::{FileOperation, Recorder};
use super::cache::PageCache;
use super::redb_file::RedbFile;
use crate::rivals::Settings;
use crate::rivals::dedup::{Changes, Limits, LookUp, PageRead, PageWrite, Scheme};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::interface::Class;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Blocks, Bytes, Time, index};
use redb::{Database, ReadableTable, TableDefinition};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::error::Error;

/// The bytes of counts in one entry: with its key and the page's own four bytes it fills a page. A block has two bits, as in
/// persistent-data.
pub const CHUNK_BYTES: usize = 4_000;
pub const CHUNK_BLOCKS: u64 = 4 * CHUNK_BYTES as u64;
/// The two bits that refer to the table of large counts.
pub const LARGE: u32 = 3;
/// The size of the cache. Most of it is never used: nothing may leave redb's write buffer before its commit, and no page is read from the
/// device.
const CACHE_BYTES: usize = 4 << 30;

pub const LBN: TableDefinition<u64, u64> = TableDefinition::new("lbn");
/// The first 64 bits of a hash → the rest of it, and the PBN: B-trees of Linux's library have 64-bit keys, and smaller keys make lower
/// trees.
pub const FINGERPRINTS: TableDefinition<u64, [u8; 20]> = TableDefinition::new("fingerprints");
pub const COUNTS: TableDefinition<u64, [u8; CHUNK_BYTES]> = TableDefinition::new("counts");
pub const LARGE_COUNTS: TableDefinition<u64, u32> = TableDefinition::new("large");

/// The kind of a page, finer than its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PageKind {
    Lbn,
    Fingerprints,
    Counts,
    Large,
    Freed,
    Tables,
    Header,
}

impl PageKind {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Lbn, "pages written: tree lbn"),
        (Self::Fingerprints, "pages written: tree fingerprints"),
        (Self::Counts, "pages written: counts of 0 to 2"),
        (Self::Large, "pages written: counts of 3 and more"),
        (Self::Freed, "pages written: freed pages"),
        (Self::Tables, "pages written: roots of the trees"),
        (Self::Header, "pages written: superblock"),
    ];

    fn of_table(name: &str) -> Self {
        match name {
            "lbn" => Self::Lbn,
            "fingerprints" => Self::Fingerprints,
            "counts" => Self::Counts,
            "large" => Self::Large,
            _ => unreachable!("the shadow has no table {name}"),
        }
    }

    const fn class(self) -> Class {
        match self {
            Self::Lbn => Class::Map,
            Self::Fingerprints => Class::Fingerprints,
            Self::Counts | Self::Large | Self::Freed => Class::Refs,
            Self::Tables | Self::Header => Class::Superblock,
        }
    }
}

/// The copy-on-write store of one volume.
pub struct Shadow {
    db: Database,
    recorder: Recorder,
    data_blocks: u64,
    metadata_bytes: u64,
    commits: u64,
    pages: BTreeMap<PageKind, u64>,
    pages_most: u64,
    /// The leaves in memory, if not all are; and the roots of the trees of LBNs and of fingerprints.
    cache: Option<PageCache>,
    roots: [Option<usize>; 2],
}

impl Shadow {
    /// Makes an empty store with room for the metadata of this volume. It begins after the content.
    ///
    /// # Panics
    /// Panics if redb cannot make a file in memory.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let data_blocks = settings.logical.0 + settings.reserve.0;
        // The size covers both trees half full, twice because of the shadows, and the growth of redb's file ahead of its use (it doubles).
        let metadata_bytes = ((settings.logical.0 * 16 + data_blocks * 29) * 8).next_multiple_of(BLOCK_BYTES) + (64 << 20);
        let recorder = Recorder::default();
        let db = Self::open(recorder.clone()).expect("redb makes a file in memory");
        let cache = settings.metadata_cache.map(|bytes| PageCache::new(index(bytes.0 / BLOCK_BYTES)));
        let (pages, roots) = (BTreeMap::new(), [None; 2]);
        let mut this = Self { db, recorder, data_blocks, metadata_bytes, commits: 0, pages, pages_most: 0, cache, roots };
        this.transact(&Changes::default()).expect("redb makes empty tables");
        this.recorder.image().operations.clear();
        this
    }

    pub(super) fn open(recorder: Recorder) -> Result<Database, redb::DatabaseError> {
        redb::Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(recorder)
    }

    /// Returns where on the device the redb file lies, and its present length: [`reopen`](super::reopen) takes these bytes.
    #[must_use]
    pub fn place(&self) -> (Bytes, Bytes) {
        (Blocks(self.data_blocks).bytes(), Bytes(self.recorder.image().bytes.len() as u64))
    }

    fn transact(&mut self, changes: &Changes) -> Result<(), Box<dyn Error>> {
        let transaction = self.db.begin_write()?;
        {
            let mut lbns = transaction.open_table(LBN)?;
            for (lbn, pbn) in &changes.map {
                match pbn {
                    Some(pbn) => drop(lbns.insert(lbn, pbn)?),
                    None => drop(lbns.remove(lbn)?),
                }
            }
            // A fingerprint may be taken from one block and given to another in one epoch.
            let mut names = transaction.open_table(FINGERPRINTS)?;
            for (name, _) in changes.names.values().filter(|(_, kept)| !kept) {
                names.remove(name.head())?;
            }
            for (pbn, (name, _)) in changes.names.iter().filter(|(_, (_, kept))| *kept) {
                let other = names.insert(name.head(), entry(*name, *pbn))?.map(|guard| name_of(name.head(), guard.value()).0);
                // Dmdedup would probe on; in a simulation two hashes with the same 64 bits mean a broken trace.
                assert!(other.is_none_or(|other| other == *name), "two hashes begin with the same 64 bits: {name:?}, {other:?}");
            }
            let mut counts = transaction.open_table(COUNTS)?;
            let mut large = transaction.open_table(LARGE_COUNTS)?;
            let mut refs = changes.refs.iter().peekable();
            while let Some(&(first, _)) = refs.peek() {
                let chunk = first / CHUNK_BLOCKS;
                let before = counts.get(chunk)?.map(|guard| guard.value());
                let mut bits = before.unwrap_or([0; CHUNK_BYTES]);
                while let Some((pbn, &count)) = refs.next_if(|(pbn, _)| **pbn / CHUNK_BLOCKS == chunk) {
                    if count >= LARGE {
                        large.insert(pbn, count)?;
                    } else if small(&bits, *pbn) == LARGE {
                        large.remove(pbn)?;
                    }
                    set_small(&mut bits, *pbn, count.min(LARGE));
                }
                // Dmdedup's space map does not write a page that did not change.
                if before != Some(bits) {
                    counts.insert(chunk, bits)?;
                }
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// Returns the writes of the transaction, page by page, each with the tree that it belongs to.
    fn written(&mut self) -> Vec<PageWrite> {
        let mut image = self.recorder.image();
        let operations = std::mem::take(&mut image.operations);
        assert_eq!(operations.iter().filter(|operation| **operation == FileOperation::Synced).count(), 1, "a commit is one sync");
        assert_eq!(operations.last(), Some(&FileOperation::Synced), "and nothing after it");
        assert!(
            image.bytes.len() as u64 <= self.metadata_bytes,
            "the metadata outgrew the {} bytes that are kept for it",
            self.metadata_bytes
        );
        let mut order: Vec<usize> = Vec::new();
        let mut kinds: FxHashMap<usize, PageKind> = FxHashMap::default();
        for operation in &operations {
            let FileOperation::Wrote { at, bytes } = *operation else { continue };
            let first = usize::try_from(at).expect("the file is in memory") / BLOCK_SIZE * BLOCK_SIZE;
            let end = usize::try_from(at).expect("the file is in memory") + bytes;
            for page in (first..end).step_by(BLOCK_SIZE) {
                // A page that is found in no tree below is redb's own: one of freed pages.
                let kind = if page == 0 { PageKind::Header } else { PageKind::Freed };
                assert!(kinds.insert(page, kind).is_none(), "redb wrote page {page} twice in one commit");
                order.push(page);
            }
        }
        let redb_file = RedbFile(&image.bytes);
        if let Some(page) = redb_file.tables_page() {
            kinds.entry(page).and_modify(|kind| *kind = PageKind::Tables);
        }
        for (name, root) in redb_file.tables() {
            match name.as_str() {
                "lbn" => self.roots[0] = root,
                "fingerprints" => self.roots[1] = root,
                _ => {}
            }
            let mut pages = Vec::new();
            root.into_iter()
                .for_each(|root| redb_file.written_below(root, &|page| kinds.contains_key(&page), &mut |page| pages.push(page)));
            kinds.extend(pages.into_iter().map(|page| (page, PageKind::of_table(&name))));
        }
        kinds.values().for_each(|kind| *self.pages.entry(*kind).or_default() += 1);
        self.pages_most = self.pages_most.max(order.len() as u64);
        if let Some(cache) = &mut self.cache {
            let is_entry = |page: &usize| matches!(kinds[page], PageKind::Lbn | PageKind::Fingerprints) && redb_file.is_leaf(*page);
            order.iter().filter(|page| is_entry(page)).for_each(|&page| {
                cache.touch(page);
            });
        }
        let base = Blocks(self.data_blocks).bytes().0;
        let write = |page: usize| PageWrite::page(Bytes(base + page as u64), &image.bytes[page..page + BLOCK_SIZE], kinds[&page].class());
        order.into_iter().map(write).collect()
    }
}

fn entry(name: Fingerprint, pbn: u64) -> [u8; 20] {
    let mut value = [0; 20];
    value[..12].copy_from_slice(&name.0[8..]);
    value[12..].copy_from_slice(&pbn.to_le_bytes());
    value
}

/// Decodes an entry of the fingerprint tree.
pub(super) fn name_of(head: u64, value: [u8; 20]) -> (Fingerprint, u64) {
    let mut name = [0; 20];
    name[..8].copy_from_slice(&head.to_le_bytes());
    name[8..].copy_from_slice(&value[..12]);
    (Fingerprint(name), u64::from_le_bytes(value[12..].try_into().expect("eight bytes")))
}

/// Returns the place of a block's two bits in its entry.
#[allow(clippy::cast_possible_truncation)] // below CHUNK_BLOCKS
fn bits_of(pbn: u64) -> (usize, u64) {
    let i = pbn % CHUNK_BLOCKS;
    ((i / 4) as usize, i % 4 * 2)
}

pub(super) fn small(bits: &[u8; CHUNK_BYTES], pbn: u64) -> u32 {
    let (byte, shift) = bits_of(pbn);
    u32::from((bits[byte] >> shift) & 3)
}

fn set_small(bits: &mut [u8; CHUNK_BYTES], pbn: u64, count: u32) {
    let (byte, shift) = bits_of(pbn);
    let two = u8::try_from(count).expect("at most 3");
    bits[byte] = bits[byte] & !(3 << shift) | (two << shift);
}

impl Scheme for Shadow {
    const NAME: &'static str = "shadow";
    const IN_MEMORY: &'static str = "every metadata page (no metadata is ever read), the map, the index and the counts";
    const CONTENT_FIRST: bool = true;

    fn limits(&self) -> Limits {
        Limits { data_blocks: self.data_blocks, data_first: 0, links_max: u32::MAX, zero_is_content: true }
    }

    fn device_bytes(&self) -> Bytes {
        Bytes(Blocks(self.data_blocks).bytes().0 + self.metadata_bytes)
    }

    fn format(&self) -> Vec<PageWrite> {
        let image = self.recorder.image();
        let base = Blocks(self.data_blocks).bytes().0;
        let pages = image.bytes.chunks(BLOCK_SIZE).enumerate().filter(|(_, page)| page.iter().any(|&byte| byte != 0));
        pages.map(|(i, page)| PageWrite::page(Bytes(base + i as u64 * BLOCK_BYTES), page, Class::Superblock)).collect()
    }

    fn changes_max(&self) -> usize {
        usize::MAX
    }

    fn has_room(&self, _: &Changes) -> bool {
        true
    }

    fn compose(&mut self, changes: &Changes) -> Vec<PageWrite> {
        self.commits += 1;
        self.transact(changes).expect("redb writes to memory");
        self.written()
    }

    fn durable(&mut self, _: Time, _: &Changes) {}

    fn work(&mut self, _: Time, _: bool) -> Vec<PageWrite> {
        Vec::new()
    }

    fn work_written(&mut self) {}

    fn work_flushed(&mut self) {}

    fn work_wants_flush(&self) -> bool {
        false
    }

    fn work_due(&self) -> Option<Time> {
        None
    }

    fn work_done(&self) -> bool {
        true
    }

    fn look_up(&mut self, what: LookUp) -> Option<PageRead> {
        let cache = self.cache.as_mut()?;
        let (root, key, class) = match what {
            LookUp::Lbn(lbn) => (self.roots[0], lbn, Class::Map),
            LookUp::Name(name) => (self.roots[1], name.head(), Class::Fingerprints),
        };
        let image = self.recorder.image();
        let leaf = root.and_then(|root| RedbFile(&image.bytes).path(root, key).pop());
        let base = Blocks(self.data_blocks).bytes().0;
        leaf.filter(|&leaf| !cache.touch(leaf)).map(|leaf| PageRead { at: Bytes(base + leaf as u64), class })
    }

    fn facts(&self) -> Vec<(&'static str, u64)> {
        let image = self.recorder.image();
        let redb_file = RedbFile(&image.bytes);
        let tables = redb_file.tables();
        let height = |table: &str| {
            let root = tables.iter().find(|(name, _)| name == table).and_then(|(_, root)| *root);
            root.map_or(0, |root| redb_file.height(root))
        };
        let mut facts = vec![
            ("height: tree lbn", height("lbn")),
            ("height: tree fingerprints", height("fingerprints")),
            ("height: counts of 0 to 2", height("counts")),
            ("height: counts of 3 and more", height("large")),
            ("commits", self.commits),
            ("dirty pages of all commits", self.pages.values().sum()),
            ("dirty pages of the largest commit", self.pages_most),
        ];
        facts.extend(PageKind::ALL.map(|(kind, name)| (name, self.pages.get(&kind).copied().unwrap_or(0))));
        facts
    }
}
