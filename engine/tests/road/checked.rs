//! The findings of `check --data` on a medium on which content has rotted.

use crate::carriers::{served, soft};
use crate::media::blank;
use onefold_engine::check::{CheckSettings, Finding, ReadMedium, check};
use onefold_engine::interface::IoFailure;
use onefold_engine::units::{Bytes, index};

struct Stored(Vec<u8>);

impl ReadMedium for Stored {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        buffer.copy_from_slice(&self.0[index(at.get())..][..buffer.len()]);
        Ok(())
    }
}

pub fn findings(medium: &[u8]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let bytes = Bytes(medium.len() as u64);
    check(&mut Stored(medium.to_vec()), bytes, &CheckSettings { memory_bytes: 4 << 20, data: true }, &mut |finding| findings.push(finding))
        .expect("it is a volume");
    findings
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
