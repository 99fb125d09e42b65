//! The magic and the version of the format, with which every superblock begins.

/// The first eight bytes of every superblock.
pub const MAGIC: [u8; 8] = *b"ONEFOLD\0";
/// The version of the format that this program reads and writes. Until the first release there is no other.
pub const VERSION: u32 = 4;
