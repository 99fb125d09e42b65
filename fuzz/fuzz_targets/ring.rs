//! The acknowledgement journal: any bytes, or records of hostile numbers with valid checks. Its content is passed to an engine, which
//! reports what it cannot keep, and serves.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold::runtime::promises::Left;
use onefold::runtime::ring::Replay;
use onefold::runtime::ring::exercise::{Forged, Numbers, forge};
use onefold_engine::interface::{Promised, Trace};
use onefold_fuzz::craft::{Draw, number};
use onefold_fuzz::volume::{Input, bases, is_served, proofs, superblocks};

const VOLUME: [u8; 16] = [7; 16];

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    let mut input = Input::new(data);
    let base = usize::from(mode & 0x0f) % bases().len();
    let known = &superblocks()[base];
    let near = [known.geometry.data_blocks, known.geometry.logical_blocks, known.last_epoch.get()];
    let records: Vec<Forged> = (0..=input.below(12)).map(|_| record(&near, &mut input)).collect();
    let tail = if input.below(4) == 0 { number(&mut input, &near) } else { 16 << 10 };
    let epoch = if input.below(2) == 0 { near[2] } else { number(&mut input, &near) };
    let state = Numbers { incarnation: 3, tail, epoch, traces: [trace(&near, &mut input), trace(&near, &mut input)] };
    let mut ring = forge(VOLUME, &state, &records);
    // One or two bytes change that no check covers, or that break one.
    for _ in 0..input.below(3) {
        let at = (input.draw() % ring.len() as u64) as usize;
        ring[at] = input.byte();
    }
    if mode & 0x10 != 0 {
        ring.truncate((input.draw() % (ring.len() as u64 + 1)) as usize);
    }
    let Ok(replay) = Replay::parse(ring, VOLUME) else { return };
    let left = Left::of(&replay);
    assert!(left.legacy.promises.len() <= replay.records().len());
    for promise in &left.legacy.promises {
        assert!(!matches!(promise, Promised::Unmap { first, end } if first > end), "{promise:?}");
    }
    if input.is_chosen(16) && !left.legacy.promises.is_empty() {
        let _ = is_served(bases()[base].clone(), None, left.legacy, &mut input);
    }
});

/// Returns mostly none; in one case of four the first trace that an engine left there.
fn trace(near: &[u64], input: &mut Input<'_>) -> Option<Trace> {
    match input.below(8) {
        0 => Some(Trace::Map { sector: number(input, near), sum: input.draw() as u32 }),
        1 => Some(Trace::Log { sequence: number(input, near) }),
        2 => Some(Trace::Log { sequence: input.below(3) }),
        _ => None,
    }
}

/// Returns the fingerprint of one of the blocks of the bases, or of none of them.
fn proof(input: &mut Input<'_>) -> Vec<u8> {
    let proofs = proofs();
    proofs[input.below(proofs.len() as u64) as usize].to_vec()
}

fn record(near: &[u64], input: &mut Input<'_>) -> Forged {
    let known = Forged::KINDS[input.below(5) as usize];
    let code = if input.below(16) == 0 { input.draw() as u32 } else { known };
    let content = match (code == Forged::KINDS[1], input.below(4)) {
        (true, 1..) => proof(input),
        (_, 0) => Vec::new(),
        (_, 1) => vec![input.byte(); 40],
        (_, fill) => vec![fill as u8 - 2; 4096],
    };
    let content_bytes = if input.below(8) == 0 { number(input, &[4096]) as u32 } else { content.len() as u32 };
    let first = if input.below(2) == 0 { input.below(80) } else { number(input, near) };
    let value = match input.below(4) {
        0 => input.below(200),
        1 => input.below(200) | (input.below(256) << 56),
        2 => 1,
        _ => number(input, near),
    };
    let epoch = if input.below(2) == 0 { near[2] + input.below(4) } else { number(input, near) };
    Forged { code, first, value, epoch, content, content_bytes }
}
