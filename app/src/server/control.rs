//! The control socket of a server: one question a connection, one answer, each a line of JSON.

use crate::exit::{Failed, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A question is short.
const QUESTION_BYTES_MAX: u64 = 4096;
/// Time for a client to ask, and for one to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "ask")]
pub enum Ask {
    Status,
    Stats,
    /// Commit, mark the volume clean, and end. The answer comes when it is done.
    Detach,
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
pub fn listen(path: &Path, respond: impl Fn(Ask) -> Outcome<Value> + Send + Sync + 'static) -> io::Result<()> {
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

fn converse(mut stream: UnixStream, respond: &dyn Fn(Ask) -> Outcome<Value>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(QUESTION_BYTES_MAX)).read_line(&mut line)?;
    let answer = serde_json::from_str(&line)
        .map_err(|error| Failed::new(crate::exit::Exit::Usage, format!("'{}' is no question: {error}", line.trim_end())))
        .and_then(respond);
    let answer = match answer {
        Ok(value) => Answer::Ok(value),
        Err(failed) => Answer::Failed(failed),
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    stream.write_all(&text)
}

/// Asks the server at `path`; waits for the answer as long as it takes.
///
/// # Errors
/// What the server answers; also when it is not there.
pub fn ask(path: &Path, question: Ask) -> Outcome<Value> {
    let system = |e: io::Error| Failed::system(format!("cannot talk to the server at {}", path.display()), e);
    let mut stream = UnixStream::connect(path).map_err(system)?;
    let mut text = serde_json::to_vec(&question).expect("a question is plain data");
    text.push(b'\n');
    stream.write_all(&text).map_err(system)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(system)?;
    match serde_json::from_str(&answer) {
        Ok(Answer::Ok(value)) => Ok(value),
        Ok(Answer::Failed(failed)) => Err(failed),
        Err(error) => Err(Failed::system(format!("the server at {} went away", path.display()), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn questions_are_answered_and_nonsense_is_refused() {
        let path = std::env::temp_dir().join(format!("onefold-control-{}", std::process::id()));
        listen(&path, |question| match question {
            Ask::Status => Ok(Value::from("fine")),
            _ => Err(Failed::new(Exit::InUse, "busy").next("wait")),
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
}
