//! Dependencies among the binaries: the product holds nothing of the laboratory.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies inside the workspace").to_path_buf()
}

/// The names of all packages that a package needs to be built.
fn needs(package: &str) -> Vec<String> {
    let words = ["tree", "--package", package, "--edges", "normal,build", "--prefix", "none", "--format", "{p}", "--locked", "--offline"];
    let output = Command::new(env!("CARGO")).args(words).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_product_holds_no_simulator_no_rival_and_no_parquet() {
    let (product, laboratory) = (needs("onefold"), needs("onefold-lab"));
    // The laboratory has all: the simulator, the tree that a rival is built on, and Parquet. So the names are those that cargo prints.
    for of_the_laboratory in ["onefold-sim", "redb", "arrow-array", "parquet"] {
        assert!(laboratory.iter().any(|name| name == of_the_laboratory), "{of_the_laboratory} in {laboratory:?}");
        assert!(!product.iter().any(|name| name == of_the_laboratory), "onefold depends on {of_the_laboratory}");
    }
}
