//! Servers as a program may meet them: good ones, and those that fail in one way each.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// The ways in which a server meets a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It takes every hint.
    Taking,
    /// It has other devices, or does not know the question.
    Refusing,
    /// Its directory is missing.
    Absent,
    /// It was killed, and its socket is still there.
    Killed,
    /// It goes away after the question, and from the fourth one on before it.
    Dying,
    /// It takes the question and never answers.
    Slow,
    /// It accepts nobody, and too many wait already.
    Full,
    /// It answers without end, and never with a whole line.
    Babbling,
}

impl State {
    pub const ALL: [Self; 8] =
        [Self::Taking, Self::Refusing, Self::Absent, Self::Killed, Self::Dying, Self::Slow, Self::Full, Self::Babbling];
}

/// A server, or the place where one was.
pub struct Server {
    run: PathBuf,
    questions: Arc<Mutex<Vec<String>>>,
    _directory: TempDir,
    /// Connections that keep others waiting.
    _waiting: Vec<UnixStream>,
    _listener: Option<UnixListener>,
}

impl Server {
    /// Begins to listen, on threads that end with the process.
    pub fn begin(state: State) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let run = directory.path().join("run");
        let mut server = Self { run, questions: Arc::default(), _directory: directory, _waiting: Vec::new(), _listener: None };
        if state == State::Absent {
            return server;
        }
        std::fs::create_dir(&server.run).unwrap();
        std::fs::set_permissions(&server.run, PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::write(server.run.join("volume.json"), "{}").unwrap();
        let path = server.run.join("volume.control");
        let listener = UnixListener::bind(&path).unwrap();
        match state {
            State::Killed => {}
            State::Full => {
                // SAFETY: the listener's descriptor is open. A second call changes how many may wait.
                assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
                server._waiting = vec![UnixStream::connect(&path).unwrap()];
                server._listener = Some(listener);
            }
            _ => server.serve(state, listener),
        }
        server
    }

    /// Listens at one more socket, which comes before or after the first one in no order that is known.
    pub fn add(&self, name: &str, state: State) {
        self.serve(state, UnixListener::bind(self.run.join(format!("{name}.control"))).unwrap());
    }

    fn serve(&self, state: State, listener: UnixListener) {
        let questions = self.questions.clone();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let questions = questions.clone();
                std::thread::spawn(move || {
                    if state == State::Dying && number > 2 {
                        return;
                    }
                    // A client may be gone by now: that is its affair.
                    let _ = converse(state, stream, &questions);
                });
            }
        });
    }

    /// The directory of sockets.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// The questions so far, without their newlines.
    pub fn questions(&self) -> Vec<String> {
        self.questions.lock().unwrap().clone()
    }
}

fn converse(state: State, mut stream: UnixStream, questions: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new((&stream).take(16 << 10)).read_line(&mut line)?;
    assert!(line.ends_with("}\n"), "no whole question: {line}");
    questions.lock().unwrap().push(line.trim_end().to_owned());
    match state {
        State::Taking => stream.write_all(b"{\"ok\":null}\n"),
        State::Refusing => {
            let message = "x".repeat(3000);
            stream.write_all(format!("{{\"failed\":{{\"exit\":2,\"message\":\"{message}\"}}}}\n").as_bytes())
        }
        State::Slow => {
            std::thread::sleep(Duration::from_secs(20));
            Ok(())
        }
        State::Babbling => loop {
            stream.write_all(b"{\"ok")?;
        },
        State::Dying | State::Absent | State::Killed | State::Full => stream.write_all(b"{\"o"),
    }
}
