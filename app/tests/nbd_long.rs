//! Requests longer than the target accepts at once are served in pieces, without a difference for clients.

mod common;

use common::nbd_client::*;
use common::ram::RamTarget;
use common::{Dice, beside_verified_load, serve};

const MIB: u64 = 1 << 20;
const EXPORT: u64 = 96 * MIB;
const LONGEST: usize = 32 << 20;
const EIO: u32 = 5;

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; bytes];
    Dice::new(seed).fill(&mut out);
    out
}

#[test]
fn the_longest_requests_come_back_as_they_were_written() {
    for worker in [false, true] {
        for structured in [true, false] {
            let target = RamTarget::new(EXPORT);
            let served = serve(if worker { target.with_worker() } else { target });
            let mut client = Client::ready(&served.socket, structured);
            beside_verified_load(&served, || {
                // The requests begin and end within a block, and are just longer than the target accepts at once.
                for (offset, bytes) in [(32 * MIB, LONGEST), (40 * MIB + 3584, (5 << 20) + 512)] {
                    let content = noise(bytes, offset);
                    client.write(0, offset, &content).unwrap();
                    assert!(served.target.content(offset, bytes) == content);
                    assert!(client.read(offset, bytes as u32).unwrap() == content);
                }
            });
        }
    }
}

#[test]
fn holes_are_told_in_long_reads_too() {
    let served = serve(RamTarget::new(EXPORT));
    let mut client = Client::ready(&served.socket, true);
    client.write(0, 50 * MIB, &[7; 4096]).unwrap();
    let chunks = client.read_chunks(0, 32 * MIB, LONGEST as u32).unwrap();
    assert!(chunks.iter().filter(|chunk| matches!(chunk, Chunk::Data { .. })).count() == 1, "{}", chunks.len());
    assert!(assemble(chunks, 32 * MIB, LONGEST as u32) == [vec![0; 18 << 20], vec![7; 4096], vec![0; (14 << 20) - 4096]].concat());
}

#[test]
fn a_long_write_takes_no_more_buffers_than_a_piece() {
    // These are as many as one piece has.
    let served = serve(RamTarget::new(EXPORT).with_worker().with_buffers(256));
    let mut clients: Vec<_> = (0..2).map(|_| Client::ready(&served.socket, true)).collect();
    std::thread::scope(|scope| {
        for (number, client) in (0..).zip(&mut clients) {
            scope.spawn(move || client.write(0, number * 48 * MIB, &noise(LONGEST, number)).unwrap());
        }
    });
    for number in 0..2 {
        assert!(served.target.content(number * 48 * MIB, LONGEST) == noise(LONGEST, number));
    }
}

#[test]
fn fua_makes_all_pieces_durable() {
    let served = serve(RamTarget::new(EXPORT));
    let mut client = Client::ready(&served.socket, false);
    let content = noise(5 << 20, 3);
    client.write(FUA, 4096, &content).unwrap();
    served.target.cut_power();
    assert!(client.read(4096, content.len() as u32).unwrap() == content);
}

/// A simple reply is contiguous; late answers to earlier requests precede it.
#[test]
fn answers_before_and_after_a_long_read_keep_their_places() {
    let served = serve(RamTarget::new(EXPORT).filled().with_worker_for_reads());
    for structured in [true, false] {
        let mut client = Client::ready(&served.socket, structured);
        let long = 3 << 20;
        for round in 0..5 {
            let small = [request(READ, 0, 1, 4096 * round, 4096), request(READ, 0, 2, MIB, long), request(READ, 0, 3, 0, 8192)].concat();
            client.send(&small);
            for expected in [1, 2, 3] {
                let bytes = [4096, long, 8192][expected as usize - 1];
                let answer = client.answer(bytes);
                assert_eq!(answer.cookie, expected);
                let at = [4096 * round, MIB, 0][expected as usize - 1];
                assert!(assemble(answer.result.unwrap(), at, bytes) == served.target.content(at, bytes as usize));
            }
        }
    }
}

#[test]
fn a_piece_that_fails_fails_the_request() {
    let served = serve(RamTarget::new(EXPORT).failing_from(35 * MIB));
    for structured in [true, false] {
        let mut client = Client::ready(&served.socket, structured);
        assert_eq!(client.write(0, 32 * MIB, &noise(LONGEST, 1)), Err(EIO));
        // The first piece fails, early enough to report an error.
        assert_eq!(client.read(36 * MIB, 3 << 20), Err(EIO));
        assert_eq!(client.command(FLUSH, 0, 0, 0), Ok(()));
        client.request(READ, 0, 33 * MIB, 4 << 20);
        if structured {
            assert_eq!(client.answer(4 << 20).result, Err(EIO));
            assert_eq!(client.command(FLUSH, 0, 0, 0), Ok(()));
        } else {
            // The reply has begun: closing the connection is the only possible report.
            assert_eq!(client.bytes(16)[4..8], [0; 4]);
            client.bytes(2 << 20);
            assert!(client.is_closed());
        }
    }
}
