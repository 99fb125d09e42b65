//! Each measure counts what breaks its rule, and nothing that keeps it.

use super::layers::Layers;
use super::tree::Tree;
use super::{Found, Measure, assigned, circles, complaint, measures, roads};

fn tree(files: &[(&str, &str)]) -> Tree {
    Tree::read("engine/src", files.iter().copied())
}

/// The findings of a measure in a crate of one file.
fn found(find: fn(&Tree) -> Found, text: &str) -> Vec<String> {
    let found = find(&tree(&[("engine/src/engine.rs", text)]));
    assert_eq!(found.number, found.lines.len());
    found.lines
}

/// The imports, each as importer and imported.
fn imports(files: &[(&str, &str)]) -> Vec<String> {
    let tree = tree(files);
    let short = |file: usize| tree.sources[file].name.trim_start_matches("engine/src/");
    let mut imports: Vec<String> = tree.imports.iter().map(|import| format!("{} {}", short(import.from), short(import.to))).collect();
    imports.sort();
    imports
}

#[test]
fn structure_follows_a_name_to_the_file_that_defines_it() {
    let files = [
        ("engine/src/lib.rs", "mod a; mod b; pub use b::Deep; type Map = u8;"),
        ("engine/src/a.rs", "use crate::b::{Deep, own as other}; use crate::Map; use std::fmt; fn f() { vec![crate::b::c::Two::new(1)]; }"),
        ("engine/src/b/mod.rs", "mod c; mod d; pub use c::Deep; pub(crate) fn own() {}"),
        ("engine/src/b/c.rs", "pub use super::d::Deep; pub struct Two;\nmod inner { use super::Two; use super::super::own; }"),
        ("engine/src/b/d.rs", "pub struct Deep; fn f(deep: Deep) -> super::super::a::A { Deep::new() }"),
    ];
    let expected = ["a.rs b/c.rs", "a.rs b/d.rs", "a.rs b/mod.rs", "a.rs lib.rs", "b/c.rs b/mod.rs", "b/d.rs a.rs"];
    assert_eq!(imports(&files), expected);
}

#[test]
fn structure_tells_a_name_that_is_passed_on_from_one_that_is_used() {
    let child = ("engine/src/b.rs", "pub struct B;");
    let none: [&str; 0] = [];
    assert_eq!(imports(&[("engine/src/lib.rs", "mod b; pub use b::B;"), child]), none);
    assert_eq!(imports(&[("engine/src/lib.rs", "mod b; pub use b::B; struct A(B);"), child]), ["lib.rs b.rs"]);
    assert_eq!(imports(&[("engine/src/lib.rs", "mod b; struct A(b::B);"), child]), ["lib.rs b.rs"]);
    assert_eq!(imports(&[("engine/src/lib.rs", "mod b; use b as c; struct A(c::B);"), child]), ["lib.rs b.rs"]);
}

#[test]
fn structure_prefers_an_item_to_a_module_of_its_name() {
    let files = [
        ("engine/src/lib.rs", "mod a; mod b;"),
        ("engine/src/a.rs", "use crate::b::c;"),
        ("engine/src/b/mod.rs", "mod c; mod d; pub use d::c;"),
        ("engine/src/b/c.rs", "pub struct C;"),
        ("engine/src/b/d.rs", "use super::c::C; pub fn c() {}"),
    ];
    assert_eq!(imports(&files), ["a.rs b/d.rs", "b/d.rs b/c.rs"]);
}

#[test]
fn structure_leaves_tests_alone() {
    let files = [
        ("engine/src/lib.rs", "mod b; #[cfg(test)] mod kit; #[cfg(test)] use b::B; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("engine/src/b.rs", "pub struct B; #[cfg(test)] #[path = \"b_tests.rs\"] mod tests; #[cfg(test)] fn f() -> crate::A { crate::A }"),
        ("engine/src/b_tests.rs", "use crate::A;"),
        ("engine/src/kit.rs", "use crate::A;"),
        ("engine/src/tests/c.rs", "use crate::b::B;"),
    ];
    let none: [&str; 0] = [];
    assert_eq!(imports(&files), none);
    let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    impl Engine { fn g() { x.unwrap(); } }\n}\n";
    assert!(found(measures::panic_calls, text).is_empty() && found(measures::engine_impls, text).is_empty());
}

#[test]
fn structure_counts_circles_of_files() {
    let circle = [
        ("engine/src/a.rs", "use crate::b::B; pub struct A;"),
        ("engine/src/b.rs", "fn f() { crate::c::c() }"),
        ("engine/src/c.rs", "use super::a::A;"),
        ("engine/src/d.rs", "use crate::a::A;"),
    ];
    let found = circles::files(&tree(&circle));
    assert_eq!(
        (found.number, found.lines),
        (3, vec!["engine/src/c.rs:1: super::a::A leads to engine/src/a.rs, which leads back".to_owned()])
    );
    assert_eq!(circles::files(&tree(&circle[1..])).number, 0);
}

#[test]
fn structure_counts_circles_of_folders() {
    let files = [
        ("engine/src/a/one.rs", "use crate::b::B;"),
        ("engine/src/a/mod.rs", "mod one; mod two;"),
        ("engine/src/a/two.rs", ""),
        ("engine/src/b.rs", "use c::C; pub struct B;"),
        ("engine/src/b/c.rs", "pub struct C; use crate::a::two::Two;"),
    ];
    let found = circles::folders(&tree(&files));
    assert_eq!((found.number, found.lines.len()), (2, 1), "{:?}", found.lines);
    assert_eq!(circles::files(&tree(&files)).number, 0);
    assert_eq!(circles::folders(&tree(&files[1..])).number, 0);
    // A file and a folder beside it.
    let files = [("engine/src/a.rs", "use crate::b::one::One;"), ("engine/src/b/one.rs", ""), ("engine/src/b/two.rs", "use crate::a::A;")];
    let folder = ("engine/src/b/mod.rs", "mod one; mod two;");
    assert_eq!(circles::folders(&tree(&[&files[..], &[folder]].concat())).number, 1);
    assert_eq!(circles::folders(&tree(&[files[1], files[2], folder])).number, 0);
}

#[test]
fn structure_counts_imports_that_go_up() {
    let page =
        "## Layers of the engine\n\n| layer | modules |\n|---|---|\n| low | `a`, `c/one` |\n| high | `b`, `c` |\n\n## Next\n| x | `y` |\n";
    let layers = Layers::read(page, super::ENGINE_LAYERS);
    let files = [
        ("engine/src/lib.rs", "mod a; mod b; mod c;"),
        ("engine/src/a.rs", "use crate::c::one::One; use crate::c::two::Two;"),
        ("engine/src/b.rs", "use crate::a::A; use crate::c::two::Two;"),
        ("engine/src/c/mod.rs", "mod one; mod two;"),
        ("engine/src/c/one.rs", "use super::two::Two;"),
        ("engine/src/c/two.rs", ""),
    ];
    let found = layers.imports_up(&tree(&files));
    assert_eq!(found.number, 2, "{:?}", found.lines);
    assert_eq!(found.lines[0], "engine/src/a.rs:1: crate::c::two::Two goes up from 'low' to 'high' (engine/src/c/two.rs)");
    assert!(layers.gaps(&tree(&files)).is_empty());
    assert_eq!(layers.gaps(&tree(&[&files[..3], &[("engine/src/d.rs", "")]].concat())).len(), 3);
    assert_eq!(Layers::read(&page.replace("`a`", "`a`, `b`"), super::ENGINE_LAYERS).gaps(&tree(&files)).len(), 1);
}

/// Assignments of fields from outside, in a crate with the components `Store`, `Io` and `Queue`, and the record `Counts`.
fn assigned_in(file: &str, code: &str) -> Vec<String> {
    let files = [
        ("engine/src/store.rs", "pub struct Store { io: Io, waiting: Option<Vec<Queue>> } impl Store { fn f(&mut self) {} }"),
        ("engine/src/io/mod.rs", "pub struct Io { stage: u8, counts: Counts, queue: Queue } impl Io { fn f(&mut self) {} }"),
        ("engine/src/io/queue.rs", "pub struct Queue { length: u8 } impl Queue { fn f(&mut self) {} }"),
        ("engine/src/counts.rs", "pub struct Counts { reads: u8 } impl Counts { fn f(&self) {} }"),
    ];
    let found = assigned::from_outside(&tree(&[&files[..], &[(file, code)]].concat()));
    assert_eq!(found.number, found.lines.len());
    found.lines
}

#[test]
fn structure_counts_fields_that_are_assigned_from_outside() {
    let place = "engine/src/life.rs";
    for (code, path) in [
        ("fn f(store: &mut Store) {\n store.io.stage = 1; }", "store.io.stage"),
        ("fn f(store: &mut Store) {\n store.io.stage += 1; }", "store.io.stage"),
        ("fn f(store: &mut Store) {\n (store.io.stage, x) = (1, 2); }", "store.io.stage"),
        ("fn f(store: &mut Store) {\n mem::take(&mut store.io.stage); }", "store.io.stage"),
        ("fn f(store: &mut Store) {\n std::mem::replace(&mut store.io.stage, 1); }", "store.io.stage"),
        ("fn f(store: &mut Store) { let io = &mut store.io;\n io.stage = 1; }", "store.io.stage"),
        ("fn f(store: &mut Store) { if let Some(queue) = &mut store.waiting {\n queue[0].length = 1; } }", "store.waiting.length"),
        ("fn f() { let mut a = g();\n a.io.queue.length = 1; }", "a.io.queue.length"),
        ("pub struct Life { store: Store }\nimpl Life { fn f(&mut self) { self.store.io = x; } }", "self.store.io"),
    ] {
        let module = ["store", "io", "io/queue"][usize::from(!path.ends_with("store.io")) + usize::from(path.ends_with("length"))];
        assert_eq!(assigned_in(place, code), [format!("{place}:2: {path} is a field of {module}")], "{code}");
    }
}

#[test]
fn structure_lets_a_module_and_those_inside_it_assign_its_fields() {
    let none: [&str; 0] = [];
    for (file, code) in [
        ("engine/src/io/deep.rs", "fn f(store: &mut Store) { store.io.stage = 1; }"),
        ("engine/src/life.rs", "fn f(store: &mut Store) { store.io.counts.reads += 1; }"),
        ("engine/src/life.rs", "fn f(io: &mut Io) { io.stage = 1; store.io.set(1); let x = store.io.stage == 1; }"),
        ("engine/src/life.rs", "fn f(store: &mut Store) { let mut stage = store.io.stage; stage = 1; }"),
        ("engine/src/life.rs", "struct Io { stage: u8 } struct Own { io: Io } impl Own { fn f(&mut self) { self.io.stage = 1; } }"),
        ("engine/src/life.rs", "fn f() { foreign.part.stage = 1; } #[cfg(test)] fn g(store: &mut Store) { store.io.stage = 1; }"),
    ] {
        assert_eq!(assigned_in(file, code), none, "{code}");
    }
}

#[test]
fn structure_counts_fields_and_methods_of_the_engine() {
    let text = "pub struct Engine {\n    a: Map<K, V>,\n    pub(crate) b: u8,\n}\n\
                struct Other { c: u8 }\nimpl Engine {}\nimpl Other {}\nimpl Engine {}";
    assert_eq!(found(measures::engine_fields, text), ["engine/src/engine.rs:2: a", "engine/src/engine.rs:3: b"]);
    assert_eq!(found(measures::engine_impls, text), ["engine/src/engine.rs:6: impl Engine"]);
    assert_eq!(found(measures::engine_impls, "impl fmt::Debug for crate::Engine {} impl From<Engine> for Other {}").len(), 1);
}

#[test]
fn structure_counts_calls_that_panic() {
    let text = "fn f() {\n    a.expect(\"b\").c.unwrap();\n    assert!(d.unwrap());\n    unreachable!();\n}";
    assert_eq!(found(measures::panic_calls, text).len(), 4);
    let text = "fn expect() { a.unwrap_or_default(); self.expect_content(); expect(); // .unwrap()\n \".unwrap()\" }";
    assert!(found(measures::panic_calls, text).is_empty());
}

#[test]
fn structure_counts_long_functions_and_lines() {
    let function = |lines: usize| format!("impl A {{\n    /// Doc.\n    fn f() {{\n{}    }}\n}}\n", "        g();\n".repeat(lines - 2));
    assert_eq!(found(measures::long_functions, &function(71)), ["engine/src/engine.rs:3: A::f has 71 lines"]);
    assert!(found(measures::long_functions, &function(70)).is_empty());
    let line = |columns: usize| format!("\n// {}\n", "é".repeat(columns - 3));
    assert_eq!(found(measures::long_lines, &line(141)), ["engine/src/engine.rs:2: 141 columns"]);
    assert!(found(measures::long_lines, &line(140)).is_empty());
}

#[test]
fn structure_counts_files_that_name_a_scheme() {
    let scheme = [
        ("engine/src/scheme/mod.rs", "pub mod log; pub enum Scheme { Log }"),
        ("engine/src/scheme/log/mod.rs", "pub struct Live; fn f() { Scheme::Log; }"),
    ];
    let count = |text| measures::scheme_names(&tree(&[&scheme[..], &[("engine/src/a.rs", text)]].concat())).number;
    for text in [
        "fn f() { if let Scheme::Log(log) = x {} }",
        "fn f() { x.is_log_live() }",
        "fn f() -> CommitMode {}",
        "use crate::scheme::log::Live;",
    ] {
        assert_eq!(count(text), 1, "{text}");
    }
    for text in [
        "use crate::scheme::Scheme; fn f(s: &Scheme) { s.log(); }",
        "/// Scheme::Log\nfn f() { Class::Log; Scheme::default() }",
        "fn f() { x.ilog2() }",
    ] {
        assert_eq!(count(text), 0, "{text}");
    }
}

#[test]
fn structure_finds_what_is_wrong_with_a_road() {
    let read = |file: &str| {
        (file == "a.rs")
            .then(|| "impl A {\nfn one(&self) { self.two(); }\nfn two(&self) {}\n}\nfn three() {}\ntrait T { fn four() {} }".to_owned())
    };
    let wrong = |page: &str| roads::wrong(page, read).1.len();
    let good = "# A\n1. `a.rs`: `A::one` begins,\n   and ends.\n2. `a.rs`: `A::two`\n\
                3. The device has its turn.\n4. `a.rs`: `three`\n\n1. Of `b.rs`.\n";
    assert_eq!((roads::wrong(good, read).0, wrong(good)), (1, 0));
    assert_eq!(wrong(&good.replace("A::two", "A::three")), 1);
    assert_eq!(wrong(&good.replace("`A::one`", "`one`")), 1);
    assert_eq!(wrong(&good.replace("1. `a.rs`", "1. `c.rs`")), 1);
    assert_eq!(wrong(&good.replace("3. The device has its turn.\n", "")), 1);
    assert_eq!(wrong(&good.replace("The device has", "`a.rs` has")), 1);
    assert_eq!(wrong(&format!("# A\n{}", "1. `a.rs`: `T::four`\n2. Words.\n".repeat(31))), 1);
    let aside = "# A\n1. `a.rs`: `A::one` begins.\n   - `a.rs`: `A::two` is called.\n2. `a.rs`: `A::two` is called.\n";
    assert_eq!((roads::wrong(aside, read).0, wrong(aside)), (1, 0), "what is set in leads back to the way");
    assert_eq!(wrong(&aside.replace("   - `a.rs`: `A::two`", "   - `a.rs`: `three`")), 1, "it is called, too");
    assert_eq!(wrong(&aside.replace("2. `a.rs`: `A::two`", "     - `a.rs`: `A::one`")), 1, "a list in a list is of what it is in");
}

#[test]
fn structure_complains_of_more_and_of_less_than_the_limit() {
    let measure = |limit, target| Measure { what: "x", limit, target, advice: "y", find: measures::panic_calls };
    let says = |number, limit, target| {
        let found = Found { number, lines: vec!["a.rs:1: z".to_owned()] };
        complaint("engine/src", &measure(limit, target), &found).unwrap_or_default()
    };
    assert_eq!(says(5, 5, 2), "");
    assert_eq!(says(6, 5, 2), "engine/src: x: 6, and 5 is the limit: y\n    a.rs:1: z");
    assert!(says(4, 5, 2).contains("from 5 to 4 (the target is 2)") && says(1, 5, 2).contains("from 5 to 2"));
    assert_eq!((says(1, 2, 2), says(0, 0, 0)), (String::new(), String::new()));
    assert!(says(1, 0, 0).contains("0 is the limit"));
}

#[test]
fn structure_counts_functions_that_take_all_parts_to_change_them() {
    let count = |text: &str| measures::takes_all_parts(&tree(&[("engine/src/a.rs", text), ("engine/src/lib.rs", "mod a;")])).number;
    assert_eq!(count("fn f(parts: &mut Parts, n: u64) {} fn g(&mut self, parts: &mut Parts) {}"), 2);
    assert_eq!(count("fn f(parts: &Parts, pool: &mut Pool) { g(&mut parts.pool) }"), 0);
}
