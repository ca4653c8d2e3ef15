//! What the controllers read of objects is what the API declares: by name and by type.

pub(crate) mod table;

use std::{collections::BTreeSet, fmt::Debug, fs, path::Path};

use common::{meta::Meta, object::Object};
use k8s_openapi::{Resource, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use sandbox::declared::{Scope, undeclared, unknown_fields};
use serde::de::DeserializeOwned;
use table::{Row, Visitor};

/// The projections that were looked at, and what is wrong with them.
#[derive(Default)]
struct Looked {
    at: BTreeSet<String>,
    found: Vec<String>,
}

impl Visitor for Looked {
    fn visit<P: Object + Debug, T: Resource + DeserializeOwned>(&mut self, _: Row)
    where
        T::Scope: Scope,
    {
        let name = name::<P>();
        self.found.extend(undeclared::<P, T>().into_iter().map(|wrong| format!("{name}: {wrong}")));
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
    // The garbage collector reads metadata of whatever there is, and nothing else.
    looked.found.extend(unknown_fields::<Meta, ObjectMeta>());
    looked.at.insert("gc-controller PartialObject".to_owned());

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut out = BTreeSet::new();
    collect("nonet-objects", &root.join("common/objects/src"), &mut out);
    for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
        let krate = entry.file_name().to_string_lossy().into_owned();
        if krate.ends_with("-controller") {
            collect(&krate, &entry.path().join("src"), &mut out);
        }
    }
    out
}

fn collect(krate: &str, folder: &Path, out: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(krate, &path, out);
            continue;
        }
        let source = fs::read_to_string(&path).unwrap_or_default();
        // What only tests have stands further in, or in files of their own.
        let is_test = path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")));
        for line in source.lines().filter(|line| !is_test && line.starts_with("impl")) {
            let Some((_, kind)) = line.split_once(" Object for ") else { continue };
            let kind: String = kind.chars().take_while(|c| c.is_alphanumeric()).collect();
            out.insert(format!("{krate} {kind}"));
        }
    }
}
