//! Plain text tables: rows of name and value, and grids with a heading.

use std::fmt;

/// Parts, each below the last.
#[derive(Clone, Debug, Default)]
pub struct Table {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Rows(Vec<(String, String)>),
    Grid { heads: Vec<String>, rows: Vec<Vec<String>> },
    Line(String),
}

impl Table {
    /// Returns an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row of name and value; neighbouring rows are aligned.
    #[must_use]
    pub fn row(mut self, name: &str, value: impl fmt::Display) -> Self {
        let row = (name.to_owned(), value.to_string());
        match self.parts.last_mut() {
            Some(Part::Rows(rows)) => rows.push(row),
            _ => self.parts.push(Part::Rows(vec![row])),
        }
        self
    }

    /// Adds the same, where there is a value.
    #[must_use]
    pub fn row_if(self, name: &str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.row(name, value),
            None => self,
        }
    }

    /// Adds a line of text.
    #[must_use]
    pub fn line(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Line(text.into()));
        self
    }

    /// Adds a grid. Columns whose cells all begin with a digit are set flush right.
    #[must_use]
    pub fn grid(mut self, heads: &[&str], rows: Vec<Vec<String>>) -> Self {
        self.parts.push(Part::Grid { heads: heads.iter().map(|&h| h.to_owned()).collect(), rows });
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Line(text) => writeln!(f, "{text}")?,
                Part::Rows(rows) => {
                    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
                    for (name, value) in rows {
                        writeln!(f, "{name:width$}  {value}")?;
                    }
                }
                Part::Grid { heads, rows } => grid(f, heads, rows)?,
            }
        }
        Ok(())
    }
}

fn grid(f: &mut fmt::Formatter<'_>, heads: &[String], rows: &[Vec<String>]) -> fmt::Result {
    let columns: Vec<_> = (0..heads.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].as_str());
            let width = cells.clone().map(|c| c.chars().count()).chain([heads[column].chars().count()]).max().unwrap_or(0);
            let is_number = !rows.is_empty() && cells.clone().all(|c| c.starts_with(|c: char| c.is_ascii_digit()));
            (width, is_number)
        })
        .collect();
    for row in std::iter::once(heads).chain(rows.iter().map(Vec::as_slice)) {
        let line: Vec<String> = row
            .iter()
            .zip(&columns)
            .map(|(cell, &(width, is_number))| if is_number { format!("{cell:>width$}") } else { format!("{cell:width$}") })
            .collect();
        writeln!(f, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let table = Table::new()
            .row("a", 1)
            .row("long", "x")
            .row_if("none", None::<u32>)
            .grid(&["name", "count"], vec![vec!["é".into(), "7".into()], vec!["three".into(), "1234567".into()]]);
        assert_eq!(table.to_string(), "a     1\nlong  x\nname     count\né            7\nthree  1234567\n");
    }
}
