//! Loading and attaching the BPF program of `observer/bpf/`.

use super::{Loaded, Order, link};
use crate::Refused;
use crate::kernel::Ends;
use aya::maps::{Map, MapError};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, Ebpf, EbpfError, EbpfLoader};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

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
    let Order { disk, wants, ring_bytes } = order;
    let wanted = [wants.reads, wants.files || wants.names, wants.names].map(u32::from);
    let page_shift = rustix::param::page_size().trailing_zeros();

    let mut loader = EbpfLoader::new();
    loader.btf(Some(types)).set_max_entries("ring", *ring_bytes);
    loader.set_global("DISK_MAJOR", &disk.major, true).set_global("DISK_MINOR", &disk.minor, true);
    loader.set_global("PAGE_SHIFT", &page_shift, true);
    for (global, value) in ["WANT_READS", "WANT_FILES", "WANT_NAMES"].into_iter().zip(&wanted) {
        loader.set_global(global, value, true);
    }
    for (global, address) in ends.globals() {
        loader.set_global(global, address, true);
    }
    let mut loaded = loader.load(PROGRAM).map_err(refused_load)?;
    let (ring, lost) = (map_fd(&loaded, "ring")?, map_fd(&loaded, "lost")?);
    let program = loaded.program_mut("observe").expect("the object has the program");
    let program: &mut BtfTracePoint = program.try_into().map_err(refused_program)?;
    program.load("block_bio_queue", types).map_err(refused_program)?;
    let link = link::attach(program.fd().map_err(refused_program)?.as_fd());
    let link = link.map_err(|source| refused_call("bpf_raw_tracepoint_open", source, "the program"))?;
    Ok(Loaded { ring, lost, link })
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
        let order = Order { disk: Disk { major: 7, minor: 0 }, wants, ring_bytes: 1 << 20 };
        // Modules; no control groups of block devices; no lifetime hints, as in Linux 5.18 to 6.8.
        let modules: [&[&str]; 4] =
            [&["btrfs_bio", "btrfs_inode"], &["xfs_buf", "xfs_buf_ops"], &["iomap_dio"], &["btrfs_bio", "xfs_buf", "iomap_dio"]];
        let settings: [&[&str]; 2] = [&["bi_blkg", "blkcg_gq", "blkcg"], &["bi_write_hint"]];
        for lacking in modules.into_iter().chain(settings) {
            let types = types_without(lacking);
            let loaded = load_on(&types, &Ends::look_up(&types), &order);
            assert!(loaded.is_ok(), "without {lacking:?}: {}", loaded.err().unwrap());
        }
        let hidden = load_on(&types_without(&[]), &Ends::default(), &order);
        assert!(hidden.is_ok(), "without addresses: {}", hidden.err().unwrap());
    }
}
