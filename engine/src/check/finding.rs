//! The findings of a check, each with its severity and its sentence.

use crate::format::{CopyState, Region};
use crate::units::{Lbn, Pbn};
use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Note,
    /// Space that a recount gives back (P5).
    Garbage,
    /// Damage that no crash explains (P6).
    Damage,
}

/// The reason why counts are higher than the links found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A crash: the superblock says that garbage is possible, or that the volume was not closed.
    Crash,
    /// Links may stand in what could not be read.
    Damage,
    /// Nothing explains it: the volume was closed in order, or its log, by which counts are exact, is live.
    None,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A copy of the superblock cannot be used. `torn`: a crash in the middle of an update explains it.
    SuperblockCopy { copy: usize, state: CopyState, torn: bool },
    /// Neighbouring sectors of a region that fail their check, or are zero though they were written.
    DamagedSectors { region: Region, first: u64, sectors: u64 },
    /// Neighbouring pages that the device could not read.
    UnreadablePages { region: Region, first: u64, pages: u64 },
    /// A sound sector has the tag of an epoch that never was.
    UnexpectedTag { region: Region, sector: u64, tag: u64 },
    /// Entries without a meaning in a sound sector, reserved ones or beyond the region's end, or of a feature that is off.
    BadEntry { region: Region, entry: u64 },
    /// A logical block maps beyond the data.
    LinkOutOfRange { lbn: Lbn, pbn: Pbn },
    /// Logical blocks whose entries say that they are lost to damage of earlier days.
    LostEntries { first: Lbn, blocks: u64 },
    /// Logical blocks whose entries stood in damaged sectors of the map, and of which the log says nothing.
    UnknownEntries { first: Lbn, blocks: u64 },
    /// Blocks whose count says that it is not known, after damage of earlier days.
    RefsUnknown { first: Pbn, blocks: u64 },
    /// A block has more links than its count: the most dangerous of all, it may be freed while it is in use (P3).
    RefsTooLow { pbn: Pbn, refs: u8, links: u64 },
    /// Logical blocks map to a block whose count is 0.
    LinkToFree { pbn: Pbn, links: u64 },
    /// A block with a count of 0 has a fingerprint.
    FingerprintOnFree { pbn: Pbn },
    /// Logical blocks mean slots of a block that is no carrier.
    SlotOfNoCarrier { pbn: Pbn },
    /// Logical blocks mean a carrier as a whole.
    LinkToCarrier { pbn: Pbn },
    /// Blocks whose count is higher than their links, all of them together.
    Garbage { blocks: u64, excess: u64, cause: Cause },
    /// A block's content is not what its fingerprint or checksum says.
    ContentDiffers { pbn: Pbn },
    /// The device could not read a block.
    UnreadableBlock { pbn: Pbn },
    /// A unit of the log that was flushed is not there.
    LogUnitMissing { sequence: u64 },
    /// A unit to which what the log said was copied is not there.
    CompactedUnitMissing { pbn: Pbn },
    /// A unit of the log names LBNs or blocks that the volume does not have.
    LogUnitOutOfRange { sequence: u64 },
    /// A block is two of the log's places.
    LogPlaceTwice { pbn: Pbn },
}

impl Finding {
    /// Its severity.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::SuperblockCopy { torn: true, .. } => Severity::Note,
            Self::Garbage { cause: Cause::Crash | Cause::Damage, .. } => Severity::Garbage,
            _ => Severity::Damage,
        }
    }

    /// Its name in machine-readable reports.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SuperblockCopy { .. } => "superblock-copy",
            Self::DamagedSectors { .. } => "damaged-sectors",
            Self::UnreadablePages { .. } => "unreadable-pages",
            Self::UnexpectedTag { .. } => "unexpected-tag",
            Self::BadEntry { .. } => "bad-entry",
            Self::LinkOutOfRange { .. } => "link-out-of-range",
            Self::LostEntries { .. } => "lost-entries",
            Self::UnknownEntries { .. } => "unknown-entries",
            Self::RefsUnknown { .. } => "refs-unknown",
            Self::RefsTooLow { .. } => "refs-too-low",
            Self::LinkToFree { .. } => "link-to-free",
            Self::FingerprintOnFree { .. } => "fingerprint-on-free",
            Self::SlotOfNoCarrier { .. } => "slot-of-no-carrier",
            Self::LinkToCarrier { .. } => "link-to-carrier",
            Self::Garbage { .. } => "garbage",
            Self::ContentDiffers { .. } => "content-differs",
            Self::UnreadableBlock { .. } => "unreadable-block",
            Self::LogUnitMissing { .. } => "log-unit-missing",
            Self::CompactedUnitMissing { .. } => "compacted-unit-missing",
            Self::LogUnitOutOfRange { .. } => "log-unit-out-of-range",
            Self::LogPlaceTwice { .. } => "log-place-twice",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SuperblockCopy { copy, state, torn } => {
                write!(f, "superblock copy {copy}: ")?;
                match state {
                    CopyState::Bad(error) => write!(f, "{error}")?,
                    CopyState::Unreadable => f.write_str("the device could not read it")?,
                    CopyState::Foreign { .. } => f.write_str("it belongs to another volume")?,
                    CopyState::Elsewhere { device_bytes } => write!(f, "it belongs to a volume of {device_bytes} bytes")?,
                    CopyState::Sound { generation } => write!(f, "sound, generation {generation}")?,
                }
                f.write_str(if *torn { " (an update was cut off; the next ones write it anew)" } else { "" })
            }
            Self::DamagedSectors { region, first, sectors } => {
                write!(f, "{} region: {sectors} damaged from sector {first} on", region.name())
            }
            Self::UnreadablePages { region, first, pages } => {
                write!(f, "{} region: the device could not read {pages} from page {first} on", region.name())
            }
            Self::UnexpectedTag { region, sector, tag } => write!(f, "{} region: sector {sector} has the tag {tag}", region.name()),
            Self::BadEntry { region, entry } => write!(f, "{} region: entry {entry} has no meaning", region.name()),
            Self::LinkOutOfRange { lbn, pbn } => write!(f, "{lbn} maps to {pbn}, beyond the data"),
            Self::LostEntries { first, blocks } => {
                write!(f, "{blocks} logical blocks from {first} on are lost; writing or discarding them heals them")
            }
            Self::UnknownEntries { first, blocks } => {
                let last = Lbn(first.get() + blocks - 1);
                write!(f, "what the {blocks} logical blocks {first} to {last} hold stood in a damaged part of the map: reads of them fail")
            }
            Self::RefsUnknown { first, blocks } => write!(f, "the counts of {blocks} blocks from {first} on are not known"),
            Self::RefsTooLow { pbn, refs, links } => write!(f, "{pbn} has {links} links, but a count of {refs}"),
            Self::LinkToFree { pbn, links } => write!(f, "{pbn} has {links} links, but counts as free"),
            Self::FingerprintOnFree { pbn } => write!(f, "{pbn} has a fingerprint, but counts as free"),
            Self::SlotOfNoCarrier { pbn } => write!(f, "{pbn} is linked to by its slots, and is no carrier"),
            Self::LinkToCarrier { pbn } => write!(f, "{pbn} is a carrier, and is linked to as though it were a client's block"),
            Self::Garbage { blocks, excess, cause } => {
                write!(f, "{blocks} blocks count {excess} links too many")?;
                f.write_str(match cause {
                    Cause::Crash => ", as a crash leaves it; the volume recounts them while it is attached",
                    Cause::Damage => "; the links may have stood in what is damaged",
                    Cause::None => ", and no crash explains that",
                })
            }
            Self::ContentDiffers { pbn } => write!(f, "{pbn} does not hold what its fingerprint or checksum says"),
            Self::UnreadableBlock { pbn } => write!(f, "the device could not read {pbn}"),
            Self::LogUnitMissing { sequence } => {
                write!(f, "unit {sequence} of the log was flushed, and is not there; what the tables say is older")
            }
            Self::CompactedUnitMissing { pbn } => {
                write!(f, "{pbn} is not the compacted unit that the log has there; what the tables say is older")
            }
            Self::LogPlaceTwice { pbn } => write!(f, "{pbn} is two places of the log; what the tables say is older"),
            Self::LogUnitOutOfRange { sequence } => {
                write!(f, "unit {sequence} of the log names what the volume does not have; what the tables say is older")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_described_by_its_size_and_its_cause() {
        let described = |cause| Finding::Garbage { blocks: 2, excess: 5, cause }.to_string();
        let size = "2 blocks count 5 links too many, ";
        assert_eq!(described(Cause::Crash), format!("{size}as a crash leaves it; the volume recounts them while it is attached"));
        assert_eq!(described(Cause::Damage), format!("{}; the links may have stood in what is damaged", &size[..size.len() - 2]));
        assert_eq!(described(Cause::None), format!("{size}and no crash explains that"));
    }
}
