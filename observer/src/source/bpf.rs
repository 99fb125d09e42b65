//! Bios seen by the BPF program of `observer/bpf/`.

use super::kernel::{Ends, is_locked_down};
use super::{Drained, ring_bytes_within};
use crate::join::Bio;
use crate::mapping::Mapping;
use crate::record::Decoder;
use crate::ring::Ring;
use crate::{Disk, Refused, Wants};
use aya::maps::{Map, MapError};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, Ebpf, EbpfError, EbpfLoader};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

#[cfg(feature = "made-object")]
static PROGRAM: &[u8] = aya::include_bytes_aligned!(env!("ONEFOLD_BPF_OBJECT"));
#[cfg(not(feature = "made-object"))]
static PROGRAM: &[u8] = aya::include_bytes_aligned!("../../bpf/observe.bpf.o");

/// The loaded program and its ring. The kernel removes both when this is dropped.
pub(crate) struct Bpf {
    ring: Ring,
    lost: Mapping,
    lost_before: u64,
    decoder: Decoder,
    ring_bytes: usize,
    // It holds the program's descriptors.
    _loaded: Ebpf,
}

impl Bpf {
    /// Loads and attaches the program, with a ring of at most `memory_bytes`.
    pub fn begin(disk: Disk, wants: Wants, memory_bytes: usize) -> Result<Self, Refused> {
        if is_locked_down() {
            return Err(Refused::LockedDown);
        }
        let types = Btf::from_sys_fs().map_err(|error| Refused::NoTypes(chain(&error)))?;
        Self::begin_on(&types, &Ends::look_up(&types), disk, wants, memory_bytes)
    }

    /// Loads and attaches the program on a kernel of these types and functions.
    fn begin_on(types: &Btf, ends: &Ends, disk: Disk, wants: Wants, memory_bytes: usize) -> Result<Self, Refused> {
        let ring_bytes = ring_bytes_within(memory_bytes);
        let wanted = [wants.reads, wants.files || wants.names, wants.names].map(u32::from);
        let page_shift = rustix::param::page_size().trailing_zeros();
        let ring_entries = u32::try_from(ring_bytes).map_err(|_| Refused::Memory { given: ring_bytes, least: ring_bytes })?;

        let mut loader = EbpfLoader::new();
        loader.btf(Some(types)).set_max_entries("ring", ring_entries);
        loader.set_global("DISK_MAJOR", &disk.major, true).set_global("DISK_MINOR", &disk.minor, true);
        loader.set_global("PAGE_SHIFT", &page_shift, true);
        for (global, value) in ["WANT_READS", "WANT_FILES", "WANT_NAMES"].into_iter().zip(&wanted) {
            loader.set_global(global, value, true);
        }
        for (global, address) in ends.globals() {
            loader.set_global(global, address, true);
        }
        let mut loaded = loader.load(PROGRAM).map_err(refused_load)?;
        let program = loaded.program_mut("observe").expect("the object has the program");
        let program: &mut BtfTracePoint = program.try_into().map_err(refused_program)?;
        program.load("block_bio_queue", types).map_err(refused_program)?;

        // The maps before the program: what it sees first is not missed.
        let ring =
            Ring::new(map_fd(&loaded, "ring"), ring_bytes).map_err(|source| Refused::NotAllowed { what: "mmap of the ring", source })?;
        let lost = Mapping::new(map_fd(&loaded, "lost"), 0, rustix::param::page_size(), false);
        let lost = lost.map_err(|source| Refused::NotAllowed { what: "mmap of the count of losses", source })?;
        let program = loaded.program_mut("observe").expect("the object has the program");
        let program: &mut BtfTracePoint = program.try_into().map_err(refused_program)?;
        program.attach().map_err(refused_program)?;
        Ok(Self { ring, lost, lost_before: 0, decoder: Decoder::default(), ring_bytes, _loaded: loaded })
    }

    /// Returns the bytes of the ring.
    pub fn bytes(&self) -> usize {
        self.ring_bytes
    }

    /// Passes on each bio that was seen before this began.
    pub fn drain(&mut self, mut each: impl FnMut(Bio)) -> Drained {
        let decoder = &mut self.decoder;
        let is_behind = self.ring.drain(|record| {
            if let Some(bio) = decoder.decode(record) {
                each(bio);
            }
        });
        // After the ring: whatever was lost before the request arrived is in the count by now.
        let lost = self.lost.word(0).load(Ordering::Acquire);
        let lost_now = lost - std::mem::replace(&mut self.lost_before, lost);
        Drained { is_behind, has_lost: lost_now > 0, lost: lost_now }
    }
}

fn map_fd<'a>(loaded: &'a Ebpf, name: &str) -> BorrowedFd<'a> {
    match loaded.map(name).expect("the object has the map") {
        Map::RingBuf(data) | Map::Array(data) => data.fd().as_fd(),
        _ => panic!("the object has no other maps of these names"),
    }
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
        io::ErrorKind::PermissionDenied => Refused::NotAllowed { what: call, source },
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
    use aya::Endianness;
    use std::io::Write;

    /// The kernel's types without some of them, as where file systems are modules.
    fn types_without(names: &[&str]) -> Btf {
        let mut bytes = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
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
        if !rustix::process::geteuid().is_root() || !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() || is_locked_down() {
            let test = "a_kernel_without_some_types_takes_the_program";
            writeln!(std::io::stderr(), "SKIPPED {test}: loading a program needs root and BTF").unwrap();
            return;
        }
        let wants = Wants { files: true, names: true, reads: true };
        let disk = Disk { major: 7, minor: 0 };
        // Modules; no control groups of block devices; no lifetime hints, as in Linux 5.18 to 6.8.
        let modules: [&[&str]; 4] =
            [&["btrfs_bio", "btrfs_inode"], &["xfs_buf", "xfs_buf_ops"], &["iomap_dio"], &["btrfs_bio", "xfs_buf", "iomap_dio"]];
        let settings: [&[&str]; 2] = [&["bi_blkg", "blkcg_gq", "blkcg"], &["bi_write_hint"]];
        for lacking in modules.into_iter().chain(settings) {
            let types = types_without(lacking);
            let begun = Bpf::begin_on(&types, &Ends::look_up(&types), disk, wants, 1 << 20);
            assert!(begun.is_ok(), "without {lacking:?}: {}", begun.err().unwrap());
        }
        let hidden = Bpf::begin_on(&types_without(&[]), &Ends::default(), disk, wants, 1 << 20);
        assert!(hidden.is_ok(), "without addresses: {}", hidden.err().unwrap());
    }
}
