//! Processes that are stopped, not killed.

use crate::rig::{Rig, arguments, descendants, is_attached, signal};
use rustix::process::Signal;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Output;

/// A command that waits for the device would wait in the kernel, whatever its own limit: it lets another process wait.
pub fn of_a_stopped_server_keeps_nobody_waiting() {
    let mut rig = Rig::volume("32M", &[]);
    let device = rig.device_text().to_owned();
    let file = File::options().read(true).write(true).open(rig.device()).unwrap();
    file.write_all_at(&[6; 1 << 20], 0).unwrap();
    drop(file);
    let server = rig.server().unwrap();
    signal(server, Signal::STOP);
    let message = |output: Output| format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for words in [&["status", &device][..], &["stats", &device], &["detach", "--timeout", "100", &device]] {
        let output = rig.onefold(words, 4);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(message(output).contains(&format!("kill -CONT {server}")), "{words:?}");
    }
    signal(server, Signal::CONT);
    // A stopped supervisor learns of the end only when it continues.
    let volume = rig.directory.path().join("volume");
    let supervisor =
        descendants(rig.supervisor.id()).into_iter().find(|&pid| arguments(pid).get(1).is_some_and(|verb| verb == "supervise"));
    let supervisor = supervisor.unwrap();
    signal(supervisor, Signal::STOP);
    let output = rig.onefold(&["detach", "--timeout", "1", volume.to_str().unwrap()], 4);
    assert_eq!(output.status.code(), Some(1));
    assert!(message(output).contains(&format!("kill -CONT {supervisor}")));
    signal(supervisor, Signal::CONT);
    let status = rig.wait_end();
    assert!(status.success() && !is_attached(rig.device()), "{status}\n{}", rig.log());
}
