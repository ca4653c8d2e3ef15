//! Export of the graph in DOT, the language of Graphviz.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use common::meta::Uid;

use super::{Graph, GraphNode, Identity, Kind, slab::GraphNodeId};

/// Writes the definition of a vertex. `node` is `None` if the graph lacks the object, which only a reference names.
fn write_vertex(out: &mut String, identity: &Identity, kind: &Kind, node: Option<&GraphNode>) {
    let (uid, Identity { namespace, name, .. }) = (identity.uid.to_string(), identity);
    let (group, version) = kind.api_version.rsplit_once('/').unwrap_or(("", &kind.api_version));
    let dot = if group.is_empty() { "" } else { "." };
    let is_true = |property: fn(&GraphNode) -> bool| node.is_some_and(property);
    let flags = [
        ("missing", "missingFromGraph", node.is_none()),
        ("beingDeleted", "beingDeleted", is_true(GraphNode::is_being_deleted)),
        ("deletingDependents", "deletingDependents", is_true(GraphNode::is_deleting_dependents)),
        ("virtual", "virtual", is_true(GraphNode::is_virtual)),
    ];
    let labels: Vec<&str> = flags.iter().filter(|(_, _, is_set)| *is_set).map(|(_, label, _)| *label).collect();
    let mut label = format!("uid={uid}\nnamespace={namespace}\n{}.{version}{dot}{group}/{name}\n", kind.kind);
    if !labels.is_empty() {
        let _ = writeln!(label, "{}", labels.join(","));
    }
    let _ = writeln!(out, "  {} [", quoted(&uid));
    for (key, value) in [
        ("label", &*label),
        ("group", group),
        ("version", version),
        ("kind", &kind.kind),
        ("namespace", namespace),
        ("name", name),
        ("uid", &uid),
    ] {
        let _ = writeln!(out, "    {key}={}", quoted(value));
    }
    for (key, _, is_set) in flags {
        let _ = writeln!(out, "    {key}=\"{is_set}\"");
    }
    out.push_str("  ];\n");
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
            let nodes = self.nodes.nodes_with_ids();
            let connected = nodes.filter(|(_, node)| !node.owners.is_empty() || !node.dependents.is_empty());
            connected.map(|(id, _)| id).collect()
        } else {
            self.connected(around)
        };
        let (mut vertices, mut edges) = (BTreeMap::new(), BTreeSet::new());
        for id in chosen {
            let node = self.nodes.get(id);
            vertices.insert(node.uid.to_string(), (node.identity(), Some(node)));
            for owner in node.owners.iter() {
                let uid = owner.uid.to_string();
                edges.insert((node.uid.to_string(), uid.clone()));
                vertices.entry(uid).or_insert_with(|| (owner.owner_identity("".into()), None));
            }
        }
        let mut out = "strict digraph full {\n".to_owned();
        if !vertices.is_empty() {
            out.push_str("  // Node definitions.\n");
        }
        for (identity, node) in vertices.values() {
            write_vertex(&mut out, identity, self.kinds.get(identity.kind), *node);
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
