//! The mutations that `cargo mutants` lists: bodies of functions replaced by values, operators by others, arms and fields of matches
//! deleted, guards and `!`.

use super::mutation::Change;
use crate::scratch::text;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::process::Command;

#[derive(Deserialize)]
struct ListedMutation {
    file: String,
    replacement: String,
    span: SourceSpan,
}

#[derive(Deserialize)]
struct SourceSpan {
    start: SourcePosition,
    end: SourcePosition,
}

/// A line and a column, in characters, each from 1.
#[derive(Deserialize)]
struct SourcePosition {
    line: usize,
    column: usize,
}

/// Lists the changes of the engine.
///
/// # Errors
/// Fails if it cannot be run, or prints something else.
pub fn changes() -> io::Result<Vec<Change>> {
    let output = Command::new("cargo").args(["mutants", "--list", "--json", "--package", "onefold-engine"]).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("cargo mutants --list ended with {}:\n{}", output.status, text(&output.stderr))));
    }
    let listed: Vec<ListedMutation> = serde_json::from_slice(&output.stdout)?;
    let mut sources = HashMap::new();
    let mut found = Vec::new();
    for ListedMutation { file, replacement, span } in listed {
        if !sources.contains_key(&file) {
            sources.insert(file.clone(), fs::read_to_string(&file)?);
        }
        let source = &sources[&file];
        let (Some(start), Some(end)) = (offset(source, &span.start), offset(source, &span.end)) else {
            return Err(io::Error::other(format!("cargo mutants names a place that {file} does not have")));
        };
        found.push(Change { file, start, end, replacement });
    }
    Ok(found)
}

fn offset(source: &str, place: &SourcePosition) -> Option<usize> {
    let line = if place.line == 1 { 0 } else { source.match_indices('\n').nth(place.line - 2)?.0 + 1 };
    let within = source[line..].char_indices().nth(place.column - 1)?.0;
    Some(line + within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let at = |line, column| offset("ab\n\u{fc}x\ny", &SourcePosition { line, column });
        assert_eq!((at(1, 1), at(1, 2), at(2, 1), at(2, 2), at(3, 1), at(9, 1)), (Some(0), Some(1), Some(3), Some(5), Some(7), None));
    }
}
