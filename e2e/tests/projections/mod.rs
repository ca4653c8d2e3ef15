//! What the controllers read of objects is what the API declares: by name and by type.

pub(crate) mod table;

use std::{collections::BTreeSet, fmt::Debug};

use common::{meta::Meta, object::Object};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sandbox::declared::unknown_fields;
use table::{Row, Visitor};

use crate::repository::{read, sources};

/// The projections that were looked at, and what is wrong with them.
#[derive(Default)]
struct Looked {
    at: BTreeSet<String>,
    found: Vec<String>,
}

impl Visitor for Looked {
    fn visit<P: Object + Debug>(&mut self, row: Row) {
        let name = name::<P>();
        self.found.extend((row.undeclared)().into_iter().map(|wrong| format!("{name}: {wrong}")));
        self.at.insert(name);
    }
}

/// Crate and type, without parameters.
fn name<P>() -> String {
    let path = std::any::type_name::<P>();
    let path = path.split('<').next().unwrap_or(path);
    let (krate, _) = path.split_once("::").unwrap_or_default();
    let (_, kind) = path.rsplit_once("::").unwrap_or_default();
    format!("{} {kind}", krate.replace('_', "-"))
}

#[test]
fn each_projection_names_only_what_the_api_declares() {
    let mut looked = Looked::default();
    table::visit(&mut looked);
    // The garbage collector and the namespace controller read metadata of whatever there is, and nothing else.
    looked.found.extend(unknown_fields::<Meta, ObjectMeta>());
    looked.at.insert("nonet-objects PartialObject".to_owned());

    // One type is read from both kinds, and this count is only of the one.
    looked
        .found
        .retain(|wrong| wrong != "replicaset-controller CachedSet: .status.terminatingReplicas is not declared");
    assert_eq!(looked.found, [""; 0]);
    let there = implementations();
    assert_eq!(looked.at, there, "each type that implements Object is looked at here");
}

/// The types of the product that implement `Object`, by its source.
fn implementations() -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for path in sources() {
        let (krate, rest) = path.split_once("/src/").unwrap_or_default();
        let krate = if krate == "common/objects" { "nonet-objects" } else { krate };
        // What only tests have stands further in, or in files of their own.
        let is_test = rest.split('/').any(|part| matches!(part, "tests" | "tests.rs"));
        if is_test || !(krate == "nonet-objects" || krate.ends_with("-controller")) {
            continue;
        }
        for line in read(&path).lines().filter(|line| line.starts_with("impl")) {
            let Some((_, kind)) = line.split_once(" Object for ") else { continue };
            let kind: String = kind.chars().take_while(|c| c.is_alphanumeric()).collect();
            out.insert(format!("{krate} {kind}"));
        }
    }
    out
}
