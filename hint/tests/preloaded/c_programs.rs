//! A program in C that looks closely: descriptors, errno, signals, threads, children, memory and time.

use crate::rig::{Run, compiled, directory_of_files, has, library};
use crate::server::{Server, State};
use std::path::Path;

/// Runs a part of the program in a directory of its own, and returns what it says.
fn output_of(program: &Path, part: &str, run: &Run) -> String {
    let directory = directory_of_files();
    let left = run.shell(directory.path(), &format!("{} {part}", program.display()));
    assert!(left.exit == Some(0) && left.err.is_empty(), "{part} ends with {:?}: {} {}", left.exit, left.out, left.err);
    left.out
}

#[test]
fn programs_see_no_difference_in_any_state_of_the_server() {
    if !has("programs_see_no_difference_in_any_state_of_the_server", "cc") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = compiled(place.path(), &[]);
    for part in ["numbers", "signals", "threads", "children", "cancellation", "limit", "memory", "executed"] {
        let alone = output_of(&program, part, &Run::default());
        for state in State::ALL {
            for hint in ["", "nodedup,prefetch"] {
                let server = Server::begin(state);
                let with = output_of(&program, part, &Run { server: Some(&server), hint, ..Run::default() });
                assert_eq!(with, alone, "{state:?}, with the hint '{hint}'");
            }
        }
    }
    assert!(output_of(&program, "signals", &Run::default()).contains("interrupted 1"), "no handler ran");
}

#[test]
fn a_server_that_fails_costs_its_patience_once() {
    if !has("a_server_that_fails_costs_its_patience_once", "cc") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = compiled(place.path(), &[]);
    for state in [State::Slow, State::Full, State::Babbling, State::Killed, State::Absent, State::Dying] {
        let server = Server::begin(state);
        // 2000 opens and two hints each: with a patience of 100 ms for each they would take minutes.
        let run = Run { server: Some(&server), patience_ms: Some(100), ..Run::default() };
        let ms: u64 = output_of(&program, "patience", &run).trim().parse().unwrap();
        assert!(ms < 2000, "{state:?}: {ms} ms");
        let asked = server.questions().len();
        // One that it asks before main, and one of the loop, may both be under way before it knows.
        assert!(asked <= 2, "{state:?}: {asked} questions");
    }
}

#[test]
fn a_linked_program_gets_an_answer() {
    if !has("a_linked_program_gets_an_answer", "cc") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let folder = library().parent().unwrap().to_str().unwrap().to_owned();
    let program = compiled(place.path(), &[&format!("-L{folder}"), "-lonefold_hint", &format!("-Wl,-rpath,{folder}")]);
    let directory = directory_of_files();
    let answers = |state: State| {
        let server = Server::begin(state);
        let script = format!("ONEFOLD_HINT_PATIENCE_MS=500 ONEFOLD_RUN_DIR={} {} direct", server.run().display(), program.display());
        let left = Run::default().shell(directory.path(), &script);
        assert_eq!((left.exit, left.err.as_str()), (Some(0), ""));
        let (answers, descriptors) = left.out.rsplit_once('\n').unwrap().0.rsplit_once('\n').unwrap();
        assert_eq!(descriptors, "5 more descriptors");
        answers.to_owned()
    };
    let wrong = "-1 EBADF\n-1 EINVAL\n-1 EINVAL\n-1 EINVAL";
    assert_eq!(answers(State::Taking), format!("0 unchanged\n0 unchanged\n0 unchanged\n{wrong}"));
    assert_eq!(answers(State::Refusing), format!("-1 ENODEV\n-1 ENODEV\n-1 ENODEV\n{wrong}"));
    for state in [State::Absent, State::Killed, State::Dying, State::Full, State::Babbling] {
        assert_eq!(answers(state), format!("-1 ENOTCONN\n-1 ENOTCONN\n-1 ENOTCONN\n{wrong}"), "{state:?}");
    }
}
