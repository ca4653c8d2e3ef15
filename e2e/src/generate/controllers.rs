//! `deploy/controllers`, `deploy/shadows` and `deploy/static-pods`: the objects of each controller.

use std::io;

use kubectl_nonet::controllers::ALL;

use super::{File, by_port, fill, fill_each, roles};

/// The labels of the objects of a Deployment.
const LABELS: &str = "  labels:
    app.kubernetes.io/name: NAME
    app.kubernetes.io/component: controller
    app.kubernetes.io/part-of: nonet
";

/// The files of a controller, below `deploy/`.
const FILES: [(&str, &str); 11] = [
    (
        "controllers/NAME/serviceaccount.yaml",
        "apiVersion: v1
kind: ServiceAccount
metadata:
  name: nonet-NAME
LABELS",
    ),
    (
        "controllers/NAME/deployment.yaml",
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: nonet-NAME
LABELSspec:
  selector:
    matchLabels:
      app.kubernetes.io/name: NAME
      app.kubernetes.io/component: controller
      app.kubernetes.io/part-of: nonet
  template:
    metadata:
      labels:
        app.kubernetes.io/name: NAME
        app.kubernetes.io/component: controller
        app.kubernetes.io/part-of: nonet
    spec:
      serviceAccountName: nonet-NAME
      containers:
        - name: controller
          image: registry.invalid/nonet/NAME:dev
          resources:
            requests:
              cpu: CPU
              memory: MEMORY
            limits:
              memory: MEMORY_LIMIT
",
    ),
    (
        "controllers/NAME/poddisruptionbudget.yaml",
        "apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: nonet-NAME
LABELSspec:
  maxUnavailable: 1
  # A drain may always evict a replica that is not ready, because that replica could not take over.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app.kubernetes.io/name: NAME
      app.kubernetes.io/component: controller
      app.kubernetes.io/part-of: nonet
",
    ),
    (
        "controllers/NAME/networkpolicy.yaml",
        "# Denies all connections to NAME.
# Policies never block connections from the node of the Pod, such as the kubelet's probes and `kubectl port-forward`.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: nonet-NAME
LABELSspec:
  podSelector:
    matchLabels:
      app.kubernetes.io/name: NAME
      app.kubernetes.io/component: controller
      app.kubernetes.io/part-of: nonet
  policyTypes: [Ingress]
  ingress: []
",
    ),
    (
        "controllers/NAME/rescue/kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - pod.yaml
components:
  - ../../../base/rescue
",
    ),
    (
        "controllers/NAME/rescue/pod.yaml",
        "# A bare Pod of NAME, which needs no other controller. base/rescue adds the settings of all rescue Pods.
apiVersion: v1
kind: Pod
metadata:
  name: nonet-rescue-NAME
  labels:
    app.kubernetes.io/name: NAME
    app.kubernetes.io/component: rescue
    app.kubernetes.io/part-of: nonet
spec:
  serviceAccountName: nonet-NAME
  containers:
    - name: controller
      image: registry.invalid/nonet/NAME:dev
      args:
        - --secure-port=PORT
      ports:
        - name: https
          containerPort: PORT
          hostPort: PORT
      resources:
        requests:
          cpu: CPU
          memory: MEMORY
        limits:
          memory: MEMORY_LIMIT
",
    ),
    (
        "controllers/NAME/absence/kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - rule.yaml
",
    ),
    (
        "controllers/NAME/absence/rule.yaml",
        r#"# Alert for the absence of NAME. Use this directory only in overlays with a replica to scrape.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: nonet-NAME-absence
LABELSspec:
  groups:
    - name: nonet-NAME-absence
      rules:
        - alert: NonetControllerIsAbsent
          expr: "absent(leader_election_master_status{name=\"NAME\"} and on (cluster, namespace, job, instance) nonet_build_info)"
          for: 10m
          labels: {severity: critical, name: NAME}
          annotations:
            summary: "NAME is absent"
            description: "Prometheus scrapes no replica. Shadows do not count, since they take part in no election."
            runbook_url: "https://nonet.invalid/docs/troubleshooting.md#nonetcontrollerisabsent"
"#,
    ),
    (
        "shadows/NAME/kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - ../../controllers/NAME
components:
  - ../base
patches:
  - path: clusterrole.yaml
",
    ),
    (
        "static-pods/NAME.yaml",
        "apiVersion: v1
kind: Pod
metadata:
  name: nonet-NAME
  labels:
    app.kubernetes.io/name: NAME
    app.kubernetes.io/component: static-pod
    app.kubernetes.io/part-of: nonet
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: controller
      image: registry.invalid/nonet/NAME:dev
      args:
        - --v=2
        - --kubeconfig=/etc/kubernetes/nonet/NAME/kubeconfig
        - --probation=1m
        - --bind-address=127.0.0.1
        - --secure-port=PORT
      ports:
        - name: https
          containerPort: PORT
          hostPort: PORT
      livenessProbe:
        httpGet: {host: 127.0.0.1, path: /livez, port: https, scheme: HTTPS}
        initialDelaySeconds: 10
        periodSeconds: 10
        timeoutSeconds: 15
        failureThreshold: 8
      readinessProbe:
        httpGet: {host: 127.0.0.1, path: /readyz, port: https, scheme: HTTPS}
        periodSeconds: 2
      resources:
        requests:
          cpu: CPU
          memory: MEMORY
        limits:
          memory: MEMORY_LIMIT
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: kubeconfig
          mountPath: /etc/kubernetes/nonet/NAME
          readOnly: true
  volumes:
    - name: kubeconfig
      hostPath:
        # A directory and not a file, so that the Pod sees a kubeconfig that replaces the old one.
        path: /etc/kubernetes/nonet/NAME
        type: Directory
",
    ),
    (
        "controllers/NAME/kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - serviceaccount.yaml
  - rbac.yaml
  - deployment.yaml
  - poddisruptionbudget.yaml
  - networkpolicy.yaml
components:
  - ../../base
",
    ),
];

/// The component in the kustomization of a controller that runs on nodes that are not ready.
const UNREADY_NODES: &str = "  - ../../base/unready-nodes\n";

/// All files, in the order of the table.
pub(super) fn files() -> io::Result<Vec<File>> {
    let mut files = vec![
        File::of_deploy(
            "static-pods/kustomization.yaml",
            &format!("{STATIC_PODS}{}{IMAGES}", fill_each("  - NAME.yaml\n", by_port())),
        ),
        File::of_deploy("static-pods/scrape.yaml", &format!("{SCRAPE}{}", fill_each(TARGET, by_port()))),
    ];
    for controller in ALL {
        for (path, template) in FILES {
            let mut text = fill(&template.replace("LABELS", LABELS), controller);
            if path == "controllers/NAME/kustomization.yaml" && controller.tolerates_unready_nodes {
                text.push_str(UNREADY_NODES);
            }
            files.push(File::of_deploy(&fill(path, controller), &text));
        }
        files.extend(roles::files(controller)?);
    }
    Ok(files)
}

const STATIC_PODS: &str = "# One manifest for each controller, for the directory from which the kubelets of control-plane nodes read static Pods:
#   kubectl kustomize deploy/static-pods -o DIRECTORY
# Do not apply them. The kubelet starts them from these files without any controller, and their kubeconfigs are files on the node.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: kube-system
resources:
";

const IMAGES: &str = "components:
  - ../components/images
";

const SCRAPE: &str = "# Scrape configuration for an agent that runs on a control-plane node in the host network, and reads files in this format
# (Prometheus: scrape_config_files). The labels match the alerts and the dashboard of components/monitoring.
scrape_configs:
  - job_name: nonet-static-pods
    scheme: https
    # Certificates are self-signed, so the token may only read /metrics.
    tls_config: {insecure_skip_verify: true}
    authorization: {credentials_file: /etc/prometheus/nonet-metrics-reader}
    # All nodes have the same addresses, so replace NODE by the name of this node.
    relabel_configs:
      - {target_label: instance, replacement: NODE}
    static_configs:
";

const TARGET: &str = r#"      - {targets: ["127.0.0.1:PORT"], labels: {namespace: kube-system, job: NAME}}
"#;
