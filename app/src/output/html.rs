//! Pages of HTML. They use no script, style sheet or image from anywhere else.

use std::fmt::Write as _;

const STYLE: &str = "\
body { font: 16px/1.5 sans-serif; color: #000; background: #fff; max-width: 72rem; margin: 0 auto; padding: 1rem; }
p { max-width: 50rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; margin: 1rem 0; }
th, td { border: 1px solid #999; padding: .15rem .5rem; text-align: right; font-weight: normal; }
thead th { background: #eee; font-weight: bold; }
th[scope=row] { text-align: left; }
";

/// Returns text as it stands in a page.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Formats a table. The first cell of a row is its heading.
#[must_use]
pub fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut out = "<div class=\"wide\"><table>\n<thead><tr>".to_owned();
    for head in heads {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        for (number, cell) in row.iter().enumerate() {
            let _ = if number == 0 {
                write!(out, "<tr><th scope=\"row\">{}</th>", escape(cell))
            } else {
                write!(out, "<td>{}</td>", escape(cell))
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    out
}

/// Returns a whole page.
#[must_use]
pub fn document(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}
