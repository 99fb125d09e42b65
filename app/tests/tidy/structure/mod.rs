//! The structure of the code as a test: who owns state, who imports whom, how long things are.
//!
//! 1. Each measure has a limit, which is today's number, and a target. More than the limit fails; less fails as well, until the limit is
//!    lowered: what was won is not lost again. At its target a measure is a plain rule: no more than that.
//! 2. Each failure says what was found, file by file and line by line.
//! 3. Only product code counts, and only that of crates that are named here.
//!
//! `cargo test -p onefold --test tidy structure -- --nocapture` shows all the numbers.

mod assigned;
mod circles;
mod layers;
mod measures;
mod roads;
mod source;
mod tests;
mod tree;

use layers::Layers;
use tree::Tree;

/// The findings of a measure.
pub struct Found {
    pub number: usize,
    /// `file:line: what`.
    pub lines: Vec<String>,
}

impl Found {
    /// Each line counts.
    fn of(lines: Vec<String>) -> Self {
        Self { number: lines.len(), lines }
    }
}

/// A number that may only fall.
struct Measure {
    what: &'static str,
    limit: usize,
    target: usize,
    /// The way to lower it.
    advice: &'static str,
    find: fn(&Tree) -> Found,
}

const fn measure(what: &'static str, limit: usize, target: usize, advice: &'static str, find: fn(&Tree) -> Found) -> Measure {
    Measure { what, limit, target, advice, find }
}

/// The tables of the layers, in `ARCHITECTURE.md`.
const ENGINE_LAYERS: &str = "## Layers of the engine";
const APP_LAYERS: &str = "## Layers of the app";
const SIM_LAYERS: &str = "## Layers of the test kit";

/// The limits of `engine/src`: what, limit, target.
const ENGINE: &[Measure] = &[
    measure("fields of Engine", 15, 15, "give the state to the component whose methods use it", measures::engine_fields),
    measure("files with methods of Engine", 5, 5, "put the method on the component that owns what it touches", measures::engine_impls),
    measure("files in a circle of imports", 0, 0, "move what both need below both; there is no circle without", circles::files),
    measure("folders in a circle of imports", 0, 0, "move what both need below both; there is no circle without", circles::folders),
    measure("imports that go up", 0, 0, "let the upper layer call the lower one", |tree| imports_up(tree, ENGINE_LAYERS)),
    measure("expect, unwrap, unreachable", 60, 60, "keep the data in the variant of an enum that has it", measures::panic_calls),
    measure("fields assigned from outside their module", 0, 0, "give its owner a method for it", assigned::from_outside),
    measure("functions that take all parts to change them", 37, 37, "take the pool, or the parts that it uses", measures::takes_all_parts),
    measure("files that know which scheme runs", 0, 0, "ask by the interface that all schemes have", measures::scheme_names),
    measure("long functions", 0, 0, "name its steps", measures::long_functions),
    measure("long lines", 0, 0, "break it", measures::long_lines),
];

/// The limits of `app/src`.
const APP: &[Measure] = &[
    measure("files in a circle of imports", 0, 0, "move what both need below both; there is no circle without", circles::files),
    measure("folders in a circle of imports", 0, 0, "move what both need below both; there is no circle without", circles::folders),
    measure("imports that go up", 0, 0, "let the upper layer call the lower one", |tree| imports_up(tree, APP_LAYERS)),
    measure("fields assigned from outside their module", 0, 0, "give its owner a method for it", assigned::from_outside),
    measure("long functions", 0, 0, "name its steps", measures::long_functions),
    measure("long lines", 0, 0, "break it", measures::long_lines),
];

/// The limits of `sim/src`.
const SIM: &[Measure] = &[
    measure("files in a circle of imports", 0, 0, "move what both need below both; there is no circle without", circles::files),
    measure("folders in a circle of imports", 0, 0, "move what both need below both; there is no circle without", circles::folders),
    measure("imports that go up", 0, 0, "let the upper layer call the lower one", |tree| imports_up(tree, SIM_LAYERS)),
    measure("fields assigned from outside their module", 0, 0, "give its owner a method for it", assigned::from_outside),
    measure("long functions", 0, 0, "name its steps", measures::long_functions),
    measure("long lines", 0, 0, "break it", measures::long_lines),
];

/// The limits of `lab/src` and of `trace/src`.
const LAB: &[Measure] =
    &[measure("fields assigned from outside their module", 0, 0, "give its owner a method for it", assigned::from_outside)];
const TRACE: &[Measure] =
    &[measure("fields assigned from outside their module", 0, 0, "give its owner a method for it", assigned::from_outside)];

/// The crates, by the folder of their sources, with the limits of each.
const CRATES: &[(&str, &[Measure])] = &[("engine/src", ENGINE), ("app/src", APP), ("sim/src", SIM), ("lab/src", LAB), ("trace/src", TRACE)];

fn page() -> String {
    std::fs::read_to_string(crate::root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there")
}

fn imports_up(tree: &Tree, heading: &'static str) -> Found {
    Layers::read(&page(), heading).imports_up(tree)
}

/// The complaint about a measure that found this in the folder; none where all is well.
fn complaint(folder: &str, measure: &Measure, found: &Found) -> Option<String> {
    let Measure { what, limit, target, advice, .. } = measure;
    let number = found.number;
    if number > *limit {
        let lines: String = found.lines.iter().map(|line| format!("\n    {line}")).collect();
        return Some(format!("{folder}: {what}: {number}, and {limit} is the limit: {advice}{lines}"));
    }
    (number < *limit && limit > target).then(|| {
        let limit_now = number.max(*target);
        format!(
            "{folder}: {what}: {number}. Lower the limit in app/tests/tidy/structure/mod.rs from {limit} to {limit_now} \
             (the target is {target})"
        )
    })
}

/// The product code of a crate; `None` where there is no checkout.
fn tree(test: &str, folder: &str) -> Option<Tree> {
    let files = crate::texts(test, &[".rs"]);
    let tree = Tree::read(folder, files.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    (!files.is_empty()).then_some(tree)
}

#[test]
fn structure_keeps_its_limits() {
    let mut findings = Vec::new();
    for (folder, measures) in CRATES {
        let Some(tree) = tree("structure_keeps_its_limits", folder) else { return };
        for measure in *measures {
            let found = (measure.find)(&tree);
            println!("{folder}: {}: {}, target {}", measure.what, found.number, measure.target);
            findings.extend(complaint(folder, measure, &found));
        }
    }
    crate::pass_or_list(&findings);
}

#[test]
fn structure_has_a_layer_for_each_module() {
    let mut gaps = Vec::new();
    for (folder, heading) in [("engine/src", ENGINE_LAYERS), ("app/src", APP_LAYERS), ("sim/src", SIM_LAYERS)] {
        let Some(tree) = tree("structure_has_a_layer_for_each_module", folder) else { return };
        gaps.extend(Layers::read(&page(), heading).gaps(&tree));
    }
    crate::pass_or_list(&gaps);
}

#[test]
fn structure_has_the_roads_that_the_page_lists() {
    let (roads, wrong) = roads::wrong(&page(), |file| std::fs::read_to_string(crate::root().join(file)).ok());
    assert!(roads > 0, "ARCHITECTURE.md lists a road by its functions");
    crate::pass_or_list(&wrong);
}
