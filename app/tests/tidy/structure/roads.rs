//! Roads through the code, as `ARCHITECTURE.md` lists them: one function an item, in the form
//!
//! ```text
//! 3. `engine/src/requests/read.rs`: `Requests::begin_read` charges its bytes.
//! ```
//!
//! 1. The function is in that file.
//! 2. A function that another one follows directly names it, so that a reader gets there by "go to definition". An item without a function
//!    stands where no call leads on: where the device has its turn, say.
//! 3. A road has at most 15 hops from one function to the next. A list with one item of this form is a road.

use super::source::Source;
use std::collections::BTreeMap;

/// Hops of a road: one less than its functions.
const HOPS_MAX: usize = 15;

/// An item of a list.
enum Item {
    /// A file and a function in it.
    Function(String, String),
    /// Words only.
    Words,
    /// It names a file of code, but not in the form.
    Misshapen,
}

/// The items of each numbered list, with their lines in the page.
fn lists(page: &str) -> Vec<Vec<(usize, Item)>> {
    let mut lists: Vec<Vec<(usize, Item)>> = Vec::new();
    let mut is_within = false;
    for (at, line) in page.lines().enumerate() {
        let text = line.split_once(". ").filter(|(number, _)| number.parse::<u32>().is_ok()).map(|(_, text)| text);
        match text {
            Some(text) => {
                if !is_within {
                    lists.push(Vec::new());
                }
                lists.last_mut().expect("a list has begun").push((at + 1, item(text)));
                is_within = true;
            }
            // An item may go on in lines that are set in.
            None => is_within &= line.starts_with(' '),
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
        let functions = list.iter().filter(|(_, item)| matches!(item, Item::Function(..))).count();
        let Some(hops) = functions.checked_sub(1) else { continue };
        roads += 1;
        if hops > HOPS_MAX {
            wrong.push(format!("ARCHITECTURE.md:{}: this road has {hops} hops, {HOPS_MAX} are the most", list[0].0));
        }
        // The function before, and the words of its code.
        let mut before: Option<(String, Vec<String>)> = None;
        for (line, item) in list {
            let caller = before.take();
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
            before = Some((name, words.collect()));
        }
    }
    (roads, wrong)
}
