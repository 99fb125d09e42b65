//! `docs/format.md` and the code say the same.

use onefold_engine::format::layouts::LAYOUTS;
use onefold_engine::format::superblock::VERSION;
use onefold_engine::format::{ExtentKind, FINGERPRINT_ENTRY_SIZE, MAP_ENTRY_SIZE, Region};

const DOCUMENT: &str = include_str!("../../../docs/format.md");

/// The rows of the first table below a heading, cell by cell, without its head.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let below = DOCUMENT.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("docs/format.md has no heading {heading}")).1;
    let section = below.split("\n## ").next().expect("a section");
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2).map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn every_field_has_its_row_and_every_row_its_field() {
    for layout in LAYOUTS {
        let documented: Vec<_> = table(layout.title).iter().map(|row| (row[0].to_owned(), row[1].to_owned(), row[2].to_owned())).collect();
        let coded: Vec<_> =
            layout.fields.iter().map(|f| (format!("`{}`", f.name.to_lowercase()), f.offset.to_string(), f.width.to_string())).collect();
        assert_eq!(documented, coded, "the table below {}", layout.title);
        let bytes: usize = layout.fields.iter().map(|f| f.width).sum();
        assert_eq!(bytes, layout.bytes, "{} has no gaps", layout.title);
    }
}

#[test]
fn every_row_has_a_meaning() {
    for layout in LAYOUTS {
        for row in table(layout.title) {
            assert!(row.len() == 4 && row[3].len() > 3, "{row:?}");
        }
    }
}

#[test]
fn regions_are_as_documented() {
    let bits = |region| match region {
        Region::Written => 1,
        Region::Refs => 8,
        Region::Fingerprints => FINGERPRINT_ENTRY_SIZE * 8,
        Region::Map => MAP_ENTRY_SIZE * 8,
    };
    let mut coded: Vec<Vec<String>> = Region::ALL
        .iter()
        .map(|&r| {
            let numbers = [bits(r).to_string(), r.entries_per_sector().to_string(), r.entries_per_page().to_string()];
            [vec![r.name().to_owned(), r.kind().to_string()], numbers.to_vec()].concat()
        })
        .collect();
    coded.push(["data", &ExtentKind::Data.number().to_string(), "32768", "–", "1"].map(str::to_owned).to_vec());
    let documented: Vec<Vec<String>> =
        table("Regions").iter().filter(|r| r[0] != "index").map(|row| row[..5].iter().map(|c| (*c).to_owned()).collect()).collect();
    assert_eq!(documented, coded);
}

#[test]
fn the_version_is_the_documented_one() {
    assert!(DOCUMENT.contains(&format!("format version **{VERSION}**")));
}
