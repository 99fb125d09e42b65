//! Frames cut from arenas: the source of the pool's memory.
//!
//! 1. An arena is 1 MiB, never moves, and lives as long as its [`Arenas`]: so a back-end may register it with the kernel once and for all.
//! 2. An arena in use holds runs of one size class (a power of two of frames). When all its runs are back it may serve any class, so memory
//!    that one request size no longer needs is there for the next.
//! 3. A run that was handed out is a `Box` over arena memory. It is never dropped as a box: it comes back through [`Arenas::put`].

use onefold_engine::buffer::Frame;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The number of frames of an arena.
pub const ARENA_FRAMES: usize = 256;
/// The size of an arena.
pub const ARENA_BYTES: usize = ARENA_FRAMES * size_of::<Frame>();
/// Size classes: runs of 1, 2, 4 … 256 frames.
const CLASSES: usize = ARENA_FRAMES.trailing_zeros() as usize + 1;

struct Arena {
    base: NonNull<Frame>,
    class: usize,
    /// The first frames of the runs that are free.
    free: Vec<u16>,
    runs: usize,
}

impl Arena {
    fn new() -> Self {
        let layout = layout_of(ARENA_FRAMES);
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        let base = NonNull::new(base.cast()).unwrap_or_else(|| handle_alloc_error(layout));
        Self { base, class: 0, free: Vec::new(), runs: 0 }
    }

    fn serve(&mut self, class: usize) {
        self.class = class;
        self.runs = ARENA_FRAMES >> class;
        self.free.clear();
        self.free.extend((0..self.runs).rev().map(|run| u16::try_from(run << class).expect("an arena has few frames")));
    }

    fn is_whole(&self) -> bool {
        self.free.len() == self.runs
    }
}

/// A growing set of arenas. Its users number arenas from 1: the `tag` of a buffer; 0 stands for memory from elsewhere.
#[derive(Default)]
pub struct Arenas {
    arenas: Vec<Arena>,
    /// Arenas with a free run, by class.
    partial: [Vec<u32>; CLASSES],
    /// Arenas that serve no class.
    idle: Vec<u32>,
}

// SAFETY: the pointers in it are owned, as a `Box` would own them.
unsafe impl Send for Arenas {}

impl Arenas {
    /// Returns a run of `blocks` frames with arbitrary content, and its tag.
    ///
    /// # Panics
    /// When memory is out.
    pub fn get(&mut self, blocks: usize) -> (Box<[Frame]>, u32) {
        if blocks == 0 || blocks > ARENA_FRAMES {
            return (zeroed(blocks), 0);
        }
        let class = blocks.next_power_of_two().trailing_zeros() as usize;
        let number = match self.partial[class].last() {
            Some(&number) => number,
            None => self.open(class),
        };
        let arena = &mut self.arenas[number as usize];
        let first = arena.free.pop().expect("a partial arena has a free run");
        if arena.free.is_empty() {
            self.partial[class].pop();
        }
        // SAFETY: the run lies within the arena and nobody else holds it; frames of zeros or of old content are valid frames. The box is
        // given up by `into_raw` in `put`, never dropped (invariant 3: `BufferMut` hands its frames back to their home).
        let frames = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(arena.base.as_ptr().add(usize::from(first)), blocks)) };
        (frames, number + 1)
    }

    /// Takes a run back.
    ///
    /// # Panics
    /// When it is not of the arena that `tag` names.
    pub fn put(&mut self, frames: Box<[Frame]>, tag: u32) {
        let Some(number) = tag.checked_sub(1) else { return };
        let arena = &mut self.arenas[number as usize];
        let at = Box::into_raw(frames).cast::<Frame>() as usize;
        let first = at.wrapping_sub(arena.base.as_ptr() as usize) / size_of::<Frame>();
        assert!(first < ARENA_FRAMES, "frames come back to arena {tag}, which they are not of");
        let class = arena.class;
        if arena.free.is_empty() {
            self.partial[class].push(number);
        }
        arena.free.push(u16::try_from(first).expect("an arena has few frames"));
        // One whole arena stays with its class, lest a lone request opens and closes it each time.
        if arena.is_whole() && self.partial[class].len() > 1 {
            self.partial[class].retain(|&n| n != number);
            self.idle.push(number);
        }
    }

    /// Returns the address of an arena.
    pub fn base(&self, tag: u32) -> Option<*mut u8> {
        let arena = self.arenas.get(tag.checked_sub(1)? as usize)?;
        Some(arena.base.as_ptr().cast())
    }

    /// Returns the size of all arenas.
    pub fn bytes(&self) -> usize {
        self.arenas.len() * ARENA_BYTES
    }

    /// Returns an arena for `class`: an idle one, a whole one of another class, or a new one.
    fn open(&mut self, class: usize) -> u32 {
        let number = self.idle.pop().or_else(|| self.whole()).unwrap_or_else(|| {
            self.arenas.push(Arena::new());
            u32::try_from(self.arenas.len() - 1).expect("fewer than 2^32 arenas")
        });
        self.arenas[number as usize].serve(class);
        self.partial[class].push(number);
        number
    }

    /// Takes the whole arena that some class keeps, if any does.
    fn whole(&mut self) -> Option<u32> {
        let arenas = &self.arenas;
        self.partial.iter_mut().find_map(|list| {
            let place = list.iter().position(|&n| arenas[n as usize].is_whole())?;
            Some(list.swap_remove(place))
        })
    }
}

impl Drop for Arenas {
    fn drop(&mut self) {
        for arena in &self.arenas {
            // A run still in use would dangle: a leak is better.
            let is_idle = arena.is_whole();
            if is_idle {
                // SAFETY: the memory was allocated in `Arena::new` with this layout, and no run of it is in use.
                unsafe { dealloc(arena.base.as_ptr().cast(), layout_of(ARENA_FRAMES)) };
            }
        }
    }
}

fn layout_of(frames: usize) -> Layout {
    Layout::array::<Frame>(frames).expect("a buffer fits the address space")
}

/// Returns frames of zeros, from the system's allocator.
fn zeroed(blocks: usize) -> Box<[Frame]> {
    if blocks == 0 {
        return Box::default();
    }
    let layout = layout_of(blocks);
    // SAFETY: the layout is not empty; it is the one that dropping the box gives back; zeros are valid frames.
    unsafe {
        let memory = alloc_zeroed(layout).cast::<Frame>();
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_aligned_apart_and_reused() {
        let mut arenas = Arenas::default();
        let mut out: Vec<_> = [1, 1, 3, 32, 256, 1].map(|n| arenas.get(n)).into();
        let mut ranges: Vec<_> = out.iter().map(|(f, _)| (f.as_ptr() as usize, f.as_ptr() as usize + size_of_val(&**f))).collect();
        assert!(ranges.iter().all(|r| r.0 % 4096 == 0));
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|w| w[0].1 <= w[1].0), "runs overlap: {ranges:x?}");
        let last = out.pop().unwrap();
        let at = last.0.as_ptr();
        arenas.put(last.0, last.1);
        let again = arenas.get(1);
        assert_eq!(again.0.as_ptr(), at);
        out.push(again);
        out.into_iter().for_each(|(frames, tag)| arenas.put(frames, tag));
    }

    #[test]
    fn memory_of_one_size_serves_another() {
        let mut arenas = Arenas::default();
        for blocks in [1usize, 32, 7, 256, 64, 1] {
            let out: Vec<_> = (0..4 * ARENA_FRAMES / blocks.next_power_of_two()).map(|_| arenas.get(blocks)).collect();
            out.into_iter().for_each(|(frames, tag)| arenas.put(frames, tag));
        }
        assert_eq!(arenas.bytes(), 4 * ARENA_BYTES);
    }

    #[test]
    fn large_and_empty_runs_come_from_elsewhere() {
        let mut arenas = Arenas::default();
        for blocks in [0, 257, 1000] {
            let (frames, tag) = arenas.get(blocks);
            assert_eq!((frames.len(), tag), (blocks, 0));
            arenas.put(frames, tag);
        }
        assert_eq!(arenas.bytes(), 0);
    }
}
