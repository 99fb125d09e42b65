//! The control socket of a server: a connection carries one question, and each answer is a line of JSON. There is one answer, or two where
//! something lasts as long as the connection: one at its beginning and one at its end.

use super::directory::VARIABLE;
use super::process::is_stopped;
pub use super::server_request::{DeviceNumber, HANDOVER_VERSION, HintOrder, OrderOutOfLine, OrderScrub, ServerRequest, Upgrade};
use crate::exit::{Exit, Failed, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The largest question, in bytes: rules may name thousands of files.
const QUESTION_BYTES_MAX: u64 = 8 << 20;
/// The time that a client has to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time that a command waits for a server's answer; a stopped server never gives it.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// The time between two looks for a server that is not there yet.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The client that asked, and that is to be answered.
pub struct Client<'a>(&'a UnixStream);

impl Client<'_> {
    /// Sends it an answer.
    ///
    /// # Errors
    /// When the client went away.
    pub fn answer(&self, answer: Outcome<Value>) -> io::Result<()> {
        let answer = match answer {
            Ok(value) => Answer::Ok(value),
            Err(failed) => Answer::Failed(failed),
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        (&mut &*self.0).write_all(&text)
    }

    /// Answers that the request is granted, and then carries it out, whether or not the client took the answer. The process must not end
    /// before the answer.
    ///
    /// # Errors
    /// When the client went away.
    pub fn answer_before(&self, act: impl FnOnce()) -> io::Result<()> {
        let answered = self.answer(Ok(Value::Null));
        act();
        answered
    }

    /// Whether the client has nothing more to say, or went away. Waits at most `patience`.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn is_done(&self, patience: Duration) -> io::Result<bool> {
        is_readable(self.0, patience)
    }
}

/// Whether there is something to read, or the end. Waits at most `patience`.
fn is_readable(stream: &UnixStream, patience: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: patience.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: patience.subsec_nanos().into() };
    match poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ok(Value),
    Failed(Failed),
}

/// The longest path of a socket, in bytes.
const PATH_BYTES_MAX: usize = 107;

/// Checks that a control socket can have this path.
///
/// # Errors
/// When the path is too long.
pub fn check_path(path: &Path) -> Outcome {
    let bytes = path.as_os_str().len();
    if bytes <= PATH_BYTES_MAX {
        return Ok(());
    }
    let message = format!("{} has {bytes} bytes, more than a socket's path may have ({PATH_BYTES_MAX})", path.display());
    Err(Failed::new(Exit::Usage, message).next(format!("Name a directory with a shorter path by {VARIABLE}.")))
}

/// Answers questions at `path` by `respond`, on threads of its own, until the process ends.
///
/// # Errors
/// When the socket cannot be made.
pub fn listen(path: &Path, respond: impl Fn(ServerRequest, &Client<'_>) -> io::Result<()> + Send + Sync + 'static) -> io::Result<()> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    let respond = Arc::new(respond);
    std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let respond = respond.clone();
            // A slow client delays nobody else.
            let _ = std::thread::Builder::new().name("control answer".to_owned()).spawn(move || {
                if let Err(error) = converse(stream, &*respond) {
                    tracing::debug!(%error, "a client of the control socket went away");
                }
            });
        }
    })?;
    Ok(())
}

fn converse(stream: UnixStream, respond: &dyn Fn(ServerRequest, &Client<'_>) -> io::Result<()>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(QUESTION_BYTES_MAX)).read_line(&mut line)?;
    let client = Client(&stream);
    match serde_json::from_str(&line) {
        Ok(ask) => respond(ask, &client),
        // The reply does not repeat the question, which may hold a key.
        Err(error) => client.answer(Err(Failed::new(Exit::Usage, format!("invalid request: {error}")))),
    }
}

/// A connection to a server that was asked a question.
pub struct Conversation {
    reader: BufReader<UnixStream>,
    place: PathBuf,
}

impl Conversation {
    /// Asks the server at `path`.
    ///
    /// # Errors
    /// When it is not there.
    ///
    /// # Panics
    /// Never: a question is plain data.
    pub fn begin(path: &Path, question: &ServerRequest) -> Outcome<Self> {
        UnixStream::connect(path).and_then(|stream| Self::over(stream, path, question)).map_err(|e| unreachable(path, e))
    }

    fn over(mut stream: UnixStream, path: &Path, question: &ServerRequest) -> io::Result<Self> {
        let mut text = serde_json::to_vec(question).expect("a question is plain data");
        text.push(b'\n');
        stream.write_all(&text)?;
        Ok(Self { reader: BufReader::new(stream), place: path.to_path_buf() })
    }

    /// Returns the next answer, and waits for it as long as it takes.
    ///
    /// # Errors
    /// The error that the server answers; also when the server went away.
    pub fn hear(&mut self) -> Outcome<Value> {
        self.next_answer().map_err(|error| went_away(&self.place, error))?
    }

    /// Returns the next answer.
    ///
    /// # Errors
    /// When the server went away.
    fn next_answer(&mut self) -> io::Result<Outcome<Value>> {
        let mut answer = String::new();
        self.reader.read_line(&mut answer)?;
        Ok(match serde_json::from_str(&answer)? {
            Answer::Ok(value) => Ok(value),
            Answer::Failed(failed) => Err(failed),
        })
    }

    /// Whether the next answer has come. Waits at most `patience`.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn has_answer(&self, patience: Duration) -> Outcome<bool> {
        is_readable(self.reader.get_ref(), patience).map_err(|e| Failed::system("cannot wait for the server", e))
    }

    /// Ends the questions of this connection; answers still come.
    pub fn say_no_more(&self) {
        // The call fails only where the server went away.
        let _ = self.reader.get_ref().shutdown(std::net::Shutdown::Write);
    }
}

fn went_away(path: &Path, error: io::Error) -> Failed {
    Failed::system(format!("the server at {} went away", path.display()), error)
}

fn unreachable(path: &Path, error: io::Error) -> Failed {
    Failed::system(format!("cannot talk to the server at {}", path.display()), error)
}

/// Asks the server at `path` a question with one answer, and waits for it for [`ANSWER_PATIENCE`].
///
/// # Errors
/// See [`ask_within`].
pub fn ask(path: &Path, question: &ServerRequest) -> Outcome<Value> {
    ask_within(path, question, ANSWER_PATIENCE)
}

/// Asks the server at `path` a question with one answer. Waits at most `patience` for the answer, and for the server itself, which may be
/// about to replace a dead one.
///
/// # Errors
/// The error that the server answers; also when it is not there, or does not answer in time.
pub fn ask_within(path: &Path, question: &ServerRequest, patience: Duration) -> Outcome<Value> {
    use io::ErrorKind as K;
    let deadline = Instant::now() + patience;
    let left = || deadline.saturating_duration_since(Instant::now());
    loop {
        let stream = match UnixStream::connect(path) {
            Err(error) if matches!(error.kind(), K::NotFound | K::ConnectionRefused) && !left().is_zero() => {
                std::thread::sleep(LOOK_AGAIN.min(left()));
                continue;
            }
            other => other.map_err(|e| unreachable(path, e))?,
        };
        let pid = peer(&stream);
        let mut conversation = match Conversation::over(stream, path, question) {
            Ok(conversation) => conversation,
            // It died after the connection; what had not been asked may be asked again.
            Err(_) if !left().is_zero() => continue,
            Err(error) => return Err(unreachable(path, error)),
        };
        while !conversation.has_answer(left())? {
            if left().is_zero() {
                return Err(silent(pid, patience));
            }
        }
        match conversation.next_answer() {
            Ok(answer) => return answer,
            // It died meanwhile; another one may be about to take its place.
            Err(_) if question.changes_nothing() && !left().is_zero() => {}
            Err(error) => return Err(went_away(path, error)),
        }
    }
}

/// The error of a server that did not answer in time.
fn silent(pid: Option<u32>, patience: Duration) -> Failed {
    let server = pid.map_or_else(|| "the server".to_owned(), |pid| format!("the server, process {pid},"));
    match pid.filter(|&pid| is_stopped(pid)) {
        Some(pid) => stopped(pid),
        None => Failed::new(Exit::System, format!("{server} does not answer within {} s", patience.as_secs_f32())).next("Ask again."),
    }
}

fn stopped(pid: u32) -> Failed {
    Failed::new(Exit::System, format!("the server, process {pid}, is stopped and answers nobody"))
        .next(format!("`kill -CONT {pid}` lets it go on."))
}

/// Returns the process that listens at `path`, if one does.
#[must_use]
pub fn server(path: &Path) -> Option<u32> {
    UnixStream::connect(path).ok().as_ref().and_then(peer)
}

/// Whether the server at `path` can answer: it is not stopped, as by SIGSTOP. True where there is none.
///
/// # Errors
/// When it is stopped.
pub fn check_running(path: &Path) -> Outcome {
    let pid = server(path).filter(|&pid| is_stopped(pid));
    pid.map_or(Ok(()), |pid| Err(stopped(pid)))
}

/// Returns the process that listens at the other end.
fn peer(stream: &UnixStream) -> Option<u32> {
    let credentials = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(credentials.pid.as_raw_nonzero().get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_answered_and_nonsense_is_refused() {
        let path = std::env::temp_dir().join(format!("onefold-control-{}", std::process::id()));
        listen(&path, |question, client| {
            client.answer(match question {
                ServerRequest::Stats => {
                    std::thread::sleep(Duration::from_secs(1));
                    return Ok(());
                }
                ServerRequest::Status => Ok(Value::from("fine")),
                _ => Err(Failed::new(Exit::InUse, "busy").next("wait")),
            })
        })
        .unwrap();
        assert_eq!(ask(&path, &ServerRequest::Status).unwrap(), Value::from("fine"));
        let failed = ask(&path, &ServerRequest::Detach).unwrap_err();
        assert_eq!((failed.exit, failed.message.as_str(), failed.next.as_deref()), (Exit::InUse, "busy", Some("wait")));
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"what?\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("invalid request"), "{answer}");
        let asked = Instant::now();
        let failed = ask_within(&path, &ServerRequest::Stats, Duration::from_millis(50)).unwrap_err();
        assert!(failed.message.contains("does not answer within 0.05 s") && asked.elapsed() < Duration::from_secs(1), "{failed}");
        std::fs::remove_file(&path).unwrap();
        assert!(ask_within(&path, &ServerRequest::Status, Duration::ZERO).is_err());
    }

    /// A server that is asked to end and has nothing left to do may be gone before the thread that answers runs its next instruction.
    #[test]
    fn the_answer_is_there_before_the_server_ends() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        Client(&ours).answer_before(|| assert!(is_readable(&theirs, Duration::ZERO).unwrap(), "the end comes first")).unwrap();
    }
}
