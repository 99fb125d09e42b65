//! A change of one place, and the id by which it is recognized.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;
use twox_hash::XxHash3_64;

/// A change as its finder describes it: bytes of a file, and their replacement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    pub file: String,
    pub start: usize,
    pub end: usize,
    pub replacement: String,
}

/// A change with its id.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// A hash of the file's name and of the lines before and after the change, so that it stays when other lines change.
    pub id: String,
    pub change: Change,
    /// The first line that changes, from 1.
    pub line: usize,
    /// The old lines.
    pub old: String,
    pub new: String,
}

impl Mutation {
    pub fn place(&self) -> String {
        format!("{}:{}", self.change.file, self.line)
    }

    /// Formats the lines as a diff.
    pub fn diff(&self) -> String {
        let marked = |mark: char, lines: &str| lines.lines().map(|line| format!("    {mark} {line}\n")).collect::<Vec<_>>().concat();
        marked('-', &self.old) + &marked('+', &self.new)
    }

    /// Makes the change in a copy of the tree.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn apply(&self, tree: &Path) -> io::Result<()> {
        let path = tree.join(&self.change.file);
        let mut source = fs::read_to_string(&path)?;
        source.replace_range(self.change.start..self.change.end, &self.change.replacement);
        fs::write(path, source)
    }
}

/// Returns the mutations that these changes make, each once, sorted by place.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn mutations(mut changes: Vec<Change>) -> io::Result<Vec<Mutation>> {
    changes.sort();
    let mut sources = HashMap::new();
    let (mut results, mut same_lines) = (HashSet::new(), HashMap::new());
    let mut made = Vec::new();
    for change in changes {
        if !sources.contains_key(&change.file) {
            sources.insert(change.file.clone(), fs::read_to_string(&change.file)?);
        }
        let source = &sources[&change.file];
        let from = source[..change.start].rfind('\n').map_or(0, |at| at + 1);
        let to = source[change.end..].find('\n').map_or(source.len(), |at| change.end + at);
        let old = source[from..to].to_owned();
        let new = format!("{}{}{}", &source[from..change.start], change.replacement, &source[change.end..to]);
        // Two finders, or two operators, may change a line in the same way.
        if old == new || !results.insert((change.file.clone(), from, new.clone())) {
            continue;
        }
        let content = format!("{}\0{}\0{}", change.file, old.trim(), new.trim());
        let nth = same_lines.entry(content.clone()).or_insert(0_u32);
        let id = format!("{:016x}", XxHash3_64::oneshot(format!("{content}\0{nth}").as_bytes()));
        *nth += 1;
        let line = source[..change.start].matches('\n').count() + 1;
        made.push(Mutation { id, change, line, old, new });
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_identified_by_its_lines_and_made_once() {
        let place = tempfile::tempdir().expect("a folder");
        let file = place.path().join("a.rs").to_string_lossy().into_owned();
        fs::write(&file, "let a = 1;\nlet b = 1;\nlet b = 1;\n").expect("it is written");
        let change = |start, replacement: &str| Change { file: file.clone(), start, end: start + 1, replacement: replacement.to_owned() };
        let made = mutations(vec![change(30, "2"), change(8, "1"), change(19, "2"), change(8, "2"), change(8, "2")]).expect("it is read");
        let described: Vec<_> = made.iter().map(|mutation| (mutation.line, mutation.diff())).collect();
        let of_b = "    - let b = 1;\n    + let b = 2;\n".to_owned();
        assert_eq!(described, [(1, "    - let a = 1;\n    + let a = 2;\n".to_owned()), (2, of_b.clone()), (3, of_b)]);
        assert!(made[1].id != made[2].id, "the same lines in two places are two mutations");

        made[1].apply(Path::new("")).expect("it is written");
        assert_eq!(fs::read_to_string(&file).expect("it is read"), "let a = 1;\nlet b = 2;\nlet b = 1;\n");
    }
}
