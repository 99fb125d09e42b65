//! A Rust file as plain data: what the measures of the structure ask of it.
//!
//! 1. Only product code counts: an item behind `#[cfg(test)]` is left out.
//! 2. Code inside macros counts as any other: names and calls are found among the tokens, since the syntax tree does not look into macros.

use super::assigned::{self, Fields};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::ops::RangeInclusive;
use syn::visit::{self, Visit};

/// A token: a word, a literal, or punctuation (`::` is one). Delimiters are tokens of their own.
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// A name that a `use` brings into a module.
pub struct UseName {
    /// The name by which the module knows it; `*` for all names.
    pub name: String,
    pub path: Vec<String>,
    pub is_public: bool,
    pub line: usize,
}

/// A function with a body.
pub struct Function {
    /// `Type::function`, or the bare name of a free one.
    pub name: String,
    pub lines: RangeInclusive<usize>,
}

/// A file of product code. Lines count from 1.
pub struct Source {
    pub name: String,
    /// Its code without what declares other files (`mod name;`) and their names (`use`).
    pub tokens: Vec<Token>,
    pub uses: Vec<UseName>,
    pub functions: Vec<Function>,
    /// The type of each `impl`, and its line.
    pub impls: Vec<(String, usize)>,
    /// Struct, field, line.
    pub fields: Vec<(String, String, usize)>,
    /// The modules that it declares with a body.
    pub inline: Vec<(String, RangeInclusive<usize>)>,
    /// The modules that it declares for tests only.
    pub test_modules: Vec<String>,
    /// The columns of each line of product code.
    pub columns: Vec<(usize, usize)>,
    /// Its structs, and the fields that it assigns.
    pub fields_of: Fields,
}

impl Source {
    /// Reads the text of a file.
    ///
    /// # Panics
    /// When it is no Rust.
    pub fn read(name: &str, text: &str) -> Self {
        let stream: TokenStream = text.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let (mut tests, mut test_modules) = (Vec::new(), Vec::new());
        take_tests(&mut tokens, &mut tests, &mut test_modules);
        let mut uses = Vec::new();
        take_declarations(&mut tokens, &mut uses);

        let mut reader = Reader { owner: None, functions: Vec::new(), impls: Vec::new(), fields: Vec::new(), inline: Vec::new() };
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        reader.visit_file(&file);
        let mut fields_of = assigned::read(&file);
        let is_product = |line: usize| !tests.iter().any(|lines| lines.contains(&line));
        reader.functions.retain(|function| is_product(*function.lines.start()));
        reader.impls.retain(|(_, line)| is_product(*line));
        reader.inline.retain(|(_, lines)| is_product(*lines.start()));
        fields_of.retain(is_product);
        let columns = text.lines().enumerate().map(|(at, line)| (at + 1, line.chars().count())).filter(|(line, _)| is_product(*line));
        let (columns, Reader { functions, impls, fields, inline, .. }) = (columns.collect(), reader);
        Self { name: name.to_owned(), tokens, uses, functions, impls, fields, inline, test_modules, columns, fields_of }
    }

    /// Whether its code has this word, other than in a declaration.
    pub fn mentions(&self, word: &str) -> bool {
        self.tokens.iter().any(|token| token.text == word)
    }

    /// The paths of at least two words in its code, with their lines; of a path with type arguments, what stands before these.
    pub fn paths(&self) -> Vec<(Vec<String>, usize)> {
        let mut paths = Vec::new();
        let text = |at: usize| self.tokens.get(at).map_or("", |token| token.text.as_str());
        for (at, first) in self.tokens.iter().enumerate() {
            let is_first = is_word(&first.text) && text(at + 1) == "::" && (at == 0 || !matches!(text(at - 1), "::" | "." | "$"));
            if !is_first {
                continue;
            }
            let mut path = vec![first.text.clone()];
            let mut next = at + 1;
            while text(next) == "::" && is_word(text(next + 1)) {
                path.push(text(next + 1).to_owned());
                next += 2;
            }
            if path.len() > 1 {
                paths.push((path, first.line));
            }
        }
        paths
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut is_after_colon = false;
    for tree in stream {
        let line = tree.span().start().line;
        let mut push = |text: String| tokens.push(Token { text, line });
        let was_after_colon = std::mem::take(&mut is_after_colon);
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    _ => ("{", "}"),
                };
                push(open.to_owned());
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.to_owned(), line: group.span_close().start().line });
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && was_after_colon => {
                tokens.last_mut().expect("a colon came before").text = "::".to_owned();
            }
            TokenTree::Punct(punct) => {
                is_after_colon = punct.as_char() == ':' && punct.spacing() == proc_macro2::Spacing::Joint;
                push(punct.as_char().to_string());
            }
            TokenTree::Ident(word) => push(word.to_string()),
            TokenTree::Literal(literal) => push(literal.to_string()),
        }
    }
}

/// Whether these words stand at `at`.
fn stands(tokens: &[Token], at: usize, words: &[&str]) -> bool {
    tokens.get(at..at + words.len()).is_some_and(|there| there.iter().zip(words).all(|(token, word)| token.text == *word))
}

/// The token that closes the delimiter at `open`.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    panic!("a delimiter has no end");
}

/// The last token of the item that begins at `at`: a semicolon, or the end of a body.
fn end_of_item(tokens: &[Token], at: usize) -> usize {
    let is_use = tokens[at].text == "use";
    let mut end = at;
    loop {
        match tokens[end].text.as_str() {
            ";" => return end,
            "{" if !is_use => return closing(tokens, end),
            "(" | "[" | "{" => end = closing(tokens, end) + 1,
            _ => end += 1,
        }
    }
}

/// Gives the last token of the field at `at`, of a type or of a value: its comma, or what stands before the closing brace.
fn end_of_field(tokens: &[Token], at: usize) -> usize {
    let mut end = at;
    while !matches!(tokens[end].text.as_str(), "," | "}") {
        end = if matches!(tokens[end].text.as_str(), "(" | "[" | "{") { closing(tokens, end) + 1 } else { end + 1 };
    }
    if tokens[end].text == "," { end } else { end - 1 }
}

/// Takes out the items that `#[cfg(test)]` stands before; gives their lines, and the names of those that are modules in files of their own.
fn take_tests(tokens: &mut Vec<Token>, lines: &mut Vec<RangeInclusive<usize>>, modules: &mut Vec<String>) {
    let mut begin = 0;
    while begin < tokens.len() {
        if !stands(tokens, begin, &["#", "[", "cfg", "(", "test", ")", "]"]) {
            begin += 1;
            continue;
        }
        let mut at = begin;
        while stands(tokens, at, &["#", "["]) {
            at = closing(tokens, at + 1) + 1;
        }
        if tokens[at].text == "pub" {
            at = if stands(tokens, at + 1, &["("]) { closing(tokens, at + 1) + 1 } else { at + 1 };
        }
        if stands(tokens, at, &["mod"]) && stands(tokens, at + 2, &[";"]) {
            modules.push(tokens[at + 1].text.clone());
        }
        let end = if stands(tokens, at + 1, &[":"]) { end_of_field(tokens, at) } else { end_of_item(tokens, at) };
        lines.push(tokens[begin].line..=tokens[end].line);
        tokens.drain(begin..=end);
    }
}

/// Takes out what declares other files, and names.
fn take_declarations(tokens: &mut Vec<Token>, uses: &mut Vec<UseName>) {
    let mut begin = 0;
    while begin < tokens.len() {
        // `+ use<'a>` is a bound.
        let is_use = tokens[begin].text == "use" && !stands(tokens, begin + 1, &["<"]);
        let is_mod = tokens[begin].text == "mod" && stands(tokens, begin + 2, &[";"]);
        if !is_use && !is_mod {
            begin += 1;
            continue;
        }
        let end = end_of_item(tokens, begin);
        if is_use {
            let is_public = begin > 0 && matches!(tokens[begin - 1].text.as_str(), "pub" | ")");
            read_use(&tokens[..end], begin + 1, Vec::new(), is_public, uses);
        }
        tokens.drain(begin..=end);
    }
}

/// Reads the tree of names at `at`; gives the token behind it.
fn read_use(tokens: &[Token], mut at: usize, mut path: Vec<String>, is_public: bool, uses: &mut Vec<UseName>) -> usize {
    let line = tokens[at].line;
    if stands(tokens, at, &["::"]) {
        at += 1;
    }
    while is_word(&tokens[at].text) && stands(tokens, at + 1, &["::"]) {
        path.push(tokens[at].text.clone());
        at += 2;
    }
    if tokens[at].text == "{" {
        let end = closing(tokens, at);
        at += 1;
        while at < end {
            at = read_use(tokens, at, path.clone(), is_public, uses);
            at += usize::from(stands(tokens, at, &[","]));
        }
        return end + 1;
    }
    let last = tokens[at].text.clone();
    // `a::{self}` is `a`.
    if last != "self" || path.is_empty() {
        path.push(last);
    }
    at += 1;
    let mut name = path.last().cloned().unwrap_or_default();
    if stands(tokens, at, &["as"]) {
        name = tokens[at + 1].text.clone();
        at += 2;
    }
    uses.push(UseName { name, path, is_public, line });
    at
}

/// Collects what has a name of its own in the syntax tree.
struct Reader {
    /// The type or trait whose functions are read.
    owner: Option<String>,
    functions: Vec<Function>,
    impls: Vec<(String, usize)>,
    fields: Vec<(String, String, usize)>,
    inline: Vec<(String, RangeInclusive<usize>)>,
}

impl Reader {
    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let name = match &self.owner {
            Some(owner) => format!("{owner}::{}", signature.ident),
            None => signature.ident.to_string(),
        };
        let lines = signature.fn_token.span.start().line..=body.brace_token.span.close().start().line;
        self.functions.push(Function { name, lines });
    }

    fn owned(&mut self, owner: Option<String>, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.owner, owner);
        visit(self);
        self.owner = before;
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.impls.extend(name.clone().map(|name| (name, item.impl_token.span.start().line)));
        self.owned(name, |reader| visit::visit_item_impl(reader, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.owned(Some(item.ident.to_string()), |reader| visit::visit_item_trait(reader, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        item.default.iter().for_each(|body| self.function(&item.sig, body));
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.owned(None, |reader| {
            reader.function(&item.sig, &item.block);
            visit::visit_item_fn(reader, item);
        });
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        for name in item.fields.iter().filter_map(|field| field.ident.as_ref()) {
            self.fields.push((item.ident.to_string(), name.to_string(), name.span().start().line));
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if let Some((brace, _)) = &item.content {
            self.inline.push((item.ident.to_string(), item.mod_token.span.start().line..=brace.span.close().start().line));
        }
        visit::visit_item_mod(self, item);
    }
}
