//! Two servers have one volume, because nothing prevented it: the one that finds the other's superblock stops, and leaves it as it is.

use crate::machine::Machine;
use crate::media::{blank, formatted, pattern};
use onefold_engine::format::{CommitMode, choose, copies};
use onefold_engine::interface::{Event, Notice, Op, Reply};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes, index};

const BYTES: u64 = 32 << 20;

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, ..Settings::default() }
}

/// All copies of the superblock, as they lie there.
fn superblocks(medium: &[u8]) -> [[u8; BLOCK_SIZE]; 4] {
    copies(Bytes(BYTES)).map(|at| medium[index(at.0)..index(at.0) + BLOCK_SIZE].try_into().expect("a page"))
}

/// Asserts that a server reported the other one, closes without a write, and left the superblocks alone. Returns that report.
fn has_stopped(mut machine: Machine, theirs: &[[u8; BLOCK_SIZE]; 4]) -> Notice {
    let found = machine.notices.iter().find(|notice| matches!(notice, Notice::OtherServer { .. })).cloned();
    let before = machine.medium.clone();
    machine.feed(Event::Close);
    assert_eq!(machine.closed, Some(false), "{:?}", machine.notices);
    assert!(machine.medium == before, "it wrote on");
    assert_eq!(superblocks(&machine.medium), *theirs);
    found.unwrap_or_else(|| panic!("it did not report it: {:?}", machine.notices))
}

#[test]
fn a_server_that_closes_finds_the_superblock_of_another() {
    for mode in [CommitMode::Ordered, CommitMode::Log] {
        let mut first = Machine::open(blank(BYTES, None), settings(mode));
        first.write(0, &pattern(1, 64 << 10));
        first.flush();
        let mut second = Machine::open(first.medium.clone(), settings(mode));
        second.write(1 << 20, &pattern(2, 64 << 10));
        second.flush();
        let theirs = superblocks(&second.medium);
        first.medium = second.medium;
        first.feed(Event::Close);
        assert_eq!(first.closed, Some(false), "{mode:?}: {:?}", first.notices);
        assert_eq!(superblocks(&first.medium), theirs, "{mode:?}");
        let found = first.notices.iter().find_map(|notice| match notice {
            Notice::OtherServer { incarnation, is_formatted, .. } => Some((*incarnation, *is_formatted)),
            _ => None,
        });
        assert_eq!(found, Some((2, false)), "{mode:?}: {:?}", first.notices);
    }
}

#[test]
fn a_server_that_opens_finds_that_another_was_faster() {
    for mode in [CommitMode::Ordered, CommitMode::Log] {
        let medium = blank(BYTES, None);
        // The slow server has read the superblock, and goes on when the other has opened. (If that one had written, a log would be found
        // damaged, and nothing written.)
        let mut slow = Machine::open(medium.clone(), settings(mode));
        let mut fast = Machine::open(medium, settings(mode));
        fast.feed(Event::Tick);
        slow.medium = fast.medium;
        let theirs = superblocks(&slow.medium);
        slow.feed(Event::Tick);
        has_stopped(slow, &theirs);
    }
}

#[test]
fn writes_are_refused_after_it_and_what_was_read_before_is_read_still() {
    let mut first = Machine::open(blank(BYTES, None), settings(CommitMode::Log));
    let a = pattern(4, 8192);
    first.write(0, &a);
    first.flush();
    let second = Machine::open(first.medium.clone(), settings(CommitMode::Log));
    let closed = { second }.close();
    first.medium = closed;
    let theirs = superblocks(&first.medium);
    // A log scan as long as this has to be compacted, or to end.
    let reply = (0..6000u64).find_map(|i| {
        let written = first.request_write(i % 64 * 4096, &pattern(i + 100, 4096));
        let flushed = first.request(Op::Flush, 0, 0, None, false);
        [written, flushed].into_iter().find(|reply| matches!(reply, Reply::Failed(_)))
    });
    assert!(reply.is_some(), "it never wrote a superblock");
    has_stopped(first, &theirs);
}

#[test]
fn a_server_that_was_ousted_writes_nothing_more() {
    for (mode, event, notice) in [
        (CommitMode::Ordered, Event::Ousted, Notice::Ousted),
        (CommitMode::Log, Event::Ousted, Notice::Ousted),
        (CommitMode::Log, Event::StoreFailed, Notice::WentReadOnly { what: "a read or write of the guard block or the notes" }),
    ] {
        let mut server = Machine::open(blank(BYTES, None), settings(mode));
        let synced = pattern(7, 8192);
        server.write(0, &synced);
        server.flush();
        server.write(1 << 20, &pattern(8, 64 << 10));
        server.feed(event);
        assert!(server.notices.contains(&notice), "{mode:?}: {:?}", server.notices);
        let before = server.medium.clone();
        for reply in [server.request_write(0, &pattern(9, 4096)), server.request(Op::Flush, 0, 0, None, false)] {
            assert!(matches!(reply, Reply::Failed(_)), "{mode:?}: {reply:?}");
        }
        assert_eq!(server.read(0, 8192), synced, "{mode:?}: what was synced reads on");
        server.feed(Event::Close);
        assert_eq!(server.closed, Some(false), "{mode:?}");
        assert!(server.medium == before, "{mode:?}: it wrote on");
    }
}

#[test]
fn a_server_whose_store_was_formatted_leaves_the_new_volume_alone() {
    let mut first = Machine::open(blank(BYTES, None), settings(CommitMode::Ordered));
    first.write(0, &pattern(5, 8192));
    first.flush();
    first.medium = formatted([8; 16], BYTES, None);
    let theirs = superblocks(&first.medium);
    first.feed(Event::Close);
    assert_eq!(superblocks(&first.medium), theirs);
    assert!(first.notices.iter().any(|notice| matches!(notice, Notice::OtherServer { is_formatted: true, .. })), "{:?}", first.notices);
}

#[test]
fn an_older_superblock_instead_of_its_own_does_no_harm() {
    let mut server = Machine::open(blank(BYTES, None), settings(CommitMode::Ordered));
    let before = server.medium.clone();
    server.write(0, &pattern(6, 8192));
    server.flush();
    let mut medium = server.medium.clone();
    medium[..2 * BLOCK_SIZE].copy_from_slice(&before[..2 * BLOCK_SIZE]);
    server.medium = medium;
    let medium = server.close();
    let pages = superblocks(&medium);
    let chosen = choose([Some(&pages[0]), Some(&pages[1]), Some(&pages[2]), Some(&pages[3])], Bytes(BYTES)).expect("a volume");
    assert!(chosen.superblock.clean);
}
