//! A store that fails below an attached volume, and works again.

use crate::rig::{Rig, is_attached};
use crate::tools::{Random, run};
use onefold_engine::buffer::BufferMut;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file system in memory that can run full.
struct Small(PathBuf);

impl Small {
    fn mounted(at: PathBuf) -> Self {
        std::fs::create_dir_all(&at).unwrap();
        run(&["mount", "-t", "tmpfs", "-o", "size=24M", "onefold-test", at.to_str().unwrap()], 20);
        Self(at)
    }

    fn grow(&self) {
        run(&["mount", "-o", "remount,size=200M", self.0.to_str().unwrap()], 20);
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = crate::tools::try_run(&["umount", "-l", self.0.to_str().unwrap()], 20);
    }
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random(seed);
    (0..bytes / 8).flat_map(|_| random.next().to_ne_bytes()).collect()
}

pub fn that_was_full_is_detached_and_attached_again() {
    let scratch = tempfile::tempdir().unwrap();
    let small = Small::mounted(scratch.path().join("small"));
    let (rig, said, took) = fill_and_detach(&small.0);
    assert!(took < Duration::from_secs(5), "{took:?}");
    for wanted in ["is detached, but its store had failed", "When the store works again, `onefold attach"] {
        assert!(said.contains(wanted), "{said}");
    }
    small.grow();
    let rig = rig.attach_again(&[]);
    let file = File::options().read(true).write(true).open(rig.device()).unwrap();
    let mut found = vec![0; 4 << 20];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found == noise(1, 4 << 20), "what was synced is not there");
    file.write_all_at(&noise(3, 1 << 20), 40 << 20).unwrap();
    file.sync_all().expect("it takes writes again");
    drop(file);
    rig.detach();
}

/// Writes more than the store takes, and detaches: the session, what `detach` said, and how long that took.
fn fill_and_detach(place: &Path) -> (Rig, String, Duration) {
    let mut rig = Rig::volume_at(place, &["--size", "64M", "--sparse"]);
    let mut file = File::options().read(true).write(true).open(rig.device()).unwrap();
    file.write_all(&noise(1, 4 << 20)).unwrap();
    file.sync_all().unwrap();
    file.write_all(&noise(2, 32 << 20)).and_then(|()| file.sync_all()).expect_err("the store has no room for all that");
    // Not flushed, nor ever to be.
    let _ = file.write_all_at(BufferMut::zeroed(4).bytes(), 0);
    drop(file);
    let began = Instant::now();
    let device = rig.device_text().to_owned();
    let output = rig.onefold(&["detach", &device], 10);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(8), "{said}\n{}", rig.log());
    assert!(!is_attached(rig.device()), "{said}");
    assert_eq!(rig.wait_end().code(), Some(8));
    (rig, said, began.elapsed())
}
