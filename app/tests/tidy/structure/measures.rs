//! Counts of a crate, file by file.

use super::Found;
use super::source::{Source, Token};
use super::tree::Tree;

/// Lines of a function, from `fn` to the brace that closes it.
const FUNCTION_LINES_MAX: usize = 70;
/// Columns of a line.
const COLUMNS_MAX: usize = 140;
/// The folder of the commit schemes and of their interface.
const SCHEME: &[&str] = &["engine/src/scheme/"];
/// The folder of each scheme.
const SCHEMES: &[&str] = &["engine/src/scheme/log/", "engine/src/scheme/ordered/"];
/// The other files that may know which scheme runs: those that describe or check the medium of each, the settings, and the one that
/// chooses.
const MAY_KNOW_THE_SCHEME: &[&str] = &["engine/src/format/", "engine/src/check/", "engine/src/settings.rs", "engine/src/recovery/steps.rs"];
/// Names in code that tell which scheme runs.
const SCHEME_WORDS: &[&str] = &["CommitMode", "commit_mode", "is_log_live"];
/// Variants of `Scheme`.
const SCHEME_VARIANTS: &[&str] = &["Log", "Ordered"];

/// A line of the report for each that `find` gives, with its line, of each file.
fn each<'a, T: Into<String>, I: IntoIterator<Item = (usize, T)>>(tree: &'a Tree, find: impl Fn(&'a Source) -> I) -> Found {
    let of_file = |source: &'a Source| find(source).into_iter().map(|(line, says)| format!("{}:{line}: {}", source.name, says.into()));
    Found::of(tree.sources.iter().flat_map(of_file).collect())
}

/// The fields of the engine.
pub fn engine_fields(tree: &Tree) -> Found {
    each(tree, |source| source.fields.iter().filter(|(owner, ..)| owner == "Engine").map(|(_, field, line)| (*line, field.as_str())))
}

/// The files with methods of the engine.
pub fn engine_impls(tree: &Tree) -> Found {
    let first = |source: &Source| source.impls.iter().find(|(owner, _)| owner == "Engine").map(|(_, line)| (*line, "impl Engine"));
    each(tree, first)
}

/// Calls that panic where a promise that the types do not make is broken.
pub fn panic_calls(tree: &Tree) -> Found {
    let call = |window: &[Token]| match [&*window[0].text, &*window[1].text, &*window[2].text] {
        [".", name @ ("expect" | "unwrap"), "("] => Some((window[1].line, format!(".{name}("))),
        ["unreachable", "!", _] => Some((window[0].line, "unreachable!".to_owned())),
        _ => None,
    };
    each(tree, |source| source.tokens.windows(3).filter_map(call))
}

/// Parameters by which a function may change the pool and the volume.
pub fn takes_all_parts(tree: &Tree) -> Found {
    let takes = |window: &[Token]| {
        let texts: Vec<&str> = window.iter().map(|token| &*token.text).collect();
        (texts == [":", "&", "mut", "Parts"]).then(|| (window[0].line, "&mut Parts".to_owned()))
    };
    each(tree, |source| source.tokens.windows(4).filter_map(takes))
}

/// Functions that are too long.
pub fn long_functions(tree: &Tree) -> Found {
    each(tree, |source| {
        source.functions.iter().filter_map(|function| {
            let lines = function.lines.clone().count();
            (lines > FUNCTION_LINES_MAX).then(|| (*function.lines.start(), format!("{} has {lines} lines", function.name)))
        })
    })
}

/// Lines that are too long.
pub fn long_lines(tree: &Tree) -> Found {
    let long = |source: &'_ Source| source.columns.clone().into_iter().filter(|(_, columns)| *columns > COLUMNS_MAX);
    each(tree, |source| long(source).map(|(line, columns)| (line, format!("{columns} columns"))))
}

/// The files that know which scheme runs, and where that shows.
pub fn scheme_names(tree: &Tree) -> Found {
    let mut found = Found::of(Vec::new());
    let lies_in = |file: usize, places: &[&str]| places.iter().any(|place| tree.sources[file].name.starts_with(place));
    for (file, source) in tree.sources.iter().enumerate() {
        if lies_in(file, SCHEME) || lies_in(file, MAY_KNOW_THE_SCHEME) {
            continue;
        }
        let imports = tree.imports.iter().filter(|import| import.from == file && lies_in(import.to, SCHEMES));
        let mut named: Vec<(usize, String)> = imports.map(|import| (import.line, import.path.clone())).collect();
        let words = source.tokens.iter().filter(|token| SCHEME_WORDS.contains(&&*token.text));
        named.extend(words.map(|token| (token.line, token.text.clone())));
        let variants = source.tokens.windows(3).filter(|window| is_variant(window));
        named.extend(variants.map(|window| (window[0].line, format!("Scheme::{}", window[2].text))));
        named.sort();
        named.dedup();
        found.number += usize::from(!named.is_empty());
        found.lines.extend(named.into_iter().map(|(line, name)| format!("{}:{line}: {name}", source.name)));
    }
    found
}

/// Whether these tokens are `Scheme::Log` or the like.
fn is_variant(window: &[Token]) -> bool {
    window[0].text == "Scheme" && window[1].text == "::" && SCHEME_VARIANTS.contains(&&*window[2].text)
}
