//! The direction of imports between layers, by the table in `ARCHITECTURE.md`.

use super::Found;
use super::tree::Tree;

/// The layers, from the lowest to the highest.
pub struct Layers {
    /// The heading of the table, in the page.
    heading: &'static str,
    /// Name, and the modules in it.
    layers: Vec<(String, Vec<Vec<String>>)>,
}

impl Layers {
    /// Reads the table of a page: a row for each layer, from the lowest, with its name and, in backticks, its modules by their place in the
    /// folder of the crate's sources, without `.rs`.
    ///
    /// # Panics
    /// When the page has no such table.
    pub fn read(page: &str, heading: &'static str) -> Self {
        let (_, section) = page.split_once(heading).unwrap_or_else(|| panic!("ARCHITECTURE.md has the heading '{heading}'"));
        let section = section.split("\n## ").next().unwrap_or_default();
        // The first two rows are the heading and the line below it.
        let rows = section.lines().filter_map(|line| line.strip_prefix('|')).skip(2);
        let layers = rows.map(|row| {
            let mut cells = row.split('|').map(str::trim);
            let name = cells.next().unwrap_or_default().to_owned();
            let modules = crate::quoted(cells.next().unwrap_or_default());
            (name, modules.into_iter().map(|module| module.split('/').map(str::to_owned).collect()).collect())
        });
        let layers: Vec<_> = layers.collect();
        assert!(layers.len() > 1, "the table '{heading}' has rows");
        Self { heading, layers }
    }

    /// The number of the layer that a module lies in: that of the innermost module around it which the table names.
    fn of(&self, module: &[String]) -> Option<usize> {
        let named = self.layers.iter().enumerate().flat_map(|(number, (_, modules))| modules.iter().map(move |module| (module, number)));
        named.filter(|(named, _)| module.starts_with(named)).max_by_key(|(named, _)| named.len()).map(|(_, number)| number)
    }

    /// The differences between table and sources: files without a layer, and modules that are not there or stand twice.
    pub fn gaps(&self, tree: &Tree) -> Vec<String> {
        let heading = self.heading;
        let mut gaps = Vec::new();
        for (source, module) in tree.sources.iter().zip(&tree.modules) {
            if !module.is_empty() && self.of(module).is_none() {
                gaps.push(format!("{}: add `{}` to a row of '{heading}' in ARCHITECTURE.md", source.name, module.join("/")));
            }
        }
        let named: Vec<&Vec<String>> = self.layers.iter().flat_map(|(_, modules)| modules).collect();
        for (at, module) in named.iter().enumerate() {
            if !tree.modules.iter().any(|known| known.starts_with(module)) {
                gaps.push(format!("ARCHITECTURE.md: '{heading}' names `{}`, which no file is or lies in", module.join("/")));
            }
            if named[..at].contains(module) {
                gaps.push(format!("ARCHITECTURE.md: '{heading}' names `{}` twice", module.join("/")));
            }
        }
        gaps
    }

    /// The imports that go up. What the crate's root defines is below everything.
    pub fn imports_up(&self, tree: &Tree) -> Found {
        let up = tree.imports.iter().filter_map(|import| {
            let (low, high) = (self.of(&tree.modules[import.from])?, self.of(&tree.modules[import.to])?);
            (low < high).then(|| {
                let (from, to) = (&tree.sources[import.from].name, &tree.sources[import.to].name);
                let (low, high) = (&self.layers[low].0, &self.layers[high].0);
                format!("{from}:{}: {} goes up from '{low}' to '{high}' ({to})", import.line, import.path)
            })
        });
        Found::of(up.collect())
    }
}
