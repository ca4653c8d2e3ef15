//! A unified diff of two texts, as the real server appends it to a refused Pod update: longest common blocks first,
//! earliest in the old text where several are equally long, three lines of context.
//!
//! The message is compared with the real server's to the byte. The crate `similar` finds other blocks where several are equally
//! good, and does not leave out lines that occur often.

use std::{collections::BTreeMap, fmt::Write as _};

const CONTEXT: usize = 3;

/// Lines `a..a + size` of the old text equal lines `b..b + size` of the new one.
#[derive(Clone, Copy)]
struct Block {
    a: usize,
    b: usize,
    size: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    Equal,
    Change,
}

#[derive(Clone, Copy)]
struct Op {
    tag: Tag,
    a: (usize, usize),
    b: (usize, usize),
}

/// The difference; empty for equal texts.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut out = String::new();
    for group in groups(&operations(&a, &b)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let _ = writeln!(out, "@@ -{} +{} @@", range(first.a.0, last.a.1), range(first.b.0, last.b.1));
        for op in &group {
            let lines = |out: &mut String, mark: char, lines: &[&str]| {
                for line in lines {
                    out.push(mark);
                    out.push_str(line);
                    out.push('\n');
                }
            };
            if op.tag == Tag::Equal {
                lines(&mut out, ' ', &a[op.a.0..op.a.1]);
            } else {
                lines(&mut out, '-', &a[op.a.0..op.a.1]);
                lines(&mut out, '+', &b[op.b.0..op.b.1]);
            }
        }
    }
    out
}

fn range(start: usize, stop: usize) -> String {
    match stop - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

fn operations(a: &[&str], b: &[&str]) -> Vec<Op> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (j, line) in b.iter().enumerate() {
        places.entry(line).or_default().push(j);
    }
    // In long texts, lines that occur often do not start a block.
    if b.len() >= 200 {
        let most = b.len() / 100 + 1;
        places.retain(|_, at| at.len() <= most);
    }
    let mut blocks = vec![];
    collect_blocks(a, b, &places, (0, a.len()), (0, b.len()), &mut blocks);
    blocks.push(Block { a: a.len(), b: b.len(), size: 0 });
    let mut ops: Vec<Op> = vec![];
    let (mut i, mut j) = (0, 0);
    for block in blocks {
        if i < block.a || j < block.b {
            ops.push(Op { tag: Tag::Change, a: (i, block.a), b: (j, block.b) });
        }
        (i, j) = (block.a + block.size, block.b + block.size);
        if block.size > 0 {
            match ops.last_mut() {
                Some(last) if last.tag == Tag::Equal => (last.a.1, last.b.1) = (i, j),
                _ => ops.push(Op { tag: Tag::Equal, a: (block.a, i), b: (block.b, j) }),
            }
        }
    }
    ops
}

fn collect_blocks(
    a: &[&str],
    b: &[&str],
    places: &BTreeMap<&str, Vec<usize>>,
    (alo, ahi): (usize, usize),
    (blo, bhi): (usize, usize),
    blocks: &mut Vec<Block>,
) {
    let found = longest(a, b, places, (alo, ahi), (blo, bhi));
    if found.size == 0 {
        return;
    }
    if alo < found.a && blo < found.b {
        collect_blocks(a, b, places, (alo, found.a), (blo, found.b), blocks);
    }
    blocks.push(found);
    let (i, j) = (found.a + found.size, found.b + found.size);
    if i < ahi && j < bhi {
        collect_blocks(a, b, places, (i, ahi), (j, bhi), blocks);
    }
}

fn longest(
    a: &[&str],
    b: &[&str],
    places: &BTreeMap<&str, Vec<usize>>,
    (alo, ahi): (usize, usize),
    (blo, bhi): (usize, usize),
) -> Block {
    let mut best = Block { a: alo, b: blo, size: 0 };
    let mut lengths: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, line) in a.iter().enumerate().take(ahi).skip(alo) {
        let mut next = BTreeMap::new();
        for &j in places.get(line).into_iter().flatten().filter(|j| (blo..bhi).contains(*j)) {
            let before = j.checked_sub(1).and_then(|j| lengths.get(&j)).copied().unwrap_or_default();
            let size = before + 1;
            next.insert(j, size);
            if size > best.size {
                best = Block { a: i + 1 - size, b: j + 1 - size, size };
            }
        }
        lengths = next;
    }
    while best.a > alo && best.b > blo && a[best.a - 1] == b[best.b - 1] {
        best = Block { a: best.a - 1, b: best.b - 1, size: best.size + 1 };
    }
    while best.a + best.size < ahi && best.b + best.size < bhi && a[best.a + best.size] == b[best.b + best.size] {
        best.size += 1;
    }
    best
}

/// Changes with their context; changes further apart than twice the context are apart.
fn groups(ops: &[Op]) -> Vec<Vec<Op>> {
    let mut groups = vec![];
    let mut group: Vec<Op> = vec![];
    for (i, &op) in ops.iter().enumerate() {
        if op.tag == Tag::Change {
            group.push(op);
            continue;
        }
        let (length, last) = (op.a.1 - op.a.0, i + 1 == ops.len());
        let head = Op { a: (op.a.0, op.a.0 + length.min(CONTEXT)), b: (op.b.0, op.b.0 + length.min(CONTEXT)), ..op };
        let tail = Op { a: (op.a.1 - length.min(CONTEXT), op.a.1), b: (op.b.1 - length.min(CONTEXT), op.b.1), ..op };
        if group.is_empty() {
            group.push(tail);
        } else if last {
            group.push(head);
        } else if length > 2 * CONTEXT {
            group.push(head);
            groups.push(std::mem::replace(&mut group, vec![tail]));
        } else {
            group.push(op);
        }
    }
    if group.iter().any(|op| op.tag == Tag::Change) {
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_a_change_with_its_context() {
        let old: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
        let mut new = old.clone();
        new[9] = "ten".into();
        let diff = unified(&old.join("\n"), &new.join("\n"));
        assert_eq!(diff, "@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n");
    }

    #[test]
    fn separates_changes_that_are_far_apart() {
        let old: Vec<String> = (1..=30).map(|n| n.to_string()).collect();
        let mut new = old.clone();
        new.remove(25);
        new[1] = "two".into();
        let diff = unified(&old.join("\n"), &new.join("\n"));
        assert_eq!(
            diff,
            "@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n@@ -23,7 +23,6 @@\n 23\n 24\n 25\n-26\n 27\n 28\n 29\n"
        );
        assert_eq!(unified("a\nb", "a\nb"), "");
    }
}
