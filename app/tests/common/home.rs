//! The built binary in a directory of its own. Tests of `onefold` and of `onefold-lab` share it; each says which binary is meant.

use super::BINARY;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory for files and records; it is removed when it is dropped, with all servers.
pub struct Home {
    place: tempfile::TempDir,
    /// The words that precede those of each command.
    verb: &'static [&'static str],
}

impl Home {
    pub fn new() -> Self {
        Self::of(&[])
    }

    /// Makes a home for tests of one verb, which they omit.
    pub fn of(verb: &'static [&'static str]) -> Self {
        // Sockets lie in it: a server refuses a directory that others can enter.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        Self { place: tempfile::Builder::new().permissions(mode).tempdir().unwrap(), verb }
    }

    pub fn path(&self, name: &str) -> String {
        self.place.path().join(name).display().to_string()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(words).current_dir(self.place.path());
        command.env("ONEFOLD_RUN_DIR", self.path("run")).env("ONEFOLD_STATE_DIR", self.path("state"));
        command.env("ONEFOLD_CONFIG_DIR", self.path("config"));
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(&[self.verb, words].concat()).output().unwrap()
    }

    /// Runs a command that has to end with `code`; returns its output and its error output.
    pub fn expect(&self, code: i32, words: &[&str]) -> (String, String) {
        let output = self.run(words);
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(code), "{BINARY} {:?} {words:?}\n{out}{err}", self.verb);
        (out, err)
    }

    /// Does the same, and returns one text: the output and, if the command failed, its error output.
    pub fn says(&self, code: i32, words: &[&str]) -> String {
        let (out, err) = self.expect(code, words);
        if code == 0 { out } else { out + &err }
    }

    /// Runs a command that has to end with `code` and to complain of `wanted`.
    pub fn complaint(&self, code: i32, words: &[&str], wanted: &str) {
        let err = self.expect(code, words).1;
        assert!(err.contains(wanted), "{words:?}: {err}");
    }

    pub fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.expect(0, &[words, &["--json"]].concat()).0).unwrap()
    }

    /// Attaches over NBD and returns the socket.
    pub fn attach(&self, volume: &str, options: &[&str]) -> PathBuf {
        let uri = self.says(0, &[&["attach", "--nbd", volume], options].concat());
        PathBuf::from(uri.trim().split_once("socket=").unwrap().1)
    }

    /// Returns the supervisor and the server of a volume.
    pub fn processes(&self, volume: &str) -> [Pid; 2] {
        let status = self.json(&["status", volume]);
        [&status["attached"]["process"]["pid"], &status["pid"]]
            .map(|pid| Pid::from_raw(i32::try_from(pid.as_i64().unwrap()).unwrap()).unwrap())
    }

    /// Kills both at once, so that neither replaces the other. The server is killed first: a stopped one continues when its supervisor
    /// dies.
    pub fn kill(&self, volume: &str) {
        let [supervisor, server] = self.processes(volume);
        [supervisor, server].into_iter().for_each(|pid| kill_process(pid, Signal::STOP).unwrap());
        [server, supervisor].into_iter().for_each(|pid| kill_process(pid, Signal::KILL).unwrap());
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// Makes a file of zeros that takes no space.
    pub fn blank(&self, name: &str, bytes: u64) {
        std::fs::File::create(self.path(name)).unwrap().set_len(bytes).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Lists its entries, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.place.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A failed test may leave servers behind. If none was started, nothing is recorded.
        if !Path::new(&self.path("run")).exists() {
            return;
        }
        if let Ok(list) = self.command(&["list", "--json"]).output() {
            let list: Value = serde_json::from_slice(&list.stdout).unwrap_or_default();
            for volume in list["volumes"].as_array().into_iter().flatten() {
                let _ = self.command(&["detach", "--force", volume["path"].as_str().unwrap()]).output();
            }
        }
    }
}

/// Returns the path of a shipped trace.
pub fn shipped(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/traces").join(name).display().to_string()
}
