//! Comments name files that exist: a renamed file would otherwise leave behind a name that leads nowhere.
//!
//! A name with an ending of [`ENDINGS`] is looked for in the folder that the file is named as, beside the file, and in each folder around
//! it, with its `src` and its `tests`, up to the root.

use super::{pass_or_list, root, texts};
use std::path::Path;

/// The endings of files that are looked for.
const ENDINGS: [&str; 4] = [".rs", ".md", ".py", ".sh"];
/// Names of files of other projects, and of files that a comment makes up.
const FOREIGN: [&str; 3] = ["doc/proto.md", "docs/design.md", "NAME.rs"];

/// The text of a comment in a line, if there is one.
fn comment(line: &str) -> Option<&str> {
    let begins = |at: &usize| *at == 0 || line[..*at].ends_with(' ');
    // Slashes within a string stand behind its quotation mark.
    let at = line.match_indices("//").map(|(at, _)| at).find(begins)?;
    (line[..at].matches('"').count() % 2 == 0).then(|| line[at..].trim_start_matches(['/', '!']))
}

/// The names of files in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let words = text.split(move |c: char| !is_of_name(c)).map(|word| word.trim_end_matches('.'));
    words.filter(|word| ENDINGS.iter().any(|ending| word.strip_suffix(ending).is_some_and(|stem| !stem.is_empty() && !stem.ends_with('/'))))
}

/// Whether a file exists that this name may mean in a comment of `file`.
fn is_there(file: &str, name: &str, exists: impl Fn(&Path) -> bool) -> bool {
    let own = Path::new(file).with_extension("");
    own.ancestors().flat_map(|folder| ["", "src", "tests"].map(|inside| folder.join(inside).join(name))).any(|path| exists(&path))
}

/// The names in the comments of a file that lead nowhere, with their lines.
fn lost<'a>(file: &str, text: &'a str, exists: impl Fn(&Path) -> bool) -> Vec<(usize, &'a str)> {
    let comments = text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, comment(line)?)));
    let named = comments.flat_map(|(line, comment)| names(comment).map(move |name| (line, name)));
    named.filter(|(_, name)| !FOREIGN.contains(name) && !is_there(file, name, &exists)).collect()
}

#[test]
fn comments_name_files_that_exist() {
    let mut findings = Vec::new();
    for (file, text) in texts("comments_name_files_that_exist", &[".rs"]) {
        let lost = lost(&file, &text, |path| root().join(path).is_file());
        findings.extend(lost.into_iter().map(|(line, name)| format!("{file}:{line}: there is no {name}: name the file by its place")));
    }
    pass_or_list(&findings);
}

#[test]
fn comments_are_searched_for_names_of_files() {
    let exists = |path: &Path| ["engine/src/a/b.rs", "docs/c.md"].iter().any(|there| path == Path::new(there));
    let lost = |text| lost("engine/src/a/d.rs", text, exists).into_iter().map(|(line, name)| format!("{line} {name}")).collect::<Vec<_>>();
    let none: [&str; 0] = [];
    assert_eq!(lost("//! See (`b.rs`), `a/b.rs`, engine/src/a/b.rs and docs/c.md.\nlet x = \"// e.rs\"; f(\"e.rs\");"), none);
    assert_eq!(lost("/// See `e.rs`.\nx; // c.md, a.b, .rs"), ["1 e.rs", "2 c.md"]);
}
