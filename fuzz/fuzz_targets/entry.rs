//! Entries of the map and of the fingerprint table: each has one encoding.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_engine::format::{FingerprintEntry, MapEntry};

fuzz_target!(|data: &[u8]| {
    if let Some(bytes) = data.first_chunk::<5>() {
        if let Ok(entry) = MapEntry::decode(bytes) {
            assert_eq!(entry.encode(), *bytes);
        }
    }
    if let Some(bytes) = data.first_chunk::<20>() {
        if let Ok(entry) = FingerprintEntry::decode(bytes) {
            assert_eq!(entry.encode(), *bytes);
        }
    }
});
