//! Comparison of a read's result with what it should return.

use onefold_engine::interface::Segment;
use onefold_engine::units::{SECTOR_BYTES, SECTOR_SIZE};

/// Compares the segments of a read with the words of its sectors.
///
/// # Errors
/// Returns the first sector that differs, or the number of missing sectors.
pub fn compare_read(expected: &[u64], segments: &[Segment]) -> Result<(), String> {
    let mut sectors = expected.iter().enumerate();
    let mut next = |found: u64| match sectors.next() {
        Some((_, &word)) if word == found => Ok(()),
        Some((at, word)) => Err(format!("sector {at} of a read holds {found:016x} instead of {word:016x}")),
        None => Err("a read returned too much".to_owned()),
    };
    for segment in segments {
        match segment {
            Segment::Zeroes { bytes } => (0..bytes / SECTOR_BYTES).try_for_each(|_| next(0))?,
            Segment::Data { slice, start, bytes } => {
                let sectors = slice.bytes()[*start..*start + *bytes].chunks_exact(SECTOR_SIZE);
                sectors.map(|s| u64::from_le_bytes(s[..8].try_into().expect("eight bytes"))).try_for_each(&mut next)?;
            }
        }
    }
    match sectors.next() {
        None => Ok(()),
        Some((at, _)) => Err(format!("a read returned {at} sectors instead of {}", expected.len())),
    }
}
