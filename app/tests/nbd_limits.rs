//! Limits of what one NBD client may take from the server, and the end of the server.

mod common;

use common::nbd_client::*;
use common::ram::RamTarget;
use common::{beside_verified_load, serve, serve_with, skipped};
use onefold::frontend::nbd::Limits;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const EXPORT: u64 = 64 * MIB;

#[test]
fn a_client_that_takes_no_replies_blocks_nobody_and_is_cut_off() {
    let limits = Limits { stall: Duration::from_millis(700), ..Limits::default() };
    let served = serve_with(RamTarget::new(EXPORT), limits);
    beside_verified_load(&served, || {
        let mut greedy = Client::ready(&served.socket, true);
        greedy.write(0, 50 * MIB, &vec![1; 1 << 20]).unwrap();
        for _ in 0..64 {
            greedy.request(READ, 0, 50 * MIB, 1 << 20);
        }
        std::thread::sleep(Duration::from_millis(1800));
        // After the connection is closed, answers in transit still arrive, then its end.
        let mut got = 0;
        let mut buffer = vec![0; 1 << 20];
        use std::io::Read;
        while let Ok(bytes @ 1..) = greedy.stream.read(&mut buffer) {
            got += bytes;
        }
        assert!(got < 8 << 20, "{got} bytes came though nobody took them");
    });
}

#[test]
fn a_connection_has_only_so_much_in_flight() {
    // The limit is twice the largest request, whatever else is allowed.
    let served = serve(RamTarget::new(EXPORT));
    let mut greedy = Client::ready(&served.socket, true);
    greedy.write(0, 0, &vec![1; 1 << 20]).unwrap();
    for _ in 0..16 {
        greedy.request(READ, 0, 0, 1 << 20);
        // The requests are sent one by one, so that each is examined separately.
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    // These are the write; one read, since two with their overhead exceed the limit; and one that left into the socket's own buffer, less
    // than 1 MiB.
    let taken = served.target.requests.load(Ordering::Relaxed);
    assert!((2..=3).contains(&taken), "{taken} requests were taken");
    for _ in 0..16 {
        assert_eq!(assemble(greedy.answer(1 << 20).result.unwrap(), 0, 1 << 20)[..4096], [1; 4096]);
    }
}

#[test]
fn a_client_that_stops_in_a_message_is_cut_off_and_an_idle_one_is_not() {
    let limits = Limits { stall: Duration::from_millis(300), handshake: Duration::from_millis(300), ..Limits::default() };
    let served = serve_with(RamTarget::new(EXPORT), limits);
    let mut idle = Client::ready(&served.socket, true);
    let mut silent = Client::greeted(&served.socket);
    let mut in_head = Client::ready(&served.socket, true);
    in_head.send(&request(FLUSH, 0, 1, 0, 0)[..20]);
    let mut in_small = Client::ready(&served.socket, true);
    in_small.send(&request(WRITE, 0, 1, 0, 4096));
    let mut in_large = Client::ready(&served.socket, true);
    in_large.send(&request(WRITE, 0, 1, 0, 1 << 20));
    let mut in_refused = Client::ready(&served.socket, true);
    in_refused.send(&request(WRITE, 0, 1, 1, 1 << 20));
    // Its answer would come after the payload, which never ends.
    // The client is never silent for long but never finishes: it sends a byte from time to time.
    let start = Instant::now();
    let mut trickling = Client::ready(&served.socket, true);
    for byte in request(FLUSH, 0, 1, 0, 0) {
        if trickling.stream.write_all(&[byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(60));
    }
    assert!(start.elapsed() < Duration::from_millis(28 * 60), "the trickling client was cut off");
    for (name, client) in [
        ("handshake", &mut silent),
        ("head", &mut in_head),
        ("small payload", &mut in_small),
        ("large payload", &mut in_large),
        ("refused payload", &mut in_refused),
        ("trickle", &mut trickling),
    ] {
        assert!(client.is_closed(), "{name}");
    }
    assert_eq!(idle.command(FLUSH, 0, 0, 0), Ok(()));
}

#[test]
fn too_many_clients_are_sent_away_and_room_comes_back() {
    let served = serve_with(RamTarget::new(EXPORT), Limits { connections_max: 3, ..Limits::default() });
    let mut clients: Vec<_> = (0..3).map(|_| Client::ready(&served.socket, true)).collect();
    let mut stream = UnixStream::connect(&served.socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut hello = [0; 18];
    assert!(!matches!(std::io::Read::read(&mut stream, &mut hello), Ok(1..)), "the fourth is not greeted");
    clients.pop();
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut stream = UnixStream::connect(&served.socket).unwrap();
        if std::io::Read::read_exact(&mut stream, &mut hello).is_ok() {
            break;
        }
        assert!(Instant::now() < deadline, "no room came back");
    }
    for client in &mut clients {
        assert_eq!(client.command(FLUSH, 0, 0, 0), Ok(()));
    }
}

/// Many clients connect at once: those beyond the limit are sent away, but none is refused by a full queue (EAGAIN).
#[test]
fn a_thousand_quick_connects_pass() {
    let queue = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    if queue.trim().parse::<u32>().unwrap_or(0) < 1000 {
        return skipped("a_thousand_quick_connects_pass", "net.core.somaxconn is below 1000");
    }
    let served = serve(RamTarget::new(EXPORT));
    beside_verified_load(&served, || {
        let name = SocketAddrUnix::new(&served.socket).unwrap();
        let connect = |number| {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            rustix::net::connect(&socket, &name).unwrap_or_else(|e| panic!("connect {number}: {e}"));
            socket
        };
        drop((0..1000).map(connect).collect::<Vec<_>>());
    });
    // They come one after the other: a client that has left takes no place from the next.
    for _ in 0..1000 {
        Client::greeted(&served.socket);
    }
    assert_eq!(Client::ready(&served.socket, true).command(FLUSH, 0, 0, 0), Ok(()));
}

/// Each connection holds buffers of requests that it has not submitted; together they hold all there are.
#[test]
fn connections_that_share_too_few_buffers_do_not_wait_for_each_other() {
    let served = serve(RamTarget::new(EXPORT).with_worker().with_buffers(20));
    let mut clients: Vec<_> = (0..8).map(|_| Client::ready(&served.socket, true)).collect();
    let mut out = Vec::new();
    for cookie in 0..40 {
        out.extend(request(WRITE, 0, cookie, cookie * 16384, 16384));
        out.extend([cookie as u8; 16384]);
    }
    std::thread::scope(|scope| {
        for client in &mut clients {
            let out = &out;
            let mut sender = client.stream.try_clone().unwrap();
            scope.spawn(move || sender.write_all(out).unwrap());
            scope.spawn(|| (0..40).for_each(|_| assert!(client.answer(0).result.is_ok())));
        }
    });
}

#[test]
fn a_stopping_server_answers_what_it_took() {
    for worker in [false, true] {
        let target = RamTarget::new(EXPORT);
        let mut served = serve(if worker { target.with_slow_worker(Duration::from_millis(150)) } else { target });
        let mut idle = Client::ready(&served.socket, true);
        let mut busy = Client::ready(&served.socket, true);
        let mut negotiating = Client::fixed(&served.socket);
        for cookie in 0..8 {
            let mut message = request(WRITE, 0, cookie, cookie * 4096, 4096);
            message.extend([cookie as u8 + 1; 4096]);
            busy.send(&message);
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while served.target.requests.load(Ordering::Relaxed) == 0 {
            assert!(Instant::now() < deadline, "nothing was taken");
            std::thread::yield_now();
        }
        let start = Instant::now();
        served.server.stop().unwrap();
        assert!(start.elapsed() < Duration::from_secs(4), "it did not wait for idle clients");
        assert!(!served.socket.exists());
        assert!(UnixStream::connect(&served.socket).is_err());
        // Accepted requests were answered, and the data of answered ones are there.
        let taken = served.target.requests.load(Ordering::Relaxed);
        for _ in 0..taken {
            let cookie = busy.answer(0).cookie;
            assert_eq!(served.target.content(cookie * 4096, 4096), [cookie as u8 + 1; 4096]);
        }
        assert!(idle.is_closed() && busy.is_closed() && negotiating.is_closed());
        served.server.stop().unwrap();
    }
}

#[test]
fn a_stopping_server_does_not_wait_for_ever() {
    let limits = Limits { grace: Duration::from_millis(300), ..Limits::default() };
    let mut served = serve_with(RamTarget::new(EXPORT), limits);
    let mut deaf = Client::ready(&served.socket, true);
    deaf.write(0, 0, &vec![1; 1 << 20]).unwrap();
    for _ in 0..10 {
        deaf.request(READ, 0, 0, 1 << 20);
    }
    std::thread::sleep(Duration::from_millis(100));
    let start = Instant::now();
    served.server.stop().unwrap();
    assert!(start.elapsed() < Duration::from_secs(3));
}
