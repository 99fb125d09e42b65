"""Whether the copies that a file system keeps on purpose stay copies, and save it: ext4, XFS and Btrfs over FUSE and loop.

For each: the file system is made on a fresh volume, a thousand files are written, everything is looked up out of line, and the volume is
detached. By its map, read from the store, and by `dump`, no other LBN may lie on a block of a protected range. Then the main copies are
destroyed on the store, and the file system's own tool has to bring every file back from the others.

A run has its subject if the volume shares blocks at all, if ext4's other copies of the descriptors, which nothing protects, are shared, and
if a reader of the destroyed blocks fails. A last volume gets 10,000 random blocks with the magic of a superblock, which protect nothing.

Environment: ONEFOLD_BENCH_PROTECTED (ext4,ext4-plain,ext4-meta-bg,xfs,btrfs) chooses.
"""

import hashlib
import os
import random
import re
import subprocess
import time

from block import MIB, UNIT, call, onefold
from hinted import EXT4, Mounted, folder, must
from medium import Medium

FILES = 1000
SIZE = 1024 * MIB
KINDS = {
    "ext4": (*EXT4, "-b", "4096"),
    "ext4-plain": (*EXT4, "-b", "4096", "-O", "^metadata_csum"),
    "ext4-meta-bg": (*EXT4, "-b", "4096", "-O", "meta_bg,^resize_inode"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-m", "dup"),
}
SURVEY_SECONDS = 60
# Of the protected blocks that are in use, `dump` tells the story of this many; the map is read whole.
STORIES = 40
# e2fsck has restored what was lost, or had nothing to restore.
RESTORED = (0, 1)
MAGIC_BLOCKS = 10_000


def write_files(at, seed):
    """Writes the files, some alike in part, and returns the digest of each."""
    draw, digests = random.Random(seed), {}
    common = [draw.randbytes(UNIT) for _ in range(8)]
    for count in range(FILES):
        folder_of = os.path.join(at, f"folder{count % 10}")
        os.makedirs(folder_of, exist_ok=True)
        body = draw.choice(common) * draw.randrange(3) + draw.randbytes(draw.randrange(20_000)) + b"line of text\n" * draw.randrange(2000)
        path = os.path.join(folder_of, f"file{count}")
        with open(path, "wb") as file:
            file.write(body)
        digests[os.path.relpath(path, at)] = hashlib.sha256(body).hexdigest()
    return digests


def unequal(at, digests):
    """Returns the files that are missing or differ."""

    def digest(path):
        try:
            with open(path, "rb") as file:
                return hashlib.sha256(file.read()).hexdigest()
        except OSError as error:
            return str(error)

    return [path for path, wanted in digests.items() if digest(os.path.join(at, path)) != wanted]


def surveyed(mounted):
    """Waits until the volume has found the file system, and what it protects no longer changes."""
    last = []

    def steady():
        last.append(mounted.stats()["protection"])
        return len(last) > 5 and last[-1]["blocks"] > 0 and all(one == last[-1] for one in last[-5:])

    onefold.wait_for(steady, SURVEY_SECONDS, "the survey of the file system")
    return last[-1]


def shared(medium):
    """Returns how many blocks of protected ranges are in use, and the LBNs that lie on a block with others."""
    used = [lbn for lbn in medium.protected if lbn in medium.map]
    must(used, "no protected block is in use")
    alike = [lbn for lbn in used if medium.beside(lbn)[0]]
    beside = [lbn for lbn in used if medium.beside(lbn)[1]]
    for lbn in random.Random(1).sample(used, min(STORIES, len(used))):
        story = medium.story(lbn)
        said = onefold.report("dump", medium.store, "--pbn", story["leads_to"]["pbn"])["links"]["lbns"]
        must(sorted(said) == sorted(medium.lbns[medium.map[lbn][0]]), f"`dump --pbn` of LBN {lbn} lists {said}")
    return used, alike, beside


def ext4_places(device):
    """Returns the LBNs of the main superblock and descriptors, those of the others, and the block of a backup superblock."""
    said = call("dumpe2fs", device)
    supers = [int(block) for block in re.findall(r"(?:Primary|Backup) superblock at (\d+)", said)]
    spans = [(int(first), int(last or first)) for first, last in re.findall(r"Group descriptors? at (\d+)(?:-(\d+))?", said)]
    tables = [list(range(first, last + 1)) for first, last in spans]
    must(supers[0] == 0 and len(supers) > 1 and len(tables) > 1, f"dumpe2fs shows the superblocks {supers} and {tables}")
    return [0, *tables[0]], tables[1:], supers[1]


def tree_copies(device):
    """Returns the LBNs of both copies of a leaf of the tree of files. That of the root tree would be replaced by the next mount."""
    leaf = re.search(r"^\s*leaf (\d+)", call("btrfs", "inspect-internal", "dump-tree", "-t", "5", device), re.M).group(1)
    size = int(re.search(r"^nodesize\s+(\d+)", call("btrfs", "inspect-internal", "dump-super", device), re.M).group(1))
    places = [int(at) for at in re.findall(r"physical (\d+)", call("btrfs-map-logical", "-l", leaf, device))]
    must(len(places) == 2, f"btrfs-map-logical shows the copies {places}")
    return [[at // UNIT + block for block in range(size // UNIT)] for at in places]


def overwrite(device, lbns):
    """Writes zeros over blocks that cannot be read: what is written in part, as a superblock of 1 KiB, has to be read first."""
    for lbn in lbns:
        call("dd", "if=/dev/zero", f"of={device}", f"bs={UNIT}", f"seek={lbn}", "count=1", "oflag=direct", "conv=notrunc", "status=none")


def scrubbed(mounted):
    """Mounts Btrfs and scrubs it twice: the mount or the first scrub mends, and the second finds nothing. Returns what failed."""
    mounted.mount()
    for _ in range(2):
        done = subprocess.run(["btrfs", "scrub", "start", "-B", mounted.files], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return [f"the scrub ended with {done.returncode}: {done.stdout[-300:]}{done.stderr[-200:]}"]
    errors = sum(int(count) for count in re.findall(r"_errs\s+(\d+)", call("btrfs", "device", "stats", mounted.files)))
    must(errors > 0, "Btrfs has met no error")
    return [] if "no errors found" in done.stdout else [f"the second scrub found {done.stdout[-300:]}"]


def repaired(name, mounted, backup, main):
    """Has the file system's own tool restore what was destroyed; returns what failed, and whether that tool was enough by itself."""
    if name == "btrfs":
        return scrubbed(mounted), True
    words = ["xfs_repair", mounted.device] if name == "xfs" else ["e2fsck", "-f", "-y", "-b", str(backup), "-B", str(UNIT), mounted.device]
    for is_alone in (True, False):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        said = f"{' '.join(words)} ended with {done.returncode}: {done.stdout[-400:]}{done.stderr[-200:]}"
        try:
            mounted.mount()
            return [] if done.returncode in RESTORED else [said], is_alone
        except onefold.Failed:
            overwrite(mounted.device, main)
    return [said], False


def unshared_at_first(name, mounted):
    """Looks at a file system that was just made, when ext4's descriptors equal their copies, and those of Btrfs do: what is equal must lie
    apart. Returns the number of such blocks, and what was missed. The file system is mounted again."""
    mounted.unmount()
    surveyed(mounted)
    onefold.run("dedup", "--all", mounted.disk.device)
    pairs = []
    if name.startswith("ext4"):
        main, others, _ = ext4_places(mounted.device)
        pairs = [(main[1 + at], other[at]) for other in others if len(other) == len(main) - 1 for at in range(len(main) - 1)]
    elif name == "btrfs":
        pairs = list(zip(*tree_copies(mounted.device)))
    with open(mounted.device, "rb", buffering=0) as device:
        equal = [pair for pair in pairs if len({os.pread(device.fileno(), UNIT, lbn * UNIT) for lbn in pair}) == 1]
    mounted.detach()
    medium = Medium(mounted.disk.device)
    # Zeros have no block.
    equal = [pair for pair in equal if all(lbn in medium.map for lbn in pair)]
    missed = [f"LBNs {one} and {other} share a block after mkfs" for one, other in equal if medium.map[one][0] == medium.map[other][0]]
    must(equal or name == "xfs", "no block equals its copy")
    mounted.reattach()
    mounted.mount()
    return len(equal), missed


def judged(name, path, seed):
    """Runs all of it on one file system, and returns what was found."""
    with Mounted(path, SIZE, mkfs=KINDS[name], mount=("-o", "noatime")) as mounted:
        at_first = unshared_at_first(name, mounted)
        digests = write_files(mounted.files, seed)
        mounted.unmount()
        protection = surveyed(mounted)
        onefold.run("dedup", "--all", mounted.disk.device)
        must(mounted.stats()["space"]["shared_blocks"] > 0, "the volume shares no blocks")
        main, others, backup, copies = [0], [], None, []
        if name.startswith("ext4"):
            main, others, backup = ext4_places(mounted.device)
        elif name == "btrfs":
            main, *copies = tree_copies(mounted.device)
        mounted.detach()
        medium = Medium(mounted.disk.device)
        used, alike, beside = shared(medium)
        made = {"file_systems": protection["file_systems"], "protected": len(medium.protected), "in_use": len(used), "shared": len(alike)}
        made.update(beside=len(beside))
        made["equal_at_first"], missed = at_first
        missed += [f"{len(alike)} protected blocks are shared: {alike[:9]}"] if alike else []
        missed += [f"{len(beside)} protected blocks lie beside others: {beside[:9]}"] if beside else []
        if name == "btrfs":
            guarded = set(medium.protected)
            missed += [] if guarded.issuperset(main) or guarded.issuperset(copies[0]) else ["no copy of the tree block is protected"]
        elif not set(main) <= set(medium.protected):
            missed.append(f"not protected: {sorted(set(main) - set(medium.protected))}")
        made["backups_shared"] = sum(1 for table in others for lbn in table if medium.map.get(lbn) and medium.beside(lbn)[0])
        must(made["backups_shared"] > 0 or len(others) < 2, "no block of the other descriptors is shared, so that nothing was at stake")
        main = [lbn for lbn in main if lbn in medium.map]
        made["destroyed"] = [medium.destroy(lbn) for lbn in main]
        mounted.reattach()
        for lbn in main:
            words = ["dd", f"if={mounted.device}", "of=/dev/null", f"bs={UNIT}", f"skip={lbn}", "count=1", "iflag=direct", "status=none"]
            must(subprocess.run(words, capture_output=True, check=False).returncode != 0, f"LBN {lbn} can be read after it was destroyed")
        failed, made["tool_alone"] = repaired(name, mounted, backup, main)
        missed += failed or [f"not equal: {path_of}" for path_of in unequal(mounted.files, digests)]
        made["files"] = len(digests)
    return {**made, "missed": missed}


def random_magic(path, seed):
    """Writes random blocks with the magic of each kind of superblock at its place; returns what is protected then."""
    magics = ((0x438, b"\x53\xef"), (0, b"XFSB"), (0x40, b"_BHRfS_M"), (0x400, b"\x10\x20\xf5\xf2"))
    draw = random.Random(seed)
    with Mounted(path, SIZE, mkfs=("true",), mount=None) as mounted:
        with open(mounted.device, "r+b", buffering=0) as device:
            for count in range(MAGIC_BLOCKS):
                body = bytearray(draw.randbytes(UNIT))
                at, magic = magics[count % len(magics)]
                body[at : at + len(magic)] = magic
                # Most of them where a superblock belongs: at the beginning, and for Btrfs at 64 KiB.
                lbn = draw.choice((0, 0, 16, draw.randrange(mounted.blocks())))
                os.pwrite(device.fileno(), body, lbn * UNIT)
                if count % 100 == 0:
                    os.fsync(device.fileno())
            os.fsync(device.fileno())
        time.sleep(5)
        protection = mounted.stats()["protection"]
        mounted.detach()
        ranges = Medium(mounted.disk.device).protected
    missed = [f"{len(ranges)} blocks are protected"] if ranges else []
    return {"protected": len(ranges), "file_systems": protection["file_systems"], "missed": missed}


def run(_name, options):
    """Returns the number of missed claims."""
    chosen = os.environ.get("ONEFOLD_BENCH_PROTECTED", ",".join(KINDS)).split(",")
    unknown = [name for name in chosen if name not in KINDS]
    if unknown:
        raise onefold.Failed(f"ONEFOLD_BENCH_PROTECTED: unknown {', '.join(unknown)}; there are {', '.join(KINDS)}")
    found = {}
    with folder(options) as path:
        for name in chosen:
            found[name] = judged(name, os.path.join(path, name), options.seed)
            if not options.json:
                print(f"{name}: {found[name]}", flush=True)
        found["random magic"] = random_magic(os.path.join(path, "magic"), options.seed)
    return {"value": sum(len(made["missed"]) for made in found.values()), **found}
