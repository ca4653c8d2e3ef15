//! Export of the graph in DOT, the language of Graphviz.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use common::meta::Uid;

use super::{Graph, GraphNode, Kind, slab::GraphNodeId};

#[derive(Default)]
struct Vertex {
    kind: Kind,
    namespace: String,
    name: String,
    missing: bool,
    being_deleted: bool,
    deleting_dependents: bool,
    is_virtual: bool,
}

impl Vertex {
    fn of(node: &GraphNode, kind: &Kind) -> Self {
        Self {
            kind: kind.clone(),
            namespace: node.namespace.to_string(),
            name: node.name.to_string(),
            missing: false,
            being_deleted: node.is_being_deleted(),
            deleting_dependents: node.is_deleting_dependents(),
            is_virtual: node.is_virtual(),
        }
    }

    /// Returns the API group and the version. The core group is empty.
    fn group_version(&self) -> (&str, &str) {
        self.kind.api_version.rsplit_once('/').unwrap_or(("", &self.kind.api_version))
    }

    fn label(&self, uid: &str) -> String {
        let (group, version) = self.group_version();
        let dot = if group.is_empty() { "" } else { "." };
        let flags = [
            self.being_deleted.then_some("beingDeleted"),
            self.deleting_dependents.then_some("deletingDependents"),
            self.is_virtual.then_some("virtual"),
            self.missing.then_some("missingFromGraph"),
        ];
        let flags: Vec<&str> = flags.into_iter().flatten().collect();
        let mut label = format!(
            "uid={uid}\nnamespace={}\n{}.{version}{dot}{group}/{}\n",
            self.namespace, self.kind.kind, self.name
        );
        if !flags.is_empty() {
            let _ = writeln!(label, "{}", flags.join(","));
        }
        label
    }

    fn write(&self, uid: &str, out: &mut String) {
        let (group, version) = self.group_version();
        let _ = writeln!(out, "  {} [", quoted(uid));
        for (key, value) in [
            ("label", &*self.label(uid)),
            ("group", group),
            ("version", version),
            ("kind", &self.kind.kind),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", uid),
        ] {
            let _ = writeln!(out, "    {key}={}", quoted(value));
        }
        for (key, value) in [
            ("missing", self.missing),
            ("beingDeleted", self.being_deleted),
            ("deletingDependents", self.deleting_dependents),
            ("virtual", self.is_virtual),
        ] {
            let _ = writeln!(out, "    {key}=\"{value}\"");
        }
        out.push_str("  ];\n");
    }
}

/// Returns the text as a quoted string of DOT, with special characters escaped.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl Graph {
    /// Returns in DOT all nodes that are connected with these UIDs. Without UIDs, returns all nodes with owners or dependents.
    pub fn to_dot(&self, around: &[Uid]) -> String {
        let chosen: BTreeSet<GraphNodeId> = if around.is_empty() {
            let connected = |id: &GraphNodeId| {
                let node = self.nodes.get(*id);
                !node.owners.is_empty() || !node.dependents.is_empty()
            };
            self.nodes.ids().filter(connected).collect()
        } else {
            self.connected(around)
        };
        let (mut vertices, mut edges) = (BTreeMap::new(), BTreeSet::new());
        for id in &chosen {
            let node = self.nodes.get(*id);
            vertices.insert(node.uid.to_string(), Vertex::of(node, self.kinds.get(node.kind)));
        }
        for id in &chosen {
            let node = self.nodes.get(*id);
            for owner in node.owners.iter() {
                let uid = owner.uid.to_string();
                edges.insert((node.uid.to_string(), uid.clone()));
                vertices.entry(uid).or_insert_with(|| Vertex {
                    kind: self.kinds.get(owner.kind).clone(),
                    name: owner.name.to_string(),
                    missing: true,
                    ..Vertex::default()
                });
            }
        }
        let mut out = "strict digraph full {\n".to_owned();
        if !vertices.is_empty() {
            out.push_str("  // Node definitions.\n");
        }
        for (uid, vertex) in &vertices {
            vertex.write(uid, &mut out);
        }
        if !edges.is_empty() {
            out.push_str("  // Edge definitions.\n");
        }
        for (dependent, owner) in &edges {
            let _ = writeln!(out, "  {} -> {};", quoted(dependent), quoted(owner));
        }
        out.push_str("}\n");
        out
    }

    /// Returns all nodes that are connected with these UIDs, directly or through other nodes.
    fn connected(&self, around: &[Uid]) -> BTreeSet<GraphNodeId> {
        let mut open: Vec<GraphNodeId> = around.iter().filter_map(|uid| self.nodes.find(uid)).collect();
        let mut seen: BTreeSet<GraphNodeId> = open.iter().copied().collect();
        while let Some(id) = open.pop() {
            let node = self.nodes.get(id);
            let owners = node.owners.iter().filter_map(|o| self.nodes.find(&o.uid));
            for next in owners.chain(node.dependents.iter()) {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        seen
    }
}
