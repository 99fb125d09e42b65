//! `onefold-lab index`: its table, its JSON, and what it says of wrong input.

mod common;

use common::home::Home;

#[test]
fn policies_are_compared_on_a_made_trace_and_on_one_from_a_file() {
    let home = Home::new();
    let options = ["--memory", "16K,1M", "--bytes-per-block", "2", "--policy", "full,sweep,runs,g-lru", "--batch", "1000"];
    let made = home.json(&[&["index", "--phone", "4", "--writes", "50000"], &options[..]].concat());
    assert_eq!((made["version"].as_u64(), made["report"].as_str()), (Some(1), Some("index")));
    assert_eq!(made["block_writes"].as_u64(), Some(50_000));
    let (duplicates, rows) = (made["duplicates"].as_u64().unwrap(), made["rows"].as_array().unwrap());
    assert_eq!(rows.len(), 3 * 3 + 1, "three policies at three sizes, and the full index");
    for row in rows {
        let found = row["inline"].as_u64().unwrap() + row["out_of_line"].as_u64().unwrap();
        assert!(found > duplicates / 2 && found <= duplicates, "{row}");
    }
    let by_block = rows.iter().filter(|row| row["bytes_per_block"] == 2.0).count();
    assert_eq!(by_block, 3, "each policy with two bytes a block");
    let at = |policy: &str, bytes: u64| rows.iter().find(|row| row["policy"] == policy && row["index_bytes"] == bytes).unwrap();
    assert_eq!(at("runs", 1 << 20)["inline"].as_u64(), Some(duplicates), "a mebibyte has room for all of them");
    for ours in ["sweep", "runs"] {
        assert!(at(ours, 16 << 10)["inline"].as_u64() > at("g-lru", 16 << 10)["inline"].as_u64(), "{ours}");
    }
    let io = |policy: &str, key: &str| at(policy, 16 << 10)["io"][key].as_u64().unwrap();
    assert!(io("sweep", "written") == 0 && io("sweep", "looked_up") > 0 && io("g-lru", "written") > 0, "a sweep only reads");

    home.expect(0, &["synth", "--out", "t", "--blocks", "20000", "--duplication", "40%"]);
    let found = home.json(&[&["index", "t"], &options[..]].concat());
    assert_eq!(found["duplicates"].as_u64(), Some(8_000), "as many as the trace was made with");
    assert!(home.expect(0, &["index", "t", "--memory", "64K"]).0.contains("caftl-without-pre-hashing"));
}

#[test]
fn wrong_input_is_named() {
    let home = Home::new();
    home.complaint(2, &["index"], "<TRACE>");
    home.complaint(2, &["index", "--phone", "7"], "there is no row '7'");
    home.complaint(2, &["index", "--phone", "1", "--policy", "lfu"], "there is no policy 'lfu'");
    home.complaint(2, &["index", "--phone", "1", "--writes", "0"], "'0' is no number of them");
    home.complaint(2, &["index", "--phone", "1", "--memory", "much"], "much");
    home.complaint(2, &["index", "--phone", "1", "--memory", "0"], "'0' is out of range");
    home.complaint(2, &["index", "--phone", "1", "--memory", "1T"], "'1T' is out of range");
    home.complaint(2, &["index", "--phone", "1", "--bytes-per-block", "-2"], "-2");
    home.complaint(2, &["index", "--phone", "1", "--bytes-per-block", "nan"], "'nan' is no number of bytes");
    home.complaint(3, &["index", "nowhere"], "nowhere");
    home.write("letter", "Dear Sir or Madam,\n");
    home.complaint(6, &["index", "letter"], "letter");
}
