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

use e2e::{skips, tools};
use parking_lot::Mutex;
use serde_json::Value;

use super::root;

/// Objects by kind and name.
pub(crate) type Rendered = BTreeMap<(String, String), Value>;

/// Ends a test without kubectl, and leaves a record.
macro_rules! needs_kubectl {
    () => {
        fn here() {}
        if !$crate::deploy::kustomize::is_kubectl_installed(std::any::type_name_of_val(&here)) {
            return;
        }
    };
}
pub(crate) use needs_kubectl;

/// Whether kubectl is installed. `function` is the path of a function inside the test that asks.
pub(crate) fn is_kubectl_installed(function: &str) -> bool {
    let test = function.trim_start_matches("checks::").trim_end_matches("::here");
    let lacking = tools::needs_kubectl().err();
    skips::note(test, lacking.as_deref());
    lacking.is_none()
}

/// A copy of `deploy/`, in which tests change kustomizations.
static COPY: LazyLock<PathBuf> = LazyLock::new(|| {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kustomize");
    let _ = fs::remove_dir_all(&copy);
    for of in fs::read_dir(root().join("deploy")).unwrap().map(|entry| entry.unwrap().path()) {
        if of.is_dir() && !of.ends_with("kubectl-nonet") {
            copy_directory(&of, &copy.join(of.file_name().unwrap()));
        }
    }
    copy
});

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy_directory(&entry, &target);
        } else {
            fs::copy(entry, target).unwrap();
        }
    }
}

/// Renders a directory of `deploy/`, once in the life of this program.
pub(crate) fn build(path: &str) -> Rendered {
    static BUILT: Mutex<BTreeMap<String, Rendered>> = Mutex::new(BTreeMap::new());
    if let Some(built) = BUILT.lock().get(path) {
        return built.clone();
    }
    let built = documents(&kubectl(&root().join("deploy").join(path)));
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
    copy_directory(&root().join("deploy").join(path), &changed);
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
