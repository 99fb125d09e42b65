//! The manual pages and completions agree with `--help`.

mod common;

use common::home::Home;
use onefold::commands::manual::generate;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the guides.
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");

/// The verbs that users see, with those below `trace`.
fn verbs(command: &clap::Command, above: &[String]) -> Vec<Vec<String>> {
    let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help");
    visible
        .flat_map(|verb| {
            let words: Vec<String> = above.iter().cloned().chain([verb.get_name().to_owned()]).collect();
            let below = verbs(verb, &words);
            [words].into_iter().chain(below)
        })
        .collect()
}

/// The long options that `--help` shows.
fn options(help: &str) -> Vec<String> {
    let words = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let long = words.filter_map(|line| line.split([' ', '[', '=']).find(|word| word.starts_with("--")));
    long.map(|word| word.trim_end_matches(',').to_owned()).collect()
}

/// A page as people read it: `man` shows no escapes.
fn page(manual: &Path, words: &[String]) -> String {
    let path = manual.join(format!("onefold-{}.1", words.join("-")));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\fI", "")
}

#[test]
fn manual_pages_and_completions_have_every_verb_and_option_of_help() {
    let home = Home::new();
    let share = PathBuf::from(home.path("share"));
    generate(&onefold::cli::command(), Path::new(DOCS), &share).unwrap();
    let manual = share.join("man/man1");
    let completions = ["bash-completion/completions/onefold", "zsh/site-functions/_onefold", "fish/vendor_completions.d/onefold.fish"]
        .map(|file| fs::read_to_string(share.join(file)).unwrap_or_else(|error| panic!("{file}: {error}")));
    let verbs = verbs(&onefold::cli::command(), &[]);
    assert!(verbs.len() > 15, "{verbs:?}");
    for words in &verbs {
        let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let help = home.says(0, &arguments);
        let options = options(&help);
        assert!(options.contains(&"--help".to_owned()), "{help}");
        let page = page(&manual, words);
        for option in &options {
            assert!(page.contains(option.as_str()), "{option} is not on the page of {words:?}");
            let (name, verb) = (option.trim_start_matches('-'), words.last().unwrap());
            for completion in &completions {
                assert!(completion.contains(name) && completion.contains(verb.as_str()), "{option} of {words:?} is not completed");
            }
        }
    }
    let pages = fs::read_dir(&manual).unwrap().count();
    assert_eq!(pages, verbs.len() + 1, "a page for each verb that users see, and one for all");
    let first = fs::read_to_string(manual.join("onefold.1")).unwrap();
    assert!(first.contains("deduplicating block device"));
    for guide in ["onefold-operating", "onefold-recipes", "onefold-tracing"] {
        assert!(first.contains(&format!(".BR {guide} (7)")), "{first}");
    }
}

/// A package has no `docs`, so what they say about volumes is in the manual.
#[test]
fn guides_are_manual_pages() {
    let home = Home::new();
    let share = PathBuf::from(home.path("share"));
    generate(&onefold::cli::command(), Path::new(DOCS), &share).unwrap();
    let page = |name: &str| fs::read_to_string(share.join("man/man7").join(name)).unwrap();
    let (operating, recipes) = (page("onefold-operating.7"), page("onefold-recipes.7"));
    assert!(operating.contains("/etc/fstab") && operating.contains("\\fBonefold attach VOLUME\\fP: serves it"), "{operating}");
    assert!(recipes.contains("onefold set COPY") && recipes.contains("onefold\\-operating(7)"), "{recipes}");
    let tracing = page("onefold-tracing.7");
    for page in [operating, recipes, tracing] {
        assert!(page.contains(".SH") && !page.contains("]("), "links lead to files that are not installed: {page}");
        let is_table = |line: &str| line.starts_with('|') || line.contains("---");
        assert!(!page.lines().any(is_table), "{page}");
    }
}

/// Whoever reads them has no source: a page that another names is there, or is said to be of the source.
#[test]
fn pages_name_no_page_that_a_package_lacks() {
    let home = Home::new();
    let share = PathBuf::from(home.path("share"));
    generate(&onefold::cli::command(), Path::new(DOCS), &share).unwrap();
    let files = |section: &str| fs::read_dir(share.join("man").join(section)).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> = files("man1").chain(files("man7")).collect();
    let names: Vec<String> = pages.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    for path in &pages {
        let text = fs::read_to_string(path).unwrap().replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\fP", "");
        let text = text.replace(".BR ", "");
        for (at, _) in text.match_indices("onefold-") {
            let word: String = text[at..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
            let rest = text[at + word.len()..].trim_start();
            let section = rest.strip_prefix('(').and_then(|rest| rest.split(')').next()).filter(|section| section.len() == 1);
            if let Some(section) = section {
                assert!(names.contains(&format!("{word}.{section}")), "{}: {word}({section}) is no page", path.display());
            }
        }
        for (at, _) in text.match_indices(".md") {
            let (before, after) = (&text[text[..at].rfind([' ', '(', '\n']).unwrap_or(0)..at], &text[at + 3..]);
            assert!(after.starts_with(" of the source"), "{}: {before}.md is no page", path.display());
        }
    }
}
