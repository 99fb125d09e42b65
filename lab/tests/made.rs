//! `onefold-lab scan` and `synth`: the output of each verb, its exit code, and the files that it leaves.

mod common;

use common::counted;
use common::home::Home;
use onefold_trace::source::ReadOptions;
use onefold_trace::text::detect::FormName;
use onefold_trace::transfer;
use serde_json::Value;
use std::path::Path;

fn near(came: &Value, asked: f64, bearable: f64) {
    let came = came.as_f64().unwrap_or_else(|| panic!("{came} is no number"));
    assert!((came - asked).abs() <= bearable, "{came} instead of {asked}");
}

#[test]
fn a_trace_from_parameters_shows_them() {
    let home = Home::new();
    let options = "--blocks 20000 --duplication 30% --duplication-ever 0.35 --zero 5% --overwrites 0.6 --reads 0.4 --fua 10% \
                   --flush-every 16 --request-blocks 1:70,8:20,16-32:10 --compressed 1024 --access hotspot --hotspot 80/20 \
                   --rate 500 --seed 7";
    let words: Vec<&str> = options.split_whitespace().collect();
    let made = home.json(&[&["synth", "--out", "t"], &words[..]].concat());
    assert_eq!((made["version"].as_u64(), made["report"].as_str()), (Some(1), Some("trace-synth")));
    let info = counted(&home, "t");
    assert_eq!(made["traces"][0]["total"], info["total"], "what it says of itself is what is counted");
    assert_eq!(info["total"]["blocks_written"].as_u64(), Some(20_000));
    for (of, asked) in [("live", 0.3), ("ever", 0.35), ("zero", 0.05)] {
        near(&info["duplication"][of], asked, 0.005);
    }
    for (of, asked, bearable) in [("overwrites", 0.6, 0.001), ("reads", 0.4, 0.001), ("compressed_bytes_mean", 1024.0, 60.0)] {
        near(&info["shape"][of], asked, bearable);
    }
    let writes = info["total"]["writes"].as_u64().unwrap();
    assert_eq!(info["total"]["flushes"].as_u64(), Some(writes / 16));
    near(&info["total"]["fua"], writes as f64 / 10.0, 1.0);
    assert!(info["form"].as_str().is_some_and(|form| form.contains("--seed 7") && form.contains("--hotspot 80/20")), "{}", info["form"]);

    // The same options give the same bytes; another seed gives another trace; and it fits every form that supports reads and writes.
    home.expect(0, &[&["synth", "--out", "again"], &words[..]].concat());
    assert!(home.read("t/000000.parquet") == home.read("again/000000.parquet"), "the same options, other bytes");
    home.expect(0, &[&["synth", "--out", "other"], &words[..words.len() - 1], &["8"]].concat());
    assert!(home.read("t/000000.parquet") != home.read("other/000000.parquet"), "another seed, the same bytes");
    let (folder, text) = (home.path("t"), home.path("t.csv"));
    transfer::export(Path::new(&folder), FormName::Csv, Path::new(&text), false, &ReadOptions::default(), &mut |line| panic!("{line}"))
        .unwrap();
    assert_eq!(counted(&home, "t.csv")["total"], info["total"]);
}

#[test]
fn wrong_options_are_named_and_nothing_is_left() {
    let home = Home::new();
    home.write("letter", "Dear Sir or Madam,\n");
    let synth = |words: &str, code: i32, wanted: &str| {
        let words: Vec<&str> = ["synth", "--out", "t"].into_iter().chain(words.split_whitespace()).collect();
        home.complaint(code, &words, wanted);
    };
    synth("--duplication 1.5", 2, "'1.5' is no share");
    synth("--duplication 0.7 --zero 0.5", 2, "--zero 0.5");
    synth("--duplication 0.7 --duplication-ever 0.5", 2, "--duplication-ever 0.5");
    synth("--access diagonal", 2, "diagonal");
    synth("--hotspot 90", 2, "'90' is no hot spot");
    synth("--hotspot 90/10 --access uniform", 2, "--hotspot goes with");
    synth("--request-blocks 8-4", 2, "'8-4'");
    synth("--request-blocks 9999", 2, "--request-blocks 9999");
    synth("--compressed 5000", 2, "--compressed 5000");
    synth("--working-set 3K", 2, "--working-set");
    synth("--working-set 1M --overwrites 0.5", 2, "--overwrites");
    synth("--blocks many", 2, "'many'");
    synth("--blocks 5T", 2, "'5T'");
    synth("--blocks 10 --requests 10", 2, "--requests");
    synth("--reads 1", 2, "--requests");
    synth("--rate 0", 2, "--rate 0");
    synth("--flush-every 0", 2, "--flush-every");
    synth("--phone 7", 2, "'7'");
    synth("--phone 1 --duplication 0.5", 2, "--duplication");
    synth("--scale 0.5", 2, "--scale");
    synth("--phone 1 --scale 0", 2, "'0'");
    synth("--distribution none.json", 3, "none.json");
    synth("--distribution letter", 6, "onefold-lab scan");
    synth("--duplication 0.1 --duplication-ever 0.5 --overwrites 0", 2, "what was asked for");
    assert_eq!(home.names(), ["letter"], "nothing half-written");
    home.expect(0, &["synth", "--out", "t", "--blocks", "10"]);
    synth("--blocks 10", 5, "t exists already");

    home.complaint(2, &["scan"], "PATH");
    home.complaint(3, &["scan", "none"], "none: ");
    home.complaint(2, &["scan", "/dev/null"], "/dev/null is neither");
    home.complaint(2, &["scan", "letter", "--memory", "64K"], "'64K' is too little");
    home.complaint(5, &["scan", "letter", "--out", "letter"], "--force");
    assert_eq!(home.read("letter"), b"Dear Sir or Madam,\n");
}

#[test]
fn what_is_scanned_is_what_is_made() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("tree/sub")).unwrap();
    let block = |content: u8| [content; 4096];
    // There are 40 contents, the first ten of them eleven times; and three blocks of zeros.
    let unique: Vec<u8> = (1..=40).flat_map(block).collect();
    home.write("tree/unique", &unique);
    home.write("tree/sub/copies", unique[..10 * 4096].repeat(10));
    home.write("tree/zeros", [0; 3 * 4096]);
    let found = home.json(&["scan", "tree", "--out", "tree.json"]);
    assert_eq!((found["report"].as_str(), found["files"].as_u64()), (Some("trace-scan"), Some(3)));
    assert_eq!((found["blocks"].as_u64(), found["zero_blocks"].as_u64(), found["contents"].as_u64()), (Some(143), Some(3), Some(40)));
    assert_eq!(found["occurrences"], serde_json::json!([{"times": 1, "contents": 30}, {"times": 11, "contents": 10}]));
    assert_eq!(found["compressed"], serde_json::json!([{"bytes": 64, "contents": 40}]), "a repeated byte is brought to nearly nothing");
    let table = home.expect(0, &["scan", "tree"]).0;
    assert!(table.contains("duplicates") && table.contains("69.9 %"), "{table}");

    home.expect(0, &["scan", "tree", "--out", "tree.csv"]);
    home.write("printed.json", home.expect(0, &["scan", "tree", "--json"]).0);
    home.write("dedisbench", "0 30\n10 10\n");
    for (file, zeros) in [("tree.json", 3), ("tree.csv", 3), ("printed.json", 3), ("dedisbench", 0)] {
        for access in ["uniform", "sequential", "hotspot", "nurand"] {
            let folder = format!("{file}-{access}");
            home.expect(0, &["synth", "--out", &folder, "--distribution", file, "--access", access]);
            let info = counted(&home, &folder);
            assert_eq!((info["contents"].as_u64(), info["total"]["zeros"].as_u64()), (Some(40), Some(zeros)), "{folder}");
            assert_eq!(info["total"]["duplicates_ever"].as_u64(), Some(100), "{folder}");
        }
    }
    let part = home.json(&["synth", "--out", "part", "--distribution", "tree.json", "--scale", "50%"]);
    assert_eq!(part["traces"][0]["contents"].as_u64(), Some(20));
    home.write("wrong.json", String::from_utf8(home.read("tree.json")).unwrap().replace("143", "144"));
    home.complaint(6, &["synth", "--out", "t", "--distribution", "wrong.json"], "144");
}

#[test]
fn phones_are_made_one_or_all() {
    let home = Home::new();
    home.expect(0, &["synth", "--out", "one", "--phone", "2", "--scale", "0.0002"]);
    let all = home.json(&["synth", "--out", "phones", "--phone", "all", "--scale", "0.0002"]);
    assert_eq!(all["traces"].as_array().unwrap().len(), 6);
    for (id, (duplication, reads)) in [(21.9, 7.5), (45.3, 3.4), (23.2, 4.8), (47.5, 5.8), (41.6, 3.4), (28.3, 3.4)].into_iter().enumerate()
    {
        let info = counted(&home, &format!("phones/phone-{}", id + 1));
        near(&info["duplication"]["ever"], duplication / 100.0, 0.001);
        near(&info["shape"]["reads"], reads / (reads + 1.0), 0.001);
        assert!(info["form"].as_str().is_some_and(|form| form.contains("SmartDedup")), "{}", info["form"]);
    }
    assert_eq!(counted(&home, "one")["total"], counted(&home, "phones/phone-2")["total"]);
}

#[test]
fn help_explains_itself() {
    let home = Home::new();
    let synth = home.expect(0, &["synth", "--help"]).0;
    for message in ["SHARE is a part of all", "--locality", "Zipf", "SmartDedup's Table 1", "NURand", "Examples:", "--distribution"] {
        assert!(synth.contains(message), "{message}: {synth}");
    }
    let scan = home.expect(0, &["scan", "--help"]).0;
    assert!(scan.contains("64 bits") && scan.contains("--memory") && scan.contains("comma-separated"), "{scan}");
}
