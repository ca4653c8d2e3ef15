//! `deploy/chart`: the values of each controller, and the schema of all values.

use std::io;

use serde_json::{Map, Value, json};

use super::{File, MARK, by_port, fill_each};

/// The values and their schema.
pub(super) fn files() -> io::Result<[File; 2]> {
    let values = format!("{VALUES}{}{OTHER_VALUES}", fill_each(VALUES_OF_CONTROLLER, by_port()));
    let mut schema = serde_json::to_string_pretty(&schema())?;
    schema.push('\n');
    Ok([
        File::of_deploy("chart/values.yaml", &values),
        File { path: "deploy/chart/values.schema.json".to_owned(), text: schema },
    ])
}

/// An object with only these properties.
fn object(properties: Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

/// An object with any keys.
fn map(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn of_type(name: &str) -> Value {
    json!({"type": name})
}

fn matching(pattern: &str) -> Value {
    json!({"type": "string", "pattern": pattern})
}

fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

fn defined(name: &str) -> Value {
    json!({"$ref": format!("#/definitions/{name}")})
}

fn schema() -> Value {
    const REPOSITORY: &str = "^[a-z0-9./:_-]*$";
    let boolean = || of_type("boolean");
    let filled = || json!({"type": "string", "minLength": 1});
    let controllers: Map<String, Value> =
        by_port().into_iter().map(|controller| (controller.name.to_owned(), defined("controller"))).collect();
    let mut schema = object(json!({
        "leadAtOnce": boolean(),
        "controllers": object(controllers.into()),
        "image": object(json!({
            "registry": matching(REPOSITORY),
            "tag": defined("tag"),
            "pullPolicy": one_of(&["", "Always", "IfNotPresent", "Never"]),
            "pullSecrets": list(filled()),
        })),
        "ha": boolean(),
        "anyNode": boolean(),
        "probation": matching(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))*$"),
        "flowSchemas": one_of(&["auto", "always", "never"]),
        "gangScheduling": boolean(),
        "monitoring": object(json!({
            "enabled": boolean(), "namespace": filled(), "labels": map(of_type("string")),
        })),
        "debugReader": boolean(),
        "tolerations": list(defined("toleration")),
        "global": {"description": "Helm adds this value if the chart is a subchart.", "type": "object"},
    }));
    schema["$comment"] = format!("{MARK}.").into();
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "Values of the chart nonet".into();
    schema["definitions"] = json!({
        "controller": object(json!({
            "enabled": boolean(),
            "replicas": {"type": ["integer", "null"], "minimum": 0},
            "flags": list(matching("^--[a-z]")),
            "resources": object(json!({"requests": defined("quantities"), "limits": defined("quantities")})),
            "image": object(json!({
                "repository": matching(REPOSITORY),
                "tag": defined("tag"),
                "digest": matching("^(sha256:[0-9a-f]{64}|none)?$"),
            })),
        })),
        "quantities": map(json!({"type": ["string", "integer"]})),
        "tag": matching("^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$"),
        "toleration": object(json!({
            "key": of_type("string"),
            "operator": one_of(&["Exists", "Equal"]),
            "value": of_type("string"),
            "effect": one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
            "tolerationSeconds": of_type("integer"),
        })),
    });
    schema
}

const VALUES: &str = "# The controllers and their settings. A release of this chart uses one namespace, usually kube-system:
#
#   helm install nonet deploy/chart --namespace kube-system
#
# Nonet must never run beside the same loops of kube-controller-manager. docs/operating.md explains the hand-over.

# Lead as soon as the controllers are ready. By default, a controller that finds no Lease creates it held, and waits until an
# operator releases it: `kubectl nonet release`. Set this to true only on a cluster without the built-in loops.
leadAtOnce: false

# One entry for each controller.
#   enabled    whether it runs; false leaves its loops to kube-controller-manager
#   replicas   number of replicas; by default 2 with ha, 1 without ha
#   flags      further arguments, for example [--threads=2, --v=4]
#   resources  requests and limits; by default memory for 20,000 cached Pods as request, for 150,000 as limit
#   image      overrides the global image: repository (with registry), tag, digest. Where images are pinned by digest, a tag
#              without a digest is an error; `digest: none` says that it has none
controllers:
";

const VALUES_OF_CONTROLLER: &str = r#"  NAME:
    enabled: true
    replicas: null
    flags: []
    resources: {}
    image: {repository: "", tag: "", digest: ""}
"#;

const OTHER_VALUES: &str = r#"
# Source of all images. By default, images are as deploy/images/set has set them, and in a release they are pinned by digest. A
# registry or tag that is set here has no digest.
image:
  registry: ""            # for example registry.example/nonet
  tag: ""
  pullPolicy: ""          # empty: Kubernetes' default
  pullSecrets: []         # names of Secrets in the namespace of the release

# Two replicas of each controller, on different nodes. On a cluster with one control-plane node, set this to false, because the
# second replica would stay Pending, and no rollout would complete.
ha: true

# Pods may run on every node and not only on control-plane nodes. The root user of such a node can use their tokens, which are as
# powerful as an administrator's.
anyNode: false

# How long a new version has to lead until it is ready, while the old version stands by. Empty: no probation.
probation: 1m

# FlowSchemas with the priority of kube-system: auto (outside kube-system), always or never.
flowSchemas: auto

# Gang scheduling of Jobs (alpha). It needs feature gates of the API server and the scheduler.
gangScheduling: false

# For clusters with the Prometheus operator: a PodMonitor, alerts, and a dashboard for Grafana's sidecar.
monitoring:
  enabled: false
  # Namespace of Prometheus, from which the NetworkPolicies allow connections.
  namespace: monitoring
  # Labels of PodMonitor and PrometheusRules. kube-prometheus-stack selects by {release: NAME-OF-ITS-RELEASE}.
  labels: {}

# A ServiceAccount that may read /metrics, the reasons in /readyz, and the diagnostics in /debug. Outside kube-system, the names of
# its role and binding end in the namespace, so that several releases do not collide.
debugReader: true

# Additional tolerations of all Pods, for example for a taint of dedicated nodes.
tolerations: []
"#;
