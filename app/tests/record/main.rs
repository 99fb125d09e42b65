//! `onefold trace record`, end to end over NBD: each request is in the trace, with the right fingerprints, compared with what was sent and
//! with the backing file. Fingerprints are computed here by the algorithms themselves, not by the program's own code.

#[path = "../common/mod.rs"]
mod common;
mod workload;

use common::Dice;
use common::home::Home;
use common::nbd_client::*;
use md5::Digest as _;
use onefold_trace::header::Header;
use onefold_trace::record::{ContentName, Op, Record};
use onefold_trace::recording::Reader;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use workload::{Sent, assert_records, assert_store, block, kept, send, workload};

const BLOCK: usize = 4096;
const BYTES: u64 = 16 << 20;
/// The number of bytes that a trace keeps of each fingerprint.
const KEPT: usize = 16;

/// The memory: enough for all content of a test to wait, so that there is no gap however busy the machine is.
const MEMORY: &str = "1G";

/// An attached store, and a directory for it and its traces.
struct Attached {
    home: Home,
    store: PathBuf,
    socket: PathBuf,
}

impl Attached {
    /// Attaches a backing file with `--passthrough`.
    fn passed_through() -> Self {
        Self::passed_through_in(MEMORY)
    }

    fn passed_through_in(memory: &str) -> Self {
        let home = Home::new();
        home.blank("disk", BYTES);
        Self::attach(home, &["--passthrough", "--memory", memory])
    }

    fn volume() -> Self {
        let home = Home::new();
        home.says(0, &["create", "disk", "--size", "32M"]);
        Self::attach(home, &["--memory", MEMORY])
    }

    fn attach(home: Home, options: &[&str]) -> Self {
        let (store, socket) = (PathBuf::from(home.path("disk")), home.attach("disk", options));
        Self { home, store, socket }
    }

    fn command(&self, words: &[&str]) -> Command {
        self.home.command(words)
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(self.home.path(name))
    }

    fn client(&self) -> Client {
        Client::ready_for(&self.socket, false, "")
    }

    fn record(&self, words: &[&str]) -> Recorder {
        self.try_record(words).unwrap_or_else(|message| panic!("{message}"))
    }

    /// Starts a recording; returns the error message if it does not begin.
    fn try_record(&self, words: &[&str]) -> Result<Recorder, String> {
        let mut command = self.command(&["trace", "record", "disk", "--json"]);
        let mut child = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        if !line.starts_with("recording ") {
            child.wait().unwrap();
            return Err(line);
        }
        Ok(Recorder(child))
    }

    fn trace(&self, name: &str) -> (Header, Vec<Record>) {
        let reader = Reader::open(&self.path(name), false).unwrap();
        let header = reader.header().clone();
        (header, reader.map(|record| record.unwrap()).collect())
    }
}

struct Recorder(Child);

impl Recorder {
    fn interrupt(self) -> Value {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.summary()
    }

    /// Waits for its end, which must be successful.
    fn summary(self) -> Value {
        let output = self.0.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Reads the key in a file, without the program's help.
fn key_of(path: &Path) -> [u8; 32] {
    let digits = std::fs::read_to_string(path).unwrap();
    std::array::from_fn(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
}

#[test]
fn a_known_workload_is_recorded_to_the_byte() {
    let home = Attached::passed_through();
    let mut client = home.client();
    send(&mut client, Op::Write, false, 0, &block(77), BLOCK as u64);
    let recorder = home.record(&["--out", "trace", "--key", "key"]);
    let sent = workload(&mut client, &mut Dice::new(1), 600, 16, BYTES / BLOCK as u64 - 16);
    let summary = recorder.interrupt();
    send(&mut client, Op::Write, false, 0, &block(78), BLOCK as u64);

    let key = key_of(&home.path("key"));
    let name_of = |content: &[u8]| kept(blake3::keyed_hash(&key, content).as_bytes());
    let (header, records) = home.trace("trace");
    assert_eq!(records.len(), sent.len());
    records.iter().zip(&sent).for_each(|(record, sent)| assert_records(record, sent, &name_of));
    assert!(records.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(home.path("key")).unwrap()) & 0o777, 0o600);
    let written = |sent: &&Sent| sent.op == Op::Write;
    let touched: u64 = sent.iter().filter(written).map(|sent| (sent.offset + sent.length).div_ceil(4096) - sent.offset / 4096).sum();
    let number = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!((number("records"), number("blocks"), number("gaps")), (600, touched, 0));
    assert_eq!(number("bytes"), std::fs::metadata(home.path("trace")).unwrap().len());
    assert_eq!(header.key_id.as_deref(), summary["key_id"].as_str());
    assert_eq!((header.width, header.device_bytes.map(|bytes| bytes.get())), (KEPT, Some(BYTES)));
    for block in records.iter().flat_map(|record| &record.blocks).filter(|block| block.name != ContentName::Unknown) {
        assert!(block.compressed.is_some_and(|size| size % 64 == 0 && (64..=4096).contains(&size)));
    }
    let sizes: Vec<_> = records.iter().flat_map(|record| &record.blocks).filter_map(|block| block.compressed).collect();
    assert!(
        sizes.contains(&64) && sizes.contains(&4096) && sizes.iter().any(|size| (1000..1300).contains(size)),
        "zeros, random, half random"
    );

    client.command(FLUSH, 0, 0, 0).unwrap();
    assert!(assert_store(&home.store, &records, &name_of) > 1000);
}

#[test]
fn clients_at_once_are_recorded_in_the_order_of_admission() {
    let home = Attached::passed_through();
    let recorder = home.record(&["--out", "trace", "--unkeyed", "md5"]);
    let span = BYTES / BLOCK as u64 / 4;
    let sent: Vec<Vec<Sent>> = std::thread::scope(|scope| {
        let home = &home;
        let one = |n: u64| move || workload(&mut home.client(), &mut Dice::new(100 + n), 300, n * span, span);
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(one(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let summary = recorder.interrupt();
    assert_eq!((summary["gaps"].as_u64(), summary["key_id"].as_str()), (Some(0), None));
    let (header, records) = home.trace("trace");
    assert_eq!((header.algorithm.map(|a| a.name()), header.key_id), (Some("md5"), None));
    let name_of = |content: &[u8]| kept(&md5::Md5::digest(content));
    // Each client's requests are in its order; flushes have no place that identifies their client.
    for (n, sent) in (0_u64..).zip(&sent) {
        let is_its = |record: &&Record| record.op != Op::Flush && record.offset.get() / BLOCK as u64 / span == n;
        let its: Vec<&Record> = records.iter().filter(is_its).collect();
        let sent: Vec<&Sent> = sent.iter().filter(|sent| sent.op != Op::Flush).collect();
        assert_eq!(its.len(), sent.len());
        its.iter().zip(sent).for_each(|(record, sent)| assert_records(record, sent, &name_of));
    }
    let flushes = |ops: &mut dyn Iterator<Item = Op>| ops.filter(|op| *op == Op::Flush).count();
    assert_eq!(flushes(&mut records.iter().map(|r| r.op)), flushes(&mut sent.iter().flatten().map(|s| s.op)));
    assert!(assert_store(&home.store, &records, &name_of) > 1000);
}

#[test]
fn a_volume_hands_over_its_own_fingerprints() {
    let home = Attached::volume();
    let recorder = home.record(&["--out", "own"]);
    let sent = workload(&mut home.client(), &mut Dice::new(5), 300, 0, 2048);
    let own = recorder.interrupt();
    assert_eq!((own["fingerprints_of_volume"].as_bool(), own["gaps"].as_u64()), (Some(true), Some(0)));
    let recorder = home.record(&["--out", "again", "--seconds", "1"]);
    let again = recorder.summary();
    assert_eq!((&own["key_id"], again["records"].as_u64()), (&again["key_id"], Some(0)));

    let (_, records) = home.trace("own");
    let fingerprinter = onefold::volume::peek(&home.store).unwrap().superblock.fingerprinter();
    let name_of = |content: &[u8]| match fingerprinter.digest(content.try_into().unwrap()) {
        onefold_engine::fingerprint::Digest::Of(fingerprint) => kept(&fingerprint.0),
        other => panic!("{other:?}"),
    };
    assert_eq!(records.len(), sent.len());
    records.iter().zip(&sent).for_each(|(record, sent)| assert_records(record, sent, &name_of));
    assert!(records.iter().flat_map(|record| &record.blocks).all(|block| block.compressed.is_none()));

    // With another key the content is read again, and sizes are known.
    let recorder = home.record(&["--out", "keyed", "--key", "key"]);
    let sent = workload(&mut home.client(), &mut Dice::new(6), 100, 0, 2048);
    assert_eq!(recorder.interrupt()["fingerprints_of_volume"].as_bool(), Some(false));
    let key = key_of(&home.path("key"));
    let (_, records) = home.trace("keyed");
    assert_eq!(records.len(), sent.len());
    let name_of = |content: &[u8]| kept(blake3::keyed_hash(&key, content).as_bytes());
    records.iter().zip(&sent).for_each(|(record, sent)| assert_records(record, sent, &name_of));
}

#[test]
fn a_killed_server_loses_the_last_second_alone() {
    let home = Attached::passed_through();
    let recorder = home.record(&["--out", "trace", "--unkeyed", "md5"]);
    let mut client = home.client();
    let mut sent = workload(&mut client, &mut Dice::new(9), 250, 0, 2048);
    let deadline = Instant::now() + Duration::from_secs(60);
    while home.trace("trace").1.len() < sent.len() {
        assert!(Instant::now() < deadline, "they are older than a second and not in the file");
        std::thread::sleep(Duration::from_millis(10));
    }
    sent.extend(workload(&mut client, &mut Dice::new(10), 20, 0, 2048));
    let status = home.command(&["status", "disk", "--json"]).output().unwrap().stdout;
    let pid = serde_json::from_slice::<Value>(&status).unwrap()["pid"].as_i64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let output = recorder.0.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("went away") && message.contains("trace has what was recorded before"), "{message}");
    let (_, records) = home.trace("trace");
    assert!((250..=sent.len()).contains(&records.len()), "{}", records.len());
    let name_of = |content: &[u8]| kept(&md5::Md5::digest(content));
    records.iter().zip(&sent).for_each(|(record, sent)| assert_records(record, sent, &name_of));
}

#[test]
fn a_detach_ends_it_and_a_client_that_is_gone_does_too() {
    let home = Attached::passed_through();
    let mut recorder = home.record(&["--out", "gone"]);
    send(&mut home.client(), Op::Write, false, 0, &block(1), BLOCK as u64);
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    // It ends soon after the process that asked for it.
    let deadline = Instant::now() + Duration::from_secs(60);
    let recorder = loop {
        match home.try_record(&["--out", "trace"]) {
            Ok(recorder) => break recorder,
            Err(message) => assert!(message.contains("under way") && Instant::now() < deadline, "{message}"),
        }
    };
    assert_eq!(home.trace("gone").1.len(), 1);

    let mut sent = workload(&mut home.client(), &mut Dice::new(11), 30, 0, 2048);
    assert!(home.command(&["trace", "mark", "disk", "second half"]).status().unwrap().success());
    sent.extend(workload(&mut home.client(), &mut Dice::new(12), 20, 0, 2048));
    assert!(home.command(&["detach", "disk"]).status().unwrap().success());
    assert_eq!(recorder.summary()["records"].as_u64(), Some(sent.len() as u64));
    let (_, records) = home.trace("trace");
    assert_eq!((records.len(), records[30].op, records[30].note.as_deref()), (sent.len() + 1, Op::Mark, Some("second half")));
    assert_ne!(home.trace("trace").0.key_id, home.trace("gone").0.key_id, "each has a key of its own");
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let home = Attached::passed_through();
    let refused = |code: i32, words: &[&str], wanted: &str| {
        let output = home.command(&[&["trace", "record"], words].concat()).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {message}");
        assert!(message.contains(wanted), "{words:?}: {message}");
    };
    let unrecorded = home.command(&["trace", "mark", "disk", "phase"]).output().unwrap();
    assert_eq!(unrecorded.status.code(), Some(3), "{}", String::from_utf8_lossy(&unrecorded.stderr));
    refused(3, &["none", "--out", "t"], "none");
    refused(2, &["disk"], "--out");
    refused(2, &["disk", "--out", "t", "--unkeyed", "blake3"], "md5");
    refused(2, &["disk", "--out", "t", "--unkeyed", "md5", "--key", "k"], "--key");
    std::fs::write(home.path("wrong"), "secret").unwrap();
    refused(2, &["disk", "--out", "t", "--key", "wrong"], "64 hexadecimal digits");
    let recorder = home.record(&["--out", "trace"]);
    refused(4, &["disk", "--out", "t"], "under way");
    recorder.interrupt();
    refused(5, &["disk", "--out", "trace"], "--out");
    assert!(!home.path("t").exists());

    let little = Attached::passed_through_in("4M");
    let output = little.command(&["trace", "record", "disk", "--out", "t"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(5) && message.contains("--memory 32M"), "{message}");
}
