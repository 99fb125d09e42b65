//! Pages of `docs` as manual pages of section 7, for those who have the package alone.

/// A page of `docs`.
pub struct Guide {
    pub name: &'static str,
    file: &'static str,
    purpose: &'static str,
    markdown: &'static str,
}

/// The pages that are manual pages, too.
pub const GUIDES: [Guide; 2] = [
    Guide {
        name: "onefold-recipes",
        file: "recipes.md",
        purpose: "whole procedures with volumes of Onefold, from the first command to the last",
        markdown: include_str!("../../../docs/recipes.md"),
    },
    Guide {
        name: "onefold-operating",
        file: "operating.md",
        purpose: "commands and settings of Onefold, and what to do after a failure",
        markdown: include_str!("../../../docs/operating.md"),
    },
];

impl Guide {
    /// Returns the page for `man`.
    pub fn page(&self) -> String {
        let (_title, body) = self.markdown.split_once('\n').unwrap_or_default();
        let mut text = format!("# NAME\n\n{} - {}\n\n# DESCRIPTION\n", self.name, self.purpose);
        let (mut is_code, mut is_head) = (false, true);
        for line in body.lines() {
            let is_fence = line.starts_with("```");
            is_code ^= is_fence;
            let is_row = line.starts_with('|') && !is_code;
            match line.strip_prefix('#') {
                _ if is_code || is_fence => text.push_str(line),
                // The names of columns, and the line below them.
                _ if is_row && (is_head || line.starts_with("|---")) => {}
                _ if is_row => text.push_str(&words(&item(line))),
                Some(heading) if heading.starts_with('#') => text.push_str(heading),
                _ => text.push_str(&words(line)),
            }
            text.push('\n');
            is_head = !is_row;
        }
        mandown::convert(&text, &self.name.to_uppercase(), 7)
    }
}

/// A row of a table as an item of a list: a terminal is too narrow for tables.
fn item(row: &str) -> String {
    let cells = || row.trim_matches('|').split(" | ").map(str::trim).filter(|cell| !cell.is_empty());
    let rest: Vec<&str> = cells().skip(1).collect();
    format!("- {}: {}", cells().next().unwrap_or_default(), rest.join("; "))
}

/// A line with code in bold, and with the words of links alone: the pages that they lead to are manual pages, or are not installed.
fn words(line: &str) -> String {
    let mut text = line.to_owned();
    while let Some(middle) = text.find("](") {
        let (before, after) = (&text[..middle], &text[middle + 2..]);
        let (Some(from), Some(to)) = (before.rfind('['), after.find(')')) else { break };
        let page = GUIDES.iter().find(|guide| before[from + 1..] == *guide.file);
        let link = page.map_or_else(|| before[from + 1..].to_owned(), |guide| format!("{}(7)", guide.name));
        text = [&before[..from], &link, &after[to + 1..]].concat();
    }
    let parts = text.split('`').enumerate();
    let bold = |(i, part): (usize, &str)| match part {
        code if i % 2 == 1 && code.contains(['*', '<', '\\']) => format!("`{code}`"),
        code if i % 2 == 1 => format!("**{code}**"),
        text => text.to_owned(),
    };
    parts.map(bold).collect()
}
