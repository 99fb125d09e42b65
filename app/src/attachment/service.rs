//! Reports to the service manager that started this process, as `sd_notify(3)` describes them: a datagram to the socket in $NOTIFY_SOCKET.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends this state to the service manager, where there is one. A failure is logged: the manager notices that nothing came.
pub fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "cannot report to the service manager");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_arrive_at_sockets_with_a_path_and_without() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("notify");
        let name = format!("onefold-test-{}", std::process::id());
        let abstract_ = SocketAddr::from_abstract_name(&name).unwrap();
        let sockets = [
            (UnixDatagram::bind(&place).unwrap(), place.into_os_string()),
            (UnixDatagram::bind_addr(&abstract_).unwrap(), format!("@{name}").into()),
        ];
        for (socket, typed) in sockets {
            send(&typed, "READY=1").unwrap();
            let mut buffer = [0; 64];
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1");
        }
        assert!(send(OsStr::new("/nowhere/notify"), "READY=1").is_err());
    }
}
