//! A process that may not trace.

mod common;

use common::{EVERYTHING, LoopDisk, MEMORY_BYTES, may_loop};
use onefold_observer::{Observer, Refused};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Takes root from this thread, and from no other one.
#[allow(unsafe_code)]
fn become_nobody() {
    let nobody: libc::uid_t = 65534;
    // SAFETY: the call takes three numbers; made directly, it is for this thread only.
    let result = unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_process_without_the_right_is_refused() {
    if !may_loop("a_process_without_the_right_is_refused", &["losetup"]) {
        return;
    }
    let disk = LoopDisk::new(1 << 20);
    let number = disk.number();
    // Nobody may be barred from the folder of the build.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let loader = folder.path().join("observer-server");
    fs::copy(env!("CARGO_BIN_EXE_observer-server"), &loader).unwrap();
    let work = move || {
        become_nobody();
        let spawn = |socket| Command::new(&loader).arg("load").stdin::<Stdio>(socket).spawn();
        Observer::begin_in_child(number, EVERYTHING, MEMORY_BYTES, spawn).err()
    };
    let refused = std::thread::spawn(work).join().unwrap().expect("nobody may trace");
    assert!(matches!(refused, Refused::Neither { .. } | Refused::LockedDown), "{refused:?}");
    if matches!(refused, Refused::Neither { .. }) {
        assert_eq!(refused.to_string().matches("it needs root, or CAP_BPF and CAP_PERFMON").count(), 2, "{refused}");
    }
    println!("{refused}");
}
