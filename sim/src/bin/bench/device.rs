//! A device that counts. Everything completes at once, in the order of issue.

use onefold_engine::interface::{Action, Class, Event};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, index};
use rustc_hash::FxHashMap;

/// What the device was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Units written, by class.
    pub units: [u64; 6],
    pub commands: u64,
    pub flushes: u64,
    pub discards: u64,
}

impl Counts {
    /// Units of all classes.
    pub fn total(&self) -> u64 {
        self.units.iter().sum()
    }

    /// What was asked for since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let mut units = self.units;
        units.iter_mut().zip(before.units).for_each(|(now, then)| *now -= then);
        Self {
            units,
            commands: self.commands - before.commands,
            flushes: self.flushes - before.flushes,
            discards: self.discards - before.discards,
        }
    }
}

/// Metadata is kept; the content of data blocks is not, because no benchmark here reads it.
#[derive(Default)]
pub struct CountingDevice {
    units: FxHashMap<u64, Box<[u8; BLOCK_SIZE]>>,
    pub counts: Counts,
}

impl CountingDevice {
    pub fn page(&self, at: Bytes) -> [u8; BLOCK_SIZE] {
        self.units.get(&(at.get() / BLOCK_BYTES)).map_or([0; BLOCK_SIZE], |page| **page)
    }

    pub fn store(&mut self, at: Bytes, bytes: &[u8]) {
        for (unit, block) in (at.get() / BLOCK_BYTES..).zip(bytes.chunks_exact(BLOCK_SIZE)) {
            self.units.insert(unit, Box::new(block.try_into().expect("a whole block")));
        }
    }

    pub fn zero(&mut self, at: Bytes, length: Bytes) {
        let range = at.get() / BLOCK_BYTES..(at.get() + length.get()) / BLOCK_BYTES;
        self.units.retain(|unit, _| !range.contains(unit));
    }

    /// Carries out an action that asks for the device, and returns the event that tells of its end.
    ///
    /// # Panics
    /// When the content of a data block is asked for.
    pub fn carry_out(&mut self, action: Action) -> Result<Event, Action> {
        match action {
            Action::Read { io, at, mut buffer, class, .. } => {
                assert!(class != Class::Data, "no benchmark reads data");
                for i in 0..buffer.blocks() {
                    *buffer.block_mut(i) = self.page(at + BLOCK_BYTES * u64::try_from(i).expect("few blocks"));
                }
                Ok(Event::Read { io, buffer, digests: Vec::new(), result: Ok(()) })
            }
            Action::Write { io, at, data, class } => {
                let bytes: u64 = data.iter().map(onefold_engine::buffer::Slice::length).sum();
                let first = at.get() / BLOCK_BYTES;
                let end = (at.get() + bytes).div_ceil(BLOCK_BYTES);
                self.counts.units[class as usize] += end - first;
                self.counts.commands += 1;
                if class != Class::Data {
                    let mut at = at;
                    for slice in &data {
                        self.store(at, slice.bytes());
                        at += slice.length();
                    }
                }
                Ok(Event::Written { io, result: Ok(()) })
            }
            Action::Flush { io } => {
                self.counts.flushes += 1;
                Ok(Event::Flushed { io, result: Ok(()) })
            }
            Action::Discard { io, .. } => {
                self.counts.discards += 1;
                Ok(Event::Discarded { io, result: Ok(()) })
            }
            other => Err(other),
        }
    }
}

/// The classes that are metadata.
pub fn metadata(counts: &Counts) -> u64 {
    counts.total() - counts.units[Class::Data as usize]
}

/// The index of a class in [`Counts::units`], by name, for reports.
pub fn by_class(counts: &Counts) -> String {
    let names = ["data", "refs", "map", "fingerprints", "written", "superblock"];
    let fields = Class::ALL.iter().map(|class| format!("\"{}\": {}", names[*class as usize], counts.units[index(*class as u64)]));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}
