//! The disk that the tests of roles use: a block device, or an export over NBD by a client that reconnects when its connection ends.

use crate::session::fill;
use crate::tools::Random;
use onefold_engine::buffer::BufferMut;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub const BLOCKS: usize = 256;
/// The longest time that a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    Fuse,
    Nbd,
}

impl Front {
    pub const fn option(self) -> &'static str {
        match self {
            Self::Fuse => "--fuse",
            Self::Nbd => "--nbd",
        }
    }

    /// Returns the path that a location leads to: that of a device, or of a socket.
    pub fn path(self, location: &str) -> PathBuf {
        match self {
            Self::Fuse => location.into(),
            Self::Nbd => location.split_once("socket=").map_or(location, |(_, path)| path).into(),
        }
    }
}

pub enum Disk {
    Device(File),
    Export(Reconnecting),
}

impl Disk {
    pub fn open(front: Front, path: &Path) -> Self {
        Self::open_until(front, path, Arc::default())
    }

    /// Opens a disk that stops waiting for an answer when it is asked to: then it is interrupted.
    pub fn open_until(front: Front, path: &Path, stop: Arc<AtomicBool>) -> Self {
        match front {
            Front::Fuse => {
                let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap();
                Self::Device(File::options().read(true).write(true).custom_flags(direct).open(path).unwrap())
            }
            Front::Nbd => Self::Export(Reconnecting { socket: path.to_owned(), stream: None, cookie: 0, stop }),
        }
    }

    pub fn read(&mut self, block: usize, into: &mut BufferMut) -> Result<()> {
        match self {
            Self::Device(file) => file.read_exact_at(into.bytes_mut(), offset(block)),
            Self::Export(export) => export.ask(0, offset(block), 4096, &[], into.bytes_mut()),
        }
    }

    fn write(&mut self, block: usize, from: &BufferMut) -> Result<()> {
        match self {
            Self::Device(file) => file.write_all_at(from.bytes(), offset(block)),
            Self::Export(export) => export.ask(1, offset(block), 4096, from.bytes(), &mut []),
        }
    }

    pub fn sync(&mut self) -> Result<()> {
        match self {
            Self::Device(file) => file.sync_all(),
            Self::Export(export) => export.ask(3, 0, 0, &[], &mut []),
        }
    }
}

/// A client that sends unanswered requests again, over a new connection.
pub struct Reconnecting {
    socket: PathBuf,
    stream: Option<UnixStream>,
    cookie: u64,
    stop: Arc<AtomicBool>,
}

impl Reconnecting {
    fn ask(&mut self, command: u16, offset: u64, length: u32, payload: &[u8], into: &mut [u8]) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Err(error) = self.try_ask(command, offset, length, payload, into) else { return Ok(()) };
            self.stream = None;
            if error.kind() == ErrorKind::InvalidData || Instant::now() > deadline {
                return Err(error);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(ErrorKind::Interrupted.into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Tries once; a refusal of the server is invalid data, anything else is a connection that ended.
    fn try_ask(&mut self, command: u16, offset: u64, length: u32, payload: &[u8], into: &mut [u8]) -> Result<()> {
        if self.stream.is_none() {
            self.stream = Some(connect(&self.socket)?);
        }
        let stream = self.stream.as_mut().expect("it was just made");
        self.cookie += 1;
        let cookie = self.cookie.to_be_bytes();
        let head = [&[0x25, 0x60, 0x95, 0x13, 0, 0], &command.to_be_bytes()[..], &cookie, &offset.to_be_bytes(), &length.to_be_bytes()];
        stream.write_all(&[&head.concat(), payload].concat())?;
        let mut reply = [0; 16];
        stream.read_exact(&mut reply)?;
        assert!(reply[..4] == [0x67, 0x44, 0x66, 0x98] && reply[8..] == cookie, "no answer to what was asked: {reply:?}");
        if reply[4..8] != [0; 4] {
            return Err(Error::new(ErrorKind::InvalidData, format!("error {}", reply[7])));
        }
        stream.read_exact(into)
    }
}

/// Shakes hands and asks for the export by the protocol's oldest option.
fn connect(socket: &Path) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.read_exact(&mut [0; 18])?;
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")?;
    stream.read_exact(&mut [0; 10])?;
    Ok(stream)
}

/// The versions that a block may hold.
#[derive(Clone, Copy, Default)]
pub struct Known {
    pub acknowledged: u64,
    pub attempted: u64,
}

/// Writes that continue while processes die.
pub struct Load {
    pub known: Vec<Known>,
    pub version: u64,
    pub random: Random,
}

impl Load {
    /// Runs until it is stopped, or a request fails: then it returns how.
    pub fn run(&mut self, mut disk: Disk, stop: &AtomicBool) -> Option<String> {
        while !stop.load(Ordering::Relaxed) {
            let done = self.write(&mut disk).and_then(|()| if self.random.below(8) == 0 { disk.sync() } else { Ok(()) });
            match done {
                Err(error) if error.kind() == ErrorKind::Interrupted => return None,
                Err(error) => return Some(error.to_string()),
                Ok(()) => {}
            }
        }
        None
    }

    pub fn write(&mut self, disk: &mut Disk) -> Result<()> {
        self.version += 1;
        let block = usize::try_from(self.random.below(u64::try_from(BLOCKS).unwrap())).unwrap();
        let mut buffer = BufferMut::zeroed(1);
        fill(buffer.block_mut(0), 0, u64::try_from(block).unwrap(), self.version);
        self.known[block].attempted = self.version;
        disk.write(block, &buffer)?;
        self.known[block].acknowledged = self.version;
        Ok(())
    }
}

fn offset(block: usize) -> u64 {
    u64::try_from(block).unwrap() * 4096
}
