//! Small sound structures of each format, for tests to bend: each has its checksum set by `seal` afterwards.

use super::bytes::{crc32, le32};
use crate::units::{Blocks, Lbn, count, index};
use std::collections::BTreeMap;

pub(super) type Block = [u8; 4096];

/// A structure of the tests: its bytes, and how its checksum is set.
#[derive(Clone)]
pub(super) struct Forged {
    pub(super) bytes: Vec<u8>,
    pub(super) seal: fn(&mut [u8]),
}

impl Forged {
    /// The structure with other bytes at some places, and a checksum that fits them.
    pub(super) fn with(&self, changes: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for (at, change) in changes {
            bytes[*at..at + change.len()].copy_from_slice(change);
        }
        (self.seal)(&mut bytes);
        bytes
    }

    pub(super) fn sound(&self) -> Vec<u8> {
        self.with(&[])
    }
}

fn filled(length: usize, fields: &[(usize, &[u8])], seal: fn(&mut [u8])) -> Forged {
    let bytes = Forged { bytes: vec![0; length], seal: |_| {} }.with(fields);
    Forged { bytes, seal }
}

fn put_crc32c(bytes: &mut [u8], at: usize, from: usize) {
    bytes[at..at + 4].fill(0);
    let sum = crc32c::crc32c(&bytes[from..]);
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

/// A superblock of ext4 with a checksum: 100,000 blocks of 4 KiB in 4 groups of 32,768, descriptors of 64 bytes.
pub(super) fn ext4() -> Forged {
    let fields: [(usize, &[u8]); 14] = [
        (0, &4096_u32.to_le_bytes()),
        (4, &100_000_u32.to_le_bytes()),
        (0x18, &2_u32.to_le_bytes()),
        (0x1c, &2_u32.to_le_bytes()),
        (0x20, &32768_u32.to_le_bytes()),
        (0x24, &32768_u32.to_le_bytes()),
        (0x28, &1024_u32.to_le_bytes()),
        (0x38, &0xef53_u16.to_le_bytes()),
        (0x4c, &1_u32.to_le_bytes()),
        (0x58, &256_u16.to_le_bytes()),
        (0x60, &0xc0_u32.to_le_bytes()),
        (0x64, &0x401_u32.to_le_bytes()),
        (0x68, b"uuid of an ext4."),
        (0xfe, &64_u16.to_le_bytes()),
    ];
    filled(1024, &fields, |bytes| {
        let sum = !crc32c::crc32c(&bytes[..0x3fc]);
        bytes[0x3fc..].copy_from_slice(&sum.to_le_bytes());
    })
}

/// A superblock of F2FS with a checksum: 51,200 blocks, its areas from block 512.
pub(super) fn f2fs() -> Forged {
    let words: [(usize, u32); 23] = [
        (0, 0xf2f5_2010),
        (8, 9),
        (12, 3),
        (16, 12),
        (20, 9),
        (24, 1),
        (28, 1),
        (32, 3068),
        (36, 51200),
        (48, 99),
        (52, 2),
        (56, 2),
        (60, 2),
        (64, 1),
        (68, 92),
        (72, 512),
        (76, 512),
        (80, 512 + 1024),
        (84, 512 + 2048),
        (88, 512 + 3072),
        (92, 512 + 3584),
        (108, 0x1234_5678),
        (2180, 0x800),
    ];
    let mut forged = filled(3072, &[], |bytes| {
        let sum = crc32(0xf2f5_2010, &bytes[..3068]);
        bytes[3068..].copy_from_slice(&sum.to_le_bytes());
    });
    for (at, word) in words {
        forged.bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    forged
}

/// The first two sectors of an XFS of version 5: 4 groups of 12,800 blocks, sectors of 512 bytes. The second is the header of group 0's
/// free space.
pub(super) fn xfs() -> Forged {
    let fields: [(usize, &[u8]); 18] = [
        (0, b"XFSB"),
        (4, &4096_u32.to_be_bytes()),
        (8, &51200_u64.to_be_bytes()),
        (32, b"uuid of an XFS.."),
        (84, &12800_u32.to_be_bytes()),
        (88, &4_u32.to_be_bytes()),
        (100, &0xb4a5_u16.to_be_bytes()),
        (102, &512_u16.to_be_bytes()),
        (104, &512_u16.to_be_bytes()),
        (106, &8_u16.to_be_bytes()),
        (120, &[12]),
        (121, &[9]),
        (122, &[9]),
        (123, &[3]),
        (124, &[14]),
        (512, b"XAGF"),
        (516, &1_u32.to_be_bytes()),
        (524, &12800_u32.to_be_bytes()),
    ];
    filled(1024, &fields, |bytes| put_crc32c(&mut bytes[..512], 224, 0))
}

const GIB: u64 = 1 << 30;
/// The system chunk of the Btrfs of the tests: its address, and the places of its two stripes.
pub(super) const SYSTEM: (u64, [u64; 2]) = (22 << 20, [22 << 20, 30 << 20]);

/// The key and the data of a chunk of 8 MiB with two stripes on device 1.
pub(super) fn chunk(logical: u64, kind: u64, stripes: [u64; 2]) -> (Vec<u8>, Vec<u8>) {
    let key = [&256_u64.to_le_bytes()[..], &[228], &logical.to_le_bytes()].concat();
    let mut data = vec![0; 48];
    data[..8].copy_from_slice(&(8_u64 << 20).to_le_bytes());
    data[24..32].copy_from_slice(&kind.to_le_bytes());
    data[44..46].copy_from_slice(&2_u16.to_le_bytes());
    for stripe in stripes {
        data.extend([1_u64.to_le_bytes(), stripe.to_le_bytes()].concat());
        data.extend(b"uuid of device 1");
    }
    (key, data)
}

/// A superblock of a Btrfs of 1 GiB with blocks of 4 KiB, whose chunk tree has a root of level 1 at the beginning of the system chunk.
pub(super) fn btrfs() -> Forged {
    let (key, data) = chunk(SYSTEM.0, 0x22, SYSTEM.1);
    let chunks = [key, data].concat();
    let fields: [(usize, &[u8]); 14] = [
        (32, b"uuid of a Btrfs."),
        (48, &65536_u64.to_le_bytes()),
        (64, b"_BHRfS_M"),
        (88, &SYSTEM.0.to_le_bytes()),
        (144, &4096_u32.to_le_bytes()),
        (148, &4096_u32.to_le_bytes()),
        (160, &u32::try_from(chunks.len()).expect("a short table").to_le_bytes()),
        (164, &7_u64.to_le_bytes()),
        (199, &[1]),
        (201, &1_u64.to_le_bytes()),
        (209, &GIB.to_le_bytes()),
        (267, b"uuid of device 1"),
        (283, b"uuid of a Btrfs."),
        (811, &chunks),
    ];
    filled(4096, &fields, |bytes| put_crc32c(bytes, 0, 32))
}

/// A block of the chunk tree at this address.
fn node(logical: u64, level: u8, count: usize, content: &[u8]) -> Forged {
    let fields: [(usize, &[u8]); 7] = [
        (32, b"uuid of a Btrfs."),
        (48, &logical.to_le_bytes()),
        (80, &7_u64.to_le_bytes()),
        (88, &3_u64.to_le_bytes()),
        (96, &u32::try_from(count).expect("few items").to_le_bytes()),
        (100, &[level]),
        (101, content),
    ];
    filled(4096, &fields, |bytes| put_crc32c(bytes, 0, 32))
}

/// An inner block of the chunk tree, with pointers to these blocks.
pub(super) fn inner(logical: u64, level: u8, below: &[u64]) -> Forged {
    let pointers: Vec<u8> = below.iter().flat_map(|below| [&[0; 17][..], &below.to_le_bytes(), &7_u64.to_le_bytes()].concat()).collect();
    node(logical, level, below.len(), &pointers)
}

/// A leaf of the chunk tree, with these chunks.
pub(super) fn leaf(logical: u64, chunks: &[(Vec<u8>, Vec<u8>)]) -> Forged {
    let (mut items, mut datas) = (Vec::new(), vec![0; 4096 - 101]);
    let mut end = datas.len();
    for (key, data) in chunks {
        let at = end - data.len();
        datas[at..end].copy_from_slice(data);
        items.extend(key);
        items.extend([at, data.len()].iter().flat_map(|n| u32::try_from(*n).expect("a short leaf").to_le_bytes()));
        end = at;
    }
    datas[..items.len()].copy_from_slice(&items);
    node(logical, 0, chunks.len(), &datas)
}

/// The header of a GPT with sectors of 512 bytes, and the table in the next sector. Its one partition begins at sector 2048.
pub(super) fn gpt() -> Forged {
    let fields: [(usize, &[u8]); 11] = [
        (0, b"EFI PART"),
        (8, &0x1_0000_u32.to_le_bytes()),
        (12, &92_u32.to_le_bytes()),
        (24, &1_u64.to_le_bytes()),
        (72, &2_u64.to_le_bytes()),
        (80, &4_u32.to_le_bytes()),
        (84, &128_u32.to_le_bytes()),
        (512, b"kind of the part"),
        (528, b"uuid of the part"),
        (544, &2048_u64.to_le_bytes()),
        (552, &1_000_000_u64.to_le_bytes()),
    ];
    filled(1024, &fields, |bytes| {
        let table = (le32(bytes, 80).min(4) * 128) as usize;
        let sum = !crc32(!0, &bytes[512..512 + table]);
        bytes[88..92].copy_from_slice(&sum.to_le_bytes());
        bytes[16..20].fill(0);
        let header = le32(bytes, 12).min(512) as usize;
        let sum = !crc32(!0, &bytes[..header]);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
    })
}

/// The table of an MBR with these entries: kind, first sector, sectors.
pub(super) fn mbr(entries: &[(u8, u32, u32)]) -> Forged {
    let mut forged = filled(512, &[(510, &[0x55, 0xaa])], |_| {});
    for (entry, (kind, first, sectors)) in forged.bytes[446..510].chunks_exact_mut(16).zip(entries) {
        entry[4] = *kind;
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..].copy_from_slice(&sectors.to_le_bytes());
    }
    forged
}

/// A volume in memory: blocks that nobody wrote are zeroes.
#[derive(Clone, Default)]
pub(super) struct Volume {
    blocks: BTreeMap<Lbn, Block>,
}

impl Volume {
    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let offset = index(at % 4096);
            let (part, later) = rest.split_at(rest.len().min(4096 - offset));
            self.blocks.entry(Lbn(at / 4096)).or_insert([0; 4096])[offset..offset + part.len()].copy_from_slice(part);
            (at, rest) = (at + count(part.len()), later);
        }
    }

    /// The volume with this structure at this place.
    pub(super) fn with(mut self, at: u64, bytes: &[u8]) -> Self {
        self.put(at, bytes);
        self
    }

    pub(super) fn block(&self, lbn: Lbn) -> Block {
        self.blocks.get(&lbn).copied().unwrap_or([0; 4096])
    }
}

/// The length of the volumes of the tests: 1 GiB.
pub(super) const VOLUME: Blocks = Blocks(GIB / 4096);
