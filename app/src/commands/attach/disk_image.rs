//! Images of disks on a volume whose sectors have another size: the kernel finds none of their partitions.

use onefold_engine::units::BLOCK_BYTES;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

/// The time that the first block may take. It is worth no longer wait.
const PATIENCE: Duration = Duration::from_secs(2);
/// The sector size of the disks from which nearly all images are.
const SECTOR_BYTES: usize = 512;
/// The place of the partition entries in a master boot record, their number, and the bytes of each.
const ENTRIES: (usize, usize, usize) = (446, 4, 16);

/// Returns the words about a table of partitions on `device` that was made with sectors of 512 bytes, where the device has larger ones.
pub fn advice(device: &Path, sector_bytes: u32, volume: &Path) -> Option<String> {
    if usize::try_from(sector_bytes).ok()? == SECTOR_BYTES {
        return None;
    }
    let (sender, first_block) = channel();
    let mut file = File::open(device).ok()?;
    let bytes = std::fs::read_to_string(Path::new("/sys/block").join(device.file_name()?).join("size")).ok()?;
    let sectors: u64 = bytes.trim().parse().ok()?;
    // A thread that is still reading ends with the process.
    std::thread::spawn(move || {
        let mut block = [0; BLOCK_BYTES as usize];
        let _ = sender.send(file.read_exact(&mut block).map(|()| block));
    });
    let block = first_block.recv_timeout(PATIENCE).ok()?.ok()?;
    is_of_small_sectors(&block, sectors, u64::from(sector_bytes)).then(|| {
        let volume = volume.display();
        format!(
            "onefold: {0} holds the image of a disk with sectors of 512 bytes, and has sectors of {sector_bytes}, so its partitions are \
             not found\n  `onefold detach {volume}`, `onefold set {volume} --sector 512` and `onefold attach {volume}` show them.",
            device.display()
        )
    })
}

/// Whether the first block of a device with `sectors` of 512 bytes has a table of partitions that only makes sense in such sectors: a GPT
/// in the second of them, or a master boot record whose partitions would reach beyond the end if sectors had `sector_bytes`.
fn is_of_small_sectors(block: &[u8], sectors: u64, sector_bytes: u64) -> bool {
    if block[510..512] != [0x55, 0xaa] {
        return false;
    }
    if block[SECTOR_BYTES..].starts_with(b"EFI PART") {
        return true;
    }
    let (first, number, bytes) = ENTRIES;
    let entries: Vec<&[u8]> = block[first..].chunks_exact(bytes).take(number).collect();
    let word = |entry: &[u8], at: usize| u64::from(u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]));
    let is_table = entries.iter().all(|entry| matches!(entry[0], 0 | 0x80));
    let end = entries.iter().filter(|entry| entry[4] != 0).map(|entry| word(entry, 8) + word(entry, 12)).max().unwrap_or(0);
    is_table && end <= sectors && end * sector_bytes > sectors * 512
}

#[cfg(test)]
mod tests {
    use super::is_of_small_sectors;

    fn block(partition: Option<(u32, u32)>, gpt_at: usize) -> [u8; 4096] {
        let mut block = [0; 4096];
        block[510..512].copy_from_slice(&[0x55, 0xaa]);
        if let Some((first, sectors)) = partition {
            block[450] = 0x83;
            block[454..458].copy_from_slice(&first.to_le_bytes());
            block[458..462].copy_from_slice(&sectors.to_le_bytes());
        }
        if gpt_at < 4096 {
            block[gpt_at..gpt_at + 8].copy_from_slice(b"EFI PART");
        }
        block
    }

    #[test]
    fn only_tables_that_need_small_sectors_are_told_of() {
        let of = |block: &[u8]| is_of_small_sectors(block, 131_072, 4096);
        assert!(of(&block(None, 512)));
        assert!(of(&block(Some((2048, 100_000)), 4096)));
        assert!(!of(&block(Some((256, 16_000)), 4096)), "in sectors of 4096 bytes it ends before the device does");
        assert!(!of(&block(Some((2048, 200_000)), 4096)), "it fits into neither");
        assert!(!of(&block(None, 4096)) && !of(&[0; 4096]));
        let mut boot_code = block(Some((2048, 100_000)), 4096);
        boot_code[446] = 0x33;
        assert!(!of(&boot_code), "the boot sector of a file system");
    }
}
