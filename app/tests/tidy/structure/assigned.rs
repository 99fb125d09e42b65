//! Fields that are assigned from outside their module: who owns state is not the only one who changes it.
//!
//! 1. An assignment counts whose path has at least two fields: it reaches through a component. `a.b = c` of a local value does not count,
//!    and neither does a method that is called.
//! 2. `mem::take`, `mem::replace` and `mem::swap` of such a path are assignments, too.
//! 3. A field belongs to the module of the struct that declares it, and that module's own modules may assign it. The struct is found by the
//!    types of `self`, of arguments and of the fields on the way, otherwise by the names of these fields. Where several structs have them,
//!    it is the one whose module may assign the field, if there is one. A struct of another crate does not count.
//! 4. A struct without a method that changes it is a record, such as counts: whoever has it may assign its fields.

use super::Found;
use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// The structs of a file, and the fields that it assigns.
pub struct Fields {
    structs: Vec<Struct>,
    /// The types with a method that changes them.
    components: Vec<String>,
    assigned: Vec<Assigned>,
}

impl Fields {
    /// Leaves out the assignments of lines that do not count.
    pub fn retain(&mut self, counts: impl Fn(usize) -> bool) {
        self.assigned.retain(|assigned| counts(assigned.line));
    }
}

/// The types of a struct's fields, by the name that stands in front, without what only wraps it.
struct Struct {
    name: String,
    fields: Vec<(String, Option<String>)>,
}

impl Struct {
    fn has(&self, field: &str) -> bool {
        self.fields.iter().any(|(name, _)| name == field)
    }
}

/// A path of fields that is assigned.
struct Assigned {
    line: usize,
    place: Place,
}

/// A value, as far as its code shows: a type, and the fields on the way from it.
#[derive(Clone, Default)]
struct Place {
    /// The name of the variable.
    root: String,
    of: Option<String>,
    fields: Vec<String>,
}

/// Wrappers whose content is meant: their last argument.
const WRAPPERS: &[&str] = &["Option", "Box", "Rc", "Arc", "RefCell", "Vec", "VecDeque", "BTreeMap", "HashMap", "FxHashMap", "Map", "Slab"];
/// Methods that lead to what they are called on.
const PASSING: &[&str] = &["as_mut", "as_deref_mut", "unwrap", "expect", "borrow_mut", "iter_mut", "last_mut", "get_mut", "first_mut"];
/// Functions of `std::mem` that assign what their first argument refers to.
const MOVES: &[&str] = &["take", "replace", "swap"];

/// The name of a type without its wrappers.
fn name_of(of: &syn::Type) -> Option<String> {
    match of {
        syn::Type::Reference(reference) => name_of(&reference.elem),
        syn::Type::Slice(slice) => name_of(&slice.elem),
        syn::Type::Array(array) => name_of(&array.elem),
        syn::Type::Path(path) => {
            let last = path.path.segments.last()?;
            let name = last.ident.to_string();
            let syn::PathArguments::AngleBracketed(inside) = &last.arguments else { return Some(name) };
            let inner = inside.args.iter().rev().find_map(|argument| match argument {
                syn::GenericArgument::Type(of) => Some(of),
                _ => None,
            });
            if WRAPPERS.contains(&&*name) { name_of(inner?) } else { Some(name) }
        }
        _ => None,
    }
}

/// Reads the structs of a file, and the paths that it assigns.
pub fn read(file: &syn::File) -> Fields {
    let mut reader = Reader::default();
    reader.visit_file(file);
    let Reader { structs, components, assigned, .. } = reader;
    Fields { structs, components, assigned }
}

#[derive(Default)]
struct Reader {
    owner: Option<String>,
    variables: BTreeMap<String, Place>,
    structs: Vec<Struct>,
    components: Vec<String>,
    assigned: Vec<Assigned>,
}

impl Reader {
    /// The place that an expression leads to.
    fn place(&self, at: &syn::Expr) -> Option<Place> {
        match at {
            syn::Expr::Path(path) => {
                let name = path.path.get_ident()?.to_string();
                let unknown = Place { root: name.clone(), ..Place::default() };
                Some(self.variables.get(&name).cloned().unwrap_or(unknown))
            }
            syn::Expr::Field(field) => {
                let mut place = self.place(&field.base)?;
                let name = match &field.member {
                    syn::Member::Named(name) => name.to_string(),
                    syn::Member::Unnamed(index) => index.index.to_string(),
                };
                place.fields.push(name);
                Some(place)
            }
            syn::Expr::Paren(inner) => self.place(&inner.expr),
            syn::Expr::Reference(inner) => self.place(&inner.expr),
            syn::Expr::Unary(inner) => self.place(&inner.expr),
            syn::Expr::Index(inner) => self.place(&inner.expr),
            syn::Expr::Try(inner) => self.place(&inner.expr),
            syn::Expr::MethodCall(call) if PASSING.contains(&&*call.method.to_string()) => self.place(&call.receiver),
            _ => None,
        }
    }

    /// The place that a value refers to; none if it is a copy.
    fn borrowed(&self, at: &syn::Expr) -> Option<Place> {
        match at {
            syn::Expr::Path(_) | syn::Expr::Field(_) | syn::Expr::Index(_) | syn::Expr::Unary(_) => None,
            _ => self.place(at),
        }
    }

    fn assign(&mut self, left: &syn::Expr, line: usize) {
        if let syn::Expr::Tuple(tuple) = left {
            tuple.elems.iter().for_each(|left| self.assign(left, line));
        } else if !matches!(left, syn::Expr::Path(_)) {
            let place = self.place(left).filter(|place| place.fields.len() > 1);
            self.assigned.extend(place.map(|place| Assigned { line, place }));
        }
    }

    fn know(&mut self, pattern: &syn::Pat, place: Option<Place>) {
        match pattern {
            syn::Pat::Ident(name) => {
                let name = name.ident.to_string();
                let unknown = Place { root: name.clone(), ..Place::default() };
                self.variables.insert(name, place.unwrap_or(unknown));
            }
            syn::Pat::Type(typed) => self.know_typed(typed),
            // `Some(x)` and the like.
            syn::Pat::TupleStruct(inner) if inner.elems.len() == 1 => self.know(&inner.elems[0], place),
            _ => {}
        }
    }

    fn know_typed(&mut self, typed: &syn::PatType) {
        let root = match &*typed.pat {
            syn::Pat::Ident(name) => name.ident.to_string(),
            _ => String::new(),
        };
        self.know(&typed.pat, Some(Place { root, of: name_of(&typed.ty), fields: Vec::new() }));
    }

    fn begin(&mut self, signature: &syn::Signature) {
        self.variables.clear();
        for input in &signature.inputs {
            match input {
                syn::FnArg::Receiver(_) => {
                    let place = Place { root: "self".to_owned(), of: self.owner.clone(), fields: Vec::new() };
                    self.variables.insert("self".to_owned(), place);
                }
                syn::FnArg::Typed(typed) => self.know_typed(typed),
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let named = item.fields.iter().filter_map(|field| Some((field.ident.as_ref()?.to_string(), name_of(&field.ty))));
        self.structs.push(Struct { name: item.ident.to_string(), fields: named.collect() });
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.owner = name_of(&item.self_ty);
        visit::visit_item_impl(self, item);
        self.owner = None;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if item.sig.receiver().is_some_and(|receiver| matches!(receiver.kind, syn::ReceiverKind::Reference(_, _, Some(_)))) {
            self.components.extend(self.owner.clone());
        }
        self.begin(&item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.begin(&item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        visit::visit_local(self, local);
        let place = local.init.as_ref().and_then(|init| self.borrowed(&init.expr));
        self.know(&local.pat, place);
    }

    fn visit_expr_let(&mut self, item: &'ast syn::ExprLet) {
        visit::visit_expr_let(self, item);
        let place = self.borrowed(&item.expr);
        self.know(&item.pat, place);
    }

    fn visit_expr_for_loop(&mut self, item: &'ast syn::ExprForLoop) {
        let place = self.borrowed(&item.expr);
        self.know(&item.pat, place);
        visit::visit_expr_for_loop(self, item);
    }

    fn visit_expr_assign(&mut self, item: &'ast syn::ExprAssign) {
        self.assign(&item.left, item.eq_token.span.start().line);
        visit::visit_expr_assign(self, item);
    }

    fn visit_expr_binary(&mut self, item: &'ast syn::ExprBinary) {
        use syn::BinOp::{
            AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign, ShlAssign, ShrAssign, SubAssign,
        };
        let line = match &item.op {
            AddAssign(token) => token.spans[0],
            SubAssign(token) => token.spans[0],
            MulAssign(token) => token.spans[0],
            DivAssign(token) => token.spans[0],
            RemAssign(token) => token.spans[0],
            BitXorAssign(token) => token.spans[0],
            BitAndAssign(token) => token.spans[0],
            BitOrAssign(token) => token.spans[0],
            ShlAssign(token) => token.spans[0],
            ShrAssign(token) => token.spans[0],
            _ => return visit::visit_expr_binary(self, item),
        };
        self.assign(&item.left, line.start().line);
        visit::visit_expr_binary(self, item);
    }

    fn visit_expr_call(&mut self, item: &'ast syn::ExprCall) {
        if let (syn::Expr::Path(path), Some(syn::Expr::Reference(first))) = (&*item.func, item.args.first()) {
            let words: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            if let [.., module, function] = &words[..] {
                if module == "mem" && MOVES.contains(&&**function) {
                    self.assign(&first.expr, first.and_token.span.start().line);
                }
            }
        }
        visit::visit_expr_call(self, item);
    }
}

/// The structs of a crate that are components, each with its module.
struct Structs<'a> {
    all: Vec<(&'a [String], &'a Struct)>,
    components: BTreeSet<&'a str>,
}

impl<'a> Structs<'a> {
    fn of(tree: &'a Tree) -> Self {
        let files = || tree.sources.iter().zip(&tree.modules);
        let all = files().flat_map(|(source, module)| source.fields_of.structs.iter().map(move |item| (&module[..], item))).collect();
        let components = files().flat_map(|(source, _)| source.fields_of.components.iter().map(String::as_str)).collect();
        Self { all, components }
    }

    /// The structs with a name; those in the module itself, where there are any.
    fn named(&self, name: &str, module: &[String]) -> Vec<(&'a [String], &'a Struct)> {
        let all: Vec<_> = self.all.iter().copied().filter(|(_, item)| item.name == name).collect();
        let own: Vec<_> = all.iter().copied().filter(|(of, _)| *of == module).collect();
        if own.is_empty() { all } else { own }
    }

    /// The modules whose components declare the last field of a place.
    fn declaring(&self, place: &Place, module: &[String]) -> Vec<&'a [String]> {
        let (last, way) = place.fields.split_last().expect("a place has fields");
        let mut owners = match &place.of {
            Some(name) => self.named(name, module),
            None => self.all.clone(),
        };
        for field in way {
            let types = owners.iter().filter_map(|(_, item)| item.fields.iter().find(|(name, _)| name == field)?.1.as_deref());
            let types: BTreeSet<&str> = types.collect();
            owners = types.into_iter().flat_map(|name| self.named(name, module)).collect();
        }
        owners.retain(|(_, item)| item.has(last));
        owners.into_iter().filter(|(_, item)| self.components.contains(&&*item.name)).map(|(module, _)| module).collect()
    }
}

/// The assignments of fields of other modules' components.
pub fn from_outside(tree: &Tree) -> Found {
    let structs = Structs::of(tree);
    let mut lines = Vec::new();
    for (source, module) in tree.sources.iter().zip(&tree.modules) {
        for Assigned { line, place } in &source.fields_of.assigned {
            let declaring = structs.declaring(place, module);
            let is_own = |of: &&[String]| module.starts_with(of);
            if let (Some(first), false) = (declaring.first(), declaring.iter().any(is_own)) {
                let path = std::iter::once(&place.root).chain(&place.fields).cloned().collect::<Vec<_>>().join(".");
                lines.push(format!("{}:{line}: {path} is a field of {}", source.name, first.join("/")));
            }
        }
    }
    Found::of(lines)
}
