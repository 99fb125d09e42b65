//! The processes of a FUSE session over a plain file (on /dev/shm, for example): supervisor, server and helper are one program with several
//! verbs.

use onefold::frontend::fuse::helper::LentRoot;
use onefold::frontend::fuse::supervisor::{self, DeathLimit, Event, Plan};
use onefold::frontend::fuse::{Config, Fuse, THREADS, attach_loop, loopdev};
use onefold::memory::pool::Pool;
use onefold::supervision::lent::{Handover, Lent};
use onefold::supervision::start::Start;
use onefold::target::{Incoming, Target, TargetInfo};
use onefold_engine::buffer::{BufferMut, Home};
use onefold_engine::interface::{Failure, Op, Reply, Segment};
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::units::{BLOCK_BYTES, index};
use rustix::fs::FallocateFlags;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const MEMORY_BYTES: u64 = 64 << 20;

/// A file that the threads that receive the requests read and write.
pub struct FileTarget {
    file: File,
    bytes: u64,
    pool: Arc<Pool>,
    home: Arc<dyn Home>,
}

impl FileTarget {
    pub fn open(path: &str) -> std::io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let bytes = file.metadata()?.len();
        let pool = Pool::new(Accountant::new(MEMORY_BYTES));
        let home = pool.share(Some(Part::Requests));
        Ok(Self { file, bytes, pool, home })
    }

    fn carry_out(&self, request: &mut Incoming) -> std::io::Result<Reply> {
        let (at, length) = (request.offset, request.length);
        let lead = index(at % BLOCK_BYTES);
        let bytes = index(length);
        match request.op {
            Op::Read => {
                let mut buffer = self.buffer(bytes.div_ceil(4096)).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
                self.file.read_exact_at(&mut buffer.bytes_mut()[..bytes], at)?;
                let slice = buffer.freeze().slice(0, bytes.div_ceil(4096));
                return Ok(Reply::Data(vec![Segment::Data { slice, start: 0, bytes }]));
            }
            Op::Write => {
                let buffer = request.buffer.take().ok_or(std::io::ErrorKind::InvalidInput)?;
                self.file.write_all_at(&buffer.bytes()[lead..lead + bytes], at)?;
            }
            Op::Flush => self.file.sync_data()?,
            Op::Discard => rustix::fs::fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, length)?,
            Op::WriteZeroes => {
                // tmpfs does not support ZERO_RANGE.
                rustix::fs::fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, length)?;
                rustix::fs::fallocate(&self.file, FallocateFlags::empty(), at, length)?;
            }
            Op::Extents => return Err(std::io::ErrorKind::Unsupported.into()),
        }
        Ok(Reply::Done)
    }
}

impl Target for FileTarget {
    fn info(&self) -> TargetInfo {
        TargetInfo { bytes: self.bytes, request_bytes_max: self.pool.request_bytes_max(), sector_bytes: 512, read_only: false }
    }

    fn buffer(&self, blocks: usize) -> Result<BufferMut, Failure> {
        self.pool.charge_request(blocks).map_err(|_| Failure::Io)?;
        Ok(self.home.clone().take(blocks))
    }

    fn try_buffer(&self, blocks: usize) -> Option<BufferMut> {
        self.pool.try_charge_request(blocks).then(|| self.home.clone().take(blocks))
    }

    fn submit(&self, batch: &mut Vec<Incoming>) {
        for mut request in batch.drain(..) {
            let reply = self.carry_out(&mut request).unwrap_or(Reply::Failed(Failure::Io));
            (request.done)(reply);
        }
    }
}

fn detach_command(device: &Path) -> Start {
    let mut command = Start::of("/proc/self/exe");
    command.arg("detach").arg(device);
    command
}

struct Crew {
    me: PathBuf,
    tag: String,
    file: String,
}

impl Crew {
    fn command(&self, verb: &str) -> Start {
        let mut command = Start::of(&self.me);
        command.arg(verb);
        command
    }
}

impl supervisor::Crew for Crew {
    fn server(&mut self, handover: &Handover<'_>) -> Start {
        let mut command = self.command("serve");
        command.args([&self.tag, &self.file]);
        handover.lend_to(&mut command);
        command
    }

    fn attaches(&mut self, root: &LentRoot<'_>) -> Start {
        let mut command = self.command("attach-loop");
        command.arg(&self.tag);
        root.lend_to(&mut command);
        command
    }

    fn finder(&mut self) -> Start {
        unreachable!("its servers start no supervisor")
    }

    fn detach(&mut self, device: &Path) -> Start {
        detach_command(device)
    }

    fn word(&mut self, _server: u32) -> Option<i32> {
        None
    }

    fn is_upgraded(&self) -> bool {
        false
    }

    fn report(&mut self, event: Event) {
        eprintln!("supervisor: {event:?}");
        if let Event::Attached { device } = event {
            println!("{}", device.display());
        }
    }
}

fn supervise(tag: &str, file: &str, deaths: usize) -> Result<(), Box<dyn Error>> {
    for refused in supervisor::prepare_process(64 << 20) {
        eprintln!("supervisor: {refused} was refused");
    }
    let limit = DeathLimit { deaths, ..DeathLimit::default() };
    let without_resend = std::env::var_os("FUSE_RAM_WITHOUT_RESEND").is_some();
    let plan = Plan { source: file.to_owned(), tag: tag.to_owned(), threads: THREADS, request_bytes: 1 << 20, limit, without_resend };
    let mut crew = Crew { me: std::env::current_exe()?, tag: tag.to_owned(), file: file.to_owned() };
    Ok(supervisor::supervise(&plan, &mut crew)?)
}

fn serve(tag: &str, file: &str, kept: &str, ready: &str, supervisor: &str) -> Result<(), Box<dyn Error>> {
    let lent = Lent::from_arguments(kept, ready.parse()?, supervisor.parse()?)?;
    supervisor::ignore_stop_signals()?;
    for refused in supervisor::prepare_process(64 << 20) {
        eprintln!("server: {refused} was refused");
    }
    let target = FileTarget::open(file)?;
    let config = Config { channels: lent.kept, tag: tag.to_owned(), request_bytes: 1 << 20, detach: detach_command };
    let mut server = Fuse::start(config, Arc::new(target))?;
    if let Ok(ms) = std::env::var("FUSE_RAM_READY_AFTER_MS") {
        std::thread::sleep(std::time::Duration::from_millis(ms.parse()?));
    }
    lent.ready.tell();
    // Each of these variables makes a server end in another way than by its session's end.
    if let Ok(ms) = std::env::var("FUSE_RAM_STOP_AFTER_MS") {
        std::thread::sleep(std::time::Duration::from_millis(ms.parse()?));
        return Ok(server.stop()?);
    }
    if std::env::var_os("FUSE_RAM_FAIL_AT_THE_END").is_some() {
        server.wait();
        return Err("asked to fail".into());
    }
    if server.wait() { Ok(()) } else { Err("the session broke".into()) }
}

fn attach(tag: &str, root: &str) -> Result<(), Box<dyn Error>> {
    let root = LentRoot::from_arguments(root.parse()?)?;
    println!("{}", attach_loop(&root, tag, 4096, false)?.display());
    Ok(())
}

/// Runs one of these verbs; returns `None` if `arguments` are none of them.
pub fn play(arguments: &[&str]) -> Option<ExitCode> {
    let result = match *arguments {
        ["supervise", tag, file] => supervise(tag, file, DeathLimit::default().deaths),
        ["supervise", tag, file, deaths] => deaths.parse().map_err(Into::into).and_then(|deaths| supervise(tag, file, deaths)),
        ["serve", tag, file, "--kept", kept, "--ready", ready, "--supervisor", supervisor, ..] => serve(tag, file, kept, ready, supervisor),
        ["attach-loop", tag, "--root", root] => attach(tag, root),
        ["detach", device] => loopdev::detach(Path::new(device), || ()).map(drop).map_err(Into::into),
        _ => return None,
    };
    Some(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{}: {e}", arguments[0]);
            ExitCode::FAILURE
        }
    })
}
