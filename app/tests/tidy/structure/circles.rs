//! Circles of imports: files, and folders, that need each other.
//!
//! What is counted is who lies in a circle. What is listed is a small set of imports without which there would be none: those that go up in
//! an order from what many import to what imports much.

use super::Found;
use super::tree::{Import, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// A graph of as many nodes, by who reaches whom over at least one edge.
fn reach(nodes: usize, edges: &[(usize, usize)]) -> Vec<Vec<bool>> {
    let mut reach = vec![vec![false; nodes]; nodes];
    edges.iter().for_each(|(from, to)| reach[*from][*to] = true);
    for by in 0..nodes {
        let onward = reach[by].clone();
        for row in reach.iter_mut().filter(|row| row[by]) {
            row.iter_mut().zip(&onward).for_each(|(reaches, onward)| *reaches |= onward);
        }
    }
    reach
}

/// The place of each node in an order that few edges go up in, by the heuristic of Eades, Lin and Smyth (1993): what imports nothing that
/// is left comes next from below, what nothing that is left imports comes next from above; else what is imported more than it imports.
fn heights(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut heights = vec![None; nodes];
    let (mut low, mut high) = (0, nodes);
    while low < high {
        let (mut out, mut into) = (vec![0_i32; nodes], vec![0_i32; nodes]);
        for (from, to) in edges.iter().filter(|(from, to)| from != to && heights[*from].is_none() && heights[*to].is_none()) {
            out[*from] += 1;
            into[*to] += 1;
        }
        let left: Vec<usize> = (0..nodes).filter(|node| heights[*node].is_none()).collect();
        if let (None, Some(top)) = (left.iter().find(|node| out[**node] == 0), left.iter().find(|node| into[**node] == 0)) {
            high -= 1;
            heights[*top] = Some(high);
            continue;
        }
        let next = left.into_iter().max_by_key(|node| (out[*node] == 0, into[*node] - out[*node])).expect("a node is left");
        heights[next] = Some(low);
        low += 1;
    }
    heights.into_iter().flatten().collect()
}

fn line_of(tree: &Tree, import: &Import) -> String {
    let (from, to) = (&tree.sources[import.from].name, &tree.sources[import.to].name);
    format!("{from}:{}: {} leads to {to}, which leads back", import.line, import.path)
}

/// The files that lie in a circle.
pub fn files(tree: &Tree) -> Found {
    let nodes = tree.sources.len();
    let edges: Vec<(usize, usize)> = tree.imports.iter().map(|import| (import.from, import.to)).collect();
    let (reach, heights) = (reach(nodes, &edges), heights(nodes, &edges));
    let closing = tree.imports.iter().filter(|import| reach[import.to][import.from] && heights[import.from] < heights[import.to]);
    Found { number: (0..nodes).filter(|file| reach[*file][*file]).count(), lines: closing.map(|import| line_of(tree, import)).collect() }
}

/// The folders that lie in a circle with what lies beside them. The file that a folder is named for belongs to it.
pub fn folders(tree: &Tree) -> Found {
    // By the innermost folder that both ends lie in: which of its children imports which.
    let mut folders: BTreeMap<&[String], Vec<(&str, &str, &Import)>> = BTreeMap::new();
    for import in &tree.imports {
        let (from, to) = (&tree.modules[import.from], &tree.modules[import.to]);
        let common = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        let (from_child, to_child) = (from.get(common).map_or("", String::as_str), to.get(common).map_or("", String::as_str));
        folders.entry(&from[..common]).or_default().push((from_child, to_child, import));
    }
    let mut found = Found { number: 0, lines: Vec::new() };
    for (folder, imports) in folders {
        let names: BTreeSet<&str> = imports.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
        let number: BTreeMap<&str, usize> = names.iter().copied().zip(0..).collect();
        let edges: Vec<(usize, usize)> = imports.iter().map(|(from, to, _)| (number[from], number[to])).collect();
        let (reach, heights) = (reach(names.len(), &edges), heights(names.len(), &edges));
        let is_folder = |name: &str| {
            let inside = [folder, &[name.to_owned()]].concat();
            tree.modules.iter().any(|module| module.len() > inside.len() && module.starts_with(&inside))
        };
        let circling: Vec<usize> =
            names.iter().filter(|name| is_folder(name)).map(|name| number[name]).filter(|at| reach[*at][*at]).collect();
        found.number += circling.len();
        let closes = |from: usize, to: usize| {
            heights[from] < heights[to] && reach[to][from] && circling.iter().any(|at| reach[from][*at] && reach[*at][from])
        };
        let closing = imports.iter().filter(|(from, to, _)| closes(number[from], number[to]));
        found.lines.extend(closing.map(|(_, _, import)| line_of(tree, import)));
    }
    found
}
