//! `./dev install` and `./dev uninstall` in a folder of their own.

mod common;

use common::home::Home;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a script of `./dev` in the work tree.
fn dev(script: &str, words: &[&str]) -> Output {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    Command::new("bash").current_dir(tree).arg(format!("tools/dev/{script}.sh")).args(words).output().unwrap()
}

fn says(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Lists the files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn what_is_installed_works_and_goes_without_a_trace() {
    let home = Home::new();
    let root = home.path("root");
    let place = Path::new(&root).join("usr");
    let stranger = place.join("share/doc/stranger");
    fs::create_dir_all(stranger.parent().unwrap()).unwrap();
    fs::write(&stranger, "of somebody else").unwrap();
    let words = ["--prefix", "/usr", "--root", &root];
    let binary = [&words[..], &["--binary", env!("CARGO_BIN_EXE_onefold")]].concat();
    let installed = dev("install", &binary);
    assert!(installed.status.success(), "{}", says(&installed));
    for file in ["bin/onefold", "lib/udev/rules.d/60-onefold.rules", "share/man/man1/onefold-create.1.gz", "share/doc/onefold/operating.md"]
    {
        assert!(place.join(file).is_file(), "{file}: {}", says(&installed));
    }
    let mode = |file: &str| fs::metadata(place.join(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("bin/onefold"), mode("lib/systemd/system/onefold@.service")), (0o755, 0o644));
    let version = Command::new(place.join("bin/onefold")).arg("version").output().unwrap();
    assert!(says(&version).contains("format version"), "{}", says(&version));

    // An older version had a file that this one has not.
    let (list, old) = (place.join("share/onefold/installed"), place.join("share/doc/onefold/old.md"));
    fs::write(&old, "old").unwrap();
    fs::write(&list, fs::read_to_string(&list).unwrap() + "share/doc/onefold/old.md\n").unwrap();
    let again = dev("install", &binary);
    assert!(again.status.success() && !old.exists(), "{}", says(&again));

    let removed = dev("uninstall", &words);
    assert!(removed.status.success(), "{}", says(&removed));
    assert_eq!(files(Path::new(&root)), [stranger]);
    let twice = dev("uninstall", &words);
    assert!(twice.status.code() == Some(1) && says(&twice).contains("nothing was installed below"), "{}", says(&twice));
}

#[test]
fn wrong_input_is_named_and_changes_nothing() {
    let home = Home::new();
    let root = home.path("root");
    for (script, words, what) in [
        ("install", vec!["--prefix", "usr", "--root", &root], "begins with /"),
        ("install", vec!["--root", &root, "--binary", "/no/such/program"], "/no/such/program"),
        ("install", vec!["--into", &root], "'--into'"),
        ("uninstall", vec!["--into", &root], "'--into'"),
    ] {
        let output = dev(script, &words);
        assert!(output.status.code() == Some(2) && says(&output).contains(what), "{words:?}: {}", says(&output));
    }
    assert!(!Path::new(&root).exists());
}
