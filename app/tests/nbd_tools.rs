//! Independent clients: nbdinfo, nbdcopy, nbdsh, qemu-io and qemu-img, fio.

mod common;

use common::home::Home;
use common::ram::RamTarget;
use common::{Dice, Served, have, run, serve, skipped};
use onefold::frontend::nbd::{Config, Limits, Server};
use std::process::Command;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

fn uri(served: &Served) -> String {
    served.server.uri().into()
}

/// Makes random bytes with holes.
fn image(served: &Served, bytes: usize) -> (std::path::PathBuf, Vec<u8>) {
    let mut content = vec![0; bytes];
    let mut dice = Dice::new(11);
    for stretch in content.chunks_mut(300 * 512) {
        if dice.below(3) > 0 {
            dice.fill(stretch);
        }
    }
    let path = served.scratch.path().join("image");
    std::fs::write(&path, &content).unwrap();
    (path, content)
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    if !have("nbdinfo_sees_what_is_offered", &["nbdinfo"]) {
        return;
    }
    let served = serve(RamTarget::new(64 * MIB));
    let message = run(Command::new("nbdinfo").arg(uri(&served)));
    for line in [
        "newstyle-fixed without TLS, using structured packets",
        "export-size: 67108864",
        "is_read_only: false",
        "can_df: true",
        "can_fast_zero: true",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "block_size_minimum: 512",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(message.contains(line), "{line} in\n{message}");
    }
    assert!(run(Command::new("nbdinfo").args(["--list", &uri(&served)])).contains("export=\"disk\""));
}

#[test]
fn nbdcopy_copies_there_and_back() {
    if !have("nbdcopy_copies_there_and_back", &["nbdcopy"]) {
        return;
    }
    for worker in [false, true] {
        let target = RamTarget::new(64 * MIB);
        let served = serve(if worker { target.with_worker() } else { target });
        let (path, content) = image(&served, 64 << 20);
        run(Command::new("nbdcopy").args(["--flush", "--connections=4"]).arg(&path).arg(uri(&served)));
        assert!(served.target.content(0, content.len()) == content);
        let back = served.scratch.path().join("back");
        run(Command::new("nbdcopy").args(["--connections=4", &uri(&served)]).arg(&back));
        assert!(std::fs::read(back).unwrap() == content);
    }
}

#[test]
fn nbdcopy_works_over_tcp() {
    if !have("nbdcopy_works_over_tcp", &["nbdcopy"]) {
        return;
    }
    let target = Arc::new(RamTarget::new(16 * MIB));
    let config = Config { listen: "127.0.0.1:0".parse().unwrap(), export: String::new(), limits: Limits::default() };
    let server = Server::start(config, target.clone()).unwrap();
    let aside = serve(RamTarget::new(MIB));
    let (path, content) = image(&aside, 16 << 20);
    run(Command::new("nbdcopy").arg("--flush").arg(&path).arg(server.uri()));
    assert!(target.content(0, content.len()) == content);
}

/// nbdcopy sends requests of 256 KiB and never asks for the server's limits: four times what this much memory accepts at once.
#[test]
fn nbdcopy_works_with_the_least_memory() {
    if !have("nbdcopy_works_with_the_least_memory", &["nbdcopy"]) {
        return;
    }
    let home = Home::new();
    home.says(0, &["create", "disk.img", "--size", "96M", "--label", "small memory"]);
    let uri = home.says(0, &["attach", "--nbd", "--memory", "2M", "disk.img"]).trim().to_owned();
    let aside = serve(RamTarget::new(MIB));
    let (path, content) = image(&aside, 64 << 20);
    run(Command::new("nbdcopy").args(["--flush", "--connections=4"]).arg(&path).arg(&uri));
    let back = aside.scratch.path().join("back");
    run(Command::new("nbdcopy").args(["--connections=4", "--request-size=33554432", &uri]).arg(&back));
    assert!(std::fs::read(&back).unwrap()[..content.len()] == content);
    home.says(0, &["detach", "disk.img"]);
    assert_eq!(home.json(&["check", "--data", "disk.img"])["sound"].as_bool(), Some(true));
}

/// Makes a command for nbdsh with the system's own Python first in the path: its module is installed for that one.
fn nbdsh() -> Command {
    let mut command = Command::new("nbdsh");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("/usr/bin:/bin:{path}"));
    command
}

#[test]
fn nbdsh_uses_every_command() {
    let test = "nbdsh_uses_every_command";
    if !have(test, &["nbdsh"]) {
        return;
    }
    if !nbdsh().args(["-c", "pass"]).output().is_ok_and(|output| output.status.success()) {
        skipped(test, "nbdsh does not run here (python3-libnbd)");
        return;
    }
    let served = serve(RamTarget::new(16 * MIB).with_worker());
    let script = r#"
import os, errno
assert h.get_size() == 16 << 20 and h.get_export_name() in ("", "disk")
# Beyond what the client itself would stop.
h.set_strict_mode(0)
data = os.urandom(1 << 20)
h.pwrite(data, 4096 * 3 + 512, nbd.CMD_FLAG_FUA)
assert h.pread(1 << 20, 4096 * 3 + 512) == data
h.zero(8192, 65536, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
assert h.pread(8192, 65536) == bytes(8192)
h.trim(65536, 1 << 20, nbd.CMD_FLAG_FUA)
h.flush()
def fails(number, what):
    try:
        what()
    except nbd.Error as e:
        assert e.errnum == number, (e, number)
    else:
        assert False, number
fails(errno.ENOTSUP, lambda: h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO))
fails(errno.EINVAL, lambda: h.pread(100, 0))
fails(errno.EINVAL, lambda: h.pread(512, 16 << 20))
fails(errno.ENOSPC, lambda: h.pwrite(bytes(1024), (16 << 20) - 512))
fails(errno.EOVERFLOW, lambda: h.pread(33 << 20, 0))
fails(errno.EOVERFLOW, lambda: h.pread(2 << 20, 0, nbd.CMD_FLAG_DF))
# Longer than the target takes at once.
long = os.urandom((3 << 20) + 512)
h.pwrite(long, 512)
assert h.pread(len(long), 512) == long
chunks = []
h.pwrite(data[:4096], 0); h.trim(4096, 4096)
h.pread_structured(8192, 0, lambda buf, offset, kind, err: chunks.append((offset, len(buf), kind)))
assert chunks == [(0, 4096, nbd.READ_DATA), (4096, 4096, nbd.READ_HOLE)], chunks
chunks.clear()
h.pread_structured(8192, 0, lambda buf, offset, kind, err: chunks.append((offset, len(buf), kind)), nbd.CMD_FLAG_DF)
assert chunks == [(0, 8192, nbd.READ_DATA)], chunks
# Many at once.
buffers = [nbd.Buffer.from_bytearray(bytearray([i]) * 4096) for i in range(64)]
cookies = [h.aio_pwrite(b, i * 4096) for i, b in enumerate(buffers)]
while h.aio_in_flight() > 0:
    h.poll(-1)
assert all(h.aio_command_completed(c) for c in cookies)
for i in range(64):
    assert h.pread(4096, i * 4096) == bytes([i]) * 4096
h.shutdown()
"#;
    run(nbdsh().args(["-u", &uri(&served), "-c", script]));
    // This client uses no structured replies.
    let simple = r#"
h.set_request_structured_replies(False)
h.connect_uri(URI)
assert not h.can_df()
h.pwrite(b"x" * 8192, 512)
assert h.pread(9216, 0) == bytes(512) + b"x" * 8192 + bytes(512)
h.shutdown()
"#;
    let served = serve(RamTarget::new(MIB));
    run(nbdsh().args(["-c", &simple.replace("URI", &format!("{:?}", uri(&served)))]));
}

#[test]
fn qemu_io_and_qemu_img_are_content() {
    if !have("qemu_io_and_qemu_img_are_content", &["qemu-io", "qemu-img"]) {
        return;
    }
    let served = serve(RamTarget::new(64 * MIB).with_worker());
    let mut command = Command::new("qemu-io");
    command.args(["-f", "raw"]);
    for step in [
        "write -P 5 1M 3M",
        "read -P 5 1M 3M",
        "write -z 1M 1M",
        "read -P 0 1M 1M",
        "write -z -u 2M 64k",
        "read -P 0 2M 64k",
        "discard 3M 1M",
        "write -f -P 9 8M 4k",
        "read -P 9 8M 4k",
        "write -P 7 1536 1024",
        "read -P 7 1536 1024",
        "read -P 0 0 1536",
        "flush",
        "aio_write -P 1 32M 64k",
        "aio_write -P 2 33M 64k",
        "aio_flush",
        "read -P 2 33M 64k",
    ] {
        command.args(["-c", step]);
    }
    let message = run(command.arg(uri(&served)));
    assert!(!message.contains("failed") && !message.contains("error"), "{message}");

    let (path, content) = image(&served, 64 << 20);
    run(Command::new("qemu-img").args(["convert", "-n", "-f", "raw", "-O", "raw"]).arg(&path).arg(uri(&served)));
    assert!(served.target.content(0, content.len()) == content);
    let message = run(Command::new("qemu-img").args(["compare", "-f", "raw", "-F", "raw"]).arg(&path).arg(uri(&served)));
    assert!(message.contains("identical"), "{message}");
}

#[test]
fn nbdinfo_and_qemu_img_see_the_holes_of_a_volume() {
    if !have("nbdinfo_and_qemu_img_see_the_holes_of_a_volume", &["nbdinfo", "qemu-io", "qemu-img"]) {
        return;
    }
    for mode in ["log", "ordered"] {
        let home = Home::new();
        home.expect(0, &["create", "disk", "--size", "64M", "--commit-mode", mode]);
        let uri = home.expect(0, &["attach", "--nbd", "disk"]).0.trim().to_owned();
        let steps = ["write -P 7 1M 128k", "write -P 7 3M 64k", "write -P 0 8M 4k", "discard 1088k 64k", "flush"];
        run(Command::new("qemu-io").args(["-f", "raw"]).args(steps.iter().flat_map(|step| ["-c", step])).arg(&uri));
        let map = run(Command::new("nbdinfo").args(["--map", &uri]));
        let lines: Vec<String> = map.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines[..6],
            [
                "0 1048576 3 hole,zero",
                "1048576 65536 0 data",
                "1114112 2031616 3 hole,zero",
                "3145728 65536 0 data",
                "3211264 5177344 3 hole,zero",
                "8388608 4096 2 zero",
            ],
            "{mode}: {map}"
        );
        let map = run(Command::new("qemu-img").args(["map", "-f", "raw", "--output=json", &uri]));
        let map: serde_json::Value = serde_json::from_str(&map).unwrap();
        let data = map.as_array().unwrap().iter().filter(|extent| extent["data"] == true && extent["zero"] == false);
        assert_eq!(data.map(|extent| extent["length"].as_u64().unwrap()).collect::<Vec<_>>(), [65_536, 65_536], "{mode}: {map}");
        home.expect(0, &["detach", "disk"]);
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    let test = "fio_verifies_what_it_wrote";
    if !have(test, &["fio"]) {
        return;
    }
    if !run(Command::new("fio").arg("--enghelp")).lines().any(|line| line.trim() == "nbd") {
        skipped(test, "this fio has no nbd engine");
        return;
    }
    for worker in [false, true] {
        let target = RamTarget::new(64 * MIB);
        let served = serve(if worker { target.with_worker() } else { target });
        let mut command = Command::new("fio");
        command.current_dir(served.scratch.path());
        command.args(["--name=v", "--ioengine=nbd", &format!("--uri={}", uri(&served)), "--rw=randwrite", "--iodepth=32", "--size=32M"]);
        command.args(["--bsrange=512-256k", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--fsync=64", "--randseed=5"]);
        let message = run(&mut command);
        assert!(message.contains("err= 0"), "{message}");
    }
}
