//! The memory that live records take, counted by the allocator of this crate's unit tests, for each thread apart.

#![allow(unsafe_code)]

use super::{Live, block, link, named};
use crate::tables::effect::{Effect, EntryChange};
use crate::units::Epoch;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has taken and not given back. Negative where it gave back what another had taken for it: Rust's test harness
    /// hands a test things from another thread, and from version to version frees more or less of them on the test's own before the test
    /// begins.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: it passes everything on to the system's allocator, and counts beside it in a cell that takes no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(signed(layout.size()));
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// No memory is larger than this.
fn signed(bytes: usize) -> i64 {
    bytes as i64
}

fn add(bytes: i64) {
    // A thread that ends has no cell any more, and nobody asks what it holds.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

fn held() -> i64 {
    HELD.with(Cell::get)
}

/// Returns the bytes that this thread has taken since it held `before` bytes.
fn taken_since(before: i64) -> u64 {
    u64::try_from(held() - before).expect("a test gives back only what it took itself")
}

/// Numbers that follow no order.
fn random(n: u64, below: u64) -> u64 {
    n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) % below
}

/// Overwrites a random block of 64 GiB.
fn overwrite(n: u64, name: EntryChange<'static>) -> Effect<'static> {
    const BLOCKS: u64 = (64 << 30) / 4096;
    Effect { name, ..link(random(3 * n, BLOCKS), block(random(3 * n + 1, BLOCKS)), Some(random(3 * n + 2, BLOCKS))) }
}

/// Pushes this many, an epoch each, and looks all the time.
fn takes_at_most(bytes_each: u64, effects: u64, name: impl Fn(u64) -> EntryChange<'static>) {
    let before = held();
    let mut live = Live::new(0);
    for n in 1..=effects {
        live.push(Epoch(n), &overwrite(n, name(n)));
        if n % 1000 == 0 {
            let (reported, taken) = (live.bytes(), taken_since(before));
            assert!(reported.abs_diff(taken) * 10 <= taken, "{n} effects say that they take {reported} bytes, and take {taken}");
            assert!(n < 10_000 || taken <= bytes_each * n, "{n} effects take {taken} bytes");
        }
    }
    for n in (0..effects).step_by(7000) {
        live.forget_upto(Epoch(n));
        let (reported, taken) = (live.bytes(), taken_since(before));
        assert!(reported.abs_diff(taken) * 10 <= taken, "after {n} of {effects} they say {reported} bytes, and take {taken}");
    }
    live.forget_upto(Epoch(effects));
    // The chains of links, and of names.
    assert!(taken_since(before) <= 8 * effects, "{} bytes for nothing", taken_since(before));
}

#[test]
fn an_effect_takes_40_bytes() {
    takes_at_most(40, 100_000, |_| EntryChange::None);
}

#[test]
fn an_effect_with_a_fingerprint_takes_80_bytes() {
    takes_at_most(80, 100_000, named);
}

/// An effect that is compacted takes no more than its link.
#[test]
fn a_compacted_effect_takes_40_bytes() {
    let before = held();
    let mut live = Live::new(0);
    for n in 1..=100_000 {
        live.push(Epoch(n), &overwrite(n, named(n)));
        if n % 1000 == 0 {
            live.compacted_upto(Epoch(n));
            let (reported, taken) = (live.bytes(), taken_since(before));
            assert!(reported.abs_diff(taken) * 10 <= taken, "{n} effects say that they take {reported} bytes, and take {taken}");
            assert!(n < 10_000 || taken <= 41 * n, "{n} effects take {taken} bytes");
        }
    }
}
