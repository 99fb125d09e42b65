//! The mutants that cannot be distinguished from the unchanged engine, each with the reason.

use super::mutation::Mutation;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

#[derive(Default)]
pub struct Equivalent {
    reasons: HashMap<String, String>,
}

impl Equivalent {
    /// Reads the file: an id, a tab, the reason; lines that begin with `#` are skipped. An id that no mutant has any more is reported: its
    /// line changed, so its reason may not hold.
    ///
    /// # Errors
    /// Fails if it cannot be read, or a line has another form.
    pub fn read(path: &Path, all: &[Mutation]) -> io::Result<Self> {
        let mut reasons = HashMap::new();
        for line in fs::read_to_string(path)?.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let Some((id, why)) = line.split_once('\t').filter(|(_, why)| !why.trim().is_empty()) else {
                return Err(io::Error::other(format!("{}: a line needs an id, a tab and a reason: {line}", path.display())));
            };
            if all.iter().all(|mutation| mutation.id != id) {
                eprintln!("mutants: {}: no mutant has the id {id} any more", path.display());
            }
            reasons.insert(id.to_owned(), why.to_owned());
        }
        Ok(Self { reasons })
    }

    pub fn why(&self, id: &str) -> Option<&str> {
        self.reasons.get(id).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_reason() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("equivalent.tsv");
        let read = |content: &str| {
            fs::write(&path, content).expect("it is written");
            Equivalent::read(&path, &[])
        };
        let known = read("# id\twhy\n12ab\tIt is asked again later.\n").expect("it is of that shape");
        assert_eq!((known.why("12ab"), known.why("12ac")), (Some("It is asked again later."), None));
        assert!(read("12ab\n").is_err() && read("12ab\t \n").is_err(), "a reason is wanted");
    }
}
