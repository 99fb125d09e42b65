//! The control socket of a server: one question a connection, each answer a line of JSON. There is one answer, or, where something goes on for as
//! long as the connection stands, one at its beginning and one at its end.

use crate::exit::{Failed, Outcome};
use crate::runtime::recording::Order;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A question is short.
const QUESTION_BYTES_MAX: u64 = 16 << 10;
/// Time for a client to ask, and for one to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a server is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "ask")]
pub enum Ask {
    Status,
    Stats,
    /// Commit, mark the volume clean, and end. The answer comes when that begins.
    Detach,
    /// Record what clients ask for until whoever asked says no more, or goes away. The first answer comes when it has begun.
    Record(Order),
    /// Write down in the recording that a phase begins.
    Mark {
        phase: String,
    },
}

/// Who asked, to be answered.
pub struct Client<'a>(&'a UnixStream);

impl Client<'_> {
    /// Answers.
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

    /// Answers that it shall be so, and then does it, whether the answer was taken or not: an end of the process is not to come before the answer.
    ///
    /// # Errors
    /// When the client went away.
    pub fn answer_before(&self, act: impl FnOnce()) -> io::Result<()> {
        let answered = self.answer(Ok(Value::Null));
        act();
        answered
    }

    /// Whether it has nothing more to say, or went away; found out within so long.
    ///
    /// # Errors
    /// When the system refuses to tell.
    pub fn is_done(&self, patience: Duration) -> io::Result<bool> {
        is_readable(self.0, patience)
    }
}

/// Whether there is something to read, be it the end, within so long.
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

/// Answers questions at `path` by `respond`, on threads of its own, until the process ends.
///
/// # Errors
/// When the socket cannot be made.
pub fn listen(path: &Path, respond: impl Fn(Ask, &Client<'_>) -> io::Result<()> + Send + Sync + 'static) -> io::Result<()> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    let respond = Arc::new(respond);
    std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let respond = respond.clone();
            // A slow client keeps nobody else waiting.
            let _ = std::thread::Builder::new().name("control answer".to_owned()).spawn(move || {
                if let Err(error) = converse(stream, &*respond) {
                    tracing::debug!(%error, "a client of the control socket went away");
                }
            });
        }
    })?;
    Ok(())
}

fn converse(stream: UnixStream, respond: &dyn Fn(Ask, &Client<'_>) -> io::Result<()>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(QUESTION_BYTES_MAX)).read_line(&mut line)?;
    let client = Client(&stream);
    match serde_json::from_str(&line) {
        Ok(ask) => respond(ask, &client),
        // What was asked is not repeated: a question may hold a key.
        Err(error) => client.answer(Err(Failed::new(crate::exit::Exit::Usage, format!("that is no question: {error}")))),
    }
}

/// A connection to a server that was asked something.
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
    pub fn begin(path: &Path, question: &Ask) -> Outcome<Self> {
        let place = path.to_path_buf();
        let system = |e: io::Error| Failed::system(format!("cannot talk to the server at {}", path.display()), e);
        let mut stream = UnixStream::connect(path).map_err(system)?;
        let mut text = serde_json::to_vec(question).expect("a question is plain data");
        text.push(b'\n');
        stream.write_all(&text).map_err(system)?;
        Ok(Self { reader: BufReader::new(stream), place })
    }

    /// The next answer; waits for it as long as it takes.
    ///
    /// # Errors
    /// What the server answers; also when it went away.
    pub fn hear(&mut self) -> Outcome<Value> {
        let mut answer = String::new();
        let place = self.place.display();
        self.reader.read_line(&mut answer).map_err(|e| Failed::system(format!("cannot talk to the server at {place}"), e))?;
        match serde_json::from_str(&answer) {
            Ok(Answer::Ok(value)) => Ok(value),
            Ok(Answer::Failed(failed)) => Err(failed),
            Err(error) => Err(Failed::system(format!("the server at {place} went away"), error)),
        }
    }

    /// Whether the next answer has come, within so long.
    ///
    /// # Errors
    /// When the system refuses to tell.
    pub fn has_answer(&self, patience: Duration) -> Outcome<bool> {
        is_readable(self.reader.get_ref(), patience).map_err(|e| Failed::system("cannot wait for the server", e))
    }

    /// Says that there is nothing more to say; answers still come.
    pub fn say_no_more(&self) {
        // A server that went away knows.
        let _ = self.reader.get_ref().shutdown(std::net::Shutdown::Write);
    }
}

/// Asks the server at `path` what has one answer; waits for it as long as it takes.
///
/// # Errors
/// What the server answers; also when it is not there.
pub fn ask(path: &Path, question: Ask) -> Outcome<Value> {
    Conversation::begin(path, &question)?.hear()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn questions_are_answered_and_nonsense_is_refused() {
        let path = std::env::temp_dir().join(format!("onefold-control-{}", std::process::id()));
        listen(&path, |question, client| {
            client.answer(match question {
                Ask::Status => Ok(Value::from("fine")),
                _ => Err(Failed::new(Exit::InUse, "busy").next("wait")),
            })
        })
        .unwrap();
        assert_eq!(ask(&path, Ask::Status).unwrap(), Value::from("fine"));
        let failed = ask(&path, Ask::Detach).unwrap_err();
        assert_eq!((failed.exit, failed.message.as_str(), failed.next.as_deref()), (Exit::InUse, "busy", Some("wait")));
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"what?\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("no question"), "{answer}");
        std::fs::remove_file(&path).unwrap();
        assert!(ask(&path, Ask::Status).is_err());
    }

    /// A server that is asked to end, and has nothing left to do, may be gone before the next instruction of the thread that answers.
    #[test]
    fn the_answer_is_there_before_the_server_ends() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        Client(&ours).answer_before(|| assert!(is_readable(&theirs, Duration::ZERO).unwrap(), "the end comes first")).unwrap();
    }
}
