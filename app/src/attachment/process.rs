//! The identity of a process, although the kernel reuses numbers.

use serde::{Deserialize, Serialize};
use std::fs;

/// A process: its number and the moment of its start, in the kernel's ticks since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    pub start_ticks: u64,
}

/// Returns the state and the start of the process with that number.
fn look(pid: u32) -> Option<(char, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; only numbers follow the last one. The state is field 3, the start field 22.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// Whether the process with that number is stopped, as by SIGSTOP or a debugger.
#[must_use]
pub fn is_stopped(pid: u32) -> bool {
    look(pid).is_some_and(|(state, _)| matches!(state, 'T' | 't'))
}

impl Process {
    /// Returns the process that has that number now.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let (state, start_ticks) = look(pid)?;
        (state != 'Z' && state != 'X').then_some(Self { pid, start_ticks })
    }

    /// Returns this process.
    ///
    /// # Panics
    /// Where there is no /proc.
    #[must_use]
    pub fn this() -> Self {
        Self::of(std::process::id()).expect("/proc is mounted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_number_and_start() {
        let this = Process::this();
        assert_eq!(Process::of(this.pid), Some(this));
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(process.pid == child.id() && process.start_ticks >= this.start_ticks);
        child.kill().unwrap();
        while Process::of(child.id()).is_some() {}
        child.wait().unwrap();
        assert_eq!(Process::of(child.id()), None, "a zombie counts as ended");
    }
}
