//! The answer: a tree from an object down to what it waits for, and the likely cause.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

/// How many objects in different states are shown below an object.
const MAX_CHILDREN: usize = 20;

/// An object of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// The node on which a Pod runs. Pods on different nodes may be in the same state.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The state of the object, and why it makes no progress.
    pub lines: Vec<Line>,
    /// Number of siblings in the same state, which are not shown.
    #[serde(skip_serializing_if = "is_zero")]
    pub alike: usize,
    /// Number of objects below that are not shown, because too many are in different states.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: usize,
    /// The objects below, for example the Pods of a ReplicaSet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Branch>,
    /// What may be wrong with the object.
    #[serde(skip)]
    pub causes: Vec<Cause>,
}

/// A statement about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The statement.
    pub text: String,
    /// Who says so: a controller, the scheduler, a kubelet, an Event, or a field of the object.
    pub source: String,
}

/// What may be wrong, and what people do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cause {
    /// The most likely cause has the lowest weight.
    #[serde(skip)]
    pub weight: Weight,
    /// What is wrong.
    pub text: String,
    /// What people do about it, each with a command where there is one.
    pub remedies: Vec<String>,
}

/// How likely a cause is the reason of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Nothing else can happen before this has changed.
    Blocks,
    /// An error of a component, or a defect of the object.
    Fails,
    /// Something that stays as it is until a user changes it.
    Rests,
    /// Time passes, and nothing has to be done.
    Waits,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Namespace of the object; empty for an object without a namespace.
    pub namespace: String,
    /// The object and what is below it.
    pub tree: Branch,
    /// The most likely cause; `None` if the object waits for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Resources that could not be read, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, String>,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Branch {
    /// Creates the branch of an object.
    pub fn new(kind: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned(), ..Self::default() }
    }

    /// Adds a statement.
    pub fn say(&mut self, source: impl Into<String>, text: impl Into<String>) {
        let line = Line { text: text.into(), source: source.into() };
        if !line.text.is_empty() && !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    /// Adds a cause.
    pub fn blame(&mut self, weight: Weight, text: impl Into<String>, remedies: impl IntoIterator<Item = String>) {
        self.causes.push(Cause { weight, text: text.into(), remedies: remedies.into_iter().collect() });
    }

    /// Adds branches below. Branches in the same state are shown once, with the number of the others.
    pub fn add_children(&mut self, children: impl IntoIterator<Item = Branch>) {
        for child in children {
            match self.children.iter().position(|known| known.is_like(&child)) {
                Some(known) => self.children[known].alike += 1 + child.alike,
                None if self.children.len() < MAX_CHILDREN => self.children.push(child),
                None => self.omitted += 1,
            }
        }
    }

    /// Whether another branch differs only in its name and in numbers, such as addresses and ages.
    fn is_like(&self, other: &Self) -> bool {
        let shape = |branch: &Self| -> Vec<String> {
            let own = |text: &str| text.replace(&branch.name, "*").replace(|c: char| c.is_ascii_digit(), "");
            branch.lines.iter().flat_map(|line| [own(&line.text), own(&line.source)]).collect()
        };
        self.kind == other.kind
            && self.children.is_empty()
            && other.children.is_empty()
            && self.lines.len() == other.lines.len()
            && shape(self) == shape(other)
    }

    /// Returns the most likely cause of this branch and of all branches below. Of equal causes, the deepest is the most likely,
    /// because it is the reason of the others.
    pub fn cause(&self) -> Option<Cause> {
        let below = self.children.iter().filter_map(Self::cause).min_by_key(|cause| cause.weight);
        let own = self.causes.iter().min_by_key(|cause| cause.weight).cloned();
        match (below, own) {
            (Some(below), Some(own)) if own.weight < below.weight => Some(own),
            (Some(below), _) => Some(below),
            (None, own) => own,
        }
    }
}

impl Answer {
    /// Whether something fails. An object that is paused or suspended waits and does not fail.
    pub fn fails(&self) -> bool {
        self.cause.as_ref().is_some_and(|cause| cause.weight <= Weight::Fails)
    }

    /// Renders the answer as a tree of text, with lines of at most `width` columns.
    pub fn to_text(&self, width: usize, shows_namespace: bool) -> String {
        let mut out = String::new();
        if shows_namespace && !self.namespace.is_empty() {
            let _ = write!(out, "{}: ", self.namespace);
        }
        render(&mut out, &self.tree, "", "", width.max(40));
        for (resource, why) in &self.unread {
            wrap(&mut out, "", "  ", &format!("not read: {resource}: {why}"), width);
        }
        match &self.cause {
            Some(cause) => {
                wrap(&mut out, "Cause: ", "       ", &cause.text, width);
                for (index, remedy) in cause.remedies.iter().enumerate() {
                    wrap(&mut out, if index == 0 { "To do: " } else { "   or: " }, "       ", remedy, width);
                }
            }
            None if self.unread.is_empty() => out.push_str("It waits for nothing.\n"),
            None => out.push_str("No cause is seen in what may be read.\n"),
        }
        out
    }
}

fn render(out: &mut String, branch: &Branch, first: &str, rest: &str, width: usize) {
    let others = match branch.alike {
        0 => String::new(),
        1 => " and 1 other alike".to_owned(),
        n => format!(" and {} others alike", with_thousands(n)),
    };
    let node = if branch.node.is_empty() { String::new() } else { format!(" on {}", branch.node) };
    let _ = writeln!(out, "{first}{} {}{node}{others}", branch.kind, branch.name);
    let stem = if branch.children.is_empty() { "    " } else { "│   " };
    for line in &branch.lines {
        let prefix = format!("{rest}{stem}");
        wrap(out, &prefix, &format!("{prefix}  "), &format!("{} [{}]", line.text, line.source), width);
    }
    for (index, child) in branch.children.iter().enumerate() {
        let is_last = index + 1 == branch.children.len() && branch.omitted == 0;
        let (corner, below) = if is_last { ("└── ", "    ") } else { ("├── ", "│   ") };
        render(out, child, &format!("{rest}{corner}"), &format!("{rest}{below}"), width);
    }
    if branch.omitted > 0 {
        let _ = writeln!(out, "{rest}└── and {} more in other states", with_thousands(branch.omitted));
    }
}

/// Writes a text in lines of at most `width` columns, broken at spaces.
fn wrap(out: &mut String, first: &str, rest: &str, text: &str, width: usize) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            out.push_str(line.trim_end());
            out.push('\n');
            rest.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Writes a count as `4,998`.
pub fn with_thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
