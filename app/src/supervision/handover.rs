//! How descriptors pass to a process that is started: by inheritance, named on the command line.
//!
//! 1. A child has the descriptors that it needs and no other: whoever held one of a session's would keep it alive after its end. So only the child
//!    itself, between its birth and its program, makes them inheritable; another child that is started at that moment does not see it.
//! 2. In the child, a descriptor has one owner from the start, and is not inherited any further.

use crate::frontend::Error;
use rustix::io::FdFlags;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets the process that `command` starts inherit `descriptors`, by the numbers that they have here. They must be open when it is started.
#[allow(unsafe_code)]
pub fn lend(command: &mut Command, descriptors: &[&OwnedFd]) {
    let numbers: Vec<RawFd> = descriptors.iter().map(|descriptor| descriptor.as_raw_fd()).collect();
    let keep = move || {
        for &number in &numbers {
            // SAFETY: the parent has it open until the child is started, and the child has a copy of each.
            rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: system calls alone, which may be made between fork and exec; nothing is allocated.
    unsafe { command.pre_exec(keep) };
}

/// As [`lend`], and names the descriptor by `argument` on the command line.
pub fn lend_as(command: &mut Command, argument: &str, descriptor: &OwnedFd) {
    lend(command, &[descriptor]);
    command.args([argument, &descriptor.as_raw_fd().to_string()]);
}

/// The descriptor that a command line names, not to be inherited any further; none where it is not open. To be called first thing in a process, and
/// once for each.
#[allow(unsafe_code)]
#[must_use]
pub fn inherit(number: RawFd) -> Option<OwnedFd> {
    if number < 3 {
        return None;
    }
    // SAFETY: the descriptor came with the command line, nobody else in this process knows of it, and it is checked to be open before use.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    match rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC) {
        Ok(()) => Some(descriptor),
        Err(_) => {
            // Not open: closing it would be a mistake.
            std::mem::forget(descriptor);
            None
        }
    }
}

/// The descriptor that the argument `name` names.
///
/// # Errors
/// When it is not open: the command line is for this program's own processes only.
pub fn inherit_argument(name: &str, number: RawFd) -> Result<OwnedFd, Error> {
    inherit(number).ok_or_else(|| misused(&format!("{name} {number} is no open descriptor")))
}

/// The descriptors that the argument `name` lists, with commas between.
///
/// # Errors
/// As [`inherit_argument`].
pub fn inherit_list(name: &str, numbers: &str) -> Result<Vec<OwnedFd>, Error> {
    let number = |text: &str| text.parse().map_err(|_| misused(&format!("{name} {numbers}")));
    numbers.split(',').map(|text| inherit_argument(name, number(text)?)).collect()
}

/// A list for [`inherit_list`].
#[must_use]
pub fn list(descriptors: &[OwnedFd]) -> String {
    descriptors.iter().map(|descriptor| descriptor.as_raw_fd().to_string()).collect::<Vec<_>>().join(",")
}

fn misused(what: &str) -> Error {
    Error::Setting(format!("{what}: this command is started by `onefold attach` only"))
}

/// Says once that a server is ready, by an event that whoever holds its descriptor sees from then on.
#[derive(Debug)]
pub struct Ready(OwnedFd);

impl Ready {
    /// By way of the descriptor that the argument `--ready` names.
    ///
    /// # Errors
    /// As [`inherit_argument`].
    pub fn from_argument(number: RawFd) -> Result<Self, Error> {
        inherit_argument("--ready", number).map(Self)
    }

    /// Tells the supervisor, and each one after it that is lent [`Self::descriptor`], that requests are answered from now on.
    pub fn tell(self) {
        // An event takes this much without fail.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// What a next supervisor waits on.
    #[must_use]
    pub const fn descriptor(&self) -> &OwnedFd {
        &self.0
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
        let is_there = |command: &mut Command| command.args(["-e", &place]).status().unwrap().success();
        let mut lent = Command::new("test");
        lend(&mut lent, &[&read]);
        assert!(is_there(&mut lent));
        assert!(!is_there(&mut Command::new("test")), "another one has it too");
        std::fs::File::from(write).write_all(b"x").unwrap();
    }
}
