//! The hints that arrive at a server.

use crate::rig::{Run, compiled, directory_of_files, has};
use crate::server::{Server, State};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The question about a file, which may have gone by now.
fn about(path: &Path, inode: u64, act: &str) -> String {
    let device = path.parent().unwrap().metadata().unwrap().dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let path = path.display();
    format!(r#"{{"ask":"hintfile","device":{{"major":{major},"minor":{minor}}},"inode":{inode},"act":"{act}","path":"{path}"}}"#)
}

fn of_file(path: &Path, act: &str) -> String {
    about(path, path.metadata().unwrap().ino(), act)
}

/// Runs a script in a directory of files under one server, and returns the questions that name the directory.
fn questions(directory: &Path, script: &str, hint: &str, patterns: Option<&str>) -> Vec<String> {
    let server = Server::begin(State::Taking);
    let left = Run { server: Some(&server), hint, patterns, patience_ms: Some(1000) }.shell(directory, script);
    assert_eq!((left.exit, left.err.as_str()), (Some(0), ""), "{script}");
    server.questions().into_iter().filter(|question| question.contains(directory.to_str().unwrap())).collect()
}

#[test]
fn programs_that_know_nothing_of_hints_give_those_of_their_user() {
    let directory = directory_of_files();
    let at = |name: &str| directory.path().join(name);
    let got = |script: &str, hint: &str, patterns: Option<&str>| questions(directory.path(), script, hint, patterns);
    let copied = got("cp a copy", "nodedup", None);
    assert_eq!(copied, [of_file(&at("copy"), "nodedup")]);
    assert_eq!(got("cp a copy", "prefetch", None), [of_file(&at("a"), "prefetch")]);
    assert_eq!(got("cp a copy", "prefetch,nodedup", None), [of_file(&at("a"), "prefetch"), of_file(&at("copy"), "nodedup")]);
    assert_eq!(got("cat a >/dev/null; cat b >out", "nodedup", None), [of_file(&at("out"), "nodedup")]);
    assert!(got("cp a copy; cat b", "", None).is_empty());
    assert_eq!(got("cat a b c", "prefetch", Some("[bc]:*.db")), [of_file(&at("b"), "prefetch"), of_file(&at("c"), "prefetch")]);
    let everything_there = format!("{}/*", directory.path().display());
    assert_eq!(got("cat a", "prefetch", Some(&everything_there)), [of_file(&at("a"), "prefetch")]);
    assert!(got("cat a", "prefetch", Some("/nowhere/*")).is_empty());
}

#[test]
fn a_program_that_knows_of_hints_gives_its_own() {
    if !has("a_program_that_knows_of_hints_gives_its_own", "cc") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = compiled(place.path(), &[]);
    let directory = directory_of_files();
    let at = |name: &str| directory.path().join(name);
    // No pattern stands against what the program asks for itself.
    let got = questions(directory.path(), &format!("{} numbers >/dev/null", program.display()), "", Some("/nowhere/*"));
    let [a, new, named] = [at("a"), at("new"), at("at")];
    let expected = [
        of_file(&a, "prefetch"),
        of_file(&a, "prefetch"),
        of_file(&a, "nodedup"),
        of_file(&a, "prefetch"),
        of_file(&new, "nodedup"),
        of_file(&a, "prefetch"),
        of_file(&a, "nodedup"),
        of_file(&named, "nodedup"),
        of_file(&named, "nodedup"),
        of_file(&named, "prefetch"),
    ];
    let (of_named, of_others): (Vec<_>, Vec<_>) = got.into_iter().partition(|line| expected.contains(line));
    assert_eq!(of_named, expected);
    // One without a name, and a temporary file with one of chance.
    assert_eq!(of_others.len(), 2, "{of_others:?}");
    assert!(of_others.iter().all(|line| line.contains(r#""act":"nodedup""#)));
}

#[test]
fn the_server_of_a_device_is_found_among_others_and_kept_in_mind() {
    let directory = directory_of_files();
    let server = Server::begin(State::Refusing);
    for number in 0..40 {
        // More names than one look into the directory brings.
        std::fs::write(server.run().join(format!("some-other-file-with-a-long-name-{number:040}.json")), "").unwrap();
    }
    server.add("another", State::Taking);
    drop(std::os::unix::net::UnixListener::bind(server.run().join("killed.control")).unwrap());
    let run = Run { server: Some(&server), hint: "prefetch", patterns: Some("[abc]"), patience_ms: Some(1000) };
    assert_eq!(run.shell(directory.path(), "cat a b c | wc -l").out, "9000\n");
    let asked = server.questions();
    assert!((3..=4).contains(&asked.len()), "the first file asks one or both servers, and the others the one that has them: {asked:?}");
}

#[test]
fn a_directory_that_others_may_enter_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let directory = directory_of_files();
    let server = Server::begin(State::Taking);
    std::fs::set_permissions(server.run(), PermissionsExt::from_mode(0o755)).unwrap();
    let run = Run { server: Some(&server), hint: "prefetch", patience_ms: Some(1000), ..Run::default() };
    assert_eq!(run.shell(directory.path(), "cat a | wc -l").out, "3000\n");
    assert!(server.questions().is_empty());
}
