//! Renders the kustomizations of `deploy/` by `kubectl kustomize`. Tests that need it are skipped where kubectl is not installed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::Value;

use super::deploy;
use crate::repository::{copy_directory, empty_directory};

/// Objects by kind and name.
pub(crate) type Rendered = BTreeMap<(String, String), Value>;

/// The path of the test in which this is written.
macro_rules! this_test {
    () => {{
        fn here() {}
        std::any::type_name_of_val(&here).trim_start_matches("checks::").trim_end_matches("::here")
    }};
}
pub(crate) use this_test;

/// Ends a test without kubectl, and leaves a record.
macro_rules! needs_kubectl {
    () => {
        let lacking = e2e::tools::needs_kubectl().err();
        e2e::skips::note($crate::deploy::kustomize::this_test!(), lacking.as_deref());
        if lacking.is_some() {
            return;
        }
    };
}
pub(crate) use needs_kubectl;

/// A copy of `deploy/`, in which tests change kustomizations.
static COPY: LazyLock<PathBuf> = LazyLock::new(|| {
    let copy = empty_directory("kustomize");
    for of in fs::read_dir(deploy("")).unwrap().map(|entry| entry.unwrap().path()) {
        if of.is_dir() && !of.ends_with("kubectl-nonet") {
            copy_directory(&of, &copy.join(of.file_name().unwrap()));
        }
    }
    copy
});

/// Renders a directory of `deploy/`, once in the life of this program.
pub(crate) fn build(path: &str) -> Rendered {
    static BUILT: Mutex<BTreeMap<String, Rendered>> = Mutex::new(BTreeMap::new());
    if let Some(built) = BUILT.lock().get(path) {
        return built.clone();
    }
    let built = documents(&kubectl(&deploy(path)));
    BUILT.lock().insert(path.to_owned(), built.clone());
    built
}

/// The kustomization in a directory of `deploy/`.
pub(crate) fn kustomization(path: &str) -> Value {
    super::yaml(&format!("{path}/kustomization.yaml")).swap_remove(0)
}

/// Renders a kustomization as if it were the one in that directory.
pub(crate) fn render(path: &str, kustomization: &Value) -> Rendered {
    documents(&text(path, kustomization))
}

/// The documents that a kustomization renders, as kubectl writes them. Equal objects have equal texts.
pub(crate) fn texts(path: &str, kustomization: &Value) -> BTreeSet<String> {
    text(path, kustomization).split("\n---\n").map(|document| document.trim_end().to_owned()).collect()
}

fn text(path: &str, kustomization: &Value) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    // A sibling of the directory, because kustomizations name each other by relative paths.
    let changed = COPY.join(format!("{path}-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    copy_directory(&deploy(path), &changed);
    fs::write(changed.join("kustomization.yaml"), kustomization.to_string()).unwrap();
    kubectl(&changed)
}

fn kubectl(directory: &Path) -> String {
    let output = Command::new("kubectl").arg("kustomize").arg(directory).output().unwrap();
    assert!(output.status.success(), "{}: {}", directory.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The objects of a file, in its order.
pub(crate) fn ordered(text: &str) -> Vec<Value> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    objects.into_iter().filter(|object| !object.is_null()).collect()
}

/// The objects of a file, by kind and name. There are no two of the same.
pub(crate) fn documents(text: &str) -> Rendered {
    let mut out = Rendered::new();
    for object in ordered(text) {
        let field = |value: &Value| value.as_str().unwrap().to_owned();
        let id = (field(&object["kind"]), field(&object["metadata"]["name"]));
        assert!(out.insert(id.clone(), object).is_none(), "{id:?} twice");
    }
    out
}
