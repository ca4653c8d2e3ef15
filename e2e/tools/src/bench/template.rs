//! A Pod template as in real clusters: two containers with the usual fields.

use serde_json::{Value, json};

/// The container whose image is updated.
const MAIN: &str = "app";

/// The template; its Pods are labelled `app=<app>`.
pub(super) fn pod(app: &str) -> Value {
    json!({
        "metadata": {
            "labels": {"app": app},
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                "checksum/config": "5f2b7c4e0f6c1d7a8e9b3c5d7f1a2b4c6d8e0f1a3b5c7d9e1f2a4b6c8d0e2f4a",
            },
        },
        "spec": {
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 1000},
            "volumes": [
                {"name": "config", "configMap": {"name": "app-config"}},
                {"name": "scratch", "emptyDir": {}},
            ],
            "containers": [
                {
                    "name": MAIN,
                    "image": "registry.example.com/team/app:1.0.0",
                    "args": ["--listen=:8080", "--config=/etc/app/config.yaml", "--log-level=info"],
                    "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
                    "env": [
                        {"name": "REGION", "value": "eu-central-1"},
                        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "app", "key": "password"}}},
                    ],
                    "resources": {
                        "requests": {"cpu": "10m", "memory": "16Mi"},
                        "limits": {"memory": "256Mi"},
                    },
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
                    "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}, "initialDelaySeconds": 10},
                    "volumeMounts": [
                        {"name": "config", "mountPath": "/etc/app", "readOnly": true},
                        {"name": "scratch", "mountPath": "/tmp"},
                    ],
                    "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true},
                },
                {
                    "name": "sidecar",
                    "image": "registry.example.com/platform/proxy:2.4.1",
                    "args": ["--upstream=127.0.0.1:8080"],
                    "ports": [{"name": "proxy", "containerPort": 15001}],
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": false},
                },
            ],
        },
    })
}

/// The strategic merge patch that replaces all Pods.
pub(super) fn updated() -> Value {
    json!({"name": MAIN, "image": "registry.example.com/team/app:1.0.1"})
}
