//! Neighbouring writes, over a device whose commands end when a test ends them.

use super::facts::Facts;
use super::interface::{Command, Completed, Completions, Device, Sink, Work};
use super::joined::Joined;
use super::memory::MemoryDevice;
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::units::BLOCK_SIZE;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

const BLOCK: u64 = BLOCK_SIZE as u64;

/// A device that keeps its commands until a test ends them.
struct Manual {
    facts: Arc<MemoryDevice>,
    sink: Sink,
    commands: Mutex<Vec<Command>>,
}

impl Device for Manual {
    fn facts(&self) -> &Facts {
        self.facts.facts()
    }

    fn connect(&self, sink: Weak<dyn Completions>) {
        self.sink.connect(sink);
    }

    fn submit(&self, batch: &mut Vec<Command>) {
        self.commands().append(batch);
    }

    fn call(&self) {
        self.sink.completed(&mut Vec::new());
    }

    fn stop(&self) {}

    fn method(&self) -> String {
        "manual".to_owned()
    }
}

impl Manual {
    fn commands(&self) -> MutexGuard<'_, Vec<Command>> {
        self.commands.lock().unwrap()
    }

    /// The first block and the number of blocks of each write under way.
    fn writes(&self) -> Vec<(u64, u64)> {
        let writes = |command: &Command| match &command.work {
            Work::Write { at, bytes, .. } => Some((at / BLOCK, *bytes as u64 / BLOCK)),
            _ => None,
        };
        self.commands().iter().filter_map(writes).collect()
    }

    /// Ends the oldest command.
    fn end(&self, result: io::Result<()>) {
        let Command { token, work } = self.commands().remove(0);
        self.sink.completed(&mut vec![Completed { token, work, result }]);
    }
}

/// The commands that have ended, by token.
#[derive(Default)]
struct EndedCommands(Mutex<Vec<Completed>>);

impl Completions for EndedCommands {
    fn completed(&self, batch: &mut Vec<Completed>) {
        self.0.lock().unwrap().append(batch);
    }
}

impl EndedCommands {
    fn take(&self) -> Vec<(u64, Work, io::Result<()>)> {
        std::mem::take(&mut *self.0.lock().unwrap()).into_iter().map(|done| (done.token, done.work, done.result)).collect()
    }

    fn tokens(&self) -> Vec<u64> {
        self.take().into_iter().map(|(token, ..)| token).collect()
    }
}

fn rig() -> (Arc<Manual>, Arc<Joined>, Arc<EndedCommands>) {
    let manual = Arc::new(Manual { facts: MemoryDevice::new(0), sink: Sink::default(), commands: Mutex::default() });
    let (joined, ended) = (Joined::new(manual.clone()), Arc::new(EndedCommands::default()));
    let sink: Weak<EndedCommands> = Arc::downgrade(&ended);
    joined.connect(sink);
    (manual, joined, ended)
}

/// A write of these blocks, whose token is its first block; each block holds the number of its place.
fn write(first: u64, blocks: usize) -> Command {
    let mut buffer = BufferMut::zeroed(blocks);
    (0..blocks).for_each(|i| buffer.block_mut(i)[..8].copy_from_slice(&(first + i as u64).to_le_bytes()));
    let data = vec![buffer.freeze().slice(0, blocks)];
    Command { token: first, work: Work::Write { at: first * BLOCK, data, skip: 0, bytes: blocks * BLOCK_SIZE, fua: false } }
}

fn submit(joined: &Joined, commands: impl IntoIterator<Item = Command>) {
    joined.submit(&mut commands.into_iter().collect());
}

#[test]
fn neighbours_of_one_batch_are_one_command_and_others_are_not() {
    let (manual, joined, ended) = rig();
    submit(&joined, [write(10, 1), write(11, 2), write(20, 1), write(13, 1), write(9, 1)]);
    assert_eq!(manual.writes(), [(10, 4), (20, 1), (9, 1)]);
    manual.end(Ok(()));
    for ((token, work, result), (first, blocks)) in ended.take().into_iter().zip([(10, 1), (11, 2), (13, 1)]) {
        let Work::Write { at, data, skip: 0, bytes, fua: false } = work else { panic!("{work:?}") };
        assert!(result.is_ok() && token == first && at == first * BLOCK && bytes == blocks * BLOCK_SIZE);
        assert_eq!(data[0].block(0)[..8], first.to_le_bytes(), "each has its own memory back");
        assert_eq!((data.len(), data[0].blocks()), (1, blocks));
    }
}

#[test]
fn what_continues_a_command_under_way_is_held_back_and_goes_together() {
    let (manual, joined, ended) = rig();
    for first in 0..5 {
        submit(&joined, [write(first, 1)]);
    }
    assert_eq!(manual.writes(), [(0, 1)]);
    submit(&joined, [write(100, 1)]);
    assert_eq!(manual.writes(), [(0, 1), (100, 1)], "what continues nothing does not wait");
    manual.end(Ok(()));
    assert_eq!(manual.writes(), [(100, 1), (1, 4)]);
    assert_eq!(ended.tokens(), [0]);
    submit(&joined, [write(5, 1)]);
    assert_eq!(manual.writes(), [(100, 1), (1, 4)]);
    (0..2).for_each(|_| manual.end(Ok(())));
    assert_eq!(ended.tokens(), [100, 1, 2, 3, 4]);
    assert_eq!(manual.writes(), [(5, 1)]);
    manual.end(Ok(()));
    assert_eq!(ended.tokens(), [5]);
    submit(&joined, [write(6, 1)]);
    assert_eq!(manual.writes(), [(6, 1)], "a run of which nothing is under way holds nothing back");
}

#[test]
fn a_large_command_waits_for_nothing_and_none_is_too_large() {
    let (manual, joined, _ended) = rig();
    submit(&joined, [write(0, 1)]);
    submit(&joined, [write(1, 63)]);
    assert_eq!(manual.writes(), [(0, 1)]);
    submit(&joined, [write(64, 1)]);
    assert_eq!(manual.writes(), [(0, 1), (1, 64)], "256 KiB");
    submit(&joined, [write(1000, 200), write(1200, 200)]);
    assert_eq!(manual.writes()[2..], [(1000, 200), (1200, 200)], "more than 1 MiB");
}

#[test]
fn what_lies_together_in_memory_is_one_slice_of_the_command() {
    let (manual, joined, ended) = rig();
    let buffer = BufferMut::zeroed(3).freeze();
    let part = |token: u64, at: u64, first, blocks: usize| {
        let data = vec![buffer.slice(first, blocks)];
        Command { token, work: Work::Write { at: at * BLOCK, data, skip: 0, bytes: blocks * BLOCK_SIZE, fua: false } }
    };
    submit(&joined, [part(1, 10, 0, 1), part(2, 11, 1, 2), part(3, 13, 0, 1)]);
    let slices = |commands: &[Command]| match &commands[0].work {
        Work::Write { data, .. } => data.iter().map(Slice::blocks).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(slices(&manual.commands()), [3, 1]);
    manual.end(Ok(()));
    assert_eq!(ended.tokens(), [1, 2, 3]);
}

#[test]
fn all_writes_of_a_command_fail_with_it() {
    let (manual, joined, ended) = rig();
    submit(&joined, [write(0, 1), write(1, 1)]);
    manual.end(Err(io::Error::from_raw_os_error(28)));
    let failed: Vec<_> = ended.take().into_iter().map(|(token, _, result)| (token, result.unwrap_err().raw_os_error())).collect();
    assert_eq!(failed, [(0, Some(28)), (1, Some(28))]);
}

#[test]
fn other_commands_and_writes_of_parts_of_blocks_never_wait() {
    let (manual, joined, ended) = rig();
    let durable = |first| match write(first, 1) {
        Command { token, work: Work::Write { at, data, skip, bytes, .. } } => {
            Command { token, work: Work::Write { at, data, skip, bytes, fua: true } }
        }
        other => other,
    };
    let part = |first| match write(first, 1) {
        Command { token, work: Work::Write { at, data, fua, .. } } => {
            Command { token, work: Work::Write { at, data, skip: 0, bytes: 512, fua } }
        }
        other => other,
    };
    submit(&joined, [write(0, 1)]);
    submit(&joined, [write(1, 1), durable(2), part(3), Command { token: 7, work: Work::Flush }]);
    assert_eq!(manual.commands().len(), 4);
    assert_eq!(manual.writes(), [(0, 1), (2, 1), (3, 0)]);
    (0..5).for_each(|_| manual.end(Ok(())));
    assert_eq!(ended.tokens(), [0, 2, 3, 7, 1]);
}

#[test]
fn a_device_that_stops_gets_all_that_was_held_back() {
    let (manual, joined, ended) = rig();
    (0..4).for_each(|first| submit(&joined, [write(first, 1)]));
    joined.stop();
    assert_eq!(manual.writes(), [(0, 1), (1, 3)]);
    submit(&joined, [write(4, 1)]);
    assert_eq!(manual.writes().last(), Some(&(4, 1)));
    (0..3).for_each(|_| manual.end(Ok(())));
    assert_eq!(ended.tokens(), [0, 1, 2, 3, 4]);
}
