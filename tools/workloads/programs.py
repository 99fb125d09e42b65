"""The programs that are recorded: for each its setup and its work. Both get the root of a mounted ext4."""

import os
import random
import shutil
import sqlite3

import debian
import hadoop
import ycsb
from applications import APPLICATIONS
from debian import sh


# Packages, in a chroot on the device.


def base_system(root, cache):
    archive = os.path.join(cache, "base.tar")
    debian.base_system(archive)
    debian.unpack(archive, root)


def apt_update(root, _cache):
    debian.chroot(root, "apt-get update")


def apt_install_setup(root, cache):
    base_system(root, cache)
    debian.chroot(root, "apt-get update")


def apt_install(root, _cache):
    debian.chroot(root, "apt-get install -y --no-install-recommends firefox-esr man-db")


# SQLite.

MODES = ("DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF")


def sqlite_modes(root, _cache):
    """Runs small transactions in each mode of the journal: inserts, updates, deletes, as an application makes them."""
    draw = random.Random(11)
    for mode in MODES:
        with_mode = sqlite3.connect(os.path.join(root, f"{mode.lower()}.db"), isolation_level=None)
        with_mode.execute(f"PRAGMA journal_mode={mode}")
        with_mode.execute("PRAGMA synchronous=FULL")
        with_mode.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, value INTEGER, body BLOB)")
        with_mode.execute("CREATE INDEX by_name ON item (name)")
        for number in range(900):
            with_mode.execute("BEGIN")
            for _ in range(draw.randint(1, 4)):
                body = draw.randbytes(draw.randint(50, 1500))
                with_mode.execute("INSERT INTO item (name, value, body) VALUES (?, ?, ?)", (f"item {draw.randrange(10**6)}", number, body))
            with_mode.execute("UPDATE item SET value = value + 1 WHERE id = ?", (draw.randint(1, number + 1),))
            if number % 10 == 9:
                with_mode.execute("DELETE FROM item WHERE id = ?", (draw.randint(1, number),))
            with_mode.execute("COMMIT")
        with_mode.close()


# Copies of files.


def dd_copy_setup(root, _cache):
    sh(
        f"cd {root}; head -c 256M /dev/urandom >random; head -c 32M /dev/urandom >part;"
        " for i in 1 2 3 4 5 6 7 8; do cat part; done >repeated; rm part"
    )


def dd_copy(root, _cache):
    """Copies each file twice, by blocks of two sizes, and once shifted by some bytes, which makes new blocks of it."""
    sh(
        f"cd {root}; for file in random repeated; do dd if=$file of=$file.1 bs=4k; dd if=$file of=$file.2 bs=1M; done;"
        " (head -c 100 /dev/urandom; cat random) | head -c 256M | dd of=shifted bs=1M iflag=fullblock;"
        " head -c 256M /dev/urandom | dd of=new bs=1M iflag=fullblock"
    )


# Synthetic.


def fio(percent):
    def run(root, _cache):
        sh(
            f"cd {root}; fio --name=dup --filename=file --rw=write --bs=1M --size=1G --end_fsync=1 --ioengine=psync"
            f" --buffer_compress_percentage=0 --refill_buffers --randseed=16 --dedupe_percentage={percent}"
        )

    return run


def nothing(_root, _cache):
    """Needs no setup."""


def vm_images_setup(root, cache):
    """Makes an image of a machine: the minimal Debian in an ext4 of its own."""
    tree = os.path.join(cache, "tree")
    shutil.rmtree(tree, ignore_errors=True)
    os.mkdir(tree)
    base_system(tree, cache)
    sh(f"truncate -s 1G {root}/base.img; mkfs.ext4 -q -F -d {tree} {root}/base.img")
    shutil.rmtree(tree)


def vm_images(root, _cache):
    """Clones the image; some clones get files of their own."""
    for number in range(5):
        sh(f"cd {root}; cp --sparse=always --reflink=never base.img clone{number}.img")
    for number in range(3):
        place = os.path.join(root, f"mount{number}")
        os.mkdir(place)
        sh(f"mount -o loop {root}/clone{number}.img {place}")
        try:
            sh(
                f"mkdir {place}/own; cp -a {place}/usr/bin {place}/own/; head -c 8M /dev/urandom >{place}/own/data;"
                f" echo clone{number} >{place}/etc/hostname"
            )
        finally:
            sh(f"umount {place}")
    sh(f"cd {root}; tar -cf backup.tar clone0.img clone3.img")


# The format is name: (size of the device in GiB, setup, work, the shipped trace of the same program or none, description).
PROGRAMS = {
    "apt-update": (8, base_system, apt_update, "01_apt_update", "update of the package index, in a chroot"),
    "apt-install": (8, apt_install_setup, apt_install, "02_apt_install", "installation of a browser, in a chroot"),
    "sqlite-modes": (2, nothing, sqlite_modes, "11_sqlite_modes", "SQLite transactions in each mode of its journal"),
    "vm-images": (8, vm_images_setup, vm_images, "14_vm_images", "copies of the image of a machine"),
    "fio-dup0": (3, nothing, fio(0), "16_fio_dup0", "fio without duplicates (synthetic)"),
    "fio-dup25": (3, nothing, fio(25), "16_fio_dup25", "fio with 25 % of duplicates (synthetic)"),
    "fio-dup50": (3, nothing, fio(50), "16_fio_dup50", "fio with 50 % of duplicates (synthetic)"),
    "fio-dup75": (3, nothing, fio(75), "16_fio_dup75", "fio with 75 % of duplicates (synthetic)"),
    **APPLICATIONS,
    **hadoop.HADOOP,
    **ycsb.YCSB,
    "dd-copy": (4, dd_copy_setup, dd_copy, "17_dd_copy", "files copied again and again"),
}

# What the JSON beside a shipped trace says of its programs.
VERSIONS = {**dict.fromkeys(hadoop.HADOOP, hadoop.versions), **ycsb.VERSIONS}
