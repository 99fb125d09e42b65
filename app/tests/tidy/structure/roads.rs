//! Roads through the code, as `ARCHITECTURE.md` lists them: one function an item, in the form
//!
//! ```text
//! 3. `engine/src/requests/read.rs`: `Requests::begin_read` charges its bytes.
//! ```
//!
//! 1. The function is in that file.
//! 2. A function that another one follows directly names it, so that a reader gets there by "go to definition". An item without a function
//!    stands where no call leads on: where the device has its turn, say.
//! 3. A function may have a list of its own, set in by `-`: what it calls beside the way, each of which may have such a list, too.
//! 4. A road has at most 30 functions. A list with one item of this form is a road.

use super::source::Source;
use std::collections::BTreeMap;

/// The most functions of a road.
const FUNCTIONS_MAX: usize = 30;

/// An item of a list.
enum Item {
    /// A file and a function in it.
    Function(String, String),
    /// Words only.
    Words,
    /// It names a file of code, but not in the form.
    Misshapen,
}

/// An item of a list, with its line in the page, and the number of columns by which it is set in.
struct Listed {
    line: usize,
    depth: usize,
    item: Item,
}

/// The items of each numbered list.
fn lists(page: &str) -> Vec<Vec<Listed>> {
    let mut lists: Vec<Vec<Listed>> = Vec::new();
    let mut is_within = false;
    for (at, line) in page.lines().enumerate() {
        let text = line.split_once(". ").filter(|(number, _)| number.parse::<u32>().is_ok()).map(|(_, text)| text);
        match text {
            Some(text) => {
                if !is_within {
                    lists.push(Vec::new());
                }
                lists.last_mut().expect("a list has begun").push(Listed { line: at + 1, depth: 0, item: item(text) });
                is_within = true;
            }
            // An item may go on in lines that are set in, or have a list of its own.
            None => {
                is_within &= line.starts_with(' ');
                if let Some(text) = line.trim_start().strip_prefix("- ").filter(|_| is_within) {
                    let depth = line.len() - line.trim_start().len();
                    lists.last_mut().expect("a list has begun").push(Listed { line: at + 1, depth, item: item(text) });
                }
            }
        }
    }
    lists
}

fn item(text: &str) -> Item {
    let parts: Vec<&str> = text.splitn(5, '`').collect();
    match parts[..] {
        ["", file, ": ", name, _] if file.ends_with(".rs") => Item::Function(file.to_owned(), name.to_owned()),
        _ if crate::quoted(text).iter().any(|word| word.ends_with(".rs")) => Item::Misshapen,
        _ => Item::Words,
    }
}

/// Returns the number of roads of a page, and their faults. `read` gives the text of a file.
pub fn wrong(page: &str, read: impl Fn(&str) -> Option<String>) -> (usize, Vec<String>) {
    let mut wrong = Vec::new();
    let mut known: BTreeMap<String, Option<Source>> = BTreeMap::new();
    let mut roads = 0;
    for list in lists(page) {
        let functions = list.iter().filter(|listed| matches!(listed.item, Item::Function(..))).count();
        if functions == 0 {
            continue;
        }
        roads += 1;
        if functions > FUNCTIONS_MAX {
            wrong.push(format!("ARCHITECTURE.md:{}: this road has {functions} functions, {FUNCTIONS_MAX} are the most", list[0].line));
        }
        // The function before, and those in whose lists it is, each with the words of its code.
        let mut before: Vec<(usize, String, Vec<String>)> = Vec::new();
        for Listed { line, depth, item } in list {
            // A numbered item follows the one before it, another one is in the list of what is set in less.
            before.retain(|(of, ..)| *of < depth || depth == 0 && *of == 0);
            let caller = before.last().map(|(_, name, words)| (name.clone(), words.clone()));
            before.retain(|(of, ..)| *of < depth);
            let mut complain = |what: String| wrong.push(format!("ARCHITECTURE.md:{line}: {what}"));
            let (file, name) = match item {
                Item::Function(file, name) => (file, name),
                Item::Words => continue,
                Item::Misshapen => {
                    complain("write `file.rs`: `Type::function`, or leave the file out".to_owned());
                    continue;
                }
            };
            let source = known.entry(file.clone()).or_insert_with(|| read(&file).map(|text| Source::read(&file, &text)));
            let Some(source) = source else {
                complain(format!("there is no {file}"));
                continue;
            };
            let Some(function) = source.functions.iter().find(|function| function.name == name) else {
                complain(format!("{file} has no function {name}"));
                continue;
            };
            let short = name.rsplit("::").next().unwrap_or_default();
            if let Some((caller, _)) = caller.filter(|(_, words)| !words.iter().any(|word| word == short)) {
                complain(format!("{caller} does not name {name}: list what lies between, or say without a function why no call leads on"));
            }
            let words = source.tokens.iter().filter(|token| function.lines.contains(&token.line)).map(|token| token.text.clone());
            before.push((depth, name, words.collect()));
        }
    }
    (roads, wrong)
}
