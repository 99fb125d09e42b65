//! `check --data` on media that the engine has left: the findings where content has rotted, and the counts of a live log.

use crate::carriers::{served, soft};
use crate::media::{blank, pattern};
use onefold_engine::check::{CheckSettings, Counts, Finding, ReadMedium, check};
use onefold_engine::interface::{Class, IoFailure, Op};
use onefold_engine::units::{Bytes, index};

struct Stored(Vec<u8>);

impl ReadMedium for Stored {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        buffer.copy_from_slice(&self.0[index(at.get())..][..buffer.len()]);
        Ok(())
    }
}

pub fn findings(medium: &[u8]) -> Vec<Finding> {
    checked(medium).0
}

fn checked(medium: &[u8]) -> (Vec<Finding>, Counts) {
    let mut findings = Vec::new();
    let (bytes, settings) = (Bytes(medium.len() as u64), CheckSettings { memory_bytes: 4 << 20, data: true });
    let report = check(&mut Stored(medium.to_vec()), bytes, &settings, &mut |finding| findings.push(finding)).expect("it is a volume");
    (findings, report.counts)
}

/// The authenticator covers all bytes of a carrier, also those outside of its slots.
#[test]
fn no_byte_of_a_carrier_may_differ() {
    let mut m = served(blank(32 << 20, None));
    m.write(4096, &soft(1, 1));
    m.flush();
    let before = m.medium.clone();
    m.write(4096 * 9, &soft(2, 1));
    m.flush();
    let changed: Vec<usize> = (0..before.len() / 4096).filter(|i| before[i * 4096..][..4096] != m.medium[i * 4096..][..4096]).collect();
    let [carrier] = changed[..] else { panic!("one unit was written: {changed:?}") };
    let sound = m.close();
    assert!(findings(&sound).is_empty(), "{:?}", findings(&sound));
    for at in [64, 1200, 2048, 3000, 4095] {
        let mut rotted = sound.clone();
        rotted[carrier * 4096 + at] ^= 1;
        let found = findings(&rotted);
        assert!(matches!(found[..], [Finding::ContentDiffers { .. }]), "byte {at}: {found:?}");
    }
}

/// After a kill the log has records that no page holds. The check applies them to the pages, as the next opening does.
#[test]
fn a_check_after_a_kill_counts_what_the_log_has() {
    let mut m = served(blank(32 << 20, None));
    m.write(0, &pattern(1, 4096 * 10));
    m.write(4096 * 100, &pattern(1, 4096 * 3));
    m.flush();
    m.request(Op::Discard, 4096 * 7, 4096 * 3, None, false);
    m.flush();
    assert!(!m.written.contains_key(&Class::Map) && !m.written.contains_key(&Class::Refs), "{:?}", m.written);
    let (findings, Counts { mapped, unique, shared, fingerprint_only, garbage, compared, .. }) = checked(&m.medium);
    assert_eq!(findings, []);
    assert_eq!((mapped, unique, shared, fingerprint_only, garbage, compared), (10, 4, 3, 3, 0, 10));
}
