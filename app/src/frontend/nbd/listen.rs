//! The address where clients connect: a Unix socket that only its owner can reach, or a loopback address.
//!
//! 1. The socket of a Unix address is made in a directory that only its owner can enter, and is 0600 from the moment that it exists.
//! 2. A socket that a dead server left behind is replaced; one that answers, and a file that is no socket, never.
//! 3. A listening socket outlives its servers as long as any process has it open: clients that come meanwhile wait.
//! 4. Its end is a state of the socket itself: it is shut down. So every process that has it sees this, also one that is started later, and
//!    no client waits any more.

use crate::error::Error;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The number of connections that wait to be accepted; the kernel lowers it to `net.core.somaxconn`. A client beyond them is refused on a
/// Unix socket at once (EAGAIN), however soon there would be room.
const BACKLOG: i32 = 4096;

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listen {
    /// A socket at this path, mode 0600. Its directory is created, mode 0700, where it is missing.
    Unix(PathBuf),
    /// A loopback address; port 0 lets the system choose.
    Tcp(SocketAddr),
}

impl FromStr for Listen {
    type Err = Error;

    /// Parses `/a/path`, `unix:a/path`, `127.0.0.1:10809`, `[::1]:10809` or `localhost:10809`.
    fn from_str(typed: &str) -> Result<Self, Error> {
        if let Some(path) = typed.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        if typed.contains('/') {
            return Ok(Self::Unix(typed.into()));
        }
        if let Some(port) = typed.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
            return Ok(Self::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        typed.parse().map(Self::Tcp).map_err(|_| {
            Error::Setting(format!("'{typed}' is no address: give the path of a socket (/run/onefold/NAME.sock) or 127.0.0.1:PORT"))
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// A listening socket, and its place.
#[derive(Debug)]
pub struct Listening {
    descriptor: OwnedFd,
    place: Endpoint,
}

impl Listening {
    /// Listens at `address`.
    ///
    /// # Errors
    /// When the address is in use, is not loopback, or its directory can be entered by others.
    pub fn at(address: &Listen) -> Result<Self, Error> {
        let (descriptor, place) = match address {
            Listen::Unix(path) => listen_unix(path),
            Listen::Tcp(address) => listen_tcp(*address),
        }?;
        Ok(Self { descriptor, place })
    }

    /// Returns the socket that another process has made, and left at `place`.
    #[must_use]
    pub const fn inherited(descriptor: OwnedFd, place: Endpoint) -> Self {
        Self { descriptor, place }
    }

    /// Returns the descriptor for a process that is to listen here.
    #[must_use]
    pub const fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    #[must_use]
    pub const fn place(&self) -> &Endpoint {
        &self.place
    }

    /// Returns the same socket, for another thread.
    ///
    /// # Errors
    /// When too many descriptors are open.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { descriptor: self.descriptor.try_clone()?, place: self.place.clone() })
    }

    /// Ends it: no process lets a client in from now on. Waiting clients are sent away by the process that accepts them, or when the last
    /// process closes the socket.
    pub fn end(&self) {
        // The call fails where it is over already.
        let _ = rustix::net::shutdown(&self.descriptor, Shutdown::Both);
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.poll(PollFlags::empty(), Some(&Timespec::default())).contains(PollFlags::HUP)
    }

    /// Waits until it is over.
    pub fn wait_end(&self) {
        while !self.poll(PollFlags::empty(), None).contains(PollFlags::HUP) {}
    }

    /// Waits for a client. Returns false where it is over instead.
    #[must_use]
    pub fn wait_client(&self) -> bool {
        loop {
            let seen = self.poll(PollFlags::IN, None);
            if !seen.is_empty() {
                return !seen.contains(PollFlags::HUP);
            }
        }
    }

    /// Accepts a client that waits.
    ///
    /// # Errors
    /// When the client has gone already, the system has no room for it, or there is none and this is over.
    pub fn accept(&self) -> io::Result<OwnedFd> {
        Ok(rustix::net::accept_with(&self.descriptor, SocketFlags::CLOEXEC)?)
    }

    /// Returns the events that have happened; none where a signal interrupted. The kernel reports the end unasked.
    fn poll(&self, wanted: PollFlags, timeout: Option<&Timespec>) -> PollFlags {
        let mut waits = [PollFd::new(&self.descriptor, wanted)];
        match rustix::event::poll(&mut waits, timeout) {
            Ok(_) => waits[0].revents(),
            Err(_) => PollFlags::empty(),
        }
    }
}

/// The place of a listening socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    /// The address, with the port that the system chose.
    address: Listen,
    /// The device and inode of a Unix socket's file.
    file: Option<(u64, u64)>,
}

impl Endpoint {
    /// Returns the place where clients find the export `name`: an NBD URI.
    #[must_use]
    pub fn uri(&self, name: &str) -> String {
        let name = escaped(name.as_bytes(), b"");
        match &self.address {
            Listen::Unix(path) => format!("nbd+unix:///{name}?socket={}", escaped(path.as_os_str().as_encoded_bytes(), b"/")),
            Listen::Tcp(address) => format!("nbd://{address}/{name}"),
        }
    }

    /// Removes a Unix socket's file, if it is still this one's: as long as the socket is open, no other file has its number.
    ///
    /// # Errors
    /// When the file is there and cannot be removed.
    pub fn remove_file(&self) -> Result<(), Error> {
        let (Some(file), Listen::Unix(path)) = (self.file, &self.address) else { return Ok(()) };
        match std::fs::symlink_metadata(path) {
            Ok(found) if (found.dev(), found.ino()) == file => std::fs::remove_file(path).map_err(system("remove the socket", path)),
            _ => Ok(()),
        }
    }
}

fn listen_tcp(address: SocketAddr) -> Result<(OwnedFd, Endpoint), Error> {
    if !address.ip().is_loopback() {
        return Err(Error::Setting(format!(
            "{address} is not a loopback address: NBD has no password, so only this machine is served; \
             use 127.0.0.1:{} and, from afar, an ssh tunnel",
            address.port()
        )));
    }
    let bind = || -> io::Result<(OwnedFd, Endpoint)> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let descriptor = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&descriptor, true)?;
        rustix::net::bind(&descriptor, &address)?;
        rustix::net::listen(&descriptor, BACKLOG)?;
        let bound = SocketAddr::try_from(rustix::net::getsockname(&descriptor)?)?;
        Ok((descriptor, Endpoint { address: Listen::Tcp(bound), file: None }))
    };
    bind().map_err(|source| Error::System { what: format!("cannot listen at {address}"), source })
}

fn listen_unix(path: &Path) -> Result<(OwnedFd, Endpoint), Error> {
    let absolute = std::path::absolute(path).map_err(system("find", path))?;
    let name = SocketAddrUnix::new(&absolute).map_err(|_| {
        let bytes = absolute.as_os_str().len();
        Error::Setting(format!("{} has {bytes} bytes, more than a socket's path may have (107): choose a shorter one", absolute.display()))
    })?;
    let directory = absolute.parent().ok_or_else(|| Error::Setting(format!("{} is no path for a socket", path.display())))?;
    // The lock is held until the end: two servers that start at once take turns at looking and binding.
    let _turn = own_directory(directory)?;
    make_way(&absolute, &name)?;

    let bind = || -> io::Result<(OwnedFd, std::fs::Metadata)> {
        let descriptor = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // Linux gives the file the mode that the socket has when it is bound: there is no moment with a wider mode, and no umask that other
        // threads would share.
        rustix::fs::fchmod(&descriptor, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&descriptor, &name)?;
        rustix::net::listen(&descriptor, BACKLOG)?;
        Ok((descriptor, std::fs::symlink_metadata(&absolute)?))
    };
    let (descriptor, made) = bind().map_err(system("listen at", &absolute))?;
    Ok((descriptor, Endpoint { address: Listen::Unix(absolute), file: Some((made.dev(), made.ino())) }))
}

/// Creates the directory if it is missing (not those above it: a mistyped path makes no tree), checks that nobody else can enter it, and
/// locks it.
fn own_directory(directory: &Path) -> Result<OwnedFd, Error> {
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(system("create the directory", directory))?,
    }
    let opened = rustix::fs::open(directory, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let opened = opened.map_err(|e| system("open the directory", directory)(e.into()))?;
    let found = rustix::fs::fstat(&opened).map_err(|e| system("look at the directory", directory)(e.into()))?;
    if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
        return Err(Error::Setting(format!(
            "others can enter {} (owner {}, mode {:o}), and who reaches the socket reads the disk: \
             choose a directory of your own with mode 0700",
            directory.display(),
            found.st_uid,
            found.st_mode & 0o7777
        )));
    }
    rustix::fs::flock(&opened, FlockOperation::LockExclusive).map_err(|e| system("lock the directory", directory)(e.into()))?;
    Ok(opened)
}

/// Removes what a dead server left at `path`.
fn make_way(path: &Path, name: &SocketAddrUnix) -> Result<(), Error> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(system("look at", path)(e)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(Error::Setting(format!("{} exists and is no socket: choose another path or remove it", path.display())));
        }
        Ok(_) => {}
    }
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
        .map_err(|e| system("look at", path)(e.into()))?;
    match rustix::net::connect(&probe, name) {
        Err(rustix::io::Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(system("remove the old socket", path)),
        _ => Err(Error::Setting(format!("a server already listens at {}: detach it first or choose another path", path.display()))),
    }
}

fn system(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let what = format!("cannot {what} {}", path.display());
    |source| Error::System { what, source }
}

/// Percent-encodes all but letters, digits, `-._~` and `plain`.
fn escaped(bytes: &[u8], plain: &[u8]) -> String {
    let mut out = String::new();
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || plain.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
