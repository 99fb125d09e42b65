//! The settings of a check.

/// The smallest memory that works; less is raised to it.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// The thoroughness of a check, and the memory that it may take.
#[derive(Clone, Copy, Debug)]
pub struct CheckSettings {
    /// Memory for counts and buffers.
    pub memory_bytes: u64,
    /// Read every block that has a fingerprint or checksum and compare.
    pub data: bool,
}
