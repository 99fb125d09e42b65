//! A store that can be unplugged, filled, or stopped: a file below a mount of its own. While it is gone, all requests fail; while it is
//! full, writes fail; while it is silent, nothing is answered.

use crate::fuse_roles::FileTarget;
use crate::tools::try_run;
use onefold::frontend::fuse::session::Session;
use onefold::frontend::fuse::{Config, Fuse, THREADS, files};
use onefold::supervision::start::Start;
use onefold::target::{Incoming, Target, TargetInfo};
use onefold_engine::buffer::BufferMut;
use onefold_engine::interface::{Failure, Op, Reply};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, UnmountFlags, move_mount, unmount};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

/// The name of its file.
const NAME: &str = "store";

struct Unpluggable {
    file: FileTarget,
    /// The last order that it received.
    order: Mutex<String>,
    /// The requests that are not answered.
    waiting: Mutex<Vec<Incoming>>,
}

impl Unpluggable {
    fn obey(&self, order: &str) {
        order.clone_into(&mut self.order.lock().unwrap());
        if order != "silent" {
            let mut waiting = std::mem::take(&mut *self.waiting.lock().unwrap());
            self.file.submit(&mut waiting);
        }
    }
}

impl Target for Unpluggable {
    fn info(&self) -> TargetInfo {
        self.file.info()
    }

    fn buffer(&self, blocks: usize) -> Result<BufferMut, Failure> {
        self.file.buffer(blocks)
    }

    fn submit(&self, batch: &mut Vec<Incoming>) {
        if *self.order.lock().unwrap() == "silent" {
            return self.waiting.lock().unwrap().append(batch);
        }
        let fails = |op: Op| match self.order.lock().unwrap().as_str() {
            "gone" => Some(Failure::Io),
            "full" if op == Op::Write => Some(Failure::NoSpace),
            _ => None,
        };
        for request in std::mem::take(batch) {
            match fails(request.op) {
                Some(failure) => (request.done)(Reply::Failed(failure)),
                None => batch.push(request),
            }
        }
        self.file.submit(batch);
    }
}

fn serve(file: &str, at: &Path) -> Result<(), Box<dyn Error>> {
    let target = Arc::new(Unpluggable { file: FileTarget::open(file)?, order: Mutex::default(), waiting: Mutex::default() });
    let mut session = Session::mount(NAME, THREADS, 1 << 20)?;
    move_mount(session.root().ok_or("the session has no mount")?, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    session.release();
    let channels = session.channels().iter().map(std::os::fd::OwnedFd::try_clone).collect::<Result<_, _>>()?;
    let detach = |_: &Path| Start::of("true");
    let server =
        Fuse::start(Config { channels, tag: NAME.to_owned(), request_bytes: 1 << 20, detach }, Arc::clone(&target) as Arc<dyn Target>)?;
    println!("back");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        target.obey(&line);
        println!("{line}");
    }
    unmount(at, UnmountFlags::DETACH)?;
    drop((server, session));
    Ok(())
}

/// Plays the store until its standard input ends; returns `None` if `arguments` ask for something else.
pub fn play(arguments: &[&str]) -> Option<ExitCode> {
    let ["store", file, at] = *arguments else { return None };
    Some(match serve(file, Path::new(at)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("store: {e}");
            ExitCode::FAILURE
        }
    })
}

/// The process that serves the store, and the connection to it.
pub struct Plug {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    at: PathBuf,
}

impl Plug {
    /// Makes a store of `bytes` zeros in `directory`.
    pub fn new(directory: &Path, bytes: u64) -> Self {
        let (file, at) = (directory.join("medium"), directory.join("plugged"));
        File::create(&file).unwrap().set_len(bytes).unwrap();
        std::fs::create_dir(&at).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("store").args([&file, &at]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (orders, answers) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut plug = Self { child, orders, answers, at };
        plug.expect("back");
        plug
    }

    pub fn path(&self) -> PathBuf {
        self.at.join(files::disk_name(NAME))
    }

    /// Makes the store unavailable.
    pub fn pull(&mut self) {
        self.order("gone");
    }

    /// Makes the store refuse writes.
    pub fn fill(&mut self) {
        self.order("full");
    }

    /// Makes the store answer nothing any more.
    pub fn silence(&mut self) {
        self.order("silent");
    }

    /// Makes the store work again.
    pub fn put_back(&mut self) {
        self.order("back");
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
        self.expect(order);
    }

    fn expect(&mut self, wanted: &str) {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), wanted);
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.child.wait();
        let _ = try_run(&["umount", "-l", self.at.to_str().unwrap()], 20);
    }
}
