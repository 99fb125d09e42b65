//! A process that may not trace. The loader keeps what the kernel has allowed it once, so this test is alone in its process.

mod common;

use common::{EVERYTHING, LoopDisk, begin, may_loop};
use onefold_observer::Refused;

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
    let work = move || {
        become_nobody();
        begin(number, EVERYTHING).err()
    };
    let refused = std::thread::spawn(work).join().unwrap().expect("nobody may trace");
    assert!(matches!(refused, Refused::Neither { .. } | Refused::LockedDown), "{refused:?}");
    if matches!(refused, Refused::Neither { .. }) {
        assert_eq!(refused.to_string().matches("it needs root, or CAP_BPF and CAP_PERFMON").count(), 2, "{refused}");
    }
    println!("{refused}");
}
