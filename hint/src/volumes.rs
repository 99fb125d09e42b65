//! The servers: who has the device that a file lies on.
//!
//! 1. A device that was not met before is asked about at every socket of the run directory; the first server that takes the hint has it.
//! 2. What was found is kept for the life of the process, also that nobody has the device. Devices beyond the table's
//!    room are searched for each time.
//! 3. Once a server was late, or one that was known is gone, or a search met no living server, nobody is asked any more.

use crate::conversation::{Answer, ask};
use crate::file::Device;
use crate::hint::Refusal;
use crate::published::Published;
use crate::question::Question;
use crate::settings::Settings;
use crate::system;
use crate::text::Text;
use std::sync::atomic::{AtomicBool, Ordering};

/// The devices that are kept in mind.
const DEVICES_MAX: usize = 32;
/// The longest path of a socket, in bytes.
const SOCKET_BYTES_MAX: usize = 107;
/// The end of the name of a control socket.
const ENDING: &[u8] = b".control";

type SocketPath = Text<SOCKET_BYTES_MAX>;

/// A device and the socket of its server; none where no server has it.
struct Known {
    device: Device,
    socket: Option<SocketPath>,
}

static KNOWN: [Published<Known>; DEVICES_MAX] = [const { Published::new() }; DEVICES_MAX];
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Whether nobody is asked any more.
pub fn is_off() -> bool {
    IS_OFF.load(Ordering::Relaxed)
}

fn turn_off() -> Refusal {
    IS_OFF.store(true, Ordering::Relaxed);
    Refusal::Off
}

/// Asks the server of this device.
///
/// # Errors
/// Where no server takes the hint.
pub fn pass(settings: &Settings, device: Device, question: &Question, deadline_ns: u64) -> Result<(), Refusal> {
    if let Some(known) = KNOWN.iter().filter_map(Published::get).find(|known| known.device == device) {
        let Some(socket) = &known.socket else { return Err(Refusal::Nobody) };
        return match ask(socket.bytes(), question, deadline_ns) {
            Answer::Taken => Ok(()),
            Answer::Refused => Err(Refusal::Nobody),
            Answer::NoRoom(errno) => Err(Refusal::NoRoom(errno)),
            Answer::Gone | Answer::Late => Err(turn_off()),
        };
    }
    let mut search = Search { question, deadline_ns, has_answer: false };
    let found = search.run(settings);
    match found {
        Ok(socket) => {
            let is_found = socket.is_some();
            // Where all places are taken, it is searched for again.
            let _ = KNOWN.iter().any(|place| place.publish(|| Known { device, socket }));
            if is_found { Ok(()) } else { Err(Refusal::Nobody) }
        }
        Err(refusal) => Err(refusal),
    }
}

/// A look for the server that takes a hint.
struct Search<'a> {
    question: &'a Question,
    deadline_ns: u64,
    /// Whether any server has answered.
    has_answer: bool,
}

impl Search<'_> {
    /// Returns the socket of the server that took the hint; none where others live, and none has.
    fn run(&mut self, settings: &Settings) -> Result<Option<SocketPath>, Refusal> {
        let mut run = settings.run().ok_or_else(turn_off)?;
        let directory = match system::open_directory(run.with_zero().ok_or_else(turn_off)?) {
            Ok(directory) => directory,
            Err(error @ (libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => return Err(Refusal::NoRoom(error)),
            Err(_) => return Err(turn_off()),
        };
        // Another user's directory may lie where this one's is looked for.
        if !system::is_private(&directory) {
            return Err(turn_off());
        }
        let mut buffer = [0_u8; 1024];
        loop {
            let length = system::read_directory(&directory, &mut buffer).unwrap_or_default();
            if length == 0 {
                return if self.has_answer { Ok(None) } else { Err(turn_off()) };
            }
            let mut entries = buffer.get(..length).unwrap_or_default();
            while let Some((name, behind)) = next_entry(entries) {
                entries = behind;
                if let Some(socket) = socket_path(run.bytes(), name).filter(|_| name.ends_with(ENDING)) {
                    if self.is_taken_at(&socket)? {
                        return Ok(Some(socket));
                    }
                }
            }
        }
    }

    fn is_taken_at(&mut self, socket: &SocketPath) -> Result<bool, Refusal> {
        match ask(socket.bytes(), self.question, self.deadline_ns) {
            Answer::Taken => return Ok(true),
            Answer::Refused => self.has_answer = true,
            // Sockets of servers that were killed lie beside those of others.
            Answer::Gone => {}
            Answer::Late => return Err(turn_off()),
            Answer::NoRoom(errno) => return Err(Refusal::NoRoom(errno)),
        }
        Ok(false)
    }
}

fn socket_path(run: &[u8], name: &[u8]) -> Option<SocketPath> {
    let mut path = SocketPath::new();
    (path.push(run) && path.push(b"/") && path.push(name)).then_some(path)
}

/// Returns the name of the first of these entries, as getdents64(2) has them, and the entries behind it.
fn next_entry(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;
    let length = usize::from(u16::from_ne_bytes(entries.get(LENGTH_AT..LENGTH_AT + 2)?.try_into().ok()?));
    let (entry, behind) = entries.split_at_checked(length.max(1))?;
    let name = entry.get(NAME_AT..)?.split(|&byte| byte == 0).next()?;
    Some((name, behind))
}
