//! One question to one server, and its answer, within a limit of time.

use crate::question::Question;
use crate::system::{self, Descriptor, Errno};

/// The answer of a server, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The file lies on its volume, and it took the hint.
    Taken,
    /// The file lies elsewhere, or the server does not know the question.
    Refused,
    /// Nobody is there, or the server went away.
    Gone,
    /// The time is over.
    Late,
    /// The process or the system has no room for a socket.
    NoRoom(Errno),
}

/// Asks the server at `path`, and waits for the answer until the monotonic clock has this time, in nanoseconds.
pub fn ask(path: &[u8], question: &Question, deadline_ns: u64) -> Answer {
    let socket = match system::socket() {
        Ok(socket) => socket,
        Err(error @ (libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)) => return Answer::NoRoom(error),
        Err(_) => return Answer::Gone,
    };
    match system::connect(&socket, path) {
        Ok(()) => {}
        // Others wait to be accepted, more than the server lets.
        Err(libc::EAGAIN) => return Answer::Late,
        Err(_) => return Answer::Gone,
    }
    match system::send(&socket, question.bytes()) {
        // A new connection has room for the whole question.
        Ok(sent) if sent == question.bytes().len() => hear(&socket, deadline_ns),
        Ok(_) | Err(libc::EAGAIN) => Answer::Late,
        Err(_) => Answer::Gone,
    }
}

/// Receives a line, and looks at its beginning.
fn hear(socket: &Descriptor, deadline_ns: u64) -> Answer {
    const TAKEN: &[u8] = br#"{"ok""#;
    let mut line = [0_u8; 256];
    let mut heard = 0;
    loop {
        // Nothing that follows in a long answer matters, but a server that is still writing would take a closed socket for an error.
        let place = line.get_mut(heard.min(TAKEN.len())..).unwrap_or_default();
        match system::receive(socket, place) {
            Ok(0) => return Answer::Gone,
            Ok(more) => {
                let ends = place.get(..more).unwrap_or_default().contains(&b'\n');
                heard += more;
                if ends {
                    return if line.starts_with(TAKEN) { Answer::Taken } else { Answer::Refused };
                }
            }
            Err(libc::EAGAIN | libc::EINTR) => {
                let left = deadline_ns.saturating_sub(system::now_ns());
                if left == 0 {
                    return Answer::Late;
                }
                if !matches!(system::wait_for_input(socket, left), Ok(_) | Err(libc::EINTR)) {
                    return Answer::Gone;
                }
            }
            Err(_) => return Answer::Gone,
        }
    }
}
