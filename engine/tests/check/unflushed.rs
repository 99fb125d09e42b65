//! A server was killed while it updated the superblock, so that a pair of copies lies in the device's cache alone. Whoever changes the
//! volume while nobody serves it flushes that before anything is written (R8).

use crate::volume::{MIB, Medium, Volume};
use onefold_engine::buffer::BufferMut;
use onefold_engine::check::{ReadMedium, read_superblock};
use onefold_engine::format::{Superblock, copies, pair_of};
use onefold_engine::interface::IoFailure;
use onefold_engine::repair::{RepairError, RepairMedium, change_open_superblock, change_superblock};
use onefold_engine::units::{BLOCK_SIZE, Bytes};

/// A device with a cache, and a power supply that lasts for some writes and flushes.
struct Device {
    /// The content that reads find.
    cached: Medium,
    /// The content that no power loss takes.
    durable: Medium,
    operations_left: u32,
}

impl Device {
    fn operation(&mut self) -> Result<(), IoFailure> {
        self.operations_left = self.operations_left.checked_sub(1).ok_or(IoFailure)?;
        Ok(())
    }

    /// The content that is left when of each superblock copy in the cache these sectors are lost.
    fn without_power(mut self, bytes: Bytes, is_lost: fn(usize) -> bool) -> Medium {
        for at in copies(bytes) {
            let cached = *self.cached.block(at);
            let left = self.durable.block(at);
            for sector in (0..BLOCK_SIZE / 512).filter(|sector| !is_lost(*sector)) {
                left[sector * 512..][..512].copy_from_slice(&cached[sector * 512..][..512]);
            }
        }
        self.durable
    }
}

impl ReadMedium for Device {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        self.cached.read(at, buffer)
    }
}

impl RepairMedium for Device {
    fn write(&mut self, at: Bytes, block: &BufferMut) -> Result<(), IoFailure> {
        self.operation()?;
        *self.cached.block(at) = *block.block(0);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoFailure> {
        self.operation()?;
        self.durable = self.cached.clone();
        Ok(())
    }
}

/// A device on which a server had written one more pair of copies when it was killed.
fn left_by_a_killed_server(is_clean: bool) -> (Device, Superblock) {
    let volume = Volume::new(36 * MIB);
    let bytes = volume.superblock.geometry.device_bytes;
    let mut device = Device { cached: volume.medium.clone(), durable: volume.medium, operations_left: u32::MAX };
    let mut superblock = read_superblock(&mut device, bytes).expect("a volume").into_service();
    superblock.generation += 1;
    superblock.clean = is_clean;
    for copy in pair_of(superblock.generation) {
        superblock.encode(copy, device.cached.block(copies(bytes)[copy]));
    }
    (device, superblock)
}

#[test]
fn a_changed_superblock_never_costs_the_last_copies_that_are_durable() {
    let rename = |superblock: &mut Superblock| superblock.label = "new".to_owned();
    for is_clean in [false, true] {
        for operations_left in 0..16 {
            for is_lost in [|sector: usize| sector % 2 == 0, |sector: usize| sector % 2 == 1, |_: usize| true] {
                let (mut device, superblock) = left_by_a_killed_server(is_clean);
                let bytes = superblock.geometry.device_bytes;
                device.operations_left = operations_left;
                let changed = if is_clean {
                    change_superblock(&mut device, bytes, rename)
                } else {
                    change_open_superblock(&mut device, bytes, rename)
                };
                let mut left = device.without_power(bytes, is_lost);
                let found = read_superblock(&mut left, bytes);
                let situation = || format!("clean {is_clean}, {operations_left} operations: {:?}", changed.as_ref().map(|s| s.generation));
                let found = found.unwrap_or_else(|error| panic!("{}: {error}", situation())).superblock;
                if changed.is_ok() {
                    assert_eq!(found.label, "new", "{}: it was said to be done", situation());
                }
            }
        }
    }
}

#[test]
fn a_volume_that_was_not_closed_keeps_its_superblock() {
    let (mut device, superblock) = left_by_a_killed_server(false);
    let bytes = superblock.geometry.device_bytes;
    assert_eq!(change_superblock(&mut device, bytes, |_| ()).map(|_| ()), Err(RepairError::NotClosed));
    let sound = |medium: &mut Medium| copies(bytes).map(|at| *medium.block(at));
    let Device { mut cached, mut durable, .. } = device;
    let (cached, durable) = (sound(&mut cached), sound(&mut durable));
    assert!(cached == durable, "what the answer was decided from is durable");
}
