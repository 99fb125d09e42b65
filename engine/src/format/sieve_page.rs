//! Pages on free blocks on which the work out of line keeps candidates for a while. No opening reads them, and what they hold is advice, so
//! they have no checksum.

/// The beginning of each page.
pub const MAGIC: [u8; 8] = *b"OF-sieve";
/// The bytes before the entries: the magic bytes, the generation, and the number of the page.
pub const HEADER_BYTES: usize = 16;

/// The header of a page of this number, counted from 0, in this generation.
#[must_use]
pub fn header(generation: u32, page: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&generation.to_le_bytes());
    header[12..].copy_from_slice(&u32::try_from(page).unwrap_or(u32::MAX).to_le_bytes());
    header
}
