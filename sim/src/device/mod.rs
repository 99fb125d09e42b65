//! The simulated device: what it holds, what a power loss may leave of it, the faults it may have, and the volume on it as seen from
//! outside the engine.

pub mod describe;
pub mod disk;
pub mod faulty_device;
pub mod power_loss;
pub mod squeeze;
pub mod superblock;
pub mod tables;
pub mod traffic;
pub mod volume;
