//! The medium, byte by byte. Nothing here makes decisions. `docs/format.md` is this module in prose, and a test compares the two.
//!
//! 1. All integers are little-endian; bits count from the lowest of a byte.
//! 2. Reserved bytes are zero, and checked.
//! 3. Every structure carries a checksum over its content and its place (A4).
//! 4. Decoders get arbitrary bytes: no input makes one panic.

pub mod codec;
pub mod copies;
pub mod counter;
pub mod create;
pub mod entry;
mod front;
pub mod geometry;
pub mod grow;
pub mod guard;
mod key;
pub mod layout;
pub mod layouts;
mod limits;
pub mod log_tail;
pub mod notes;
pub mod page;
pub mod places;
pub mod record;
mod refused;
pub mod regions;
pub mod sieve_page;
pub mod superblock;
pub mod unit;
mod varint;
mod version;

pub use copies::{Chosen, CopyState, FRONT_COPIES, OpenError, choose, claimed_bytes, copies, end_copies, pair_of};
pub use counter::{COUNTER_MAX, COUNTER_STOP, DELAY_MS_MAX};
pub use create::{FormatStep, format, format_guarded};
pub use entry::{BadEntry, FINGERPRINT_ENTRY_SIZE, FingerprintEntry, Kind, MAP_ENTRY_SIZE, MapEntry, PBN_MAX, REFS_MAX, REFS_UNKNOWN};
pub use geometry::{Extent, ExtentKind, Geometry, GeometryError, Wish};
pub use grow::{GrowError, Growth};
pub use guard::{GUARD_AT, GUARD_MS_MAX, GUARD_MS_MIN, Guard, GuardError, GuardState};
pub use key::Key;
pub use log_tail::{Barrier, COMPACTED_RUNS_MAX, Compacted, LogTail};
pub use notes::{Notes, NotesArea};
pub use page::{Opened, PageContent, PageId, Region};
pub use places::{PLACES_BLOCKS_MAX, PLACES_BYTES, PLACES_MAX, Places};
pub use record::{EXTENT_PART_BLOCKS_MAX, OldRun, RECORD_BYTES_MAX, Record};
pub use superblock::{ClassTotals, CommitMode, Features, Lifetime, ProtectedRange, StartSettings, Superblock, SuperblockError, ToCompare};
pub use unit::authenticator::{self, Authenticator};
pub use unit::{SLOTS_MAX, Slot, UNIT_ROOM_BYTES, Unit, UnitHeader, UnitKind, UnitWriter};
