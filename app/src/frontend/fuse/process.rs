//! The preparations of a process before I/O may depend on it.

use crate::attachment::limits;
use crate::error::Error;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::size::Size;
use rustix::mm::MlockAllFlags;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs;
use std::path::Path;

/// The capability that lets a process keep memory reclaim from waiting for its own device, and lock memory whatever the limit; by their
/// numbers in `capabilities(7)`.
const CAP_SYS_RESOURCE: u32 = 24;
const CAP_IPC_LOCK: u32 = 14;

/// A limit from here on is none: the kernel has the largest number of pages instead.
const UNLIMITED: u64 = 1 << 60;

/// The memory that a server may have mapped beside its budget: program, libraries, stacks, journal.
const MAPPED_BESIDE: u64 = 256 << 20;

/// Prepares this process for I/O that depends on it: memory reclaim never waits for it, and the kernel does not choose it when memory runs
/// out. Supervisor and server, which has this much `memory`, call it before they start threads. Returns the names of the calls that the
/// kernel refused (without the privilege).
#[must_use]
pub fn prepare_process(memory: u64) -> Vec<&'static str> {
    let mut refused = Vec::new();
    // Reclaim on behalf of this process must not write to the very device that it serves.
    if rustix::process::configure_io_flusher_behavior(true).is_err() {
        refused.push("prctl(PR_SET_IO_FLUSHER)");
    }
    // Used pages stay in memory: a page that had to be read back first could be waiting for this process. Where a limit ends what may be
    // locked, an allocation past it would fail.
    let may_lock = has_capability(Path::new("/"), CAP_IPC_LOCK) || limits::may_lock(memory.saturating_add(MAPPED_BESIDE));
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if !may_lock || rustix::mm::mlockall(flags).is_err() {
        refused.push("mlockall");
    }
    if std::fs::write("/proc/self/oom_score_adj", "-1000").is_err() {
        refused.push("oom_score_adj");
    }
    refused
}

/// Checks that a server which this process starts can work while the memory of its own control group is short.
///
/// With version 1 of these groups, a process that needs memory waits until pages of its group are written back, those of its own device
/// too: a server that waits so waits for itself, forever, and cannot even be killed. Only a process that is marked as one that does I/O
/// does not wait, and to mark it takes a capability. Version 2, and memory that is short everywhere, have no such wait.
///
/// # Errors
/// When the group has a limit, and this process lacks the capability.
pub fn check_reclaim(root: &Path) -> Outcome {
    let Some(limit) = group_limit(root).filter(|_| !has_capability(root, CAP_SYS_RESOURCE)) else { return Ok(()) };
    let message = format!(
        "the memory of this process's control group is limited to {} (version 1), and without CAP_SYS_RESOURCE a server that needs memory \
         there may wait for its own device, forever",
        Size(limit)
    );
    Err(Failed::new(Exit::NotPermitted, message).next(
        "Give the capability (`docker run --cap-add SYS_RESOURCE`), attach outside of the group, or use --nbd for clients elsewhere.",
    ))
}

/// Whether this process has a capability, by /proc below `root`.
fn has_capability(root: &Path, capability: u32) -> bool {
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let effective = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    effective.is_some_and(|effective| (effective >> capability) & 1 == 1)
}

/// Returns the limit on the memory of this process's control group and those above it, of version 1, by /proc and /sys below `root`; none
/// where there is none.
fn group_limit(root: &Path) -> Option<u64> {
    let text = |path: &str| fs::read_to_string(root.join(path)).ok();
    let (groups, mounts) = (text("proc/self/cgroup")?, text("proc/self/mountinfo")?);
    let group = groups.lines().find_map(memory_group)?;
    let (top, place) = mounts.lines().find_map(memory_mount)?;
    let below = Path::new(group).strip_prefix(top).or_else(|_| Path::new(group).strip_prefix("/")).ok()?;
    let directory = root.join(place.trim_start_matches('/'));
    // In a container the path may be that outside of it, where the top is the group itself.
    let stat = [directory.join(below), directory].iter().find_map(|group| fs::read_to_string(group.join("memory.stat")).ok())?;
    let limit: u64 = stat.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit ")?.trim().parse().ok())?;
    (limit < UNLIMITED).then_some(limit)
}

/// Returns the group that a line of /proc/self/cgroup names: 4:memory:/system.slice/x.service
fn memory_group(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, group) = rest.split_once(':')?;
    names_memory(controllers).then_some(group)
}

/// Returns the group at the top of the mount in a line of /proc/self/mountinfo, and where it is mounted:
/// 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
fn memory_mount(line: &str) -> Option<(&str, &str)> {
    let (place, kind) = line.split_once(" - ")?;
    let (mut place, mut kind) = (place.split(' ').skip(3), kind.split(' '));
    let is_it = kind.next() == Some("cgroup") && kind.next_back().is_some_and(names_memory);
    Some((place.next()?, place.next()?)).filter(|_| is_it)
}

fn names_memory(controllers: &str) -> bool {
    controllers.split(',').any(|controller| controller == "memory")
}

/// Ignores SIGTERM and SIGINT: a supervised server ends with its session, and only the supervisor is asked to end that. (A service manager
/// that signals all processes of a unit would otherwise end the server below a mounted file system.)
///
/// # Errors
/// When the system refuses.
pub fn ignore_stop_signals() -> Result<(), Error> {
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, std::sync::Arc::default())
            .map_err(|e| Error::System { what: "cannot ignore signals".into(), source: e })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a machine where this process has these capabilities, is in this group, and the group's memory has this limit.
    fn machine(capabilities: u64, group: &str, mount: &str, limit: u64) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: String| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/status", format!("Name:\tonefold\nCapPrm:\t0000000000000000\nCapEff:\t{capabilities:016x}\n"));
        write("proc/self/cgroup", format!("5:devices:/\n{group}\n0::/\n"));
        write("proc/self/mountinfo", format!("31 24 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n{mount}\n"));
        write("sys/fs/cgroup/memory/memory.stat", "cache 0\nhierarchical_memory_limit 9223372036854771712\n".into());
        write("sys/fs/cgroup/memory/jobs/one/memory.stat", format!("cache 0\nhierarchical_memory_limit {limit}\n"));
        root
    }

    #[test]
    fn a_group_with_a_limit_takes_the_capability() {
        const MOUNT: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory";
        const V2: &str = "35 31 0:32 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw";
        let (none, resource) = (!(1_u64 << CAP_SYS_RESOURCE), 1_u64 << CAP_SYS_RESOURCE);
        let check = |capabilities, group: &str, mount: &str, limit| check_reclaim(machine(capabilities, group, mount, limit).path());
        let refused = check(none, "4:memory:/jobs/one", MOUNT, 150 << 20).unwrap_err();
        assert_eq!(refused.exit, Exit::NotPermitted);
        assert!(refused.to_string().contains("limited to 150 MiB") && refused.to_string().contains("CAP_SYS_RESOURCE"), "{refused}");
        assert!(check(none, "4:cpu,memory:/jobs/one", &MOUNT.replace("rw,memory", "rw,cpu,memory"), 150 << 20).is_err());
        check(resource, "4:memory:/jobs/one", MOUNT, 150 << 20).unwrap();
        check(none, "4:memory:/jobs/one", MOUNT, 9_223_372_036_854_771_712).unwrap();
        check(none, "4:memory:/", MOUNT, 150 << 20).unwrap();
        check(none, "3:cpu:/jobs/one", MOUNT, 150 << 20).unwrap();
        check(none, "0::/jobs/one", V2, 150 << 20).unwrap();
        check(none, "", "", 0).unwrap();
    }

    /// In a container the group is called as outside of it, or is the top of what is mounted.
    #[test]
    fn a_container_knows_its_own_group() {
        let inside = "35 31 0:32 /jobs/one /sys/fs/cgroup/memory/jobs/one rw,relatime - cgroup cgroup rw,memory";
        for group in ["4:memory:/jobs/one", "4:memory:/elsewhere/two"] {
            assert_eq!(group_limit(machine(0, group, inside, 7 << 20).path()), Some(7 << 20), "{group}");
        }
    }
}
