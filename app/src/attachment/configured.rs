//! Volumes that the administrator has named: a file `NAME.toml` in /etc/onefold has a volume, and options of `attach` for it.
//!
//! 1. A key is an option of `attach` without its dashes, so options are defined once, with the verb.
//! 2. The file gives defaults: an option on the command line replaces that of the file.

use crate::exit::{Exit, Failed, Outcome};
use crate::hints::rule::Rule;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The environment variable that names another directory.
pub const VARIABLE: &str = "ONEFOLD_CONFIG_DIR";
const DIRECTORY: &str = "/etc/onefold";
const SUFFIX: &str = "toml";
/// The key of the volume.
const VOLUME: &str = "volume";
/// The key of rules.
const HINTS: &str = "hint";

/// A volume with a name and options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    pub name: String,
    pub file: PathBuf,
    /// An absolute path, a label or a UUID.
    pub volume: String,
    /// The options, as they would be typed.
    pub words: Vec<String>,
}

/// Returns the directory of such files.
#[must_use]
pub fn directory() -> PathBuf {
    std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map_or_else(|| DIRECTORY.into(), PathBuf::from)
}

/// Returns the volume of this name; none if there is no such file.
///
/// # Errors
/// When the file cannot be read, or is not well-formed.
pub fn named(name: &str) -> Outcome<Option<Configured>> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Ok(None);
    }
    read(&directory().join(format!("{name}.{SUFFIX}")))
}

/// Lists all such volumes, in the order of their names. One whose file is wrong is an error of its own.
///
/// # Errors
/// When the directory cannot be read.
pub fn all() -> Outcome<Vec<Outcome<Configured>>> {
    let directory = directory();
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| Failed::system(format!("cannot read {}", directory.display()), error))?,
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|suffix| suffix == SUFFIX));
    files.sort();
    Ok(files.iter().filter_map(|file| read(file).transpose()).collect())
}

fn read(file: &Path) -> Outcome<Option<Configured>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| Failed::system(format!("cannot read {}", file.display()), error))?,
    };
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let wrong = |what: String| Failed::new(Exit::Usage, format!("{}: {what}", file.display()));
    let (volume, words) = parse(&text).map_err(wrong)?;
    Ok(Some(Configured { name, file: file.to_path_buf(), volume, words }))
}

/// Returns the volume and the options.
fn parse(text: &str) -> Result<(String, Vec<String>), String> {
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let volume = match table.remove(VOLUME) {
        Some(Value::String(volume)) => volume,
        Some(_) => return Err("volume: give its path, label or UUID as a text".to_owned()),
        None => return Err("no volume is named: add a line like volume = \"/srv/photos.onefold\"".to_owned()),
    };
    if volume.contains('/') && !volume.starts_with('/') {
        return Err(format!("volume = \"{volume}\": give a path that begins with /, a label or a UUID"));
    }
    let rules = table.remove(HINTS).map(rule_words).transpose()?;
    let words = table.iter().map(|(key, value)| word(key, value)).collect::<Result<Vec<_>, _>>()?;
    Ok((volume, words.into_iter().flatten().chain(rules.into_iter().flatten()).collect()))
}

/// Returns the rules of tables named `hint`, as the hidden option that brings them.
fn rule_words(rules: Value) -> Result<Vec<String>, String> {
    let rules: Vec<Rule> = rules.try_into().map_err(|error: toml::de::Error| format!("hint: {}", error.message()))?;
    let word = |(i, rule): (usize, &Rule)| {
        rule.check().map_err(|error| format!("hint {}: {error}", i + 1))?;
        let text = serde_json::to_string(rule).map_err(|error| error.to_string())?;
        Ok(format!("--{HINTS}={text}"))
    };
    rules.iter().enumerate().map(word).collect()
}

/// Returns the option as it would be typed; none for what is false.
fn word(key: &str, value: &Value) -> Result<Option<String>, String> {
    let typed = match value {
        Value::Boolean(true) => return Ok(Some(format!("--{key}"))),
        Value::Boolean(false) => return Ok(None),
        Value::Array(values) => values.iter().map(scalar).collect::<Option<Vec<_>>>().map(|all| all.join(",")),
        value => scalar(value),
    };
    let typed = typed.ok_or_else(|| format!("{key}: give a text, a number, true, false, or a list of them"))?;
    Ok(Some(format!("--{key}={typed}")))
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_options() {
        let text =
            "volume = \"photos\"\nmemory = \"16M\"\nkeep = 60\nfuse = true\nread-only = false\nadapt = [\"battery\", \"pressure\"]\n";
        let (volume, mut words) = parse(text).expect("well-formed");
        words.sort();
        assert_eq!(volume, "photos");
        assert_eq!(words, ["--adapt=battery,pressure", "--fuse", "--keep=60", "--memory=16M"]);
    }

    #[test]
    fn rules_are_tables() {
        let rules = "[[hint]]\nact = [\"nodedup\"]\nfile = \"*.bin\"\n[[hint]]\nact = \"prefetch\"\nlbn = { first = 0, end = 9 }\n";
        let text = &format!("volume = \"photos\"\n{rules}");
        let (_, words) = parse(text).expect("well-formed");
        assert_eq!(words[0], r#"--hint={"act":["nodedup"],"file":"*.bin"}"#);
        assert_eq!(words[1], r#"--hint={"act":["prefetch"],"lbn":{"first":0,"end":9}}"#);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, what) in [
            ("memory = 3\n", "no volume is named"),
            ("volume = 3\n", "as a text"),
            ("volume = \"here/photos\"\n", "here/photos"),
            ("volume = \"photos\"\nmemory = { most = 3 }\n", "memory: give a text"),
            ("volume = \"photos\"\nmemory\n", "line 2"),
            ("volume = \"photos\"\n[[hint]]\nact = \"nodedup\"\n", "hint 1: the rule matches nothing"),
            ("volume = \"photos\"\n[[hint]]\nact = \"nodup\"\nmeta = true\n", "expected nodedup, nocompress"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
