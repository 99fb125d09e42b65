//! A client over NBD that expects nothing: a request may fail; that it is answered is all that is asked.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// No request, and no opening, takes longer than this.
const PATIENCE: Duration = Duration::from_secs(30);

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;

pub struct Client {
    stream: UnixStream,
    socket: PathBuf,
    /// The size of the volume.
    pub bytes: u64,
}

impl Client {
    /// Waits for the server's socket, and shakes hands; none where the server ends before, or never comes to serve.
    pub fn connect(socket: &Path, mut has_ended: impl FnMut() -> bool) -> Option<Self> {
        let begun = Instant::now();
        loop {
            if let Ok(stream) = UnixStream::connect(socket) {
                return Self::greeted(stream, socket);
            }
            if has_ended() || begun.elapsed() > PATIENCE {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn greeted(mut stream: UnixStream, socket: &Path) -> Option<Self> {
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).ok()?;
        // Fixed newstyle, no zeroes; then EXPORT_NAME with no name, whose answer is the size and the flags.
        let hello = [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &1_u32.to_be_bytes(), &0_u32.to_be_bytes()].concat();
        stream.write_all(&hello).ok()?;
        let mut export = [0; 10];
        stream.read_exact(&mut export).ok()?;
        let bytes = u64::from_be_bytes(export[..8].try_into().expect("eight bytes"));
        Some(Self { stream, socket: socket.to_path_buf(), bytes })
    }

    /// Whether it was answered; what a read brings is dropped. A simple reply that has begun cannot report an error, so the server ends the
    /// connection instead, and serves another one.
    fn ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) -> bool {
        let head = [
            &0x2560_9513_u32.to_be_bytes()[..],
            &0_u16.to_be_bytes(),
            &command.to_be_bytes(),
            &1_u64.to_be_bytes(),
            &offset.to_be_bytes(),
            &length.to_be_bytes(),
        ];
        let mut reply = [0; 16];
        let sent = self.stream.write_all(&head.concat()).and_then(|()| self.stream.write_all(data));
        if sent.and_then(|()| self.stream.read_exact(&mut reply)).is_err() {
            return false;
        }
        let failed = reply[4..8] != [0; 4];
        if command != READ || failed {
            return true;
        }
        match self.stream.read_exact(&mut vec![0; length as usize]) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                let again = Self::connect(&self.socket, || false);
                again.map(|client| self.stream = client.stream).is_some()
            }
            Err(_) => false,
        }
    }

    pub fn read(&mut self, offset: u64, bytes: u32) -> bool {
        self.ask(READ, offset, bytes, &[])
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> bool {
        self.ask(WRITE, offset, u32::try_from(data.len()).expect("a short write"), data)
    }

    pub fn trim(&mut self, offset: u64, bytes: u32) -> bool {
        self.ask(TRIM, offset, bytes, &[])
    }

    pub fn flush(&mut self) -> bool {
        self.ask(FLUSH, 0, 0, &[])
    }
}
