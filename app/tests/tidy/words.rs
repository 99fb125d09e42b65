//! Retired words: the test refuses words and names that the project replaced, and says what to write instead.
//!
//! 1. It reads the folders and pages that were rewritten ([`DONE`]). Others join the list when they are rewritten.
//! 2. In Rust it reads comments, strings and declared names; in other files whole lines. Text between backticks is code, and allowed.
//! 3. A word counts only between characters that belong to no word or name, so that `ring_records_max` is not a *ring*.

use super::{pass_or_list, texts};

/// The folders and files that are held to these words; the file that lists the words is not.
const DONE: &[&str] = &[
    "app/src/",
    "engine/",
    "lab/",
    "trace/",
    "sim/",
    "tools/",
    "fuzz/",
    "hint/",
    "app/tests/",
    "ARCHITECTURE.md",
    "README.md",
    "docs/evaluating.md",
    "docs/format.md",
    "docs/hints-library.md",
    "docs/log.md",
    "docs/operating.md",
    "docs/ordering.md",
    "docs/papers.md",
    "docs/testing.md",
    "docs/tracing.md",
];

/// The findings that wait for a rename: a file, and the finding in it. An entry without a finding has to go.
const LATER: &[(&str, &str)] = &[];

/// Retired words and phrases, each with what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("acknowledgement ring", "acknowledgement journal"),
    ("the anchor", "the log tail"),
    ("an anchor", "a log tail"),
    ("anchors", "log tails"),
    ("condense", "compact (the log)"),
    ("condensed", "compacted"),
    ("condensing", "compaction"),
    ("the walk", "the log scan"),
    ("a walk", "a log scan"),
    ("recall", "replay"),
    ("recalled", "replayed"),
    ("recalling", "replaying"),
    ("refill", "index rebuild"),
    ("refilled", "rebuilt"),
    ("doubts", "verification"),
    ("vouch", "confirm"),
    ("vouched", "confirmed"),
    ("vouches", "confirms"),
    ("spill", "overflow to pages"),
    ("birth", "the entry of a new block, or a pending block"),
    ("born", "new, or pending"),
    ("told", "reported"),
    ("a cut may", "a power loss may"),
    ("a cut could", "a power loss could"),
    ("a cut can", "a power loss can"),
    ("after a cut", "after a power loss"),
    ("let go of", "freed"),
    ("lets go of", "frees"),
    ("so many", "N, or this many"),
    ("would else", "would otherwise"),
    ("or else", "otherwise"),
    ("what became of", "the result of"),
    ("what becomes of", "the result of"),
    ("whether what", "whether the ..."),
    ("in place of", "instead of"),
    ("of late", "recently"),
    ("held against", "compared with"),
    ("hold against", "compare with"),
    ("holds against", "compares with"),
    ("passed over", "skipped, or ignored"),
    ("says so", "reports it"),
    ("say so", "report it"),
    ("to be had", "available"),
    ("is none that", "is not a ... that"),
    ("is no question", "is not a valid request"),
    ("another language", "an unexpected reply"),
    ("on its way", "under way, or being written"),
    ("the power goes", "the power is lost"),
    ("for ever", "forever"),
];

/// The words that a doc comment does not begin with: such a comment has no subject, or none that a reader meets first.
const HEADLESS: &[&str] = &["What", "Who", "Whom", "Whose", "Which", "How", "Of", "So", "When", "Where", "As", "That"];

/// Retired names of items, each with what to call it instead.
const NAMES: &[(&str, &str)] = &[
    ("Got", "what was received"),
    ("Due", "the operation, or its time"),
    ("Which", "the choice that it makes"),
    ("Ended", "the result"),
    ("Use", "the use, in full"),
    ("Told", "Report..."),
    ("told", "reported, or what it holds"),
    ("Desk", "InFlight"),
    ("Hands", "what it does"),
    ("Sin", "Fault"),
    ("Standing", "InForce"),
    ("Unspoken", "Unreported"),
    ("Unchained", "Unlinked"),
    ("Loose", "what is free, and of what"),
    ("Vouched", "Confirmed"),
    ("Verdict", "...Result"),
    ("Held", "what is held, and by what"),
    ("let_go", "free, or release"),
    ("recall", "replay"),
    ("said", "what it holds"),
];

/// Is there no letter, digit, `_` or `-` at this side of the word?
fn is_edge(neighbour: Option<char>) -> bool {
    neighbour.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '-')
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| is_edge(text[..at].chars().next_back()) && is_edge(text[at + word.len()..].chars().next()))
}

/// The parts of a line of Rust: code, and prose (comments and the insides of strings).
fn split(line: &str) -> (String, String) {
    let (mut code, mut prose) = (String::new(), String::new());
    let mut rest = line;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        code.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("//") {
            prose.push_str(rest);
            return (code, prose);
        }
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = quoted.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let end = end.unwrap_or(quoted.len());
            prose.push_str(&quoted[..end]);
            prose.push(' ');
            code.push(' ');
            rest = quoted.get(end + 1..).unwrap_or_default();
        } else {
            // A quotation mark as a character is no beginning of a string.
            let skipped = if rest.starts_with("'\"'") { 3 } else { 1 };
            code.push_str(&rest[..skipped]);
            rest = &rest[skipped..];
        }
    }
    code.push_str(rest);
    (code, prose)
}

/// The text without what stands between backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The names that a line of Rust declares.
fn declared(code: &str) -> Vec<&str> {
    const KEYWORDS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "mod", "const", "static", "let"];
    let words: Vec<&str> =
        code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty() && *word != "mut").collect();
    words.windows(2).filter(|pair| KEYWORDS.contains(&pair[0])).map(|pair| pair[1]).collect()
}

fn doc_comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
}

/// What is retired in a file, as `name:line: ...`.
fn retired_in(name: &str, text: &str) -> Vec<String> {
    let is_rust = name.ends_with(".rs");
    let mut findings = Vec::new();
    let mut is_in_doc_comment = false;
    for (number, line) in text.lines().enumerate().map(|(number, line)| (number + 1, line)) {
        let (code, prose) = if is_rust { split(line) } else { (String::new(), line.to_owned()) };
        let prose = without_code(&prose).to_lowercase();
        for (phrase, instead) in PHRASES.iter().filter(|(phrase, _)| has_word(&prose, phrase)) {
            findings.push(format!("{name}:{number}: \"{phrase}\" is retired: write \"{instead}\""));
        }
        for declared in declared(&code) {
            if let Some((_, instead)) = NAMES.iter().find(|(retired, _)| *retired == declared) {
                findings.push(format!("{name}:{number}: the name {declared} says nothing of what it is: name it for {instead}"));
            }
        }
        let comment = is_rust.then(|| doc_comment(line)).flatten();
        if let (Some(comment), false) = (comment, is_in_doc_comment) {
            let first = comment.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            if HEADLESS.contains(&first) {
                findings.push(format!(
                    "{name}:{number}: a doc comment begins with \"{first}\": begin with a verb (\"Returns the ...\") \
                     or a noun (\"The number of ...\")"
                ));
            }
        }
        is_in_doc_comment = comment.is_some();
    }
    findings
}

#[test]
fn retired_words_are_gone() {
    let mut findings = Vec::new();
    let mut read = 0;
    for (name, text) in texts("retired_words_are_gone", &[".rs", ".py", ".sh", ".tsv", ".md"]) {
        if DONE.iter().any(|done| name.starts_with(done)) && !name.ends_with("tidy/words.rs") {
            read += 1;
            findings.extend(retired_in(&name, &text));
        }
    }
    assert!(read == 0 || read > 100, "only {read} files were read: have the folders other names?");
    let is_of = |finding: &str, (file, found): &(&str, &str)| finding.starts_with(file) && finding.contains(found);
    let gone = LATER.iter().filter(|later| read > 0 && !findings.iter().any(|finding| is_of(finding, later)));
    let gone: Vec<_> = gone.map(|(file, found)| format!("{file}: {found} is gone: strike it out of LATER")).collect();
    findings.retain(|finding| !LATER.iter().any(|later| is_of(finding, later)));
    findings.extend(gone);
    pass_or_list(&findings);
}

#[test]
fn retired_words_are_found() {
    let found = |name: &str, text: &str| retired_in(name, text).len();
    assert_eq!(found("a.rs", "/// Who wants it.\nfn wants() {}"), 1);
    assert_eq!(found("a.rs", "/// The one\n/// Who wants it.\nfn wants() {}"), 0, "only the first line begins a comment");
    assert_eq!(found("a.rs", "// The block is let go of.\nlet x = \"it was told\"; // The anchor."), 3);
    assert_eq!(found("a.rs", "let anchor = anchor.recall; // `anchor`, ring_anchor and text-anchor are code."), 0);
    assert_eq!(found("a.rs", "enum Got {}\nfn let_go() {}\nlet mut told = '\"'; let b = \"so many\";"), 4);
    assert_eq!(found("a.md", "The page has so many lines, told by `told`."), 2);
}
