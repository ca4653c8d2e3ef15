//! A full command line of kube-controller-manager, as it occurs in operators' manifests.

use super::*;

/// A command line of kube-controller-manager with every flag that affects the workload controllers.
const WHOLE: &[&str] = &[
    "--master=https://10.0.0.1:6443",
    "--kube-api-qps=50",
    "--kube-api-burst=100",
    "--kube-api-content-type=application/vnd.kubernetes.protobuf",
    "--use-service-account-credentials=true",
    "--controllers=*,bootstrapsigner,tokencleaner,-node-ipam-controller",
    "--min-resync-period=12h0m0s",
    "--controller-start-interval=100ms",
    "--controller-shutdown-timeout=20s",
    "--feature-gates=PodDeletionCost=false",
    "--emulated-version=1.36",
    "--min-compatibility-version=kube=1.35",
    "--leader-elect=true",
    "--leader-elect-lease-duration=30s",
    "--leader-elect-renew-deadline=20s",
    "--leader-elect-retry-period=4s",
    "--leader-elect-resource-lock=leases",
    "--leader-elect-resource-name=mine",
    "--leader-elect-resource-namespace=there",
    "--enable-leader-migration=false",
    "--leader-migration-config=",
    "--bind-address=127.0.0.1",
    "--secure-port=10257",
    "--cert-dir=/var/run/kubernetes",
    "--tls-cert-file=",
    "--tls-private-key-file=",
    "--tls-min-version=VersionTLS12",
    "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "--tls-curve-preferences=29",
    "--disable-http2-serving=true",
    "--http2-max-streams-per-connection=100",
    "--permit-port-sharing=true",
    "--permit-address-sharing=true",
    "--authentication-kubeconfig=",
    "--authentication-skip-lookup=false",
    "--authentication-tolerate-lookup-failure=true",
    "--authentication-token-webhook-cache-ttl=10s",
    "--client-ca-file=",
    "--requestheader-client-ca-file=",
    "--requestheader-allowed-names=front-proxy-client",
    "--requestheader-username-headers=x-remote-user",
    "--requestheader-group-headers=x-remote-group",
    "--requestheader-extra-headers-prefix=x-remote-extra-",
    "--requestheader-uid-headers=x-remote-uid",
    "--authorization-kubeconfig=",
    "--authorization-always-allow-paths=/healthz,/readyz",
    "--authorization-webhook-cache-authorized-ttl=10s",
    "--authorization-webhook-cache-unauthorized-ttl=10s",
    "--profiling=false",
    "--contention-profiling=false",
    "--logging-format=text",
    "-v=2",
    "--vmodule=queue*=4",
    "--log-flush-frequency=5s",
    "--log-text-split-stream=false",
    "--log-text-info-buffer-size=0",
    "--log-json-split-stream=false",
    "--log-json-info-buffer-size=64Ki",
    "--show-hidden-metrics-for-version=",
    "--disabled-metrics=rest_client_requests_total",
    "--allow-metric-labels=workqueue_depth,name=replicaset",
    "--allow-metric-labels-manifest=",
    "--concurrent-deployment-syncs=10",
    "--concurrent-replicaset-syncs=10",
    "--concurrent-rc-syncs=10",
    "--concurrent-statefulset-syncs=10",
    "--concurrent-daemonset-syncs=10",
    "--concurrent-job-syncs=10",
    "--concurrent-cron-job-syncs=10",
    "--node-monitor-period=5s",
    "--node-monitor-grace-period=40s",
    "--node-startup-grace-period=1m",
    "--node-eviction-rate=0.2",
    "--secondary-node-eviction-rate=0.02",
    "--unhealthy-zone-threshold=0.6",
    "--large-cluster-size-threshold=60",
    "--concurrent-service-endpoint-syncs=10",
    "--max-endpoints-per-slice=200",
    "--endpointslice-updates-batch-period=1s",
    "--concurrent-endpoint-syncs=10",
    "--endpoint-updates-batch-period=1s",
    "--mirroring-concurrent-service-endpoint-syncs=10",
    "--mirroring-max-endpoints-per-subset=500",
    "--mirroring-endpointslice-updates-batch-period=1s",
    "--concurrent-gc-syncs=30",
    "--concurrent-namespace-syncs=20",
    "--namespace-sync-period=10m",
    "--concurrent-resource-quota-syncs=10",
    "--resource-quota-sync-period=10m",
    "--concurrent-ephemeralvolume-syncs=10",
    "--enable-garbage-collector=true",
    "--concurrent-ttl-after-finished-syncs=10",
    "--terminated-pod-gc-threshold=1000",
];

/// COMMON-85, COMMON-86.
#[test]
fn a_full_upstream_command_line_is_accepted_with_hyphens_and_with_underscores() {
    let options = run(WHOLE);
    assert_eq!(names(&options), ["replicaset-controller", "replicationcontroller-controller"]);
    assert_eq!(options.settings.worker_count(&WORKERS), 10);
    assert!(!options.settings.is_feature_gate_on(&GATE));

    let underscored: Vec<String> = WHOLE
        .iter()
        .map(|flag| match flag.strip_prefix("--").map(|flag| flag.split_once('=').unwrap()) {
            Some((name, value)) => format!("--{}={value}", name.replace('-', "_")),
            None => (*flag).to_owned(),
        })
        .collect();
    let underscored: Vec<&str> = underscored.iter().map(String::as_str).collect();
    assert_eq!(run(&underscored).settings.worker_count(&WORKERS), 10);

    // Under another name, each flag in `WHOLE` is an error, so the parser does not simply accept every flag.
    for flag in WHOLE.iter().filter_map(|flag| flag.strip_prefix("--")) {
        let unknown = format!("--x-{flag}");
        assert!(read(&[&unknown]).is_err(), "{unknown}");
    }
}
