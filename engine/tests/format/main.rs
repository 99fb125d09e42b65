//! The medium, seen from outside: what is written comes back, what is damaged is found, and the bytes are those of `docs/format.md`.

mod codec;
mod copies;
mod create;
mod document;
mod golden;
mod log_tail;
mod properties;
mod superblock;
mod unit;
mod unit_properties;

use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::superblock::{EndedScrubs, ScrubFound, ScrubPart, ScrubProgress};
use onefold_engine::format::{ClassTotals, CommitMode, Compacted, Geometry, LogTail, Places, ProtectedRange, Superblock, Wish};
use onefold_engine::settings::{Persistence, Settings};
use onefold_engine::units::{BLOCK_SIZE, Bytes, Epoch, Lbn, Pbn};

const MIB: u64 = 1 << 20;
const UUID: [u8; 16] = *b"0123456789abcdef";

type Page = Box<[u8; BLOCK_SIZE]>;

fn geometry(device_bytes: u64) -> Geometry {
    Geometry::plan(Bytes(device_bytes), &Wish::default()).expect("a geometry")
}

/// A new volume of 64 MiB that has a guard.
fn guarded() -> Superblock {
    let geometry = Geometry::plan(Bytes(64 * MIB), &Wish { guard: true, ..Wish::default() }).expect("a geometry");
    let mut s = Superblock::new(geometry, UUID, [7; 32], Algorithm::Blake3, &Settings::default());
    s.set_guard(5000);
    s
}

/// A new volume of 64 MiB.
fn fresh() -> Superblock {
    Superblock::new(geometry(64 * MIB), UUID, [7; 32], Algorithm::Blake3, &Settings::default())
}

/// A superblock in which no field has its default.
fn eventful() -> Superblock {
    let mut s = fresh();
    s.features.compatible = 1;
    s.features.read_only = 2;
    s.label = "the würfel".to_owned();
    s.sector_bytes = 512;
    s.generation = 0x0102_0304_0506_0708;
    s.incarnation = 17;
    s.mount_count = 18;
    s.last_epoch = Epoch(19);
    s.last_log_sequence = 30;
    s.clean = false;
    s.garbage_possible = true;
    s.recount_position = Pbn(21);
    s.allocation_cursor = Pbn(22);
    s.algorithm = Algorithm::Md5;
    s.settings.commit_mode = CommitMode::Log;
    [0, 9, 1023].into_iter().for_each(|region| s.to_compare.regions.add(region));
    (s.to_compare.is_asked, s.to_compare.is_paused) = (true, true);
    let found = ScrubFound { damaged: 3, mended: 2, lost: 5 };
    s.scrub = Some(ScrubProgress { part: ScrubPart::Data, next: 9, is_paused: true, found, kib_per_second: 1024 });
    s.ended_scrubs = EndedScrubs { number: 7, last: ScrubFound { damaged: 1, mended: 4, lost: 6 } };
    s.settings.persistence = Persistence::Strong;
    s.settings.noncritical_delay_ms = 23;
    s.settings.commit_period_ms = 24;
    s.settings.anticipation_ms = 25;
    s.settings.verify_reads = false;
    s.settings.verify_duplicates = true;
    s.settings.discard_freed = false;
    for (class, n) in s.lifetime.classes.iter_mut().zip(100..) {
        *class = ClassTotals { units: n, bytes: n * 4096, commands: n - 50 };
    }
    s.lifetime.client_write_units = 26;
    s.lifetime.device_flushes = 27;
    s.protected =
        vec![ProtectedRange { first: Lbn(0), blocks: 1, is_found: false }, ProtectedRange { first: Lbn(8192), blocks: 2, is_found: false }];
    s.set_log_live(true);
    let places = vec![Places { first: Pbn(28), blocks: 64 }, Places { first: Pbn(2900), blocks: 1 }];
    s.log_tail = Some(LogTail {
        sequence: 30,
        incarnation: 16,
        epoch: Epoch(18),
        flushed_upto: 29,
        places,
        barrier: None,
        compacted: Compacted { since: 20, places: vec![Places { first: Pbn(70), blocks: 3 }, Places { first: Pbn(80), blocks: 1 }] },
    });
    s
}

fn encoded(s: &Superblock, copy: usize) -> Page {
    let mut page = Box::new([0; BLOCK_SIZE]);
    s.encode(copy, &mut page);
    page
}
