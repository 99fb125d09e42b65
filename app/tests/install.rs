//! `./dev install`, `./dev uninstall` and `./dev package` in a folder of their own.

mod common;

use common::home::Home;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An architecture that is not this machine's.
const OTHER_ARCH: &str = if cfg!(target_arch = "x86_64") { "arm64" } else { "amd64" };

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

/// Runs a program in the home, and returns its output.
fn output(home: &Home, program: &str, words: &[&str]) -> String {
    let output = Command::new(program).current_dir(home.path(".")).args(words).output().unwrap();
    assert!(output.status.success(), "{program} {words:?}: {}", says(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Whoever has installed a package has no source: what the README names is there.
fn is_for_its_reader(readme: &str, installed: &[String]) {
    assert!(readme.contains("Do not keep the only copy") && readme.contains("Linux 6.9 or newer"), "{readme}");
    for of_source in ["./dev", "docs/", "cargo", "](", "/usr/local"] {
        assert!(!readme.contains(of_source), "{of_source} is of the source");
    }
    for page in readme.split("man onefold-").skip(1).filter_map(|rest| rest.split('`').next()) {
        let has = |section| installed.contains(&format!("/usr/share/man/man{section}/onefold-{page}.{section}.gz"));
        assert!(has(1) || has(7), "there is no page onefold-{page}");
    }
    let verbs = readme.lines().filter_map(|line| line.trim_start().strip_prefix("onefold ")).filter_map(|rest| rest.split(' ').next());
    let verbs: Vec<&str> = verbs.collect();
    assert!(verbs.len() > 5, "{verbs:?}");
    for verb in verbs {
        assert!(installed.contains(&format!("/usr/share/man/man1/onefold-{verb}.1.gz")), "there is no verb {verb}");
    }
}

/// A program that is there already is packaged in seconds: no compiler runs.
#[test]
fn packages_of_a_program_that_is_there_build_nothing() {
    if !common::have("packages_of_a_program_that_is_there_build_nothing", &["dpkg-deb", "dpkg-shlibdeps"]) {
        return;
    }
    let home = Home::new();
    fs::create_dir(home.path("bin")).unwrap();
    for tool in ["cargo", "rustc", "cc"] {
        home.write(&format!("bin/{tool}"), "#!/bin/sh\necho \"$0 $*\" >>\"$(dirname \"$0\")/ran\"\nexit 1\n");
        fs::set_permissions(home.path(&format!("bin/{tool}")), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = format!("{}:{}", home.path("bin"), std::env::var("PATH").unwrap());
    let words = ["tools/dev/package.sh", "--binary", env!("CARGO_BIN_EXE_onefold"), "--out", &home.path("packages"), "deb"];
    let made = Command::new("bash").current_dir(tree).env("PATH", path).args(words).output().unwrap();
    assert!(made.status.success(), "{}", says(&made));
    assert!(!Path::new(&home.path("bin/ran")).exists(), "{}", String::from_utf8(home.read("bin/ran")).unwrap());
    let deb = files(Path::new(&home.path("packages"))).remove(0);
    let listed = output(&home, "dpkg-deb", &["--contents", deb.to_str().unwrap()]);
    for file in ["/usr/share/man/man1/onefold-create.1.gz", "/usr/share/man/man7/onefold-tracing.7.gz", "/completions/onefold"] {
        assert!(listed.contains(file), "{file} in {listed}");
    }
}

#[test]
fn packages_have_what_is_installed() {
    if !common::have("packages_have_what_is_installed", &["dpkg-deb", "dpkg-shlibdeps", "rpmbuild", "rpm"]) {
        return;
    }
    let home = Home::new();
    let made = dev("package", &["--binary", env!("CARGO_BIN_EXE_onefold"), "--out", &home.path("packages")]);
    assert!(made.status.success(), "{}", says(&made));
    let packages = files(Path::new(&home.path("packages")));
    let package = |ending: &str| packages.iter().find(|path| path.to_str().unwrap().ends_with(ending)).unwrap().to_str().unwrap();
    let deb = package(".deb");
    assert!(says(&made).contains(deb), "{}", says(&made));
    let control = output(&home, "dpkg-deb", &["--field", deb]);
    for field in ["Package: onefold\n", "Version: 0.", "Depends: libc6 (>= ", "Description: deduplicating block device for flash\n"] {
        assert!(control.contains(field), "{field} in {control}");
    }
    output(&home, "dpkg-deb", &["--extract", deb, "tree"]);
    let version = output(&home, &home.path("tree/usr/bin/onefold"), &["version"]);
    assert!(version.contains("format version"), "{version}");
    let installed: Vec<String> =
        files(Path::new(&home.path("tree"))).iter().map(|path| path.to_str().unwrap().split_once("tree").unwrap().1.to_owned()).collect();
    for file in ["/usr/lib/systemd/system/onefold@.service", "/usr/share/man/man1/onefold-create.1.gz", "/usr/share/doc/onefold/copyright"]
    {
        assert!(installed.iter().any(|path| path == file), "{file} in {installed:?}");
    }
    let mut listed: Vec<String> =
        output(&home, "rpm", &["--query", "--list", "--package", package(".rpm")]).lines().map(str::to_owned).collect();
    let mut installed = installed;
    listed.sort();
    installed.sort();
    assert_eq!(listed, installed, "both packages have the same files");
    let readme = fs::read_to_string(home.path("tree/usr/share/doc/onefold/README.md")).unwrap();
    is_for_its_reader(&readme, &listed);
    assert!(control.contains("do not keep the only copy") && control.contains("Linux 6.9"), "{control}");
    let scripts = output(&home, "rpm", &["--query", "--scripts", "--package", package(".rpm")]);
    assert!(scripts.contains("systemctl stop 'onefold@*.service'"), "{scripts}");
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
        ("package", vec!["--out", &root, "tar"], "'tar'"),
        ("package", vec!["--out", &root, "--arch", "m68k"], "m68k: the architectures are amd64 and arm64"),
        ("package", vec!["--out", &root, "--arch", "all", "--binary", env!("CARGO_BIN_EXE_onefold")], "--arch all is for two"),
        ("package", vec!["--out", &root, "--arch", OTHER_ARCH, "--binary", env!("CARGO_BIN_EXE_onefold")], "is not for"),
        ("package", vec!["--out", &root, "--binary", "/no/such/program"], "/no/such/program"),
    ] {
        let output = dev(script, &words);
        assert!(output.status.code() == Some(2) && says(&output).contains(what), "{words:?}: {}", says(&output));
    }
    assert!(!Path::new(&root).exists());
}
