//! A volume for tests of the engine's parts, which has done nothing yet.

use crate::Engine;
use crate::buffer::{BufferMut, Frame, Home};
use crate::fingerprint::Algorithm;
use crate::format::{Geometry, Superblock, Wish};
use crate::memory::Accountant;
use crate::pool::Parts;
use crate::settings::Settings;
use crate::units::{Bytes, Time};
use std::sync::Arc;

struct Heap;

impl Home for Heap {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        BufferMut::of_pool(vec![Frame::ZERO; blocks].into_boxed_slice(), 0, self)
    }

    fn give_back(&self, _: Box<[Frame]>, _: u32) {}
}

fn ingredients() -> (Superblock, Settings, Arc<dyn Home>, Arc<Accountant>) {
    let wish = Wish { logical_blocks: None, reserve_blocks: None, guard: false, notes_blocks: 0 };
    let geometry = Geometry::plan(Bytes(32 << 20), &wish).expect("it fits");
    let settings = Settings::default();
    let superblock = Superblock::new(geometry, [7; 16], [9; 32], Algorithm::Blake3, &settings);
    let accountant = Accountant::new(settings.memory_bytes);
    (superblock, settings, Arc::new(Heap), accountant)
}

/// An engine before its first step.
pub fn engine() -> Engine {
    let (superblock, settings, home, accountant) = ingredients();
    Engine::open(superblock, settings, home, accountant, Time(0))
}

/// A store alone.
pub fn parts() -> Parts {
    let (superblock, settings, home, accountant) = ingredients();
    Parts::new(superblock, settings, home, accountant, Time(0))
}
