//! The built binary on images that somebody crafted (`./dev hostile`): whatever numbers stand in one, a server ends with an error or
//! serves, within its memory, and so do `check --data` and `dump`.
//!
//! ```text
//! hostile ONEFOLD DIRECTORY [--images N] [--seed N] [--threads N] [--only N]
//! ```
//!
//! 1. The bases are volumes that the binary itself made, with each commit mode, closed and killed. Image i of a seed is always the same
//!    (`craft.rs`).
//! 2. On each: `check --data`, `dump`; then a server at `--memory 2M`, over NBD, with reads, writes, discards and flushes, which is asked
//!    to end.
//! 3. What ends by a signal, with a code that no error has, after a panic, not at all, or has taken more memory than [`HWM_BYTES_MAX`], is
//!    wrong. Requests may fail; unanswered they may not be while the server lives.
//! 4. Not asked: whether what is read is right. On a volume whose tables somebody rewrote, nobody can say what that is.

mod client;
mod craft;
mod server;

use client::Client;
use craft::{Draw, Medium, Page, craft};
use onefold_engine::units::{BLOCK_SIZE, index};
use server::{Outcome, attach, run};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The most memory that a process may have had: `--memory`, and what the binary takes beside that (its code, stacks, the allocator's own).
pub const HWM_BYTES_MAX: u64 = 24 << 20;

/// Random numbers from a seed.
struct Dice(fastrand::Rng);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }
}

impl Draw for Dice {
    fn draw(&mut self) -> u64 {
        self.0.u64(..)
    }
}

/// An image in memory.
#[derive(Clone)]
struct Image(Vec<u8>);

impl Medium for Image {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, at: u64) -> Page {
        usize::try_from(at).ok().and_then(|at| self.0.get(at..)?.first_chunk().copied()).unwrap_or([0; BLOCK_SIZE])
    }

    fn write(&mut self, at: u64, page: &Page) {
        if let Some(place) = usize::try_from(at).ok().and_then(|at| self.0.get_mut(at..)?.first_chunk_mut()) {
            *place = *page;
        }
    }
}

impl Image {
    /// Makes it a sparse file.
    fn store(&self, path: &Path) -> std::io::Result<()> {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::create(path)?;
        file.set_len(self.bytes())?;
        let blocks = self.0.chunks(64 << 10).enumerate().filter(|(_, chunk)| chunk.iter().any(|&byte| byte != 0));
        for (i, chunk) in blocks {
            file.write_all_at(chunk, (i as u64) * (64 << 10))?;
        }
        Ok(())
    }
}

/// The options of the command line.
struct Options {
    onefold: PathBuf,
    directory: PathBuf,
    images: u64,
    seed: u64,
    threads: u64,
    only: Option<u64>,
}

fn options() -> Result<Options, String> {
    let mut words = std::env::args().skip(1);
    let mut paths = Vec::new();
    let mut options = Options { onefold: PathBuf::new(), directory: PathBuf::new(), images: 200, seed: 1, threads: 2, only: None };
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|n| n.parse().ok()).ok_or(format!("{word} needs a number"));
        match word.as_str() {
            "--images" => options.images = number()?,
            "--seed" => options.seed = number()?,
            "--threads" => options.threads = number()?.clamp(1, 64),
            "--only" => options.only = Some(number()?),
            _ if word.starts_with('-') => return Err(format!("what is '{word}'?")),
            _ => paths.push(PathBuf::from(word)),
        }
    }
    let [onefold, directory] = <[PathBuf; 2]>::try_from(paths).map_err(|_| "it needs the binary and a directory".to_owned())?;
    (options.onefold, options.directory) = (onefold, directory);
    Ok(options)
}

/// The volumes that images are made from, with what they are.
fn bases(options: &Options) -> Vec<(String, Image)> {
    let mut bases = Vec::new();
    for mode in ["log", "ordered"] {
        for is_live in [false, true] {
            let place = Place::new(options, "base");
            let image = place.image.to_str().expect("a path that is text");
            let thin: &[&str] = if is_live { &["--logical", "48M"] } else { &[] };
            let create =
                [&["create", image, "--size", "32M", "--sparse", "--force", "--commit-mode", mode, "--protect", "8+2"], thin].concat();
            let made = run(&place, &options.onefold, &create);
            assert!(made.code == Some(0), "{made:?}");
            let server = attach(&place, &options.onefold);
            let mut client = Client::connect(&place.socket, || server.has_ended()).expect("a new volume is served");
            load(&mut client);
            drop(client);
            let ended = if is_live { server.kill() } else { server.end() };
            assert!(ended.code == if is_live { None } else { Some(0) }, "{ended:?}");
            bases.push((
                format!("{mode}, {}", if is_live { "killed" } else { "closed" }),
                Image(std::fs::read(&place.image).expect("it is there")),
            ));
        }
    }
    bases
}

/// What the bases hold: blocks that compress and that do not, small commits and a large one, repeats, zeros, discards.
fn load(client: &mut Client) {
    let mut dice = Dice::new(7);
    let mut noise = |bytes: usize| (0..bytes.div_ceil(8)).flat_map(|_| dice.draw().to_le_bytes()).take(bytes).collect::<Vec<u8>>();
    for i in 0..40 {
        let block = [noise(2000), vec![7; 2096]].concat();
        client.write(i * 4096, &block);
        client.flush();
    }
    client.write(8 << 20, &noise(100 * 4096));
    client.flush();
    let repeated = [noise(1000), vec![1; 3096]].concat();
    for i in 0..20 {
        client.write((1 << 20) + i * 4096, &repeated);
    }
    client.write(2 << 20, &vec![0; 8 * 4096]);
    client.trim(5 * 4096, 4 * 4096);
    client.flush();
    client.write(3 << 20, &noise(512));
    client.flush();
}

/// What a client of a crafted volume does. Whether each request was answered.
fn use_it(client: &mut Client, dice: &mut Dice) -> bool {
    let end = client.bytes.max(16 * 4096);
    let mut block: Vec<u8> = (0..512).flat_map(|_| dice.draw().to_le_bytes()).collect();
    block[2000..].fill(3);
    let mut answered = client.read(0, 40 * 4096) && client.read(8 << 20, 16 * 4096) && client.read(end - 4096, 4096);
    for i in 0..3 {
        answered &= client.write(i * 4096, &block) && client.flush();
        block[i as usize] ^= 0x55;
    }
    answered &= client.write(1024, &block[..512]);
    answered &= client.write(16 << 20, &(0..20 * 512).flat_map(|_| dice.draw().to_le_bytes()).collect::<Vec<u8>>());
    answered &= client.flush() && client.trim(0, 20 * 4096) && client.trim(0, u32::try_from(end.min(1 << 30)).expect("it fits"));
    answered &= client.write(9 << 20, &block) && client.flush() && client.read(8 << 20, 16 * 4096);
    answered
}

/// Where one thread's image lies, and what runs on it.
pub struct Place {
    image: PathBuf,
    socket: PathBuf,
    run: PathBuf,
}

impl Place {
    fn new(options: &Options, name: &str) -> Self {
        use std::os::unix::fs::DirBuilderExt;
        let directory = options.directory.join(name);
        let run = directory.join("run");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&run).expect("a directory");
        Self { image: directory.join("image"), socket: run.join("s"), run }
    }
}

/// One image: what was found wrong.
fn try_image(options: &Options, bases: &[(String, Image)], place: &Place, number: u64, seen: &Seen) -> Vec<String> {
    let mut dice = Dice::new(options.seed.wrapping_mul(0x1_0000_0001).wrapping_add(number.wrapping_mul(0x9e37_79b9)));
    let (base, image) = &bases[index(dice.below(bases.len() as u64))];
    let mut image = image.clone();
    let what = craft(&mut image, &mut dice);
    image.store(&place.image).expect("room for an image");
    let mut wrong = Vec::new();
    let path = place.image.to_str().expect("a path that is text");
    let mut judge = |name: &str, outcome: &Outcome| {
        seen.memory.fetch_max(outcome.hwm_bytes, Ordering::Relaxed);
        if !outcome.is_fine() {
            wrong.push(format!(
                "image {number} (--seed {} --only {number}; from {base}; {}): {name}: {outcome:?}",
                options.seed,
                what.join("; ")
            ));
        }
    };
    judge("check", &run(place, &options.onefold, &["check", "--data", path]));
    judge("dump", &run(place, &options.onefold, &["dump", path]));
    let server = attach(place, &options.onefold);
    let answered = match Client::connect(&place.socket, || server.has_ended()) {
        Some(mut client) => {
            seen.served.fetch_add(1, Ordering::Relaxed);
            use_it(&mut client, &mut dice)
        }
        None => true,
    };
    let mut outcome = server.end();
    outcome.is_unanswered = !answered;
    judge("attach", &outcome);
    wrong
}

#[derive(Default)]
struct Seen {
    memory: AtomicU64,
    served: AtomicU64,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("hostile: {why}");
            return ExitCode::from(2);
        }
    };
    let bases = bases(&options);
    let (from, upto) = options.only.map_or((0, options.images), |only| (only, only + 1));
    println!("seed {}, images {from} to {} of 4 bases", options.seed, upto - 1);
    let (next, seen, wrong) = (AtomicU64::new(from), Seen::default(), Mutex::new(Vec::new()));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..options.threads {
            let (options, bases, next, seen, wrong) = (&options, &bases, &next, &seen, &wrong);
            scope.spawn(move || {
                let place = Place::new(options, &thread.to_string());
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= upto || wrong.lock().expect("no panic").len() >= 20 {
                        break;
                    }
                    for found in try_image(options, bases, &place, number, seen) {
                        println!("WRONG {found}");
                        wrong.lock().expect("no panic").push(found);
                    }
                    if number % 1000 == 999 {
                        println!("  {} images, {} s", number + 1, begun.elapsed().as_secs());
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic").len();
    let done = next.into_inner().min(upto) - from;
    let (memory, served) = (seen.memory.into_inner() >> 10, seen.served.into_inner());
    println!(
        "{done} images in {} s: {served} were served, {} refused; at most {memory} KiB of memory; {wrong} wrong",
        begun.elapsed().as_secs(),
        done - served
    );
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
