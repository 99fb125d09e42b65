//! Each named mutant fits the code, line by line: a patch that applies elsewhere would break something else, or nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// The consecutive lines that a patch expects to find, and their file.
struct Hunk {
    file: String,
    found: Vec<String>,
}

fn hunks(patch: &str) -> Vec<Hunk> {
    let mut file = "";
    let mut hunks: Vec<Hunk> = Vec::new();
    for line in patch.lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            file = name;
        } else if line.starts_with("@@") {
            hunks.push(Hunk { file: file.to_owned(), found: Vec::new() });
        } else if let (Some(found), Some(hunk), false) = (line.strip_prefix([' ', '-']), hunks.last_mut(), line.starts_with("--- ")) {
            hunk.found.push(found.to_owned());
        }
    }
    hunks
}

#[test]
fn each_mutant_changes_what_it_names() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = root.join("sim/mutants");
    let in_folder = |folder: &Path| -> Vec<PathBuf> {
        let paths = fs::read_dir(folder).expect("mutants").map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "patch")).collect()
    };
    let patches = [in_folder(&folder), in_folder(&folder.join("log"))].concat();
    assert!(patches.len() > 100, "{} mutants", patches.len());
    let mut lost = Vec::new();
    for path in patches {
        let hunks = hunks(&fs::read_to_string(&path).expect("a patch"));
        let fits = |hunk: &Hunk| {
            let code = fs::read_to_string(root.join(&hunk.file)).unwrap_or_default();
            let lines: Vec<&str> = code.lines().collect();
            !hunk.found.is_empty() && lines.windows(hunk.found.len()).any(|window| window == hunk.found)
        };
        if hunks.is_empty() || !hunks.iter().all(fits) {
            lost.push(path.file_name().expect("a name").to_owned());
        }
    }
    assert!(lost.is_empty(), "these do not fit the code any more: {lost:?}");
}
