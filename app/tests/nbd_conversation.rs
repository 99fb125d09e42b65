//! The NBD server follows the protocol, as seen by a client that checks every byte.

mod common;

use common::nbd_client::*;
use common::ram::RamTarget;
use common::{Dice, serve};

const MIB: u64 = 1 << 20;

#[test]
fn go_describes_the_export() {
    let served = serve(RamTarget::new(64 * MIB));
    let mut client = Client::fixed(&served.socket);
    let all = [0, 1, 2, 3, 77];
    for option in [OPT_INFO, OPT_GO] {
        let replies = client.option(option, &export_request("", &all));
        // The flags are HAS_FLAGS, FLUSH, FUA, TRIM, WRITE_ZEROES, MULTI_CONN, FAST_ZERO; DF only with structured replies.
        let flags = 1 | 4 | 8 | 32 | 64 | 256 | 2048_u16;
        let export = [&[0, 0], (64 * MIB).to_be_bytes().as_slice(), &flags.to_be_bytes()].concat();
        let sizes = [&[0, 3], 512_u32.to_be_bytes().as_slice(), &4096_u32.to_be_bytes(), &(32_u32 << 20).to_be_bytes()].concat();
        let expected = [(REP_INFO, export), (REP_INFO, sizes), (REP_INFO, b"\0\x01disk".to_vec()), (REP_ACK, vec![])];
        assert_eq!(replies, expected);
    }
    assert_eq!(client.command(FLUSH, 0, 0, 0), Ok(()));
}

fn meta_request(queries: &[&str]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
    let count = (queries.len() as u32).to_be_bytes().to_vec();
    [vec![text("disk"), count], queries.iter().map(|query| text(query)).collect()].concat().concat()
}

#[test]
fn extents_are_told_to_a_client_that_has_set_their_context() {
    let (list, set, block_status, req_one) = (9, 10, 7, 1 << 3);
    let served = serve(RamTarget::new(MIB));
    let mut client = Client::fixed(&served.socket);
    let kinds = |replies: Vec<(u32, Vec<u8>)>| replies.into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    let context = (4, b"\0\0\0\x01base:allocation".to_vec());
    let wanted = meta_request(&["base:allocation"]);
    assert_eq!(kinds(client.option(set, &wanted)), [ERR_INVALID], "structured replies come first");
    assert_eq!(kinds(client.option(OPT_STRUCTURED_REPLY, &[])), [REP_ACK]);
    assert_eq!(client.option(list, &meta_request(&[])), [context.clone(), (REP_ACK, vec![])]);
    assert_eq!(client.option(list, &meta_request(&["x:"])), [(REP_ACK, vec![])]);
    assert_eq!(kinds(client.option(set, &wanted[..9])), [ERR_INVALID]);
    assert_eq!(kinds(client.option(set, &[b"\0\0\0\x05other", &wanted[8..]].concat())), [ERR_UNKNOWN]);
    assert_eq!(client.option(set, &wanted), [context.clone(), (REP_ACK, vec![])]);
    assert_eq!(kinds(client.option(OPT_GO, &export_request("disk", &[]))).last(), Some(&REP_ACK));

    assert_eq!(client.write(0, 4096, &[7; 12 << 10]), Ok(()));
    let mut status = |flags, offset, length| {
        let cookie = client.request(block_status, flags, offset, length);
        let head = client.bytes(20);
        assert_eq!((&head[..4], &head[8..16]), (&0x668e_33ef_u32.to_be_bytes()[..], &cookie.to_be_bytes()[..]));
        let payload = client.bytes(u32::from_be_bytes(head[16..].try_into().unwrap()) as usize);
        assert_eq!(head[4..8], [0, 1, 0, 5], "one chunk, the last one");
        payload.chunks(4).map(|number| u32::from_be_bytes(number.try_into().unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(status(0, 512, 16 << 10), [1, 3584, 3, 12 << 10, 0, 512, 3]);
    assert_eq!(status(req_one, 4096, 16 << 10), [1, 12 << 10, 0]);
    assert_eq!(client.command(block_status, 1 << 2, 0, 4096), Err(22), "a flag that it does not take");
    assert_eq!(client.command(block_status, 0, MIB, 512), Err(22), "beyond the end");
    assert_eq!(Client::ready(&served.socket, true).command(block_status, 0, 0, 4096), Err(22), "the context was not set");
    assert_eq!(Client::ready(&served.socket, false).command(block_status, 0, 0, 4096), Err(22));
}

#[test]
fn structured_replies_bring_df_and_read_only_shows() {
    let served = serve(RamTarget::new(64 * MIB).read_only());
    let client = Client::ready(&served.socket, true);
    assert_eq!(client.export_flags & (2 | 128), 2 | 128);
    assert_eq!(client.export_bytes, 64 * MIB);
}

#[test]
fn export_name_works_with_and_without_zeroes() {
    let served = serve(RamTarget::new(MIB));
    for (flags, zeroes) in [(0_u32, 124), (1, 124), (3, 0)] {
        let mut client = Client::greeted(&served.socket);
        client.send(&flags.to_be_bytes());
        client.send_option(OPT_EXPORT_NAME, b"disk");
        assert_eq!(client.bytes(8), MIB.to_be_bytes());
        client.bytes(2);
        assert_eq!(client.bytes(zeroes), vec![0; zeroes]);
        assert_eq!(client.command(FLUSH, 0, 0, 0), Ok(()));
    }
}

#[test]
fn options_are_answered_one_by_one() {
    let served = serve(RamTarget::new(MIB));
    let mut client = Client::fixed(&served.socket);
    let kinds = |replies: Vec<(u32, Vec<u8>)>| replies.into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    assert_eq!(client.option(OPT_LIST, &[]), [(REP_SERVER, b"\0\0\0\x04disk".to_vec()), (REP_ACK, vec![])]);
    assert_eq!(kinds(client.option(OPT_LIST, b"x")), [ERR_INVALID]);
    assert_eq!(kinds(client.option(OPT_STARTTLS, &[])), [ERR_UNSUP]);
    assert_eq!(kinds(client.option(4, &[])), [ERR_UNSUP]); // once PEEK_EXPORT
    assert_eq!(kinds(client.option(11, &[])), [ERR_UNSUP]); // EXTENDED_HEADERS
    assert_eq!(kinds(client.option(0xdead_beef, &[7; 100])), [ERR_UNSUP]);
    assert_eq!(kinds(client.option(OPT_STRUCTURED_REPLY, b"x")), [ERR_INVALID]);
    assert_eq!(kinds(client.option(OPT_GO, &export_request("another", &[]))), [ERR_UNKNOWN]);
    assert_eq!(kinds(client.option(OPT_INFO, &export_request("another", &[]))), [ERR_UNKNOWN]);
    // The lengths inside do not add up.
    let good = export_request("disk", &[3]);
    for bad in [&good[..0], &good[..3], &good[..7], &good[..9], &good[..11], &[&good[..], b"x"].concat()] {
        assert_eq!(kinds(client.option(OPT_GO, bad)), [ERR_INVALID], "{bad:?}");
    }
    assert_eq!(kinds(client.option(OPT_GO, &export_request("\u{fffd}", &[]))), [ERR_UNKNOWN]);
    assert_eq!(kinds(client.option(OPT_GO, b"\0\0\0\x02\xff\xfe\0\0")), [ERR_INVALID]);
    assert_eq!(kinds(client.option(OPT_STRUCTURED_REPLY, &vec![0; 100_000])), [ERR_TOO_BIG]);
    // After all that it still works; then the client leaves.
    assert_eq!(kinds(client.option(OPT_LIST, &[])), [REP_SERVER, REP_ACK]);
    assert_eq!(kinds(client.option(OPT_ABORT, &[])), [REP_ACK]);
    assert!(client.is_closed());
}

#[test]
fn reads_bring_what_writes_brought() {
    let targets = [RamTarget::new, |bytes| RamTarget::new(bytes).with_worker(), |bytes| RamTarget::new(bytes).with_worker_for_reads()];
    for target in targets {
        for structured in [false, true] {
            let served = serve(target(64 * MIB));
            let mut load = VerifiedLoad::new(&served.socket, structured, 0, 16 << 20, 7);
            (0..600).for_each(|_| load.round());
        }
    }
}

#[test]
fn payloads_of_every_size_arrive_whole() {
    let served = serve(RamTarget::new(16 * MIB).with_worker());
    let mut client = Client::ready(&served.socket, true);
    let mut dice = Dice::new(3);
    // The sizes are near those of a sector, a block, the limit of what is copied, the receive buffer and the largest request; at all places
    // within a block.
    for sectors in [1_u64, 2, 7, 8, 9, 31, 32, 33, 64, 511, 512, 513, 2047, 2048] {
        for shift in [0, 1, 7] {
            let mut bytes = vec![0; sectors as usize * 512];
            dice.fill(&mut bytes);
            let offset = 8192 + shift * 512;
            client.write(0, offset, &bytes).unwrap();
            assert!(client.read(offset, bytes.len() as u32).unwrap() == bytes, "{sectors} sectors, {shift} into a block");
            assert!(served.target.content(offset, bytes.len()) == bytes);
        }
    }
}

#[test]
fn a_payload_in_drops_and_the_next_request_glued_to_it_arrive() {
    let served = serve(RamTarget::new(16 * MIB));
    let mut client = Client::ready(&served.socket, true);
    for length in [4096_usize, 200_000 / 512 * 512] {
        let mut message = request(WRITE, 0, 1, 4096, length as u32);
        message.extend((0..length).map(|i| (i % 251) as u8));
        message.extend(request(FLUSH, 0, 2, 0, 0));
        for drop in message.chunks(length / 7) {
            client.send(drop);
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
        let mut cookies = [client.answer(0).cookie, client.answer(0).cookie];
        cookies.sort_unstable();
        assert_eq!(cookies, [1, 2]);
        let expected: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        assert!(served.target.content(4096, length) == expected);
    }
}

#[test]
fn holes_come_as_holes_unless_df_forbids_it() {
    let served = serve(RamTarget::new(MIB));
    let mut client = Client::ready(&served.socket, true);
    client.write(0, 8192, &[1; 8192]).unwrap();
    client.write(0, 32768, &[2; 512]).unwrap();
    let chunks = client.read_chunks(0, 4096, 36864).unwrap();
    let data = |offset, bytes| Chunk::Data { offset, bytes };
    let mut last = vec![0; 4096];
    last[..512].fill(2);
    let expected = [
        Chunk::Hole { offset: 4096, bytes: 4096 },
        data(8192, vec![1; 8192]),
        Chunk::Hole { offset: 16384, bytes: 16384 },
        data(32768, last),
        Chunk::Hole { offset: 36864, bytes: 4096 },
    ];
    assert_eq!(chunks, expected);
    let whole = client.read_chunks(DF, 4096, 36864).unwrap();
    assert_eq!(whole, [data(4096, assemble(chunks, 4096, 36864))]);
    assert_eq!(client.read_chunks(0, 512 * 1024, 512).unwrap(), [Chunk::Hole { offset: 512 * 1024, bytes: 512 }]);

    let mut simple = Client::ready(&served.socket, false);
    assert_eq!(data(4096, simple.read(4096, 36864).unwrap()), whole[0]);
}

#[test]
fn long_stretches_of_zeroes_are_spelled_out_where_they_must_be() {
    let served = serve(RamTarget::new(4 * MIB));
    let mut client = Client::ready(&served.socket, true);
    let mut simple = Client::ready(&served.socket, false);
    let mut expected = vec![0; 1 << 20];
    assert_eq!(simple.read(MIB, 1 << 20).unwrap(), expected);
    for at in [0, 300 << 10, (1 << 20) - 512] {
        expected[at..at + 512].fill(3);
        client.write(0, MIB + at as u64, &[3; 512]).unwrap();
        assert!(simple.read(MIB, 1 << 20).unwrap() == expected);
        assert!(client.read_chunks(DF, MIB, 1 << 20).unwrap() == [Chunk::Data { offset: MIB, bytes: expected.clone() }]);
    }
}

#[test]
fn trim_and_write_zeroes_take_any_length() {
    let served = serve(RamTarget::new(64 * MIB));
    let mut client = Client::ready(&served.socket, true);
    for (command, flags) in [(TRIM, 0), (TRIM, FUA), (WRITE_ZEROES, 0), (WRITE_ZEROES, NO_HOLE), (WRITE_ZEROES, FUA | NO_HOLE)] {
        client.write(0, 0, &[9; 4096]).unwrap();
        client.write(0, 63 * MIB, &[9; 4096]).unwrap();
        assert_eq!(client.command(command, flags, 0, (64 * MIB) as u32), Ok(()));
        assert_eq!(served.target.content(0, 4096), [0; 4096]);
        assert_eq!(served.target.content(63 * MIB, 4096), [0; 4096]);
    }
}

#[test]
fn a_fast_zero_is_refused_and_changes_nothing() {
    let served = serve(RamTarget::new(MIB));
    let mut client = Client::ready(&served.socket, true);
    client.write(0, 0, &[9; 4096]).unwrap();
    assert_eq!(client.command(WRITE_ZEROES, FAST_ZERO, 0, 4096), Err(ENOTSUP));
    assert_eq!(client.read(0, 4096).unwrap(), [9; 4096]);
}

#[test]
fn a_read_only_export_takes_no_change() {
    let served = serve(RamTarget::new(MIB).read_only());
    let mut client = Client::ready(&served.socket, true);
    assert_eq!(client.write(0, 0, &[1; 4096]), Err(EPERM));
    assert_eq!(client.command(TRIM, 0, 0, 4096), Err(EPERM));
    assert_eq!(client.command(WRITE_ZEROES, 0, 0, 4096), Err(EPERM));
    assert_eq!(client.command(FLUSH, 0, 0, 0), Ok(()));
    assert_eq!(client.read(0, 4096), Ok(vec![0; 4096]));
}

/// Checks the promise of CAN_MULTI_CONN.
#[test]
fn a_flush_covers_what_other_connections_wrote() {
    for worker in [false, true] {
        let target = RamTarget::new(MIB);
        let served = serve(if worker { target.with_worker() } else { target });
        let mut writers: Vec<_> = (0..4).map(|_| Client::ready(&served.socket, true)).collect();
        for (i, writer) in writers.iter_mut().enumerate() {
            writer.write(0, i as u64 * 4096, &[i as u8 + 1; 4096]).unwrap();
        }
        let mut other = Client::ready(&served.socket, false);
        other.command(FLUSH, 0, 0, 0).unwrap();
        writers[0].write(0, 65536, &[99; 4096]).unwrap();
        other.write(FUA, 131_072, &[77; 4096]).unwrap();
        served.target.cut_power();
        for (i, reader) in writers.iter_mut().enumerate() {
            assert_eq!(reader.read(i as u64 * 4096, 4096).unwrap(), [i as u8 + 1; 4096]);
        }
        // The memory does lose what was not flushed, so the assertions above can fail.
        assert_eq!(other.read(65536, 4096).unwrap(), [0; 4096]);
        assert_eq!(other.read(131_072, 4096).unwrap(), [77; 4096]);
    }
}

#[test]
fn requests_that_come_together_are_submitted_together() {
    use std::sync::atomic::Ordering::Relaxed;
    let served = serve(RamTarget::new(MIB));
    let mut client = Client::ready(&served.socket, true);
    let mut out = Vec::new();
    for cookie in 0..32 {
        out.extend(request(WRITE, 0, cookie, cookie * 4096, 4096));
        out.extend([cookie as u8; 4096]);
    }
    client.send(&out);
    for _ in 0..32 {
        client.answer(0).result.unwrap();
    }
    assert_eq!(served.target.requests.load(Relaxed), 32);
    // The socket returns what has arrived so far, so not always everything at once; but the requests must not be submitted one by one.
    assert!(served.target.batches.load(Relaxed) <= 16, "{} batches", served.target.batches.load(Relaxed));
}
