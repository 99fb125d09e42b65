//! The pace against the model's own timetable: it is never faster. The tests print how much slower it is, since no machine promises when a
//! sleeper wakes.

use crate::paced::Paced;
use onefold::device::backing::{Facts, Kind};
use onefold::device::{Command, Completed, Completions, Device, Sink, Work};
use onefold_engine::buffer::BufferMut;
use onefold_trace::model::{Model, Timetable};
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Notes the times of completions.
struct Notes(Mutex<Sender<(u64, Instant)>>);

impl Completions for Notes {
    fn completed(&self, batch: &mut Vec<Completed>) {
        let now = Instant::now();
        for completed in batch.drain(..) {
            assert!(completed.result.is_ok());
            self.0.lock().unwrap().send((completed.token, now)).unwrap();
        }
    }
}

/// A store that has carried out each command at once.
struct InstantStore {
    facts: Facts,
    sink: Sink,
    done: AtomicUsize,
}

impl InstantStore {
    fn new() -> Arc<Self> {
        let facts = Facts {
            path: "nowhere".into(),
            kind: Kind::File,
            length: 1 << 20,
            is_direct: false,
            offset_align: 512,
            memory_align: 1,
            is_write_through: false,
            takes_fua: false,
            is_read_only: false,
            identity: (0, 0),
        };
        Arc::new(Self { facts, sink: Sink::default(), done: AtomicUsize::new(0) })
    }
}

impl Device for InstantStore {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn connect(&self, sink: Weak<dyn Completions>) {
        self.sink.connect(sink);
    }

    fn submit(&self, batch: &mut Vec<Command>) {
        self.done.fetch_add(batch.len(), Ordering::Relaxed);
        self.sink.completed(&mut batch.drain(..).map(|Command { token, work }| Completed { token, work, result: Ok(()) }).collect());
    }

    fn call(&self) {
        self.sink.completed(&mut Vec::new());
    }

    fn stop(&self) {}

    fn method(&self) -> String {
        "instant".to_owned()
    }
}

struct Rig {
    store: Arc<InstantStore>,
    paced: Arc<Paced>,
    /// Kept alive for the device, which holds a weak reference.
    _notes: Arc<dyn Completions>,
    hear: Receiver<(u64, Instant)>,
}

fn rig(model: Model) -> Rig {
    let store = InstantStore::new();
    let paced = Paced::new(store.clone(), model);
    let (tell, hear) = channel();
    let notes: Arc<dyn Completions> = Arc::new(Notes(Mutex::new(tell)));
    paced.connect(Arc::downgrade(&notes));
    Rig { store, paced, _notes: notes, hear }
}

fn read(token: u64) -> Command {
    Command { token, work: Work::Read { at: token % 64 * 4096, buffer: BufferMut::zeroed(1), skip: 0, bytes: 4096, is_idle: false } }
}

fn write(token: u64) -> Command {
    let data = vec![BufferMut::zeroed(1).freeze().slice(0, 1)];
    Command { token, work: Work::Write { at: token % 64 * 4096, data, skip: 0, bytes: 4096, fua: false } }
}

fn wait(hear: &Receiver<(u64, Instant)>) -> (u64, Instant) {
    hear.recv_timeout(Duration::from_secs(60)).expect("each command completes")
}

/// Runs `total` commands, `depth` at a time, and returns the time that all of them took, in nanoseconds.
fn closed_loop(rig: &Rig, command: fn(u64) -> Command, depth: u64, total: u64) -> u64 {
    let mut sent: Vec<Option<Instant>> = Vec::new();
    let send = |sent: &mut Vec<Option<Instant>>| {
        let token = sent.len() as u64;
        sent.push(Some(Instant::now()));
        rig.paced.submit(&mut vec![command(token)]);
    };
    let begin = Instant::now();
    (0..depth).for_each(|_| send(&mut sent));
    for done in 0..total {
        let (token, _) = wait(&rig.hear);
        assert!(sent[usize::try_from(token).unwrap()].take().is_some(), "{token} was completed twice");
        if done + depth < total {
            send(&mut sent);
        }
    }
    u64::try_from(begin.elapsed().as_nanos()).unwrap()
}

#[test]
fn nothing_is_faster_than_the_model_and_little_is_slower() {
    let tablet = Model::named("tablet").unwrap();
    for (name, command, us, depth) in [("reads", read as fn(u64) -> Command, 270, 1), ("reads", read, 270, 32), ("writes", write, 2910, 32)]
    {
        let total = 120;
        let rig = rig(tablet);
        let took = closed_loop(&rig, command, depth, total);
        // A tablet does one thing at a time: at any depth, all commands run one after another.
        let model = us * 1000 * total;
        assert!(took >= model, "{total} {name} at depth {depth} in {took} ns, faster than the model's {model}");
        let slowed = rig.paced.slowed().unwrap();
        assert_eq!((slowed.model.as_str(), slowed.commands), ("tablet", total));
        assert!(slowed.model_us_mean >= us as f64);
        let slower = (took - model) as f64 / model as f64 * 100.0;
        writeln!(std::io::stderr(), "tablet, {name}, depth {depth}: {slower:.2} % slower than the model; {slowed:?}")
            .expect("stderr is open");
        rig.paced.stop();
    }
}

#[test]
fn each_command_takes_at_least_what_the_timetable_says() {
    let emmc = Model::named("emmc").unwrap();
    let rig = rig(emmc);
    let mut table = Timetable::new(emmc);
    // All at once: on the timetable from 0 on, and here from a little later on.
    let begin = Instant::now();
    let mut batch: Vec<Command> = (0..8).map(|n| if n % 2 == 0 { write(n) } else { read(n) }).collect();
    batch.push(Command { token: 8, work: Work::Flush });
    batch.push(Command { token: 9, work: Work::Discard { at: 0, length: 4096 } });
    let mut due: Vec<u64> = (0..8).map(|n| if n % 2 == 0 { table.write(0, 4096) } else { table.read(0, 4096) }).collect();
    due.extend([table.flush(0), table.discard(0)]);
    rig.paced.submit(&mut batch);
    for _ in 0..10 {
        let (token, at) = wait(&rig.hear);
        let took = u64::try_from((at - begin).as_nanos()).unwrap();
        let due = due[usize::try_from(token).unwrap()];
        assert!(took >= due, "command {token} after {took} ns, before the model's {due}");
    }
    assert!(
        due[8] >= due[..8].iter().step_by(2).max().unwrap() + 8_000_000,
        "a flush of the model waits for the writes and takes its time"
    );
}

#[test]
fn a_stop_waits_for_what_only_the_model_still_does() {
    let rig = rig(Model::named("850pro").unwrap());
    rig.paced.submit(&mut vec![write(1), write(2)]);
    while rig.paced.slowed().unwrap().commands < 2 {
        std::thread::yield_now();
    }
    rig.paced.stop();
    let mut heard: Vec<u64> = rig.hear.try_iter().map(|(token, _)| token).collect();
    heard.sort_unstable();
    assert_eq!((heard, rig.store.done.load(Ordering::Relaxed)), (vec![1, 2], 2));
}
