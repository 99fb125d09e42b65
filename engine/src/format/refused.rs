//! Reasons to refuse a superblock.

use crate::format::geometry::GeometryError;
use crate::format::version::VERSION;

/// The reason why these bytes are no superblock that this program can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    #[error("it does not begin with the magic of a Onefold volume")]
    NotOnefold,
    #[error("its checksum is {stored:08x}, its bytes give {computed:08x}")]
    Checksum { stored: u32, computed: u32 },
    #[error("its format version is {found}, this program knows version {VERSION}; use the program that made the volume")]
    OtherVersion { found: u32 },
    #[error("it is copy {found} at the place of copy {expected}")]
    Misplaced { found: u32, expected: usize },
    #[error("it uses features that this program does not know (incompatible bits {bits:#x}); use a newer program")]
    UnknownFeatures { bits: u64, uuid: [u8; 16], generation: u64 },
    #[error("its {field} is {value}, which has no meaning in format version {VERSION}")]
    UnknownValue { field: &'static str, value: u64 },
    #[error("its {field} is {value}, where the volume allows at most {limit}")]
    OutOfRange { field: &'static str, value: u64, limit: u64 },
    #[error("its label is not UTF-8 after byte {valid_up_to}")]
    Label { valid_up_to: usize },
    #[error("its log is live, but it does not say where the log begins")]
    NoLogTail,
    #[error("its log tail names places that no volume has")]
    Places,
    #[error("its region table: {0}")]
    Geometry(#[from] GeometryError),
    #[error("byte {offset} is reserved and should be {expected:#04x}, but is {found:#04x}")]
    Reserved { offset: usize, found: u8, expected: u8 },
}
