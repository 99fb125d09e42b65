//! Recovery of a shadow from a device: redb's own recovery, then its tables.

use super::backend::Recorder;
use super::store::{CHUNK_BLOCKS, COUNTS, FINGERPRINTS, LARGE, LARGE_COUNTS, LBN, Shadow, name_of, small};
use onefold_engine::fingerprint::Fingerprint;
use redb::ReadableTable;
use std::collections::BTreeMap;
use std::error::Error;

/// The tables of the newest sound transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredTables {
    /// The PBN of each LBN.
    pub map: BTreeMap<u64, u64>,
    pub names: BTreeMap<Fingerprint, u64>,
    /// The links of each PBN that has any.
    pub refs: BTreeMap<u64, u32>,
}

/// Opens the bytes of a redb file.
///
/// # Errors
/// Fails if it holds no sound transaction.
pub fn reopen(bytes: Vec<u8>) -> Result<RecoveredTables, Box<dyn Error>> {
    let db = Shadow::open(Recorder::of(bytes))?;
    let transaction = db.begin_read()?;
    let mut found = RecoveredTables::default();
    for entry in transaction.open_table(LBN)?.iter()? {
        let (lbn, pbn) = entry?;
        found.map.insert(lbn.value(), pbn.value());
    }
    for entry in transaction.open_table(FINGERPRINTS)?.iter()? {
        let (head, value) = entry?;
        let (name, pbn) = name_of(head.value(), value.value());
        found.names.insert(name, pbn);
    }
    for entry in transaction.open_table(COUNTS)?.iter()? {
        let entry = entry?;
        let (chunk, bits) = (entry.0.value(), entry.1.value());
        let counts = (chunk * CHUNK_BLOCKS..(chunk + 1) * CHUNK_BLOCKS).map(|pbn| (pbn, small(&bits, pbn)));
        found.refs.extend(counts.filter(|&(_, count)| count > 0 && count < LARGE));
    }
    for entry in transaction.open_table(LARGE_COUNTS)?.iter()? {
        let entry = entry?;
        found.refs.insert(entry.0.value(), entry.1.value());
    }
    Ok(found)
}
