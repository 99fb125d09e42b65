//! The records of the BPF program, as `observer/bpf/observe.h` has them.

use crate::join::{Bio, SECTOR_BYTES};
use crate::observation::{Comm, File, Lifetime, Name, Observation, Operation, Source};

const META: u8 = 1;
const FUA: u8 = 2;
const LINEAR: u8 = 4;
/// The end of a record without a file, and the place of the name.
const BYTES_WITHOUT_FILE: usize = 56;
const NAME_AT: usize = 88;

/// A reader of records, which keeps the last name: neighbouring bios are often of one file.
#[derive(Default)]
pub(crate) struct Decoder {
    name: Option<Name>,
}

impl Decoder {
    /// Decodes a record. Returns `None` if it is of an operation that is not joined, or shorter than the program writes it.
    pub fn decode(&mut self, record: &[u8]) -> Option<Bio> {
        let at = word(record, 8)? * SECTOR_BYTES;
        let [operation, facts, hint, source] = *record.get(32..36)?.first_chunk()?;
        let observation = Observation {
            operation: operation_of(operation)?,
            meta: facts & META != 0,
            fua: facts & FUA != 0,
            lifetime: Lifetime::of_hint(hint),
            process: half_word(record, 28)?,
            comm: Comm::new(*record.get(40..BYTES_WITHOUT_FILE)?.first_chunk()?),
            cgroup: word(record, 16)?,
            file: source_of(source).and_then(|source| self.file(source, record)),
            at,
            linear: facts & LINEAR != 0,
        };
        let start = at / SECTOR_BYTES;
        Some(Bio { time: word(record, 0)?, start, end: start + u64::from(half_word(record, 24)?) / SECTOR_BYTES, observation })
    }

    fn file(&mut self, source: Source, record: &[u8]) -> Option<File> {
        let has_place = !matches!(source, Source::XfsBuffer | Source::Disk);
        Some(File {
            source,
            inode: word(record, 56)?,
            uid: half_word(record, 36)?,
            size: word(record, 72)?,
            directory: word(record, 80)?,
            name: self.name(record.get(NAME_AT..)?),
            offset: if has_place { word(record, 64) } else { None },
        })
    }

    fn name(&mut self, bytes: &[u8]) -> Option<Name> {
        let bytes = bytes.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
        if self.name.as_ref().is_none_or(|last| last.as_bytes() != bytes) {
            self.name = Some(Name::new(bytes));
        }
        self.name.clone()
    }
}

fn word(record: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*record.get(at..)?.first_chunk()?))
}

fn half_word(record: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*record.get(at..)?.first_chunk()?))
}

/// Decodes the kernel's `enum req_op`.
fn operation_of(operation: u8) -> Option<Operation> {
    match operation {
        0 => Some(Operation::Read),
        1 => Some(Operation::Write),
        3 | 5 => Some(Operation::Discard),
        9 => Some(Operation::WriteZeroes),
        _ => None,
    }
}

/// Decodes `enum source`.
fn source_of(source: u8) -> Option<Source> {
    match source {
        1 => Some(Source::PageCache),
        2 => Some(Source::Direct),
        3 => Some(Source::Btrfs),
        4 => Some(Source::Disk),
        5 => Some(Source::XfsBuffer),
        6 => Some(Source::DiskCache),
        _ => None,
    }
}
