//! Pages of `docs` as manual pages of section 7, for those who have the package alone.

/// A page of `docs`.
pub struct Guide {
    pub name: &'static str,
    pub file: &'static str,
    purpose: &'static str,
}

/// The pages that are manual pages, too.
pub const GUIDES: [Guide; 3] = [
    Guide {
        name: "onefold-recipes",
        file: "recipes.md",
        purpose: "whole procedures with volumes of Onefold, from the first command to the last",
    },
    Guide { name: "onefold-operating", file: "operating.md", purpose: "commands and settings of Onefold, and what to do after a failure" },
    Guide {
        name: "onefold-tracing",
        file: "tracing.md",
        purpose: "recorded requests and their content: how they are made, converted and replayed",
    },
];

impl Guide {
    /// Returns the page for `man`. `markdown` is the text of its file.
    pub fn page(&self, markdown: &str) -> String {
        let (_title, body) = markdown.split_once('\n').unwrap_or_default();
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

/// A link, and where it stands in its text.
struct Link<'a> {
    from: usize,
    end: usize,
    words: &'a str,
    target: &'a str,
}

impl<'a> Link<'a> {
    fn first_of(text: &'a str) -> Option<Self> {
        let middle = text.find("](")?;
        let (from, to) = (text[..middle].rfind('[')?, text[middle..].find(')')?);
        Some(Self { from, end: middle + to + 1, words: &text[from + 1..middle], target: &text[middle + 2..middle + to] })
    }

    /// Whether it leads to a page that only the source has.
    fn is_of_source(&self) -> bool {
        let page = self.target.split('#').next().unwrap_or_default();
        let is_elsewhere = page.is_empty() || page.contains("://");
        !is_elsewhere && GUIDES.iter().all(|guide| page != guide.file)
    }

    /// The words for a reader who cannot follow it.
    fn plain(&self) -> String {
        match GUIDES.iter().find(|guide| self.words == guide.file) {
            Some(guide) => format!("{}(7)", guide.name),
            None if self.is_of_source() && self.words.ends_with(".md") => format!("docs/{} of the source", self.words),
            None => self.words.to_owned(),
        }
    }
}

/// A text without the remarks in brackets that only name pages of the source.
fn without_references(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(open) = rest.find("([") {
        let mut depth = 0;
        let close = rest[open..].char_indices().find(|&(_, c)| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let Some((close, _)) = close else { break };
        let (remark, after) = (&rest[open..=open + close], &rest[open + close + 1..]);
        let (mut words, mut names_source) = (remark[1..remark.len() - 1].to_owned(), true);
        while let Some(link) = Link::first_of(&words) {
            names_source &= link.is_of_source();
            words = [&words[..link.from], &words[link.end..]].concat();
        }
        let is_reference = names_source && words.replace("and", "").chars().all(|c| c == ' ' || c == ',' || c == '.');
        kept += if is_reference { rest[..open].trim_end() } else { &rest[..=open + close] };
        rest = after;
    }
    kept + rest
}

/// A line with code in bold, and with the words of links alone: the pages that they lead to are manual pages, or are not installed.
fn words(line: &str) -> String {
    let mut text = without_references(line);
    while let Some(link) = Link::first_of(&text) {
        text = [&text[..link.from], &link.plain(), &text[link.end..]].concat();
    }
    let parts = text.split('`').enumerate();
    let bold = |(i, part): (usize, &str)| match part {
        code if i % 2 == 1 && code.contains(['*', '<', '\\']) => format!("`{code}`"),
        code if i % 2 == 1 => format!("**{code}**"),
        text => text.to_owned(),
    };
    parts.map(bold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_words_that_a_reader_of_the_package_can_follow() {
        for (line, expected) in [
            ("see [operating.md](operating.md#warnings) for it", "see onefold-operating(7) for it"),
            ("given back ([decision 0093](decisions/0093-what.md)).", "given back."),
            ("until then. ([Decisions 0098](decisions/0098-a.md) and [0099](decisions/0099-b.md).) More", "until then. More"),
            ("read now ([log.md](log.md), *checkpoint*)", "read now (docs/log.md of the source, *checkpoint*)"),
            ("is wide ([below](#a-full-volume)) or [so](https://example.org)", "is wide (below) or so"),
        ] {
            assert_eq!(words(line), expected);
        }
    }
}
