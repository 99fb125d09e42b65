//! Why a disk cannot be observed.

use crate::Disk;
use std::io;

/// Why a disk cannot be observed. Its server works all the same, and knows less.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("{disk}: there is no such block device: {source}")]
    NoDisk { disk: Disk, source: io::Error },
    #[error("{disk} is a partition: observe the whole disk, whose sectors its requests name")]
    Partition { disk: Disk },
    #[error("{given} bytes of memory are too few to observe a disk: at least {least} are needed on this machine")]
    Memory { given: usize, least: usize },
    #[error("this process may not trace the kernel: it needs root, or CAP_BPF and CAP_PERFMON ({what}: {source})")]
    NotAllowed { what: String, source: io::Error },
    #[error("the kernel is locked down (/sys/kernel/security/lockdown says `confidentiality`): nobody may trace it")]
    LockedDown,
    #[error("the kernel has no description of its types in /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF): {0}")]
    NoTypes(String),
    #[error("the kernel did not take the BPF program: {0}")]
    Program(String),
    /// There is no tracepoint instead: this is not the kernel's fault.
    #[error("the process that was to load the BPF program failed: {0}")]
    Loader(String),
    #[error("the tracepoint block:block_bio_queue cannot be used: {what}: {source}")]
    Tracepoint { what: &'static str, source: io::Error },
    #[error("the tracepoint block:block_bio_queue has a form that is not known: it has no field `{0}`")]
    Format(&'static str),
    #[error("neither way of observing is possible here. By BPF: {bpf}. By the tracepoint alone: {tracepoint}")]
    Neither { bpf: Box<Refused>, tracepoint: Box<Refused> },
    #[error("the range of sectors {start} to {end} is empty or ends behind the disk, which has {sectors}")]
    Range { start: u64, end: u64, sectors: u64 },
}

impl Refused {
    /// Returns whether the tracepoint may work where BPF was refused for this reason.
    pub(crate) const fn leaves_tracepoint(&self) -> bool {
        matches!(self, Self::NoTypes(_) | Self::Program(_) | Self::NotAllowed { .. })
    }
}
