//! A new volume on a counting device.

use super::device::Device;
use super::pool::Pool;
use onefold_engine::Engine;
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::geometry::{RESERVE_BLOCKS_MIN, RESERVE_FRACTION};
use onefold_engine::format::{Geometry, Superblock, Wish};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_BYTES, Bytes, Time, index};
use std::sync::Arc;

/// A volume that is formatted and not opened yet.
pub struct NewVolume {
    pub engine: Engine,
    pub device: Device,
    /// The size of the device.
    pub bytes: Bytes,
    /// The accountant that the client asks for its requests' memory.
    pub accountant: Arc<Accountant>,
}

impl NewVolume {
    /// Makes a volume for a client that sees `blocks`, as small as it can be without being thin.
    ///
    /// # Errors
    /// Fails if there can be no volume of that size.
    pub fn of(blocks: u64, settings: Settings) -> Result<Self, String> {
        let superblock = Superblock::new(geometry_for(blocks)?, *b"onefold-sim-uuid", [7; 32], Algorithm::Blake3, &settings);
        let (device, superblock) = Device::formatted(&superblock);
        let bytes = superblock.geometry.device_bytes;
        let accountant = Accountant::divided(settings.memory_bytes, settings.commit_mode.has_log());
        let pool = Pool::keeping(index(settings.memory_bytes / BLOCK_BYTES / 8));
        let engine = Engine::open(superblock, settings, pool, accountant.clone(), Time(0));
        Ok(Self { engine, device, bytes, accountant })
    }
}

/// Returns the smallest geometry that gives the client `blocks` and is not thin: as many physical blocks, and the reserve.
fn geometry_for(blocks: u64) -> Result<Geometry, String> {
    let wish = Wish { logical_blocks: Some(blocks), reserve_blocks: None, guard: false, notes_blocks: 0 };
    let data_needed = blocks + (blocks / (RESERVE_FRACTION - 1) + 1).max(RESERVE_BLOCKS_MIN);
    let plan = |pages: u64| Geometry::plan_tiny(Bytes(pages * BLOCK_BYTES), &wish);
    let is_enough = |pages: u64| plan(pages).is_ok_and(|g| g.data_blocks >= data_needed);
    let (mut little, mut much) = (data_needed, data_needed * 2 + 4096);
    while little + 1 < much {
        let middle = little + (much - little) / 2;
        if is_enough(middle) {
            much = middle;
        } else {
            little = middle;
        }
    }
    plan(much).map_err(|e| format!("a volume of {blocks} blocks: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_as_large_as_its_client_needs_and_not_thin() {
        for blocks in [1, 64, 5000, 786_432, 2_097_152] {
            let g = geometry_for(blocks).expect("fits");
            assert_eq!(g.logical_blocks, blocks);
            assert!(g.data_blocks >= blocks + g.reserve_blocks && g.data_blocks <= blocks * 66 / 64 + 1300, "{blocks}: {}", g.data_blocks);
        }
    }
}
