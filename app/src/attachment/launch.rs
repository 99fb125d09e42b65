//! Starts a server in the background, and receives its report.

use super::control::{self, ServerRequest};
use super::plan::Plan;
use super::process::Process;
use super::record::{Places, look, small_file, write_small};
use crate::exit::{Exit, Failed, Outcome};
use crate::runtime::notices::OPENING;
use crate::supervision::start::Start;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

/// The variable by which glibc keeps one heap for all threads, where it would keep one for each; and the memory below which servers and
/// supervisors have one. It saves a MiB.
const ONE_HEAP: &str = "MALLOC_ARENA_MAX";
const ONE_HEAP_BELOW: u64 = 16 << 20;

/// The time that an opening server may take to report its progress, before the process that waits for it listens again for its result.
const GLANCE: Duration = Duration::from_millis(50);

/// The report of a background process to the one that started it: one line of JSON on its standard output.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaunchReport {
    /// The process serves, at this place.
    Ready {
        location: String,
    },
    Failed(Failed),
}

impl LaunchReport {
    /// Prints the report.
    pub fn tell(&self) {
        let mut line = serde_json::to_vec(self).expect("plain data");
        line.push(b'\n');
        // The process that asked may be gone; the server goes on.
        let _ = std::io::stdout().write_all(&line).and_then(|()| std::io::stdout().flush());
    }
}

/// Starts this program as `verb` with `plan`, away from the terminal, and waits until it serves. Returns the place and the process.
///
/// # Errors
/// The reason why it does not serve.
pub fn start(verb: &str, plan: &Plan) -> Outcome<(String, Child)> {
    let log = Places::of(&plan.directory, &plan.id).log;
    let is_new = !log.exists();
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&log)
        .map_err(|e| Failed::system(format!("cannot write {}", log.display()), e))?;
    let mut child = command(&[verb], plan)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(file)
        .spawn()
        .map_err(|e| Failed::system("cannot start a server", e))?;
    let mut line = String::new();
    let output = child.stdout.take().expect("it was piped");
    wait_for_word(&output, &Places::of(&plan.directory, &plan.id).control);
    let heard = BufReader::new(output).read_line(&mut line);
    match heard.ok().and_then(|_| serde_json::from_str(&line).ok()) {
        Some(LaunchReport::Ready { location }) => Ok((location, child)),
        Some(LaunchReport::Failed(failed)) => {
            let _ = child.wait();
            if is_new {
                // The caller gets the reason, and nothing was served.
                let _ = fs::remove_file(&log);
            }
            Err(failed)
        }
        None => {
            let status = child.wait().map(|status| status.to_string()).unwrap_or_default();
            // The process may have died after all but its report was done, or its server may live on by itself.
            if let Some(location) = found_all_the_same(plan) {
                return Ok((location, child));
            }
            Err(Failed::new(Exit::System, format!("the server ended before it served ({status})"))
                .next(format!("Its log is {}.", log.display())))
        }
    }
}

/// Returns where the volume is served although the process that had to report it died; none where nothing of the attachment lives.
fn found_all_the_same(plan: &Plan) -> Option<String> {
    let places = Places::of(&plan.directory, &plan.id);
    loop {
        // The order matters: after this call, no earlier server serves.
        let is_alive = places.are_alive();
        if let Some(record) = look(&places.record).filter(|_| is_alive) {
            return Some(record.location);
        }
        if !is_alive {
            return None;
        }
        std::thread::sleep(GLANCE);
    }
}

/// Waits until a server reports its result. Where that takes long because it opens its volume, shows the progress.
fn wait_for_word(output: &ChildStdout, control: &Path) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let patience = Timespec { tv_sec: 1, tv_nsec: 0 };
    let mut shown = String::new();
    while matches!(poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&patience)), Ok(0) | Err(rustix::io::Errno::INTR)) {
        // The server may not be there yet; once it is, it answers at once or is asked again.
        let Ok(answer) = control::ask_within(control, &ServerRequest::Status, GLANCE) else { continue };
        let Some(state) = answer["state"].as_str().filter(|state| state.starts_with(OPENING)) else { continue };
        if state != shown {
            let _ = writeln!(std::io::stderr(), "{state}");
            state.clone_into(&mut shown);
        }
    }
}

/// Returns the command that runs this program with these words, followed by `plan`.
///
/// # Panics
/// Never: a plan is plain data.
#[must_use]
pub fn command(words: &[&str], plan: &Plan) -> Start {
    command_of(itself(), words, plan)
}

/// Returns the same of another program.
///
/// # Panics
/// Never: a plan is plain data.
#[must_use]
pub fn command_of(program: Start, words: &[&str], plan: &Plan) -> Start {
    let mut command = program;
    command.args(words).arg(serde_json::to_string(plan).expect("a plan is plain data"));
    if plan.options.memory_bytes() < ONE_HEAP_BELOW {
        command.env(ONE_HEAP, "1");
    }
    command
}

/// Returns a command that runs this program, even where its file was replaced meanwhile.
#[must_use]
pub fn itself() -> Start {
    let mut command = Start::of("/proc/self/exe");
    command.arg0(std::env::args_os().next().unwrap_or_else(|| "onefold".into()));
    command
}

/// Leaves the terminal, session and working directory of the process that started this one, so that it outlives that process.
pub fn leave_terminal() {
    // The call fails for the leader of a group, such as a server. The server stays in its supervisor's session: if it is stopped when the
    // supervisor dies, the kernel resumes it with SIGHUP (`setpgid(2)`: orphaned groups).
    let _ = rustix::process::setsid();
    let _ = signal_hook::flag::register(signal_hook::consts::SIGHUP, std::sync::Arc::default());
    let _ = std::env::set_current_dir("/");
}

/// The result of a server, which it leaves for those who ask after its end.
#[derive(Debug, Serialize, Deserialize)]
pub struct End {
    /// The process that left it.
    pub process: Process,
    pub exit: Exit,
    pub failed: Option<Failed>,
}

impl End {
    /// Returns the result of this process.
    #[must_use]
    pub fn of(exit: Exit, failed: Option<Failed>) -> Self {
        Self { process: Process::this(), exit, failed }
    }

    /// Returns the result at `place`, if there is one.
    #[must_use]
    pub fn look(place: &Path) -> Option<Self> {
        serde_json::from_slice(&small_file(place)?).ok()
    }

    /// Writes the result to `place`.
    pub fn leave(&self, place: &Path) {
        if let Err(error) = serde_json::to_vec(self).map_err(Into::into).and_then(|text| write_small(place, &text)) {
            tracing::warn!(%error, place = %place.display(), "cannot say how it ended");
        }
    }

    /// Takes the result from `place`, if it is there.
    #[must_use]
    pub fn take(place: &Path) -> Option<Self> {
        let end = Self::look(place);
        let _ = fs::remove_file(place);
        end
    }
}
