//! Malformed, rude and dead clients: each is disconnected as the protocol prescribes, without an effect on the verified load of a second
//! client.

mod common;

use common::nbd_client::*;
use common::ram::RamTarget;
use common::{Dice, beside_verified_load, serve, serve_with};
use onefold::frontend::nbd::negotiate::Agreement;
use onefold::frontend::nbd::{Limits, exercise};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const EXPORT: u64 = 64 * MIB;

/// Limits for clients that connect faster than the threads of earlier ones end.
const MANY: Limits = Limits { connections_max: 1000, ..Limits::DEFAULT };

#[test]
fn every_wrong_word_of_a_handshake_ends_that_connection_only() {
    let served = serve(RamTarget::new(EXPORT));
    let closes = |name: &str, talk: &dyn Fn(&mut Client)| {
        let mut client = Client::greeted(&served.socket);
        talk(&mut client);
        assert!(client.is_closed(), "{name}");
    };
    let option = |magic: &[u8], option: u32, length: u32| [magic, &option.to_be_bytes(), &length.to_be_bytes()].concat();
    beside_verified_load(&served, || {
        closes("unknown handshake flags", &|c| c.send(&7_u32.to_be_bytes()));
        closes("the upper half of the handshake flags", &|c| c.send(&0x8000_0003_u32.to_be_bytes()));
        closes("an option without fixed newstyle", &|c| {
            c.send(&0_u32.to_be_bytes());
            c.send_option(OPT_LIST, &[]);
        });
        closes("a wrong option magic", &|c| {
            c.send(&3_u32.to_be_bytes());
            c.send(&option(b"IHAVEOPS", OPT_LIST, 0));
        });
        closes("an option of 4 GiB", &|c| {
            c.send(&3_u32.to_be_bytes());
            c.send(&option(b"IHAVEOPT", OPT_INFO, u32::MAX));
            assert_eq!(c.option_reply(OPT_INFO).0, ERR_TOO_BIG);
        });
        closes("an export name of 1 GiB", &|c| {
            c.send(&3_u32.to_be_bytes());
            c.send(&option(b"IHAVEOPT", OPT_EXPORT_NAME, 1 << 30));
        });
        closes("an unknown export name", &|c| {
            c.send(&3_u32.to_be_bytes());
            c.send_option(OPT_EXPORT_NAME, b"another");
        });
        closes("an export name that is no text", &|c| {
            c.send(&3_u32.to_be_bytes());
            c.send_option(OPT_EXPORT_NAME, b"\xff\xff");
        });
        closes("options without end", &|c| {
            c.send(&3_u32.to_be_bytes());
            for _ in 0..256 {
                c.option(OPT_LIST, &[]);
            }
        });
        // These clients just leave.
        for words in [&b""[..], b"\0\0", b"\0\0\0\x03", b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x50abc"] {
            Client::greeted(&served.socket).send(words);
        }
    });
}

#[test]
fn every_wrong_field_of_a_request_is_refused() {
    for structured in [true, false] {
        let served = serve(RamTarget::new(EXPORT));
        let mut client = Client::ready(&served.socket, structured);
        let too_long_read = if structured { EOVERFLOW } else { EINVAL };
        let df = if structured { Ok(()) } else { Err(EINVAL) };
        let max = 32 << 20;
        beside_verified_load(&served, || {
            let at = 32 * MIB;
            let reads: [(u64, u32, u16, Result<(), u32>); 14] = [
                (at, 4096, 0, Ok(())),
                (at, 4096, FUA, Ok(())),
                (at, 4096, DF, df),
                (at, 4096, NO_HOLE, Err(EINVAL)),
                (at, 4096, 0x8000, Err(EINVAL)),
                (at, 0, 0, Err(EINVAL)),
                (at, 100, 0, Err(EINVAL)),
                (at + 1, 512, 0, Err(EINVAL)),
                (EXPORT - 512, 1024, 0, Err(EINVAL)),
                (EXPORT, 512, 0, Err(EINVAL)),
                (u64::MAX - 511, 512, 0, Err(EINVAL)),
                (at, max + 512, 0, Err(too_long_read)),
                // This is one chunk of more than the target accepts at once.
                (at, (1 << 20) + 512, DF, Err(too_long_read)),
                (at, u32::MAX, 0, Err(too_long_read)),
            ];
            for (offset, length, flags, expected) in reads {
                let found = client.read_chunks(flags, offset, length).map(|_| ());
                assert_eq!(found, expected, "read {offset} {length} {flags:#x}");
            }
            let writes: [(u64, usize, u16, Result<(), u32>); 9] = [
                (at, 4096, FUA, Ok(())),
                (at, 4096, DF, Err(EINVAL)),
                (at, 4096, 1 << 7, Err(EINVAL)),
                (at, 0, 0, Err(EINVAL)),
                (at, 100, 0, Err(EINVAL)),
                (at + 100, 512, 0, Err(EINVAL)),
                (EXPORT - 512, 1024, 0, Err(ENOSPC)),
                (u64::MAX - 4095, 8192, 0, Err(ENOSPC)),
                // This is the longest payload that the protocol wants read and discarded.
                (at + 512, max as usize, 0, Err(ENOSPC)),
            ];
            for (offset, length, flags, expected) in writes {
                assert_eq!(client.write(flags, offset, &vec![7; length]), expected, "write {offset} {length} {flags:#x}");
            }
            let others = [
                (FLUSH, 0, 0, FUA, Ok(())),
                (FLUSH, 512, 0, 0, Err(EINVAL)),
                (FLUSH, 0, 512, 0, Err(EINVAL)),
                (FLUSH, 0, 0, DF, Err(EINVAL)),
                (TRIM, at, 0, 0, Err(EINVAL)),
                (TRIM, at, 513, 0, Err(EINVAL)),
                (TRIM, EXPORT - 4096, 8192, 0, Err(EINVAL)),
                (TRIM, at, 4096, NO_HOLE, Err(EINVAL)),
                (WRITE_ZEROES, EXPORT - 4096, 8192, 0, Err(ENOSPC)),
                (WRITE_ZEROES, u64::MAX - 511, u32::MAX - 511, 0, Err(ENOSPC)),
                (WRITE_ZEROES, at, 4096, DF, Err(EINVAL)),
                (5, at, 4096, 0, Err(EINVAL)),      // CACHE
                (0xffff, at, 4096, 0, Err(EINVAL)), // no command
            ];
            for (command, offset, length, flags, expected) in others {
                assert_eq!(client.command(command, flags, offset, length), expected, "command {command} {offset} {length} {flags:#x}");
            }
            // The connection survived all of that.
            client.write(0, at, &[5; 4096]).unwrap();
            assert_eq!(client.read(at, 4096).unwrap(), [5; 4096]);
        });
    }
}

#[test]
fn what_breaks_framing_closes_the_connection() {
    let served = serve(RamTarget::new(EXPORT));
    beside_verified_load(&served, || {
        for structured in [true, false] {
            // A wrong magic is sent at once, and after good requests, which are answered.
            let mut client = Client::ready(&served.socket, structured);
            client.send(&[0; 28]);
            assert!(client.is_closed());

            let mut client = Client::ready(&served.socket, structured);
            let good = request(FLUSH, 0, 5, 0, 0);
            client.send(&[&good, &good, &b"\x12\x56\x09\x53"[..], &[0; 24]].concat());
            for _ in 0..2 {
                assert_eq!(client.answer(0), Answer { cookie: 5, result: Ok(vec![]) });
            }
            assert!(client.is_closed());

            // This write is too long to be discarded.
            let mut client = Client::ready(&served.socket, structured);
            client.request(WRITE, 0, 0, (32 << 20) + 512);
            assert_eq!(client.answer(0).result, Err(EINVAL));
            assert!(client.is_closed());

            // After a disconnect request, earlier requests are answered, even if late, and later ones are not.
            let slow = serve(RamTarget::new(EXPORT).with_slow_worker(Duration::from_millis(50)));
            let mut client = Client::ready(&slow.socket, structured);
            client.send(&[request(FLUSH, 0, 9, 0, 0), request(DISC, 0, 10, 0, 0), request(FLUSH, 0, 11, 0, 0)].concat());
            assert_eq!(client.answer(0).cookie, 9);
            assert!(client.is_closed());
        }
    });
}

#[test]
fn clients_that_die_anywhere_leave_no_trace() {
    let served = serve_with(RamTarget::new(EXPORT).with_worker(), MANY);
    beside_verified_load(&served, || {
        let at = 40 * MIB;
        for length in [4096_usize, 512 << 10] {
            let mut message = request(WRITE, 0, 1, at, length as u32);
            message.extend(vec![0xee; length]);
            for part in [1, 27, 28, 29, 28 + length / 2, 28 + length - 1] {
                let mut client = Client::ready(&served.socket, true);
                client.send(&message[..part]);
                drop(client);
            }
        }
        // These are reads whose answers nobody receives.
        for _ in 0..20 {
            let mut client = Client::ready(&served.socket, true);
            for _ in 0..16 {
                client.request(READ, 0, at, 1 << 20);
            }
            drop(client);
        }
        let mut client = Client::ready(&served.socket, true);
        assert_eq!(client.read(at, 1 << 20).unwrap(), vec![0; 1 << 20], "no half a payload was written");
    });
}

#[test]
fn garbage_from_a_seed_disturbs_nobody() {
    let served = serve_with(RamTarget::new(EXPORT), MANY);
    beside_verified_load(&served, || {
        for seed in 0..300 {
            let mut dice = Dice::new(seed);
            let mut words = vec![0; dice.below(3000) as usize];
            dice.fill(&mut words);
            let mut stream = UnixStream::connect(&served.socket).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
            let start = match seed % 4 {
                0 => vec![],
                1 => b"\0\0\0\x03".to_vec(),
                2 => b"\0\0\0\x03IHAVEOPT".to_vec(),
                // This is garbage instead of requests.
                _ => [&b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06"[..], &[0; 6]].concat(),
            };
            // The server may close the connection meanwhile.
            let _ = stream.write_all(&start).and_then(|()| stream.write_all(&words));
        }
        for seed in 0..300 {
            let mut dice = Dice::new(seed);
            let mut client = Client::ready(&served.socket, seed % 2 == 0);
            let words = mutated_requests(&mut dice);
            let _ = client.stream.write_all(&words);
        }
    });
}

/// Makes good requests outside the ranges of the well-behaved clients, with a few bytes changed: they get further than noise.
fn mutated_requests(dice: &mut Dice) -> Vec<u8> {
    let mut words = Vec::new();
    for _ in 0..1 + dice.below(6) {
        let length = 512 * (1 + dice.below(20)) as u32;
        let command = dice.below(8) as u16;
        let mut head = request(command, 0, dice.next(), 48 * MIB + 512 * dice.below(1000), length);
        if dice.below(2) == 0 {
            // The offset is not changed, so that it stays outside a well-behaved client's range.
            let at = [4, 5, 6, 7, 8, 24, 25, 26, 27][dice.below(9) as usize];
            head[at] ^= 1 << dice.below(8);
        }
        let writes = head[6..8] == [0, 1];
        let offset = u64::from_be_bytes(head[16..24].try_into().unwrap());
        assert!(offset >= 48 * MIB);
        words.extend(head);
        if writes {
            let payload = dice.below(u64::from(length) + 1) as usize;
            words.resize(words.len() + payload, 0xaa);
        }
    }
    words
}

fn agreement(seed: u64) -> Agreement {
    Agreement { structured: seed % 3 > 0, allocation: seed % 3 > 1 }
}

/// Runs the functions of the fuzz targets on seeded bytes, most of them nearly valid.
#[test]
fn seeded_words_break_no_decoder() {
    for seed in 0..20_000 {
        let mut dice = Dice::new(seed);
        let mut words = vec![0; dice.below(400) as usize];
        dice.fill(&mut words);
        exercise::requests(&words, agreement(seed));
        exercise::session(&words);

        let mut words = b"\0\0\0\x03".to_vec();
        for _ in 0..dice.below(5) {
            let data = export_request(["disk", "", "x"][dice.below(3) as usize], &[dice.below(5) as u16]);
            words.extend(b"IHAVEOPT");
            words.extend((dice.below(12) as u32).to_be_bytes());
            words.extend((data.len() as u32 - dice.below(2) as u32).to_be_bytes());
            words.extend(data);
        }
        words.extend(mutated_requests(&mut dice));
        if dice.below(2) == 0 {
            let at = dice.below(words.len() as u64) as usize;
            words[at] ^= 1 << dice.below(8);
        }
        exercise::session(&words);
        exercise::requests(&mutated_requests(&mut dice), agreement(seed));
    }
}
