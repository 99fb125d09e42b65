//! Kinds of files, by the endings of their names.

use super::contents::Kind;
use std::collections::HashMap;
use std::path::Path;

/// The longest ending that counts as one.
const ENDING_CHARS_MAX: usize = 10;
/// The most kinds; further ones are counted with the others.
const KINDS_MAX: usize = 4096;
/// The name of files without an ending, and that of all kinds beyond the most.
const PLAIN: &str = "(no ending)";
const OTHERS: &str = "(others)";

/// The kinds that were met, numbered from 0.
pub struct Kinds {
    numbers: HashMap<String, Kind>,
    names: Vec<String>,
}

impl Default for Kinds {
    fn default() -> Self {
        let mut kinds = Self { numbers: HashMap::new(), names: Vec::new() };
        kinds.add(OTHERS);
        kinds
    }
}

impl Kinds {
    fn add(&mut self, name: &str) -> Kind {
        let number = Kind::try_from(self.names.len()).expect("few kinds");
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The number of the kind of this file.
    pub fn of(&mut self, path: &Path) -> Kind {
        let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
        // A version is no kind: libc.so.6.
        let is_kind = |ending: &String| {
            ending.len() <= ENDING_CHARS_MAX
                && ending.chars().all(|character| character.is_ascii_alphanumeric())
                && ending.chars().any(|character| character.is_ascii_alphabetic())
        };
        let name = ending.filter(is_kind).map_or_else(|| PLAIN.to_owned(), |ending| format!(".{ending}"));
        match self.numbers.get(&name) {
            Some(number) => *number,
            None if self.names.len() < KINDS_MAX => self.add(&name),
            None => 0,
        }
    }

    /// The name of a kind.
    pub fn name(&self, kind: Kind) -> &str {
        &self.names[usize::from(kind)]
    }

    /// All names, in the order of their numbers.
    pub fn into_names(self) -> Vec<String> {
        self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_an_ending_with_a_letter() {
        let mut kinds = Kinds::default();
        let mut of = |path: &str| kinds.of(Path::new(path));
        let png = of("/a/b.png");
        assert_eq!((of("c.PNG"), of("/x.y/README"), of("libc.so.6")), (png, png + 1, png + 1));
        assert_eq!(of("a.thisisnoending"), png + 1);
        let further = (0..2 * KINDS_MAX).map(|number| of(&format!("a.x{number}"))).max();
        assert_eq!(further, Kind::try_from(KINDS_MAX - 1).ok());
        assert_eq!(kinds.into_names()[..3], [OTHERS, ".png", PLAIN]);
    }
}
