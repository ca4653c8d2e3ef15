//! The rights of the controllers, from the manifests in `deploy/`.

use std::{fs, path::Path, time::Duration};

use common::clock::Clock;
use serde_json::{Value, json};

use crate::scene::{Client, Refused};

/// The namespace in which the overlays of `deploy/` install the controllers.
pub const NAMESPACE: &str = "kube-system";
const CONTROLLERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/controllers");
const FILES: [&str; 2] = ["serviceaccount.yaml", "rbac.yaml"];
/// The time limit for a server to grant the rights of new roles, and the period of the checks.
const GRANTED: [Duration; 2] = [Duration::from_secs(30), Duration::from_millis(20)];

/// The reason why rights cannot be granted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A manifest cannot be read.
    #[error("cannot read {0}: {1}")]
    File(String, std::io::Error),
    /// A manifest is not valid YAML.
    #[error("cannot read {0}: {1}")]
    Yaml(String, String),
    /// The API server refuses a role or a binding.
    #[error("cannot apply {0}: {1}")]
    Refused(String, Box<Refused>),
    /// The API server has stored the roles, and does not grant their rights in time.
    #[error("{0} is not granted: {1}")]
    NotGranted(String, Value),
}

/// The user name of a controller that runs with the manifests of `deploy/`.
pub fn identity(name: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:nonet-{name}")
}

/// The user that gets rights, and the namespace of its Lease.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    /// The user; the ServiceAccount of the controller if none is named.
    pub user: Option<&'a str>,
    /// The namespace in which the user may hold the Lease of the controller.
    pub lease_namespace: &'a str,
}

impl Default for Holder<'_> {
    fn default() -> Self {
        Self { user: None, lease_namespace: NAMESPACE }
    }
}

/// Grants a user the rights of the manifests of a controller, and waits until they are in effect.
///
/// `client` needs the right to grant them.
pub async fn give(client: &kube::Client, clock: &Clock, controller: &str, holder: Holder<'_>) -> Result<(), Error> {
    let (client, mut rights) = (&Client::new(client.clone()), Vec::new());
    for file in FILES {
        let path = Path::new(CONTROLLERS).join(controller).join(file);
        let shown = path.display().to_string();
        let text = fs::read_to_string(&path).map_err(|e| Error::File(shown.clone(), e))?;
        for object in objects(&text, holder).map_err(|e| Error::Yaml(shown.clone(), e))? {
            apply(client, &object).await.map_err(|e| Error::Refused(shown.clone(), Box::new(e)))?;
            rights.extend(last_right(&object));
        }
    }
    let user = holder.user.map_or_else(|| identity(controller), str::to_owned);
    for right in rights {
        wait_until_granted(client, clock, &user, right).await?;
    }
    Ok(())
}

/// The objects of a file, in the namespace of the overlays, and bound to the holder.
fn objects(text: &str, holder: Holder<'_>) -> Result<Vec<Value>, String> {
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|e| e.to_string().replace('\n', " "))?;
    for object in &mut objects {
        match object["kind"].as_str().unwrap_or_default() {
            "ServiceAccount" => object["metadata"]["namespace"] = NAMESPACE.into(),
            "Role" | "RoleBinding" => object["metadata"]["namespace"] = holder.lease_namespace.into(),
            _ => {}
        }
        let Some(subjects) = object.get_mut("subjects").and_then(Value::as_array_mut) else { continue };
        match holder.user {
            None => {
                for subject in subjects.iter_mut().filter(|subject| subject["kind"] == "ServiceAccount") {
                    subject["namespace"] = NAMESPACE.into();
                }
            }
            Some(user) => {
                *subjects = vec![json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user})];
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                object["metadata"]["name"] = format!("{name}:{user}").into();
            }
        }
    }
    Ok(objects)
}

/// Applies an object, also over an existing one.
async fn apply(client: &Client, object: &Value) -> Result<Value, Refused> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let root = if api.contains('/') { format!("/apis/{api}") } else { format!("/api/{api}") };
    let namespace = object["metadata"]["namespace"].as_str().map(|n| format!("/namespaces/{n}")).unwrap_or_default();
    let (plural, name) = (format!("{}s", kind.to_lowercase()), text(&object["metadata"]["name"]));
    let path = format!("{root}{namespace}/{plural}/{name}?fieldManager=nonet&force=true");
    client.send("PATCH", &path, "application/apply-patch+yaml", Some(object)).await
}

/// The last right of a role, as a review asks for it.
fn last_right(role: &Value) -> Option<Value> {
    let rule = role["rules"].as_array()?.last()?;
    let last = |list: &Value| list.as_array().and_then(|list| list.last()).and_then(Value::as_str).map(str::to_owned);
    let (resource, verb) = (last(&rule["resources"])?, last(&rule["verbs"])?);
    let mut right = json!({"group": last(&rule["apiGroups"])?, "resource": resource, "verb": verb});
    if let Some(name) = last(&rule["resourceNames"]) {
        right["name"] = name.into();
    }
    if let Some(namespace) = role["metadata"]["namespace"].as_str() {
        right["namespace"] = namespace.into();
    }
    Some(right)
}

/// Waits until the server grants a right, because a real server gets new roles through a watch.
async fn wait_until_granted(client: &Client, clock: &Clock, user: &str, right: Value) -> Result<(), Error> {
    const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let [patience, pause] = GRANTED;
    let deadline = clock.monotonic_now() + patience;
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": right}});
    loop {
        let review = client.send("POST", PATH, "application/json", Some(&body)).await;
        let review = review.map_err(|why| Error::Refused(PATH.to_owned(), Box::new(why)))?;
        if review["status"]["allowed"] == true {
            return Ok(());
        }
        if clock.monotonic_now() >= deadline {
            return Err(Error::NotGranted(user.to_owned(), right));
        }
        clock.sleep(pause).await;
    }
}
