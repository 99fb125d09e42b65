//! An independent client that can also send what no correct client would. It shares no code with the server.

use super::Dice;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;

pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;
pub const DF: u16 = 4;
pub const FAST_ZERO: u16 = 16;

pub const EPERM: u32 = 1;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const EOVERFLOW: u32 = 75;
pub const ENOTSUP: u32 = 95;

pub const OPT_EXPORT_NAME: u32 = 1;
pub const OPT_ABORT: u32 = 2;
pub const OPT_LIST: u32 = 3;
pub const OPT_STARTTLS: u32 = 5;
pub const OPT_INFO: u32 = 6;
pub const OPT_GO: u32 = 7;
pub const OPT_STRUCTURED_REPLY: u32 = 8;

pub const REP_ACK: u32 = 1;
pub const REP_SERVER: u32 = 2;
pub const REP_INFO: u32 = 3;
pub const ERR_UNSUP: u32 = 0x8000_0001;
pub const ERR_INVALID: u32 = 0x8000_0003;
pub const ERR_UNKNOWN: u32 = 0x8000_0006;
pub const ERR_TOO_BIG: u32 = 0x8000_0009;

/// One chunk of a read's structured reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Chunk {
    Data { offset: u64, bytes: Vec<u8> },
    Hole { offset: u64, bytes: u32 },
}

/// An answer: the cookie, and the result of a read or an error number.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub cookie: u64,
    pub result: Result<Vec<Chunk>, u32>,
}

pub struct Client {
    pub stream: UnixStream,
    structured: bool,
    pub export_bytes: u64,
    pub export_flags: u16,
    cookie: u64,
}

impl Client {
    /// Connects and reads the greeting; the client's flags are still to be sent.
    pub fn greeted(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        // No test waits forever.
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut client = Self { stream, structured: false, export_bytes: 0, export_flags: 0, cookie: 0 };
        assert_eq!(client.bytes(16), b"NBDMAGICIHAVEOPT");
        assert_eq!(client.bytes(2), [0, 3]);
        client
    }

    /// Connects up to the negotiation of options.
    pub fn fixed(path: &Path) -> Self {
        let mut client = Self::greeted(path);
        client.send(&3_u32.to_be_bytes());
        client
    }

    /// Connects, ready for requests to the export `disk`.
    pub fn ready(path: &Path, structured: bool) -> Self {
        Self::ready_for(path, structured, "disk")
    }

    /// Connects, ready for requests to the export `name`.
    pub fn ready_for(path: &Path, structured: bool, name: &str) -> Self {
        let mut client = Self::fixed(path);
        if structured {
            assert_eq!(client.option(OPT_STRUCTURED_REPLY, &[]), [(REP_ACK, vec![])]);
        }
        let replies = client.option(OPT_GO, &export_request(name, &[]));
        let export = replies.iter().find(|(kind, data)| *kind == REP_INFO && data[..2] == [0, 0]).expect("the export is described");
        client.export_bytes = u64::from_be_bytes(export.1[2..10].try_into().unwrap());
        client.export_flags = u16::from_be_bytes(export.1[10..12].try_into().unwrap());
        assert_eq!(replies.last().unwrap(), &(REP_ACK, vec![]));
        client
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn bytes(&mut self, many: usize) -> Vec<u8> {
        let mut out = vec![0; many];
        self.stream.read_exact(&mut out).unwrap();
        out
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.bytes(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes(8).try_into().unwrap())
    }

    pub fn send_option(&mut self, option: u32, data: &[u8]) {
        let head = [b"IHAVEOPT".as_slice(), &option.to_be_bytes(), &(data.len() as u32).to_be_bytes()].concat();
        self.send(&[&head, data].concat());
    }

    /// Sends an option; returns all replies to it, up to the ACK or the error.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data);
        let mut replies = Vec::new();
        loop {
            let (kind, data) = self.option_reply(option);
            replies.push((kind, data));
            if kind == REP_ACK || kind >> 31 == 1 {
                self.structured |= option == OPT_STRUCTURED_REPLY && kind == REP_ACK;
                return replies;
            }
        }
    }

    pub fn option_reply(&mut self, option: u32) -> (u32, Vec<u8>) {
        assert_eq!(self.u64(), 0x0003_e889_0455_65a9);
        assert_eq!(self.u32(), option);
        let kind = self.u32();
        let length = self.u32();
        assert!(length < 10_000);
        (kind, self.bytes(length as usize))
    }

    /// Sends a request without its payload; returns its cookie.
    pub fn request(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> u64 {
        self.cookie += 1;
        self.send(&request(command, flags, self.cookie, offset, length));
        self.cookie
    }

    /// Returns the next answer; `read` is the length of the read that it answers, 0 for anything else.
    pub fn answer(&mut self, read: u32) -> Answer {
        let magic = self.u32();
        if magic == 0x6744_6698 {
            let error = self.u32();
            let cookie = self.u64();
            if error != 0 {
                return Answer { cookie, result: Err(error) };
            }
            assert!(read == 0 || !self.structured, "a read must have a structured reply");
            let data = if read == 0 { vec![] } else { vec![Chunk::Data { offset: u64::MAX, bytes: self.bytes(read as usize) }] };
            return Answer { cookie, result: Ok(data) };
        }
        assert_eq!(magic, 0x668e_33ef, "neither reply magic");
        assert!(self.structured);
        let mut chunks = Vec::new();
        let mut error = None;
        loop {
            let (flags, kind, cookie, length) = (self.u16(), self.u16(), self.u64(), self.u32());
            match kind {
                1 => chunks.push(Chunk::Data { offset: self.u64(), bytes: self.bytes(length as usize - 8) }),
                2 => {
                    assert_eq!(length, 12);
                    chunks.push(Chunk::Hole { offset: self.u64(), bytes: self.u32() });
                }
                0x8001 => {
                    error = Some(self.u32());
                    let text = self.u16();
                    self.bytes(usize::from(text));
                    assert_eq!(length, 6 + u32::from(text));
                }
                other => panic!("chunk of type {other}"),
            }
            if flags & 1 == 1 {
                return Answer { cookie, result: error.map_or(Ok(chunks), Err) };
            }
            assert_eq!(u32::from_be_bytes(self.bytes(4).try_into().unwrap()), 0x668e_33ef);
        }
    }

    /// Sends a command without payload or data.
    pub fn command(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> Result<(), u32> {
        let cookie = self.request(command, flags, offset, length);
        let answer = self.answer(0);
        assert_eq!(answer.cookie, cookie);
        answer.result.map(|_| ())
    }

    pub fn write(&mut self, flags: u16, offset: u64, bytes: &[u8]) -> Result<(), u32> {
        let cookie = self.request(WRITE, flags, offset, bytes.len() as u32);
        self.send(bytes);
        let answer = self.answer(0);
        assert_eq!(answer.cookie, cookie);
        answer.result.map(|_| ())
    }

    pub fn read_chunks(&mut self, flags: u16, offset: u64, length: u32) -> Result<Vec<Chunk>, u32> {
        let cookie = self.request(READ, flags, offset, length);
        let answer = self.answer(length);
        assert_eq!(answer.cookie, cookie);
        answer.result
    }

    /// Reads and assembles the chunks; every byte must be there exactly once.
    pub fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        let chunks = self.read_chunks(0, offset, length)?;
        Ok(assemble(chunks, offset, length))
    }

    /// Returns whether the server has closed the connection and no data is left.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => true,
            Ok(_) => false,
            Err(e) => e.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

pub fn assemble(chunks: Vec<Chunk>, start: u64, length: u32) -> Vec<u8> {
    let (mut out, mut came) = (vec![0; length as usize], vec![false; length as usize]);
    for chunk in chunks {
        let (offset, bytes) = match chunk {
            Chunk::Data { offset: u64::MAX, bytes } => (start, bytes),
            Chunk::Data { offset, bytes } => (offset, bytes),
            Chunk::Hole { offset, bytes } => (offset, vec![0; bytes as usize]),
        };
        let place = (offset - start) as usize..(offset - start) as usize + bytes.len();
        assert!(!came[place.clone()].contains(&true), "a chunk of {} at {offset} came twice", bytes.len());
        came[place.clone()].fill(true);
        out[place].copy_from_slice(&bytes);
    }
    assert!(!came.contains(&false), "every byte comes");
    out
}

pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut out = 0x2560_9513_u32.to_be_bytes().to_vec();
    out.extend(flags.to_be_bytes());
    out.extend(command.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(offset.to_be_bytes());
    out.extend(length.to_be_bytes());
    out
}

/// Returns the data of GO and INFO.
pub fn export_request(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut out = (name.len() as u32).to_be_bytes().to_vec();
    out.extend(name.as_bytes());
    out.extend((kinds.len() as u16).to_be_bytes());
    for kind in kinds {
        out.extend(kind.to_be_bytes());
    }
    out
}

/// A load that writes, zeroes and reads at random in its own range and compares the results, with several requests in flight at once.
pub struct VerifiedLoad {
    client: Client,
    dice: Dice,
    start: u64,
    model: Vec<u8>,
    pub rounds: u64,
}

impl VerifiedLoad {
    /// Makes a load for `bytes` bytes from `start` on, which read as zeroes now.
    pub fn new(path: &Path, structured: bool, start: u64, bytes: usize, seed: u64) -> Self {
        Self { client: Client::ready(path, structured), dice: Dice::new(seed), start, model: vec![0; bytes], rounds: 0 }
    }

    /// Sends some requests for disjoint places together, and then receives all their answers, in any order.
    pub fn round(&mut self) {
        const AT_ONCE: usize = 8;
        let stretch = self.model.len() / AT_ONCE;
        let mut out = Vec::new();
        let mut open = std::collections::BTreeMap::new();
        for i in 0..AT_ONCE {
            let sectors = (stretch / 512) as u64;
            let first = self.dice.below(sectors);
            let many = 1 + self.dice.below((sectors - first).min(64));
            let at = i * stretch + first as usize * 512;
            let length = many as usize * 512;
            let command = [READ, WRITE, READ, WRITE, WRITE_ZEROES][self.dice.below(5) as usize];
            let cookie = self.dice.next();
            out.extend(request(command, 0, cookie, self.start + at as u64, length as u32));
            let place = &mut self.model[at..at + length];
            match command {
                WRITE => {
                    self.dice.fill(place);
                    out.extend_from_slice(place);
                }
                WRITE_ZEROES => place.fill(0),
                _ => {}
            }
            open.insert(cookie, (command, at, length));
        }
        self.client.send(&out);
        while !open.is_empty() {
            // The cookie alone identifies an answer, and in a simple reply a read's bytes follow at once: look ahead.
            let (command, at, length) = {
                let cookie = self.client.peek_cookie();
                open.remove(&cookie).expect("an answer to what was asked, once")
            };
            let read = if command == READ { length as u32 } else { 0 };
            let chunks = self.client.answer(read).result.expect("an honest request succeeds");
            if command == READ {
                let found = assemble(chunks, self.start + at as u64, read);
                assert!(found == self.model[at..at + length], "wrong bytes in a read of {length} at {at}, round {}", self.rounds);
            }
        }
        self.rounds += 1;
    }
}

impl Client {
    fn peek_cookie(&mut self) -> u64 {
        // Both kinds of reply have the cookie in bytes 8 to 16.
        let mut head = [0; 16];
        loop {
            let seen = rustix::net::recv(&self.stream, &mut head, rustix::net::RecvFlags::PEEK).unwrap().0;
            if seen == 16 {
                return u64::from_be_bytes(head[8..].try_into().unwrap());
            }
            assert!(seen > 0, "the server closed");
            std::thread::yield_now();
        }
    }
}
