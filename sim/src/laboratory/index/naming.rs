//! The processor time for the name of a block, as a stand-in for the power that it takes.

use onefold_engine::fingerprint::{Algorithm, Fingerprinter};
use onefold_engine::units::BLOCK_SIZE;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::Instant;

/// The number of times that the blocks are named; the fastest one counts, since others use the processor, too.
const TIMES: usize = 200;

/// The processor time of this machine for the name of a block, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Naming {
    /// BLAKE3 with a key, sixteen blocks at once, and a block alone.
    pub fingerprint_ns: f64,
    pub fingerprint_alone_ns: f64,
    pub checksum_ns: f64,
}

impl Naming {
    /// Names blocks, again and again. Their content makes no difference, as long as it is not zeros.
    #[must_use]
    pub fn measure() -> Self {
        let fingerprinter = Fingerprinter::new(Algorithm::Blake3, [7; 32]);
        let blocks: Vec<[u8; BLOCK_SIZE]> = (0..=u8::MAX).map(|n| std::array::from_fn(|i| n ^ i.to_le_bytes()[0] ^ 1)).collect();
        let all: Vec<&[u8; BLOCK_SIZE]> = blocks.iter().collect();
        let time = |name: &dyn Fn()| {
            let once = || {
                let begin = Instant::now();
                name();
                begin.elapsed().as_secs_f64() * 1e9 / blocks.len() as f64
            };
            (0..TIMES).map(|_| once()).fold(f64::INFINITY, f64::min)
        };
        Self {
            fingerprint_ns: time(&|| {
                black_box(fingerprinter.digests(&all));
            }),
            fingerprint_alone_ns: time(&|| {
                all.iter().for_each(|block| {
                    black_box(fingerprinter.digest(block));
                });
            }),
            checksum_ns: time(&|| {
                all.iter().for_each(|block| {
                    black_box(fingerprinter.defer(block));
                });
            }),
        }
    }

    /// Returns the share of the time that is saved while everything is deferred.
    #[must_use]
    pub fn saved_by_deferring(&self) -> f64 {
        1.0 - self.checksum_ns / self.fingerprint_ns
    }
}
