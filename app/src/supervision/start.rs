//! Starting the processes of an attachment, and lending them descriptors: by inheritance, under the numbers that they have here.
//!
//! 1. A child has the descriptors that it is lent and no other, since a process that held one of a session's would keep it alive after its
//!    end. So they are inheritable only while one process starts, and one starts at a time: every process in a server or a supervisor is
//!    started by a [`Start`].
//! 2. The memory of the starting process is not copied: no fork, but posix_spawn(3), which the standard library uses where nothing has to
//!    be done in the child. Copied on write, a buffer into which the kernel writes a request would have to be copied first; if its thread
//!    is killed before that, the kernel answers the request with an I/O error.

use rustix::io::FdFlags;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// Keeps the descriptors that this process was started with from every process that it starts itself: a daemon that had a lock, a file
/// system or a pipe of its caller's would hold it for as long as it runs. The program calls this first of all.
#[allow(unsafe_code)]
pub fn inherit_no_further() {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<RawFd> = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|number| *number > 2).collect();
    for number in numbers {
        // SAFETY: the program has one thread yet, and closes nothing here. (The listing's own descriptor is closed, which is an error.)
        let _ = rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC);
    }
}

/// The lock that is held while a process starts.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A process to be started: a command, and the descriptors that it is lent.
#[derive(Debug)]
pub struct Start {
    command: Command,
    lent: Vec<RawFd>,
}

impl Start {
    /// Returns a start of this program.
    #[must_use]
    pub fn of(program: impl AsRef<OsStr>) -> Self {
        Self { command: Command::new(program), lent: Vec::new() }
    }

    /// Lets the process inherit `descriptors`, by the numbers that they have here. They must be open when it is started.
    pub fn lend(&mut self, descriptors: &[&OwnedFd]) {
        self.lent.extend(descriptors.iter().map(|descriptor| descriptor.as_raw_fd()));
    }

    /// Lends the descriptor like [`Self::lend`], and names it by `argument` on the command line.
    pub fn lend_as(&mut self, argument: &str, descriptor: &OwnedFd) {
        self.lend(&[descriptor]);
        self.command.args([argument, &descriptor.as_raw_fd().to_string()]);
    }

    /// See [`Command::arg`].
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.args([argument])
    }

    /// See [`Command::args`].
    pub fn args<A: AsRef<OsStr>>(&mut self, arguments: impl IntoIterator<Item = A>) -> &mut Self {
        self.command.args(arguments);
        self
    }

    /// See [`CommandExt::arg0`].
    pub fn arg0(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.command.arg0(argument);
        self
    }

    /// See [`Command::env`].
    pub fn env(&mut self, variable: &str, value: impl AsRef<OsStr>) -> &mut Self {
        self.command.env(variable, value);
        self
    }

    /// See [`Command::stdin`].
    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Self {
        self.command.stdin(stdin);
        self
    }

    /// See [`Command::stdout`].
    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Self {
        self.command.stdout(stdout);
        self
    }

    /// See [`Command::stderr`].
    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Self {
        self.command.stderr(stderr);
        self
    }

    /// Puts it into a group of its own: Ctrl-C is for the process that starts it.
    pub fn group_of_its_own(&mut self) -> &mut Self {
        self.command.process_group(0);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn spawn(&mut self) -> io::Result<Child> {
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let started = self.flag_lent(FdFlags::empty()).and_then(|()| self.command.spawn());
        self.flag_lent(FdFlags::CLOEXEC)?;
        started
    }

    /// Starts it, and waits for its end.
    ///
    /// # Errors
    /// Those of [`Self::spawn`].
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Starts it, waits for its end, and returns its output.
    ///
    /// # Errors
    /// Those of [`Self::spawn`].
    pub fn output(&mut self) -> io::Result<Output> {
        self.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?.wait_with_output()
    }

    #[allow(unsafe_code)]
    fn flag_lent(&self, flags: FdFlags) -> io::Result<()> {
        for &number in &self.lent {
            // SAFETY: the lender keeps it open until the process is started.
            rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, flags)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_the_child_that_is_lent_a_descriptor_has_it() {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let place = format!("/proc/self/fd/{}", read.as_raw_fd());
        let is_there = |mut start: Start| {
            start.args(["-e", &place]);
            start.status().unwrap().success()
        };
        let mut lent = Start::of("test");
        lent.lend(&[&read]);
        assert!(is_there(lent));
        assert!(!is_there(Start::of("test")), "another one has it too");
        std::fs::File::from(write).write_all(b"x").unwrap();
    }

    /// Otherwise a process that is killed while it starts another may lose a request.
    #[test]
    fn what_starts_a_process_does_not_have_its_memory_copied() {
        // The faults of this thread (proc_pid_stat(5): minflt).
        let faults = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit(") ").next().unwrap().split(' ').nth(7).unwrap().parse::<u64>().unwrap()
        };
        let mut memory = vec![1_u8; 64 << 20];
        let touch = |memory: &mut [u8]| memory.chunks_mut(4096).for_each(|page| page[0] = page[0].wrapping_add(1));
        touch(&mut memory);
        let mut running = Start::of("sleep");
        running.arg("5");
        let mut child = running.spawn().unwrap();
        let before = faults();
        touch(&mut memory);
        let caused = faults() - before;
        child.kill().unwrap();
        child.wait().unwrap();
        // Pages of 2 MiB would be 32.
        assert!(caused < 16, "{caused} page faults: each page was to be copied");
    }
}
