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
fn parts_are_compared_on_several_traces_as_applications() {
    let home = Home::new();
    for (trace, seed) in [("mail", "1"), ("chat", "2")] {
        home.expect(0, &["synth", "--out", trace, "--blocks", "20000", "--duplication", "40%", "--seed", seed]);
    }
    let options =
        ["--turn", "500", "--memory", "16K,1M", "--active", "1,100", "--policy", "parts,parts-placed,undivided", "--batch", "1000"];
    let found = home.json(&[&["index", "mail", "chat"], &options[..]].concat());
    assert_eq!((found["block_writes"].as_u64(), found["duplicates"].as_u64()), (Some(40_000), Some(16_000)), "each has blocks of its own");
    assert_eq!(found["duplicates_of_others"].as_u64(), Some(0), "they are made of other contents");
    let names: Vec<&str> = found["streams"].as_array().unwrap().iter().map(|row| row["stream"].as_str().unwrap()).collect();
    assert_eq!(names, ["mail", "chat"]);
    let held: u64 = found["streams"].as_array().unwrap().iter().map(|row| row["contents"].as_u64().unwrap()).sum();
    assert_eq!(Some(held), found["contents_held"].as_u64());
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 5);
    let at = |policy: &str, bytes: u64, active: Option<u64>| {
        let is = |row: &&serde_json::Value| row["policy"] == policy && row["index_bytes"] == bytes && row["active"].as_u64() == active;
        rows.iter().find(is).unwrap()
    };
    for policy in ["parts", "parts-placed"] {
        let whole = at(policy, 1 << 20, Some(1));
        assert_eq!((whole["inline"].as_u64(), whole["io"]["read"].as_u64()), (Some(16_000), Some(0)), "a mebibyte has room for both");
        assert!(at(policy, 16 << 10, Some(1))["io"]["read"].as_u64() > Some(0), "{policy}: parts are loaded turn by turn");
    }
    assert_eq!(at("parts-placed", 16 << 10, Some(1))["io"]["written"].as_u64(), Some(0));
    assert!(at("parts", 16 << 10, Some(1))["io"]["written"].as_u64() > Some(0));
    assert_eq!(at("undivided", 16 << 10, None)["io"]["read"].as_u64(), Some(0));
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
    home.complaint(2, &["index", "-", "-"], "standard input can be read only once");
    home.complaint(2, &["index", "t", "--turn", "soon"], "'soon' is no length of a turn");
    home.complaint(2, &["index", "t", "--by", "colour"], "'colour' is no division");
    home.complaint(2, &["index", "t", "--active", "0"], "--active");
    home.complaint(3, &["index", "nowhere"], "nowhere");
    home.write("letter", "Dear Sir or Madam,\n");
    home.complaint(6, &["index", "letter"], "letter");
}
