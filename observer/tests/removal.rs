//! A test that nothing stays in the kernel. It counts the machine's programs, so it is alone in its process.

mod common;

use aya::programs::{loaded_links, loaded_programs};
use common::{EVERYTHING, LoopDisk, may_observe};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn programs() -> BTreeSet<u32> {
    // One that another process removes meanwhile cannot be asked for.
    loaded_programs().flatten().filter(|program| program.name() == b"observe").map(|program| program.id()).collect()
}

fn links() -> BTreeSet<u32> {
    loaded_links().flatten().map(|link| link.id).collect()
}

#[test]
fn nothing_stays_in_the_kernel() {
    if !may_observe("nothing_stays_in_the_kernel", &["losetup"]) {
        return;
    }
    let disk = LoopDisk::new(1 << 20);
    let (programs_before, links_before) = (programs(), links());
    let observer = disk.observe(EVERYTHING);
    let own_programs: Vec<u32> = programs().difference(&programs_before).copied().collect();
    let own_links: Vec<u32> = links().difference(&links_before).copied().collect();
    assert_eq!((own_programs.len(), own_links.len()), (1, 1));
    drop(observer);
    // The kernel frees a program when nobody can be within it any more.
    let end = Instant::now() + Duration::from_secs(10);
    while programs().contains(&own_programs[0]) || links().contains(&own_links[0]) {
        assert!(Instant::now() < end, "program {own_programs:?} or link {own_links:?} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}
