//! How a check reads.

use super::volume::{MIB, Volume};
use onefold_engine::check::CheckSettings;

/// Pages of a table lie side by side: as many are read at once as the memory allows.
#[test]
fn pages_are_read_many_at_a_time() {
    for (memory_bytes, longest) in [(64 * MIB, 1 << 20), (0, 128 << 10)] {
        let mut volume = Volume::new(2560 * MIB);
        assert_eq!(volume.checked_with(CheckSettings { memory_bytes, data: false }).0, []);
        assert_eq!(volume.medium.longest_read, longest);
    }
}
