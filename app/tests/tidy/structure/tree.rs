//! The files of a crate and who imports what: each name is followed to the file that defines it.
//!
//! 1. A name that a module passes on (`pub use`) leads to where it is defined. Passing on is no import, unless the module uses the name
//!    itself.
//! 2. Names of other crates are no imports, and neither are names that nobody defines: the compiler has refused those before.

use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// One file needs another.
pub struct Import {
    /// Numbers of files in [`Tree::sources`].
    pub from: usize,
    pub to: usize,
    /// The first line that needs it, and the path there.
    pub line: usize,
    pub path: String,
}

/// The product code of a crate.
pub struct Tree {
    pub sources: Vec<Source>,
    /// The module that each file is.
    pub modules: Vec<Vec<String>>,
    pub imports: Vec<Import>,
    by_module: BTreeMap<Vec<String>, usize>,
}

/// The steps through names that pass on other names, until it must be a circle of them.
const STEPS_MAX: usize = 32;

/// Whether a file is there for tests, by its name.
fn is_test(name: &str) -> bool {
    name.split('/').any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests") || part.ends_with("_tests.rs"))
}

/// The module that a file below the crate's `folder` is.
fn module_of(folder: &str, name: &str) -> Vec<String> {
    let inside = name.strip_prefix(folder).and_then(|name| name.strip_suffix(".rs")).expect("a Rust file of the folder");
    let mut module: Vec<String> = inside.trim_start_matches('/').split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
        module.pop();
    }
    module
}

impl Tree {
    /// Reads those of the files, (name, text), that are product code of the crate whose sources lie in `folder`.
    pub fn read<'a>(folder: &str, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let inside = format!("{folder}/");
        let files = files.into_iter().filter(|(name, _)| name.starts_with(&inside) && name.ends_with(".rs") && !is_test(name));
        let sources: Vec<Source> = files.map(|(name, text)| Source::read(name, text)).collect();
        let mut tests = BTreeSet::new();
        for source in &sources {
            let module = module_of(folder, &source.name);
            tests.extend(source.test_modules.iter().map(|name| [&module[..], std::slice::from_ref(name)].concat()));
        }
        let is_product = |source: &Source| !tests.iter().any(|test| module_of(folder, &source.name).starts_with(test));
        let sources: Vec<Source> = sources.into_iter().filter(is_product).collect();
        let modules: Vec<Vec<String>> = sources.iter().map(|source| module_of(folder, &source.name)).collect();
        let by_module = modules.iter().cloned().zip(0..).collect();
        let mut tree = Self { sources, modules, imports: Vec::new(), by_module };
        tree.imports = (0..tree.sources.len()).flat_map(|file| tree.imports_of(file)).collect();
        tree
    }

    /// The imports of a file, one for each file that it needs.
    fn imports_of(&self, file: usize) -> Vec<Import> {
        let source = &self.sources[file];
        let uses = source.uses.iter().filter(|found| !found.is_public || source.mentions(&found.name));
        let paths = uses.map(|found| (found.path.clone(), found.line)).chain(source.paths());
        let mut imports: BTreeMap<usize, Import> = BTreeMap::new();
        for (path, line) in paths {
            if let Some(to) = self.resolve(&self.module_at(file, line), &path, STEPS_MAX).filter(|to| *to != file) {
                let import = Import { from: file, to, line, path: path.join("::") };
                let first = imports.entry(to).or_insert(import);
                first.line = first.line.min(line);
            }
        }
        imports.into_values().collect()
    }

    /// The module that a line of a file lies in.
    fn module_at(&self, file: usize, line: usize) -> Vec<String> {
        let inline = self.sources[file].inline.iter().filter(|(_, lines)| lines.contains(&line));
        self.modules[file].iter().cloned().chain(inline.map(|(name, _)| name.clone())).collect()
    }

    /// The file that a module lies in.
    fn file_of(&self, module: &[String]) -> Option<usize> {
        (0..=module.len()).rev().find_map(|length| self.by_module.get(&module[..length]).copied())
    }

    /// The file that defines what a path means in a module.
    fn resolve(&self, module: &[String], path: &[String], steps: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.walk(&[], rest, steps),
            "self" => self.walk(module, rest, steps),
            "super" => {
                let above = &module[..module.len().saturating_sub(1)];
                if rest.first().is_some_and(|next| next == "super") {
                    return self.resolve(above, rest, steps);
                }
                self.walk(above, rest, steps)
            }
            _ if self.has_module(module, first) => self.walk(module, path, steps),
            _ => self.follow(module, path, steps),
        }
    }

    fn has_module(&self, module: &[String], name: &str) -> bool {
        self.by_module.contains_key(&[module, &[name.to_owned()]].concat())
    }

    /// The file that defines `path`, which begins with a name in `module`.
    fn walk(&self, module: &[String], path: &[String], steps: usize) -> Option<usize> {
        let Some((first, rest)) = path.split_first() else { return self.file_of(module) };
        // A module and an item may have one name; what follows a module's name is something in it.
        if !rest.is_empty() && self.has_module(module, first) {
            return self.walk(&[module, std::slice::from_ref(first)].concat(), rest, steps);
        }
        if self.imported(module, first).is_some() {
            return self.follow(module, path, steps);
        }
        if self.has_module(module, first) {
            return self.file_of(&[module, std::slice::from_ref(first)].concat());
        }
        self.file_of(module)
    }

    /// The path by which a module has imported a name.
    fn imported(&self, module: &[String], name: &str) -> Option<&[String]> {
        let file = self.file_of(module)?;
        let mut uses = self.sources[file].uses.iter().filter(|found| found.name == name && found.path != [name]);
        uses.find(|found| self.module_at(file, found.line) == module).map(|found| found.path.as_slice())
    }

    /// The file that defines a path whose first name the module has imported.
    fn follow(&self, module: &[String], path: &[String], steps: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let target = self.imported(module, first)?;
        self.resolve(module, &[target, rest].concat(), steps.checked_sub(1)?)
    }
}
