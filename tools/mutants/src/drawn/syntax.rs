//! Mutations that `cargo mutants` does not make, found in the syntax tree: numbers off by one, bounds that include or exclude their ends,
//! terms dropped, statements deleted, branches swapped, opposites called, accumulated values replaced.
//!
//! Tests are not changed, and neither is the content of macros (assertions, messages), which the syntax tree does not read.

use super::mutation::Change;
use proc_macro2::Span;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, ExprBinary, ExprIf, ExprLit, ExprMethodCall, ExprRange, Lit, RangeLimits, Stmt};

/// Methods, each with another one of the same type.
const OPPOSITES: [(&str, &str); 10] = [
    ("all", "any"),
    ("back", "front"),
    ("first", "last"),
    ("floor", "ceil"),
    ("is_none", "is_some"),
    ("is_none_or", "is_some_and"),
    ("is_ok", "is_err"),
    ("max", "min"),
    ("pop_back", "pop_front"),
    ("push_back", "push_front"),
];

/// Finds the changes in the sources below a folder.
///
/// # Errors
/// Fails if a file cannot be read, or is not Rust.
pub fn changes(folder: &Path) -> io::Result<Vec<Change>> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name == "tests" || name.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            found.extend(changes(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = path.to_string_lossy().into_owned();
            let source = fs::read_to_string(&path)?;
            let made = changes_in(&source).map_err(|error| io::Error::other(format!("{file}: {error}")))?;
            found.extend(made.into_iter().map(|(range, replacement)| Change {
                file: file.clone(),
                start: range.start,
                end: range.end,
                replacement,
            }));
        }
    }
    Ok(found)
}

fn changes_in(source: &str) -> syn::Result<Vec<(Range<usize>, String)>> {
    let mut finder = Finder { source, found: Vec::new() };
    finder.visit_file(&syn::parse_file(source)?);
    Ok(finder.found)
}

struct Finder<'a> {
    source: &'a str,
    found: Vec<(Range<usize>, String)>,
}

impl Finder<'_> {
    fn text(&self, span: Span) -> &str {
        &self.source[span.byte_range()]
    }

    fn replace(&mut self, span: Span, replacement: impl Into<String>) {
        self.found.push((span.byte_range(), replacement.into()));
    }

    /// Replaces a bound by the one that treats its end differently.
    fn bound(&mut self, op: &BinOp) {
        let other = match op {
            BinOp::Lt(_) => "<=",
            BinOp::Le(_) => "<",
            BinOp::Gt(_) => ">=",
            BinOp::Ge(_) => ">",
            _ => return,
        };
        self.replace(op.span(), other);
    }

    fn delete(&mut self, statement: &Stmt) {
        let is_step = match statement {
            Stmt::Expr(Expr::Assign(_) | Expr::Binary(_) | Expr::Call(_) | Expr::MethodCall(_) | Expr::Try(_), Some(_)) => true,
            Stmt::Expr(Expr::Return(_) | Expr::Continue(_) | Expr::Break(_), Some(_)) => true,
            Stmt::Expr(Expr::If(branch), _) => branch.else_branch.is_none(),
            Stmt::Expr(Expr::ForLoop(_) | Expr::While(_), _) => true,
            _ => false,
        };
        if is_step {
            self.replace(statement.span(), "");
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg_test = || attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "test");
        attribute.path().is_ident("test") || (attribute.path().is_ident("cfg") && is_cfg_test())
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Const(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_block(&mut self, block: &'ast Block) {
        block.stmts.iter().for_each(|statement| self.delete(statement));
        visit::visit_block(self, block);
    }

    fn visit_expr_lit(&mut self, literal: &'ast ExprLit) {
        match &literal.lit {
            Lit::Int(number) => {
                if let Ok(value) = number.base10_parse::<u128>() {
                    let (span, suffix) = (number.span(), number.suffix().to_owned());
                    self.replace(span, format!("{}{suffix}", value + 1));
                    if let Some(less) = value.checked_sub(1) {
                        self.replace(span, format!("{less}{suffix}"));
                    }
                }
            }
            Lit::Bool(truth) => self.replace(truth.span, if truth.value { "false" } else { "true" }),
            _ => {}
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        self.bound(&binary.op);
        let (left, right) = (self.text(binary.left.span()).to_owned(), self.text(binary.right.span()).to_owned());
        match binary.op {
            BinOp::And(_) | BinOp::Or(_) => {
                self.replace(binary.span(), left);
                self.replace(binary.span(), right);
            }
            BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::BitOrAssign(_) | BinOp::BitAndAssign(_) => {
                self.replace(binary.op.span(), "=")
            }
            _ => {}
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_if(&mut self, branch: &'ast ExprIf) {
        if !matches!(*branch.cond, Expr::Let(_)) {
            let negated = format!("!({})", self.text(branch.cond.span()));
            self.replace(branch.cond.span(), negated);
        }
        visit::visit_expr_if(self, branch);
    }

    fn visit_expr_range(&mut self, range: &'ast ExprRange) {
        if range.end.is_some() {
            let other = if matches!(range.limits, RangeLimits::Closed(_)) { ".." } else { "..=" };
            self.replace(range.limits.span(), other);
        }
        visit::visit_expr_range(self, range);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        for (one, other) in OPPOSITES {
            if call.method == one {
                self.replace(call.method.span(), other);
            } else if call.method == other {
                self.replace(call.method.span(), one);
            }
        }
        visit::visit_expr_method_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mutated versions of a function's body.
    fn of(body: &str) -> Vec<String> {
        let source = format!("fn f() {{{body}}}");
        let made = changes_in(&source).expect("it is Rust");
        let body_of = |(range, replacement): (Range<usize>, String)| {
            let mut changed = source.clone();
            changed.replace_range(range, &replacement);
            changed["fn f() {".len()..changed.len() - 1].to_owned()
        };
        made.into_iter().map(body_of).collect()
    }

    #[test]
    fn each_kind_of_place_is_found() {
        assert_eq!(of("g(0x10u8)"), ["g(17u8)", "g(15u8)"]);
        assert_eq!(of("a >= b"), ["a > b"]);
        assert_eq!(of("a && b"), ["a", "b"]);
        assert_eq!(of("bad |= f;"), ["", "bad = f;"]);
        assert_eq!(of("a..b"), ["a..=b"]);
        assert_eq!(of("a.is_some()"), ["a.is_none()"]);
        assert_eq!(of("self.g(a);"), [""]);
        assert_eq!(of("let x = true;"), ["let x = false;"]);
        assert_eq!(of("if a { b }"), ["", "if !(a) { b }"]);
        assert_eq!(of("if a { b } else { c }"), ["if !(a) { b } else { c }"]);
        assert_eq!(of("if a { return; }"), ["", "if !(a) { return; }", "if a {  }"]);
    }

    #[test]
    fn tests_and_macros_are_left_alone() {
        let made = |source| changes_in(source).expect("it is Rust").len();
        assert_eq!(made("#[cfg(test)] mod tests { fn f() { g(1); } }"), 0);
        assert_eq!(made("impl A { #[cfg(test)] fn f() { g(1); } }"), 0);
        assert_eq!(made("#[derive(Debug)] struct A; fn f() { assert!(a < 1); }"), 0);
        assert_eq!(made("#[cfg(unix)] mod m { fn f() { g(1); } }"), 3);
    }
}
