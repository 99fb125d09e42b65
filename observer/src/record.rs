//! The observations of the BPF program, as `observer/bpf/observe.h` has them.

use crate::join::{Bio, SECTOR_BYTES};
use crate::observation::{Comm, File, Lifetime, Name, Observation, Operation, Source};
use crate::source::Seen;

const META: u8 = 1;
const FUA: u8 = 2;
const LINEAR: u8 = 4;
const FLUSH: u8 = 8;
/// Stands for the operation in a record that has only the wishes of a bio.
const WISH: u8 = 255;
const WRITE: u8 = 1;
/// The place of the processor, the end of a record without a file, and the place of the name.
const PROCESSOR_AT: usize = 56;
const BYTES_WITHOUT_FILE: usize = 64;
const NAME_AT: usize = 96;

/// A reader of records, which keeps the last name: neighbouring bios are often of one file.
#[derive(Default)]
pub(crate) struct Decoder {
    name: Option<Name>,
}

impl Decoder {
    /// Decodes a record. Returns `None` if it is of an operation that is not joined, or shorter than the program writes it.
    pub fn decode(&mut self, record: &[u8]) -> Option<Seen> {
        let at = word(record, 8)? * SECTOR_BYTES;
        let [operation, facts, hint, source] = *record.get(32..36)?.first_chunk()?;
        let observation = Observation {
            operation: operation_of(if operation == WISH { WRITE } else { operation })?,
            meta: facts & META != 0,
            fua: facts & FUA != 0,
            lifetime: Lifetime::of_hint(hint),
            process: half_word(record, 28)?,
            comm: Comm::new(*record.get(40..PROCESSOR_AT)?.first_chunk()?),
            cgroup: word(record, 16)?,
            file: source_of(source).and_then(|source| self.file(source, record)),
            at,
            linear: facts & LINEAR != 0,
        };
        let start = at / SECTOR_BYTES;
        let end = start + u64::from(half_word(record, 24)?) / SECTOR_BYTES;
        let processor = half_word(record.get(..BYTES_WITHOUT_FILE)?, PROCESSOR_AT)?;
        let bio = Bio { time: word(record, 0)?, start, end, observation };
        Some(Seen { bio, processor, flushes: facts & FLUSH != 0, is_wish: operation == WISH })
    }

    fn file(&mut self, source: Source, record: &[u8]) -> Option<File> {
        let has_place = !matches!(source, Source::XfsBuffer | Source::Disk);
        Some(File {
            source,
            inode: word(record, 64)?,
            uid: half_word(record, 36)?,
            generation: half_word(record, 80)?,
            directory: word(record, 88)?,
            name: self.name(record.get(NAME_AT..)?),
            offset: if has_place { word(record, 72) } else { None },
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A write of 8 sectors at sector 40, of a page 8192 bytes into its file.
    fn record(operation: u8, source: u8, name: &[u8]) -> Vec<u8> {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let half_words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let parts = [
            words(&[123, 40, 7]),
            half_words(&[4096, 1234]),
            vec![operation, META | LINEAR | FLUSH, 2, source],
            half_words(&[1000]),
            b"writer\0\0\0\0\0\0\0\0\0\0".to_vec(),
            half_words(&[3, 0]),
            words(&[12, 8192, 9999, 2]),
            name.to_vec(),
        ];
        parts.concat()
    }

    #[test]
    fn a_record_is_decoded_field_by_field() {
        let seen = Decoder::default().decode(&record(1, 1, b"app.db-wal\0")).unwrap();
        assert_eq!((seen.processor, seen.flushes, seen.is_wish), (3, true, false));
        let bio = seen.bio;
        assert_eq!((bio.time, bio.start, bio.end), (123, 40, 48));
        let seen = &bio.observation;
        assert_eq!((seen.operation, seen.meta, seen.fua, seen.lifetime), (Operation::Write, true, false, Lifetime::Short));
        assert_eq!((seen.process, seen.comm.as_bytes(), seen.cgroup), (1234, &b"writer"[..], 7));
        let file = seen.file.as_ref().unwrap();
        assert_eq!((file.source, file.inode, file.uid, file.generation, file.directory), (Source::PageCache, 12, 1000, 9999, 2));
        assert_eq!(file.name.as_ref().map(Name::as_bytes), Some(&b"app.db-wal"[..]));
        assert_eq!((seen.file_offset(40 * 512), seen.file_offset(41 * 512)), (Some(8192), Some(8192 + 512)));
    }

    #[test]
    fn a_record_ends_where_the_program_ends_it() {
        let mut decoder = Decoder::default();
        let whole = record(3, 1, b"name\0");
        let without_name = decoder.decode(&whole[..NAME_AT]).unwrap().bio.observation;
        assert_eq!((without_name.operation, without_name.file.unwrap().name), (Operation::Discard, None));
        assert_eq!(decoder.decode(&record(1, 0, b"")[..BYTES_WITHOUT_FILE]).unwrap().bio.observation.file, None);
        for bytes in 0..BYTES_WITHOUT_FILE {
            assert!(decoder.decode(&whole[..bytes]).is_none(), "{bytes} bytes");
        }
        for operation in [2, 4, 7, 254] {
            assert!(decoder.decode(&record(operation, 1, b"")).is_none(), "operation {operation}");
        }
        assert!(decoder.decode(&record(255, 1, b"")).is_some_and(|seen| seen.is_wish));
    }

    #[test]
    fn a_buffer_of_xfs_and_direct_io_to_the_disk_have_no_place_in_a_file() {
        for source in [4, 5] {
            let seen = Decoder::default().decode(&record(1, source, b"xfs_agf\0")).unwrap().bio.observation;
            assert_eq!(seen.file_offset(40 * 512), None);
        }
    }
}
