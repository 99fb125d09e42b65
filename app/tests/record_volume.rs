//! `trace record` of a volume that is a block device: by the kernel, compared with what was written, and beside it by the server.

mod common;

use common::home::Home;
use common::recorded::missing;
use common::{Dice, have, may_mount, run, skipped};
use md5::{Digest as _, Md5};
use onefold_trace::record::{ContentName, Op, Record};
use onefold_trace::recording::Reader;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BLOCK: u64 = 4096;
/// Blocks up to here are written directly, one request after the other; those behind by way of the page cache.
const DIRECT_BLOCKS: u64 = 2048;
const BUFFERED_BLOCKS: u64 = 2048;
/// The most blocks of one write: some vectors of one bio.
const WRITE_BLOCKS: u64 = 16;

/// The content of a block in a trace: none where it is not known.
type Content = Option<[u8; 16]>;
const ZEROS: Content = Some([0; 16]);

/// Returns whether the kernel can record volumes here, and reports a skipped test if not.
fn may_record(test: &str) -> bool {
    if !may_mount(test) || !have(test, &["blkdiscard", "losetup"]) {
        return false;
    }
    let has_types = Path::new("/sys/kernel/btf/vmlinux").exists();
    if !has_types {
        skipped(test, "this kernel has no BTF");
    }
    has_types
}

/// A volume that is attached as a block device.
struct Volume {
    home: Home,
    device: PathBuf,
}

/// A request of which the trace has to have a record.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Sent {
    op: Op,
    fua: bool,
    offset: u64,
    length: u64,
    content: Vec<Content>,
}

/// Memory as direct writes need it.
#[repr(align(4096))]
struct Aligned([u8; (WRITE_BLOCKS * BLOCK) as usize]);

/// Makes a block of content number `n`: 0 is all zeros, every second one compresses well.
fn block(n: u64) -> [u8; BLOCK as usize] {
    let mut content = [0; BLOCK as usize];
    if n > 0 {
        Dice::new(n).fill(if n % 2 == 0 { &mut content[..1000] } else { &mut content });
    }
    content
}

fn name_of(block: &[u8]) -> Content {
    if block.iter().all(|byte| *byte == 0) { ZEROS } else { Some(Md5::digest(block).into()) }
}

impl Volume {
    fn new() -> Self {
        let home = Home::new();
        home.says(0, &["create", "volume", "--size", "64M"]);
        let device = home.says(0, &["attach", "--fuse", "--memory", "64M", "volume"]).trim().into();
        Self { home, device }
    }

    fn open(&self, flags: i32) -> File {
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(&self.device).unwrap()
    }

    /// Writes blocks of some contents directly.
    fn write(&self, flags: i32, first: u64, contents: &[u64]) -> Sent {
        let mut memory = Box::new(Aligned([0; (WRITE_BLOCKS * BLOCK) as usize]));
        for (place, n) in memory.0.chunks_mut(BLOCK as usize).zip(contents) {
            place.copy_from_slice(&block(*n));
        }
        let bytes = &memory.0[..contents.len() * BLOCK as usize];
        self.open(libc::O_DIRECT | flags).write_all_at(bytes, first * BLOCK).unwrap();
        let content = bytes.chunks(BLOCK as usize).map(name_of).collect();
        Sent { op: Op::Write, fua: flags & libc::O_DSYNC != 0, offset: first * BLOCK, length: bytes.len() as u64, content }
    }

    fn discard(&self, op: Op, first: u64, blocks: u64) -> Sent {
        let (offset, length) = (first * BLOCK, blocks * BLOCK);
        let mut command = Command::new("blkdiscard");
        command.args(["--offset", &offset.to_string(), "--length", &length.to_string()]).arg(&self.device);
        run(if op == Op::WriteZeroes { command.arg("--zeroout") } else { &mut command });
        Sent { op, fua: false, offset, length, content: Vec::new() }
    }

    /// Sends requests of each kind, one after the other, and beside them buffered writes; returns the direct ones.
    fn load(&self, seed: u64, requests: u64) -> Vec<Sent> {
        let (mut dice, mut sent) = (Dice::new(seed), Vec::new());
        let buffered = self.open(0);
        for _ in 0..requests {
            let many = 1 + dice.below(WRITE_BLOCKS);
            let first = dice.below(DIRECT_BLOCKS - many);
            let contents: Vec<u64> = (0..many).map(|_| dice.below(40)).collect();
            match dice.below(20) {
                0 => sent.push(self.discard(Op::Discard, first, many)),
                1 => sent.push(self.discard(Op::WriteZeroes, first, many)),
                2 => sent.push(self.write(libc::O_DSYNC, first, &contents)),
                3 => self.open(0).sync_all().unwrap(),
                4..8 => {
                    let bytes: Vec<u8> = contents.iter().flat_map(|n| block(*n)).collect();
                    buffered.write_all_at(&bytes, (DIRECT_BLOCKS + dice.below(BUFFERED_BLOCKS - many)) * BLOCK).unwrap();
                }
                8..14 => sent.push(self.write(0, first, &contents[..1])),
                _ => sent.push(self.write(0, first, &contents)),
            }
        }
        buffered.sync_all().unwrap();
        sent
    }

    /// Returns the content of each block that a load may have written.
    fn content(&self) -> Vec<Content> {
        let mut bytes = vec![0; ((DIRECT_BLOCKS + BUFFERED_BLOCKS) * BLOCK) as usize];
        self.open(0).read_exact_at(&mut bytes, 0).unwrap();
        bytes.chunks(BLOCK as usize).map(name_of).collect()
    }

    fn server(&self) -> Pid {
        let [_, server] = self.home.processes("volume");
        server
    }

    fn record(&self, out: &str, words: &[&str]) -> Recorder {
        Recorder::start(&self.home, "volume", out, words)
    }

    fn trace(&self, name: &str) -> Vec<Record> {
        Reader::open(Path::new(&self.home.path(name)), false).unwrap().map(|record| record.unwrap()).collect()
    }
}

/// A recording that is under way, with the lines that it began with.
struct Recorder {
    child: Child,
    lines: Vec<String>,
}

impl Recorder {
    fn start(home: &Home, volume: &str, out: &str, words: &[&str]) -> Self {
        let mut command = home.command(&["trace", "record", volume, "--out", out, "--unkeyed", "md5", "--json"]);
        let mut child = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.as_mut().unwrap()).lines().take(2).map(|line| line.unwrap()).collect();
        Self { child, lines }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn end(self) -> Value {
        kill_process(self.pid(), Signal::INT).unwrap();
        self.summary()
    }

    /// Waits for its end, which must be successful.
    fn summary(self) -> Value {
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn count(summary: &Value, name: &str) -> u64 {
    summary[name].as_u64().unwrap_or_else(|| panic!("{name}: {summary}"))
}

fn content_of(name: ContentName) -> Content {
    match name {
        ContentName::Zero => ZEROS,
        ContentName::Of(bytes) => Some(*bytes.first_chunk().unwrap()),
        ContentName::Unknown => None,
    }
}

/// Returns the requests of the direct part.
fn direct(records: &[Record]) -> Vec<Sent> {
    let is_direct = |record: &&Record| !matches!(record.op, Op::Flush | Op::Mark) && record.offset.get() < DIRECT_BLOCKS * BLOCK;
    let sent = records.iter().filter(is_direct).map(|record| Sent {
        op: record.op,
        fua: record.fua,
        offset: record.offset.get(),
        length: record.length.get(),
        content: record.blocks.iter().map(|block| content_of(block.name)).collect(),
    });
    sent.collect()
}

/// Checks that a trace ends with the content that the volume has; returns the number of blocks that it has.
fn check_content(records: &[Record], content: &[Content]) -> usize {
    let mut last = BTreeMap::new();
    for record in records.iter().filter(|record| matches!(record.op, Op::Write | Op::Discard | Op::WriteZeroes)) {
        let first = (record.offset.get() / BLOCK) as usize;
        for at in 0..record.blocks_touched() as usize {
            let known = record.blocks.get(at).map(|block| content_of(block.name));
            last.insert(first + at, if record.op == Op::Write { known.unwrap() } else { ZEROS });
        }
    }
    for (at, known) in &last {
        assert_eq!(*known, content[*at], "block {at}");
    }
    last.len()
}

#[test]
fn the_kernel_and_the_server_record_what_was_written() {
    if !may_record("the_kernel_and_the_server_record_what_was_written") {
        return;
    }
    let volume = Volume::new();
    let by_kernel = volume.record("kernel", &["--ring", "64M", "--no-reads"]);
    assert!(by_kernel.lines[1].contains("from the kernel"), "{:?}", by_kernel.lines);
    let by_server = volume.record("server", &["--by", "server"]);
    assert!(by_server.lines[1].contains("from the server"), "{:?}", by_server.lines);
    let sent = volume.load(1, 500);
    let [kernel, server] = [by_kernel.end(), by_server.end()];
    assert_eq!((kernel["by"].as_str(), server["by"].as_str()), (Some("kernel"), Some("server")));
    for name in ["gaps", "blocks_without_room", "pieces_unreadable", "blocks_partial"] {
        assert_eq!(count(&kernel, name), 0, "{kernel}");
    }
    assert_eq!(count(&server, "gaps"), 0);

    let (content, [kernel, server]) = (volume.content(), ["kernel", "server"].map(|name| volume.trace(name)));
    assert_eq!(direct(&kernel), sent);
    // A loop device asks for a flush after a durable write, and does not say which of both frees a hole.
    let writes = |sent: &[Sent]| {
        let writes = sent.iter().filter(|sent| sent.op == Op::Write);
        writes.map(|sent| Sent { fua: false, ..sent.clone() }).collect::<Vec<_>>()
    };
    assert_eq!(writes(&direct(&server)), writes(&sent));
    let known = [&kernel, &server].map(|records| check_content(records, &content));
    assert!(known[0] == known[1] && known[0] > 1500, "{known:?}");
    let is_marked = |record: &&Record| record.op == Op::Write && record.stream.as_deref() == Some("O");
    let marked: Vec<&Record> = kernel.iter().filter(is_marked).collect();
    assert_eq!(marked.len(), sent.iter().filter(|sent| sent.op == Op::Write).count(), "direct writes are marked");
    assert!(marked.windows(2).all(|pair| pair[0].time_ns < pair[1].time_ns), "one after the other");
    let own = fs::read_to_string("/proc/self/comm").unwrap();
    assert!(marked.iter().all(|record| record.process.as_deref() == Some(own.trim())));
    assert!(kernel.iter().filter(|record| record.op == Op::Flush).count() > 10);
}

#[test]
fn neither_the_server_nor_the_recorder_needs_the_other() {
    if !may_record("neither_the_server_nor_the_recorder_needs_the_other") {
        return;
    }
    let volume = Volume::new();
    let recorder = volume.record("trace", &["--no-reads"]);
    let mut sent = volume.load(2, 100);
    let server = volume.server();
    kill_process(server, Signal::KILL).unwrap();
    sent.extend(volume.load(3, 100));
    assert_ne!(volume.server(), server, "another one serves");
    assert_eq!(count(&recorder.end(), "gaps"), 0);
    assert_eq!(direct(&volume.trace("trace")), sent, "each request once");

    let mut killed = volume.record("killed", &[]);
    volume.load(4, 20);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    volume.load(5, 20);
    // The socket that it left is no recorder's; and the next one ends with the attachment.
    let recorder = volume.record("last", &["--no-reads"]);
    let sent = volume.load(6, 100);
    volume.home.says(0, &["detach", "volume"]);
    assert_eq!(count(&recorder.summary(), "gaps"), 0);
    assert_eq!(direct(&volume.trace("last")), sent);
    assert_eq!(volume.home.json(&["check", "--data", "volume"])["sound"].as_bool(), Some(true));
}

#[test]
fn a_recorder_that_stands_still_counts_each_request_of_a_volume() {
    if !may_record("a_recorder_that_stands_still_counts_each_request_of_a_volume") {
        return;
    }
    let volume = Volume::new();
    let recorder = volume.record("trace", &["--ring", "256K", "--no-reads"]);
    let written = 2000;
    (0..written / 2).for_each(|n| drop(volume.write(0, n, &[n + 1])));
    kill_process(recorder.pid(), Signal::STOP).unwrap();
    (0..written / 2).for_each(|n| drop(volume.write(0, n, &[n + 1])));
    kill_process(recorder.pid(), Signal::CONT).unwrap();
    let summary = recorder.end();
    let [records, gaps, known, without_room] = ["records", "gaps", "blocks_known", "blocks_without_room"].map(|name| count(&summary, name));
    assert!(gaps > 0, "{summary}");
    assert_eq!(missing(&volume.home.path("trace")), gaps);
    assert_eq!((records + gaps, known + without_room), (written, written), "{summary}");
    assert_eq!(count(&summary, "pieces_unreadable"), 0);
}

#[test]
fn marks_and_growth_come_through() {
    if !may_record("marks_and_growth_come_through") {
        return;
    }
    let volume = Volume::new();
    let recorder = volume.record("trace", &["--no-reads"]);
    let mut sent = volume.load(7, 40);
    volume.home.says(0, &["trace", "mark", "volume", "larger"]);
    volume.home.complaint(4, &["trace", "record", "volume", "--out", "other"], "under way");
    assert!(!volume.home.names().contains(&"other".to_owned()));
    let old_bytes = rustix::fs::seek(volume.open(0), rustix::fs::SeekFrom::End(0)).unwrap();
    volume.home.says(0, &["grow", "volume", "--size", "128M"]);
    sent.extend(volume.load(8, 40));
    let behind = volume.write(0, old_bytes / BLOCK + 10, &[1, 2, 3]);
    assert_eq!(count(&recorder.end(), "gaps"), 0);
    let records = volume.trace("trace");
    assert_eq!(direct(&records), sent);
    let last = records.last().unwrap();
    assert_eq!((last.offset.get(), last.length.get()), (behind.offset, behind.length));
    let mark = records.iter().position(|record| record.op == Op::Mark).expect("a mark");
    assert_eq!(records[mark].note.as_deref(), Some("larger"));
    let before = direct(&records[..mark]).len();
    assert!(before > 0 && before < sent.len() && records[..mark].iter().all(|record| record.time_ns <= records[mark].time_ns));
    volume.home.complaint(3, &["trace", "mark", "volume", "late"], "nothing is being recorded");
}

#[test]
fn over_nbd_the_server_records() {
    let home = Home::new();
    home.says(0, &["create", "volume", "--size", "32M"]);
    home.attach("volume", &[]);
    home.complaint(11, &["trace", "record", "volume", "--out", "t", "--by", "kernel"], "no block device");
    home.complaint(11, &["trace", "record", "volume", "--out", "t", "--no-reads"], "--by server");
    home.complaint(2, &["trace", "record", "volume", "--out", "t", "--no-reads", "--by", "server"], "records reads, too");
    assert!(!home.names().contains(&"t".to_owned()));
    let recorder = Recorder::start(&home, "volume", "t", &[]);
    assert!(recorder.lines[1].contains("from the server") && recorder.lines[1].contains("no block device"), "{:?}", recorder.lines);
    assert_eq!(recorder.end()["by"].as_str(), Some("server"));
}
