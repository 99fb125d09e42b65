//! The built binary, run on an image, and how it ended.

use super::{HWM_BYTES_MAX, Place};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// No command takes longer than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a process ended.
#[derive(Debug)]
pub struct Outcome {
    /// None: by a signal.
    pub code: Option<i32>,
    /// It had to be killed.
    pub is_stuck: bool,
    /// It left a request without an answer.
    pub is_unanswered: bool,
    pub hwm_bytes: u64,
    /// The end of what it said on standard error.
    said: String,
}

impl Outcome {
    /// Invariant 3.
    pub fn is_fine(&self) -> bool {
        // The codes of `Exit`. 2 is a command line that makes no sense, which is the kit's own fault.
        let is_known = matches!(self.code, Some(0 | 1 | 3..=10));
        let panicked = self.said.contains("panicked") || self.said.contains("memory allocation of");
        is_known && !panicked && !self.is_stuck && !self.is_unanswered && self.hwm_bytes <= HWM_BYTES_MAX
    }
}

/// A process that runs.
pub struct Running {
    child: Child,
    said: std::thread::JoinHandle<String>,
    begun: Instant,
}

fn start(place: &Place, onefold: &Path, arguments: &[&str]) -> Running {
    let mut child = Command::new(onefold)
        .args(arguments)
        .env("ONEFOLD_RUN_DIR", &place.run)
        .env("ONEFOLD_STATE_DIR", &place.run)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be run");
    let mut error = child.stderr.take().expect("it was piped");
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = error.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said).into_owned();
        let panic = said.find("panicked").map(|at| said[at..].chars().take(400).collect());
        panic.unwrap_or_else(|| said.chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect())
    });
    Running { child, said, begun: Instant::now() }
}

/// Runs a command to its end.
pub fn run(place: &Place, onefold: &Path, arguments: &[&str]) -> Outcome {
    start(place, onefold, arguments).wait()
}

/// Starts a server.
pub fn attach(place: &Place, onefold: &Path) -> Running {
    let _ = std::fs::remove_file(&place.socket);
    let (image, socket) = (place.image.to_str().expect("text"), place.socket.to_str().expect("text"));
    // A volume whose counts are lost has no room: what waits for some is to fail long before the client's patience ends.
    start(place, onefold, &["attach", image, &format!("--nbd={socket}"), "--foreground", "--memory", "2M", "--when-full", "wait=1"])
}

impl Running {
    pub fn has_ended(&self) -> bool {
        // Without reaping it: how much memory it had is told with its end.
        std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).map_or(true, |stat| {
            let state = stat.rfind(')').and_then(|at| stat[at + 1..].split_whitespace().next().map(str::to_owned));
            state.as_deref() == Some("Z")
        })
    }

    /// Asks it to end.
    pub fn end(self) -> Outcome {
        self.signal(libc::SIGTERM);
        self.wait()
    }

    pub fn kill(self) -> Outcome {
        self.signal(libc::SIGKILL);
        self.wait()
    }

    #[allow(unsafe_code)]
    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a process's number");
        // SAFETY: it is our child, and nobody has waited for it yet, so the number is its own.
        unsafe { libc::kill(pid, signal) };
    }

    /// The most memory that it has had so far. (What the kernel tells with its end counts the memory of its parent, too.)
    fn hwm_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
    }

    fn wait(mut self) -> Outcome {
        let (mut is_stuck, mut hwm_bytes, mut pause) = (false, 0, Duration::from_micros(300));
        let status = loop {
            // For a moment, what is told of a new process is its parent's.
            if self.begun.elapsed() > Duration::from_millis(3) {
                hwm_bytes = self.hwm_bytes().map_or(hwm_bytes, |bytes| bytes.max(hwm_bytes));
            }
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if self.begun.elapsed() > PATIENCE && !is_stuck {
                is_stuck = true;
                self.signal(libc::SIGKILL);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(4));
        };
        Outcome { code: status.code(), is_stuck, is_unanswered: false, hwm_bytes, said: self.said.join().expect("it only reads") }
    }
}
