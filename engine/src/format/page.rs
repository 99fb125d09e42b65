//! A metadata page: 4096 bytes, eight sectors that each check themselves.
//!
//! 1. No entry crosses a sector, so a torn page (A2) is old and new entries side by side, all valid.
//! 2. A sector's check covers its entries, its tag, and its place: volume, region, instance, index. A sector that lies elsewhere fails it.
//! 3. A sealed sector is never all zero, so zeros are "never written" or damage, and the *written* bit says which.
//! 4. A sector that failed its check, or whose tag no epoch can have, promises nothing: its entries are lost, unknown, or none. Its
//!    neighbours keep their entries.

mod coding;
mod content;
mod fields;
mod region;
#[cfg(test)]
mod tests;

pub use coding::{Opened, open, open_sector, seal};
pub use content::PageContent;
pub use fields::{ENTRY_BYTES, INSTANCE, SECTORS, at, at_place};
pub use region::{PageId, Region};
