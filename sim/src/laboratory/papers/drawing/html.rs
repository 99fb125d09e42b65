//! Parts of the page: text, tables, the frame. The page uses no script, style sheet or image from anywhere else.

use std::fmt::Write as _;

/// Escapes text for HTML and SVG.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A table with a caption. The first cell of a row is its heading.
#[derive(Clone, Debug, Default)]
pub struct Table {
    caption: String,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table without rows.
    #[must_use]
    pub fn new(caption: impl Into<String>, heads: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { caption: caption.into(), heads: heads.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// Panics if it does not have as many cells as there are heads.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.heads.len(), "{}: a cell for each head", self.caption);
        self.rows.push(cells);
    }

    /// Formats the table as HTML. Cells that are figures are right-aligned.
    #[must_use]
    pub fn html(&self) -> String {
        let mut out = format!("<div class=\"wide\"><table>\n<caption>{}</caption>\n<thead><tr>", escape(&self.caption));
        for head in &self.heads {
            let _ = write!(out, "<th scope=\"col\">{}</th>", escape(head));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&row[0]));
            for cell in &row[1..] {
                let class = if is_figure(cell) { " class=\"n\"" } else { "" };
                let _ = write!(out, "<td{class}>{}</td>", escape(cell));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table></div>\n");
        out
    }
}

fn is_figure(cell: &str) -> bool {
    cell.len() <= 14 && cell.starts_with(|c: char| c.is_ascii_digit() || "+-–−".contains(c))
}

/// Formats a value with this number of decimals, or a dash.
#[must_use]
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |v| format!("{v:.decimals$}"))
}

/// Formats a share in percent, or a dash.
#[must_use]
pub fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |v| format!("{:.1} %", v * 100.0))
}

/// Formats a change in percent with its sign, or a dash.
#[must_use]
pub fn change(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |v| format!("{:+.1} %", v * 100.0))
}

/// A page of sections, with its contents at the top.
#[derive(Clone, Debug, Default)]
pub struct Page {
    contents: String,
    body: String,
}

impl Page {
    /// Adds a section: a paragraph of plain text, if there is one, and what follows it.
    pub fn section(&mut self, id: &str, title: &str, text: &str, html: &str) {
        let title = escape(title);
        let _ = writeln!(self.contents, "<li><a href=\"#{id}\">{title}</a></li>");
        let _ = writeln!(self.body, "<section id=\"{id}\">\n<h2>{title}</h2>");
        if !text.is_empty() {
            let _ = writeln!(self.body, "<p>{}</p>", escape(text));
        }
        let _ = writeln!(self.body, "{html}</section>");
    }

    /// Formats the page, with an introduction before its contents.
    #[must_use]
    pub fn html(&self, title: &str, introduction: &str) -> String {
        let Self { contents, body } = self;
        whole(title, &format!("<h1>{}</h1>\n{introduction}<nav><ol>\n{contents}</ol></nav>\n{body}", escape(title)))
    }
}

fn whole(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(title)
    )
}

const STYLE: &str = "\
body { font: 16px/1.5 sans-serif; color: #000; background: #fff; max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 .5rem; }
p, li { max-width: 50rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; margin: 1rem 0; }
caption { text-align: left; font-weight: bold; padding: .25rem 0; }
th, td { border: 1px solid #999; padding: .15rem .5rem; text-align: left; vertical-align: top; font-weight: normal; }
thead th { background: #eee; font-weight: bold; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; overflow-x: auto; }
figcaption { font-weight: bold; }
svg { min-width: 44rem; width: 100%; height: auto; }
svg text { font: 12px sans-serif; }
@media print { h2 { break-before: page; } figure, tr { break-inside: avoid; } }
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_heads_its_rows_and_escapes_what_it_shows() {
        let mut table = Table::new("a < b", ["what", "value", "verdict"]);
        table.row(["x & y", "1.25", "as \"published\""]);
        let html = table.html();
        assert!(html.contains("<caption>a &lt; b</caption>") && html.contains("<th scope=\"row\">x &amp; y</th>"), "{html}");
        assert!(html.contains("<td class=\"n\">1.25</td><td>as &quot;published&quot;</td>"), "{html}");
    }
}
