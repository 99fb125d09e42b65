//! The code that the fuzz targets and the seeded driver tests run: the decoders, with a client that may send anything.

use super::negotiate::{Agreement, Export, PAYLOAD_MAX, negotiate};
use super::protocol::{REQUEST_BYTES, RequestHead};
use super::replies::Replies;
use super::transmission::{Decision, Ticket, judge};
use onefold_engine::interface::Op;
use std::io::{self, Read, Write};

/// A client whose every word is in memory. It counts what it receives, and forgets it.
struct Script<'a> {
    words: &'a [u8],
    sent: u64,
}

impl Read for Script<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.words.read(into)
    }
}

impl Write for Script<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent += u64::try_from(bytes.len()).expect("a length fits 64 bits");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn export() -> Export {
    Export { name: "disk".into(), bytes: 1 << 30, sector_bytes: 512, piece_max: 1 << 20, read_only: false }
}

/// Runs a whole handshake, followed by the requests, as [`requests`] reads them.
pub fn session(words: &[u8]) {
    let mut script = Script { words, sent: 0 };
    let agreement = negotiate(&mut script, &export());
    assert!(script.sent >= 18, "every client is greeted");
    let heard = words.len() - script.words.len();
    // A reply is at most a few hundred bytes for each 16-byte option.
    assert!(script.sent <= 512 * (u64::try_from(heard).expect("fits") / 16 + 1));
    if let Ok(Some(agreement)) = agreement {
        requests(script.words, agreement);
    }
}

/// Runs a stream of requests, up to the first that closes the connection.
///
/// # Panics
/// When a decision breaks a rule of [`transmission`](super::transmission).
pub fn requests(mut words: &[u8], agreement: Agreement) {
    let export = export();
    let mut replies = Replies::default();
    while let Some((head, rest)) = words.split_first_chunk::<REQUEST_BYTES>() {
        let Ok(head) = RequestHead::parse(head) else { return };
        words = rest;
        let payload = match judge(&head, &export, agreement) {
            Decision::Disconnect | Decision::Close { .. } => return,
            Decision::Refuse { error, payload } => {
                Ticket::new(&head, agreement).refuse(error, &mut replies);
                assert!(payload == 0 || payload == head.length);
                payload
            }
            Decision::Serve { op, .. } => {
                assert!(head.offset % 512 == 0 && head.length % 512 == 0);
                assert!((op == Op::Flush) == (head.length == 0));
                assert!(head.offset + u64::from(head.length) <= export.bytes);
                let carries = matches!(op, Op::Read | Op::Write);
                assert!(!carries || head.length <= PAYLOAD_MAX);
                if op == Op::Write { head.length } else { 0 }
            }
        };
        let Some(rest) = usize::try_from(payload).ok().and_then(|payload| words.get(payload..)) else { return };
        words = rest;
    }
}
