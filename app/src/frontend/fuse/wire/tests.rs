//! Tests of FUSE messages: those that the kernel sends, and those that it receives.

use super::replies::*;
use super::*;

/// A request as the kernel sends it.
fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(40 + body.len()).unwrap();
    let header = InHeader { len, opcode, unique: 7 | UNIQUE_RESEND, node: 2, uid: 1, gid: 2, pid: 3, extensions: 0, padding: 0 };
    [header.as_bytes(), body].concat()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

fn parsed(bytes: &[u8]) -> Result<Operation<'_>, Malformed> {
    parse(&bytes[..bytes.len().min(HEAD_BYTES)], bytes.len()).map(|r| r.ask)
}

/// Joins two 32-bit fields to the word that they make up.
fn pair(low: u32, high: u32) -> u64 {
    let [a, b, c, d] = low.to_ne_bytes();
    let [e, f, g, h] = high.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn samples() -> Vec<Vec<u8>> {
    let long_name = [b'x'; 200];
    vec![
        request(1, b"disk\0"),
        request(1, &[&long_name[..], &[0]].concat()),
        request(2, &words(&[1])),
        request(3, &words(&[0, 0])),
        request(4, &words(&[pair(setattr::SIZE, 0), 1, 4096, 0, 0, 0, 0, 0, 0, 0, 0])),
        request(14, &words(&[2])),
        request(15, &words(&[1, 8192, pair(4096, 0), 0, 0])),
        [request(16, &words(&[1, 8192, pair(512, 0), 0, 0])), vec![9; 512]].concat(),
        request(17, &[]),
        request(18, &words(&[1, 0, 0])),
        request(20, &words(&[1, 0])),
        request(26, &words(&[pair(7, 41), pair(131_072, (1 << 30) | (1 << 15)), pair(1 << 7, 0), 0, 0, 0, 0, 0])),
        request(28, &words(&[2, 0, pair(4096, 0), 0, 0])),
        request(36, &words(&[7])),
        request(38, &[]),
        request(43, &words(&[1, 4096, 8192, pair(falloc::PUNCH_HOLE, 0)])),
        request(44, &words(&[2, 1, pair(4096, 0), 0, 0])),
        request(4000, &[1; 30]),
    ]
}

/// Sets the length in the header of the write among the samples, too.
fn with_stated_length(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap();
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes
}

#[test]
fn requests_are_understood() {
    let all: Vec<_> = samples().into_iter().map(with_stated_length).collect();
    let asks: Vec<_> = all.iter().map(|bytes| parsed(bytes).unwrap()).collect();
    let init = Operation::Init { major: 7, minor: 41, max_readahead: 131_072, flags: init::INIT_EXT | init::ASYNC_DIO | init::HAS_RESEND };
    let expected = [
        Operation::Lookup { name: Some(b"disk") },
        Operation::Lookup { name: None },
        Operation::Forget,
        Operation::GetAttr,
        Operation::SetAttr { valid: setattr::SIZE, size: 4096 },
        Operation::Open { flags: 2 },
        Operation::Read { offset: 8192, bytes: 4096 },
        Operation::Write { offset: 8192, bytes: 512, fua: false },
        Operation::Statfs,
        Operation::Release,
        Operation::Sync,
        init,
        Operation::ReadDir { offset: 0, bytes: 4096, plus: false },
        Operation::Interrupt,
        Operation::Destroy,
        Operation::Fallocate { offset: 4096, bytes: 8192, mode: falloc::PUNCH_HOLE },
        Operation::ReadDir { offset: 1, bytes: 4096, plus: true },
        Operation::Other,
    ];
    assert_eq!(asks, expected);
}

#[test]
fn a_resent_request_keeps_its_whole_number() {
    let bytes = request(17, &[]);
    assert_eq!(parse(&bytes, bytes.len()).unwrap().header.unique, 7 | UNIQUE_RESEND);
}

#[test]
fn flags_above_32_count_only_where_the_kernel_announces_them() {
    let bytes = request(26, &words(&[pair(7, 31), pair(0, 1 << 15), pair(1 << 7, 0), 0, 0]));
    assert_eq!(parsed(&bytes), Ok(Operation::Init { major: 7, minor: 31, max_readahead: 0, flags: init::ASYNC_DIO }));
}

#[test]
fn every_cut_is_malformed_or_a_shorter_request_and_never_a_panic() {
    for sample in samples().into_iter().map(with_stated_length) {
        for cut in 0..sample.len() {
            // Once as the kernel would never send it (with a wrong length in the header) and once with the length set right.
            let lying = parsed(&sample[..cut]);
            assert!(lying.is_err(), "{cut} bytes of {sample:?} passed as {lying:?}");
            if cut >= 40 {
                let honest = with_stated_length(sample[..cut].to_vec());
                if parsed(&honest).is_err() {
                    assert_eq!(parse(&honest[..cut.min(HEAD_BYTES)], cut).unwrap_err().unique, Some(7 | UNIQUE_RESEND));
                }
            }
        }
    }
}

#[test]
fn a_write_that_brings_more_or_less_than_it_says_is_malformed() {
    for payload in [0, 511, 513] {
        let bytes = with_stated_length([request(16, &words(&[1, 0, pair(512, 0), 0, 0])), vec![9; payload]].concat());
        assert!(parsed(&bytes).is_err(), "{payload}");
    }
    let huge = with_stated_length([request(16, &words(&[1, u64::MAX, pair(u32::MAX, 0), 0, 0])), vec![9; 16]].concat());
    assert!(parsed(&huge).is_err());
}

#[test]
fn arbitrary_bytes_never_panic() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let samples = samples();
    let (mut understood, mut refused) = (0, 0);
    for round in 0..200_000_u64 {
        let mut bytes = with_stated_length(samples[usize::try_from(round).unwrap() % samples.len()].clone());
        for _ in 0..next() % 4 {
            let at = usize::try_from(next()).unwrap() % bytes.len();
            bytes[at] = next().to_ne_bytes()[0];
        }
        let head = &bytes[..bytes.len().min(HEAD_BYTES)];
        let received = if next() % 8 == 0 { usize::try_from(next() >> 40).unwrap() } else { bytes.len() };
        match parse(head, received) {
            Ok(_) => understood += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(understood > 10_000 && refused > 10_000, "{understood} understood, {refused} refused: one side is never reached");
}

#[test]
fn replies_are_laid_out_as_the_kernel_reads_them() {
    let header = reply_header(5, 38, 0);
    assert_eq!(header, *[&16_u32.to_ne_bytes()[..], &(-38_i32).to_ne_bytes(), &5_u64.to_ne_bytes()].concat());
    assert_eq!(resend(), *[&16_u32.to_ne_bytes()[..], &7_i32.to_ne_bytes(), &0_u64.to_ne_bytes()].concat());

    let agreed =
        Agreement { minor: 40, max_readahead: 1, flags: init::HAS_RESEND | 5, max_background: 64, max_write: 1 << 20, max_pages: 256 };
    let init = init_out(&agreed);
    let half = |at: usize| u32::from_ne_bytes(init[at..at + 4].try_into().unwrap());
    assert_eq!([half(0), half(4), half(8), half(12), half(20), half(24), half(32)], [7, 40, 1, 5, 1 << 20, 1, 1 << 7]);
    assert_eq!(init[16..20], [64_u16.to_ne_bytes(), 64_u16.to_ne_bytes()].concat());
    assert_eq!(init[28..30], 256_u16.to_ne_bytes());
}

#[test]
fn directory_entries_stop_at_the_limit_and_are_padded() {
    let attr = Attr { ino: 2, mode: 0o100_600, ..crate::frontend::fuse::files::blank() };
    let mut reply = Vec::new();
    assert!(push_dirent(&mut reply, 32, attr, b"disk", 3, false));
    assert_eq!(reply.len(), 32);
    assert!(!push_dirent(&mut reply, 63, attr, b"disk", 3, false));
    assert_eq!(reply.len(), 32);
    assert_eq!(reply[20..28], [&8_u32.to_ne_bytes()[..], b"disk"].concat());
    let mut plus = Vec::new();
    assert!(push_dirent(&mut plus, 4096, attr, b"..", 2, true));
    assert_eq!((plus.len(), &plus[..8]), (160, &[0; 8][..]), "the kernel must not take .. for a file of ours");
}
