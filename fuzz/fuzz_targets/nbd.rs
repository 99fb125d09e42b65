//! The NBD server's parsers, with a client that sends anything, from the handshake on or in the middle of the transmission.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold::frontend::nbd::exercise;
use onefold::frontend::nbd::negotiate::Agreement;

fuzz_target!(|data: &[u8]| {
    let Some((&mode, words)) = data.split_first() else { return };
    match mode % 3 {
        0 => exercise::session(words),
        1 => exercise::requests(words, Agreement::default()),
        _ => exercise::requests(words, Agreement { structured: true, allocation: true }),
    }
});
