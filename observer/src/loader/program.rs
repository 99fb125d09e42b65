//! Loading and attaching the BPF program of `observer/bpf/`.

use super::{Loaded, Order, Task, link};
use crate::Refused;
use crate::kernel::Ends;
use aya::maps::{Map, MapError};
use aya::programs::{BtfTracePoint, FEntry, Program, ProgramError};
use aya::{Btf, Ebpf, EbpfError, EbpfLoader};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

#[cfg(feature = "made-object")]
static PROGRAM: &[u8] = aya::include_bytes_aligned!(env!("ONEFOLD_BPF_OBJECT"));
#[cfg(not(feature = "made-object"))]
static PROGRAM: &[u8] = aya::include_bytes_aligned!("../../bpf/observe.bpf.o");

/// Loads and attaches the program.
pub(super) fn load(order: &Order) -> Result<Loaded, Refused> {
    let types = Btf::from_sys_fs().map_err(|error| Refused::NoTypes(chain(&error)))?;
    load_on(&types, &Ends::look_up(&types), order)
}

/// Loads and attaches the program on a kernel of these types and functions.
fn load_on(types: &Btf, ends: &Ends, order: &Order) -> Result<Loaded, Refused> {
    let Order { disk, wants, task, ring_bytes } = order;
    let wanted = [wants.reads, wants.files || wants.names, wants.names].map(u32::from);
    let page_shift = rustix::param::page_size().trailing_zeros();

    let mut loader = EbpfLoader::new();
    loader.btf(Some(types)).set_max_entries("ring", *ring_bytes);
    loader.set_global("DISK_MAJOR", &disk.major, true).set_global("DISK_MINOR", &disk.minor, true);
    loader.set_global("PAGE_SHIFT", &page_shift, true);
    for (global, value) in ["WANT_READS", "WANT_FILES", "WANT_NAMES"].into_iter().zip(&wanted) {
        loader.set_global(global, value, true);
    }
    let (range, recorded) = match task {
        Task::Observe => ([0, 0], [0, 0]),
        Task::Record { start, end, content, .. } => ([*start, *end], [u32::from(*content), 1]),
    };
    let [start, end] = range;
    let numbers = [start, end, u64::from(*ring_bytes)];
    for (global, value) in ["RANGE_START", "RANGE_END", "RING_BYTES"].into_iter().zip(&numbers) {
        loader.set_global(global, value, true);
    }
    for (global, value) in ["WANT_CONTENT", "IS_RECORDING"].into_iter().zip(&recorded) {
        loader.set_global(global, value, true);
    }
    for (global, address) in ends.globals() {
        loader.set_global(global, address, true);
    }
    let mut loaded = loader.load(PROGRAM).map_err(refused_load)?;
    let (ring, counts) = (map_fd(&loaded, "ring")?, map_fd(&loaded, "counts")?);
    let mut sees_wishes = false;
    let links = match task {
        Task::Observe => vec![attach_traced(&mut loaded, "observe", "block_bio_queue", types)?],
        Task::Record { wishes, .. } => {
            // What comes first is there when the records begin. Without these two, less is known.
            let dirty = attach_traced(&mut loaded, "dirty", "writeback_dirty_folio", types).ok();
            let wish = wishes.then(|| attach_entry(&mut loaded, "wish", "submit_bio_noacct", types).ok()).flatten();
            sees_wishes = wish.is_some();
            let record = attach_traced(&mut loaded, "record", "block_bio_queue", types)?;
            [Some(record), wish, dirty].into_iter().flatten().collect()
        }
    };
    Ok(Loaded { ring, counts, links, sees_wishes })
}

/// Loads a program, and attaches it to a tracepoint.
fn attach_traced(loaded: &mut Ebpf, name: &str, tracepoint: &str, types: &Btf) -> Result<OwnedFd, Refused> {
    let program: &mut BtfTracePoint = program_mut(loaded, name).try_into().map_err(refused_program)?;
    program.load(tracepoint, types).map_err(refused_program)?;
    attach(program.fd().map_err(refused_program)?.as_fd())
}

/// Loads a program, and attaches it to the entry of a function.
fn attach_entry(loaded: &mut Ebpf, name: &str, function: &str, types: &Btf) -> Result<OwnedFd, Refused> {
    let program: &mut FEntry = program_mut(loaded, name).try_into().map_err(refused_program)?;
    program.load(function, types).map_err(refused_program)?;
    attach(program.fd().map_err(refused_program)?.as_fd())
}

fn program_mut<'a>(loaded: &'a mut Ebpf, name: &str) -> &'a mut Program {
    loaded.program_mut(name).expect("the object has the program")
}

fn attach(program: BorrowedFd<'_>) -> Result<OwnedFd, Refused> {
    link::attach(program).map_err(|source| refused_call("bpf_raw_tracepoint_open", source, "the program"))
}

fn map_fd(loaded: &Ebpf, name: &str) -> Result<OwnedFd, Refused> {
    let descriptor = match loaded.map(name).expect("the object has the map") {
        Map::RingBuf(data) | Map::Array(data) => data.fd().as_fd().try_clone_to_owned(),
        _ => panic!("the object has no other maps of these names"),
    };
    descriptor.map_err(|error| Refused::Program(format!("the descriptor of the map `{name}`: {error}")))
}

fn refused_load(error: EbpfError) -> Refused {
    match error {
        EbpfError::MapError(MapError::CreateError { io_error, .. }) => refused_call("bpf", io_error, "a map"),
        other => Refused::Program(chain(&other)),
    }
}

fn refused_program(error: ProgramError) -> Refused {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => match io_error.kind() {
            io::ErrorKind::PermissionDenied if verifier_log.to_string().is_empty() => refused_call("bpf", io_error, "the program"),
            _ => Refused::Program(format!("{io_error}\n{verifier_log}")),
        },
        ProgramError::SyscallError(call) => refused_call(call.call, call.io_error, "the program"),
        other => Refused::Program(chain(&other)),
    }
}

fn refused_call(call: &'static str, source: io::Error, what: &str) -> Refused {
    match source.kind() {
        io::ErrorKind::PermissionDenied => Refused::NotAllowed { what: call.into(), source },
        _ => Refused::Program(format!("{call} of {what}: {source}")),
    }
}

/// Returns an error's message with those of its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{TYPES, is_locked_down};
    use crate::{Disk, Wants};
    use aya::Endianness;
    use std::io::Write;

    /// The kernel's types without some of them, as where file systems are modules.
    fn types_without(names: &[&str]) -> Btf {
        let mut bytes = std::fs::read(TYPES).unwrap();
        for name in names {
            let text = format!("\0{name}\0");
            let at = bytes.windows(text.len()).position(|window| window == text.as_bytes());
            if let Some(at) = at {
                bytes[at + 1] = b'?';
            }
        }
        Btf::parse(&bytes, Endianness::default()).unwrap()
    }

    #[test]
    fn a_kernel_without_some_types_takes_the_program() {
        if !rustix::process::geteuid().is_root() || !std::path::Path::new(TYPES).exists() || is_locked_down() {
            let test = "a_kernel_without_some_types_takes_the_program";
            writeln!(std::io::stderr(), "SKIPPED {test}: loading a program needs root and BTF").unwrap();
            return;
        }
        let wants = Wants { files: true, names: true, reads: true };
        let record = Task::Record { start: 0, end: 1 << 20, content: true, wishes: true };
        for task in [Task::Observe, record] {
            may_lack_types(&Order { disk: Disk { major: 7, minor: 0 }, wants, task, ring_bytes: 1 << 20 });
        }
    }

    fn may_lack_types(order: &Order) {
        // Modules; no control groups of block devices; no lifetime hints, as in Linux 5.18 to 6.8.
        let modules: [&[&str]; 4] =
            [&["btrfs_bio", "btrfs_inode"], &["xfs_buf", "xfs_buf_ops"], &["iomap_dio"], &["btrfs_bio", "xfs_buf", "iomap_dio"]];
        let settings: [&[&str]; 2] = [&["bi_blkg", "blkcg_gq", "blkcg"], &["bi_write_hint"]];
        for lacking in modules.into_iter().chain(settings) {
            let types = types_without(lacking);
            let loaded = load_on(&types, &Ends::look_up(&types), order);
            assert!(loaded.is_ok(), "without {lacking:?}: {}", loaded.err().unwrap());
        }
        let hidden = load_on(&types_without(&[]), &Ends::default(), order);
        assert!(hidden.is_ok(), "without addresses: {}", hidden.err().unwrap());
    }
}
