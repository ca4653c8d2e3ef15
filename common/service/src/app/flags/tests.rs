use super::*;
use rustls::{CipherSuite, NamedGroup};

use crate::{
    runtime::{LoopContext, RunningLoop},
    server::{CertificateFiles, CertificateSource},
    settings::{FeatureGate, MIN_RESYNC_PERIOD, Tunable, WATCH_LIST_CLIENT, WorkersFlag},
};
use std::sync::Arc;

mod whole;

const GATE: FeatureGate =
    FeatureGate { name: "PodDeletionCost", is_on_by_default: true, is_locked: false, help: "Costs" };
const LOCKED: FeatureGate =
    FeatureGate { name: "LogarithmicScaleDown", is_on_by_default: true, is_locked: true, help: "Ranks" };
const TUNE: Tunable = Tunable { name: "burst-replicas", default_value: TunableValue::Count(500), help: "Most Pods" };
const TIMEOUT: Tunable = Tunable {
    name: "expectations-timeout",
    default_value: TunableValue::Duration(Duration::from_mins(5)),
    help: "Patience",
};
const PERIOD: Tunable = Tunable {
    name: "node-monitor-period",
    default_value: TunableValue::Duration(Duration::from_secs(5)),
    help: "Period",
};
const TEN: Duration = Duration::from_secs(10);
const SWITCH: Tunable =
    Tunable { name: "enable-garbage-collector", default_value: TunableValue::Switch(true), help: "Whether to collect" };
const WORKERS: WorkersFlag =
    WorkersFlag { name: "concurrent-replicaset-syncs", default_worker_count: 5, min_worker_count: 1, help: "Workers" };

fn never(_: LoopContext) -> Arc<dyn RunningLoop> {
    unreachable!("nothing is started")
}

const fn a_loop(name: &'static str, alias: &'static str) -> LoopDefinition {
    LoopDefinition { name, alias, user_agent_suffix: name, event_component: name, owned_writes: &[], start_loop: never }
}

const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "replicaset-controller",
    version: "1.2.3-rc.1",
    about: "Keeps as many Pods as ReplicaSets want.",
    loops: &[
        a_loop("replicaset-controller", "replicaset"),
        a_loop("replicationcontroller-controller", "replicationcontroller"),
    ],
    workers_flags: &[WORKERS],
    feature_gates: &[GATE, LOCKED],
    tunables: &[TUNE, TIMEOUT],
    single_value_flags: &[PERIOD, SWITCH],
};

fn read(arguments: &[&str]) -> Result<ParsedCommandLine, String> {
    let arguments = std::iter::once("replicaset-controller").chain(arguments.iter().copied()).map(str::to_owned);
    parse_command_line(&DEFINITION, arguments, || "me".to_owned())
}

fn run(arguments: &[&str]) -> ProgramOptions {
    match read(arguments) {
        Ok(ParsedCommandLine::Run(options)) => *options,
        Ok(ParsedCommandLine::Print(text)) => panic!("{arguments:?} prints {text}"),
        Err(error) => panic!("{arguments:?}: {error}"),
    }
}

#[test]
fn shares_are_between_0_and_1() {
    const SHARE: Tunable =
        Tunable { name: "node-taint-max-share", default_value: TunableValue::Ratio(0.0), help: "Share" };
    const SHARES: ProgramDefinition = ProgramDefinition { single_value_flags: &[SHARE], ..DEFINITION };
    let share = |text: &str| {
        let arguments = ["node-lifecycle-controller".to_owned(), format!("--{}={text}", SHARE.name)];
        match parse_command_line(&SHARES, arguments, || "me".to_owned()) {
            Ok(ParsedCommandLine::Run(options)) => Ok(options.settings.tuned_ratio(&SHARE).to_string()),
            Ok(ParsedCommandLine::Print(text)) => panic!("{text}"),
            Err(error) => Err(error),
        }
    };
    for text in ["0", "0.55", "1"] {
        assert_eq!(share(text), Ok(text.to_owned()));
    }
    for text in ["20", "1.01", "-0.1", "NaN", "inf", "-inf"] {
        assert_eq!(share(text), Err(format!("--node-taint-max-share must be between 0 and 1, but is {text}")));
    }
}

fn names(options: &ProgramOptions) -> Vec<&'static str> {
    options.loops.iter().map(|l| l.name).collect()
}

#[test]
fn boolean_flags_of_a_controller_have_gos_syntax() {
    for (arguments, on) in [
        (&[][..], true),
        (&["--enable-garbage-collector"], true),
        (&["--enable-garbage-collector=false"], false),
        (&["--enable-garbage-collector=0"], false),
    ] {
        assert_eq!(run(arguments).settings.is_tunable_on(&SWITCH), on, "{arguments:?}");
    }
    let error = read(&["--enable-garbage-collector=maybe"]).err().unwrap();
    assert!(error.contains("--enable-garbage-collector") && error.contains("maybe"), "{error}");
}

/// COMMON-13, COMMON-41, COMMON-85, COMMON-93, COMMON-96, COMMON-100.
#[test]
fn defaults_match_upstream() {
    let o = run(&[]);
    assert_eq!(names(&o), ["replicaset-controller", "replicationcontroller-controller"]);
    let election = o.election_settings.unwrap();
    assert_eq!(
        (&*election.namespace, &*election.name, &*election.identity),
        ("kube-system", "replicaset-controller", "me")
    );
    assert_eq!(
        (election.lease_duration, election.renew_deadline, election.retry_period),
        (Duration::from_secs(15), Duration::from_secs(10), Duration::from_secs(2))
    );
    assert_eq!(election.probation, None);
    assert_eq!(o.server_settings.secure_address, Some("0.0.0.0:10257".parse().unwrap()));
    assert_eq!(o.server_settings.debug_address, None);
    assert_eq!(o.review_options.always_allowed_paths, ["/healthz", "/readyz", "/livez"]);
    assert_eq!(
        (
            o.review_options.token_cache_ttl,
            o.review_options.granted_permission_cache_ttl,
            o.review_options.denied_permission_cache_ttl
        ),
        (TEN, TEN, TEN)
    );
    assert_eq!(
        (o.server_settings.tls.default_certificate, o.server_settings.max_streams_per_connection),
        (CertificateSource::InMemory, None)
    );
    assert!(o.command_line_warnings.is_empty());
    assert_eq!(o.qps_and_burst_per_loop, None);
    assert_eq!(o.settings.worker_count(&WORKERS), 5);
    assert!(o.settings.is_feature_gate_on(&GATE));
    assert_eq!(o.settings.tuned_count(&TUNE), 500);
    assert_eq!(o.settings.tuned_duration(&PERIOD), Duration::from_secs(5));
    assert_eq!(o.settings.tuned_duration(&MIN_RESYNC_PERIOD), Duration::from_hours(12));
    assert_eq!(o.shutdown_timeout, Duration::from_secs(10));
    assert!(o.is_standby_warm && !o.settings.is_shadow() && !o.allows_unauthenticated_access);
    assert_eq!((o.worker_threads, o.log_settings.verbosity, o.log_settings.format), (1, 0, logging::LogFormat::Text));
    assert!(o.api_server_options.kubeconfig.is_none() && o.api_server_options.master.is_none());
}

/// COMMON-85.
#[test]
fn flags_override_defaults() {
    let o = run(&[
        "--kubeconfig=/k",
        "--master",
        "https://h",
        "--kube_api_qps=20.5",
        "--kube-api-burst=7",
        "--concurrent_replicaset_syncs=9",
        "--leader-elect-lease-duration=1m",
        "--leader-elect-resource-namespace=other",
        "--bind-address=::1",
        "--secure-port=8443",
        "--debug-address=127.0.0.1:0",
        "--feature-gates=PodDeletionCost=false",
        "--tune=burst-replicas=3,expectations-timeout=1m30s",
        "--node-monitor-period=2s",
        "--insecure-debug",
        "--standby-warm=false",
        "--probation=90s",
        "--threads=2",
        "-v=4",
        "--vmodule=store=6",
        "--logging-format=json",
        "--profiling=false",
    ]);
    assert_eq!(o.api_server_options.kubeconfig.unwrap().to_str(), Some("/k"));
    assert_eq!(o.api_server_options.master.as_deref(), Some("https://h"));
    assert_eq!(o.qps_and_burst_per_loop, Some((20.5, 7)));
    assert_eq!(o.settings.worker_count(&WORKERS), 9);
    let election = o.election_settings.unwrap();
    assert_eq!((election.lease_duration, &*election.namespace), (Duration::from_mins(1), "other"));
    let probation = election.probation.unwrap();
    let commit = crate::version::KUBERNETES_VERSION.commit;
    assert_eq!(
        (probation.probation_time, probation.version),
        (Duration::from_secs(90), format!("1.2.3-rc.1+{commit}"))
    );
    assert_eq!(o.server_settings.secure_address, Some("[::1]:8443".parse().unwrap()));
    assert_eq!(o.server_settings.debug_address, Some("127.0.0.1:0".parse().unwrap()));
    assert!(!o.settings.is_feature_gate_on(&GATE));
    assert_eq!((o.settings.tuned_count(&TUNE), o.settings.tuned_duration(&TIMEOUT)), (3, Duration::from_secs(90)));
    assert_eq!(o.settings.tuned_duration(&PERIOD), Duration::from_secs(2));
    assert!(o.allows_unauthenticated_access && !o.is_standby_warm);
    assert_eq!((o.worker_threads, o.log_settings.verbosity, o.log_settings.format), (2, 4, logging::LogFormat::Json));
    assert_eq!(o.log_settings.module_verbosities, [("store".to_owned(), 6)]);
    assert!(o.all_flag_values.contains(&("kube-api-qps".to_owned(), "20.5".to_owned())));
}

#[test]
fn verbosity_is_read_in_every_usual_form() {
    for arguments in [&["-v=3"][..], &["-v", "3"], &["-v3"], &["--v=3"], &["--v", "3"]] {
        assert_eq!(run(arguments).log_settings.verbosity, 3, "{arguments:?}");
    }
}

#[test]
fn boolean_flags_need_no_value() {
    assert!(run(&["--leader-elect=false"]).election_settings.is_none());
    assert!(run(&["--leader-elect=F"]).election_settings.is_none());
    assert!(run(&["--leader-elect"]).election_settings.is_some());
    let shadow = run(&["--shadow"]);
    assert!(shadow.settings.is_shadow() && shadow.election_settings.is_none());
    assert!(run(&["--secure-port=0"]).server_settings.secure_address.is_none());
}

/// COMMON-87.
#[test]
fn the_first_entry_that_names_a_controller_decides() {
    let chosen = |list: &str| names(&run(&[&format!("--controllers={list}")]));
    assert_eq!(chosen("*,-replicaset-controller"), ["replicationcontroller-controller"]);
    assert_eq!(chosen("replicaset"), ["replicaset-controller"]);
    assert_eq!(chosen("-replicaset,*,replicaset"), ["replicationcontroller-controller"]);
    assert_eq!(chosen("*,-job,-garbagecollector").len(), 2, "names of other services are no error");
}

/// COMMON-93.
#[test]
fn a_rate_of_zero_or_less_sets_no_limit() {
    assert_eq!(run(&["--kube-api-qps=-1"]).qps_and_burst_per_loop, None);
    assert_eq!(run(&["--kube-api-qps=0", "--kube-api-burst=-3"]).qps_and_burst_per_loop, None);
    assert_eq!(run(&["--kube-api-qps=50"]).qps_and_burst_per_loop, Some((50.0, 30)));
}

/// COMMON-88.
#[test]
fn an_unknown_gate_is_ignored_with_a_warning() {
    let o = run(&["--feature-gates=Newfangled=true,PodDeletionCost=false,LogarithmicScaleDown=true"]);
    assert_eq!(o.command_line_warnings, ["feature gate Newfangled is not known to this program and has no effect"]);
    assert!(!o.settings.is_feature_gate_on(&GATE));
    let o = run(&["--feature-gates=AllBeta=false"]);
    assert!(!o.settings.is_feature_gate_on(&GATE) && o.settings.is_feature_gate_on(&LOCKED));
    assert!(run(&["--feature-gates=AllBeta=false,PodDeletionCost=true"]).settings.is_feature_gate_on(&GATE));
    assert!(run(&["--feature-gates=AllAlpha=true"]).command_line_warnings.is_empty());
}

/// COMMON-88.
#[test]
fn gates_of_the_common_code_can_be_switched_or_are_fixed() {
    assert!(run(&[]).settings.is_feature_gate_on(&WATCH_LIST_CLIENT));
    assert!(!run(&["--feature-gates=WatchListClient=false"]).settings.is_feature_gate_on(&WATCH_LIST_CLIENT));
    assert!(!run(&["--feature-gates=AllBeta=false"]).settings.is_feature_gate_on(&WATCH_LIST_CLIENT));
    let gates = "ControllerManagerReleaseLeaderElectionLockOnExit=true,CoordinatedLeaderElection=false,AtomicFIFO=true";
    assert!(run(&[&format!("--feature-gates={gates}")]).command_line_warnings.is_empty());
    let o = run(&["--feature-gates=CoordinatedLeaderElection=true,InOrderInformers=false"]);
    assert_eq!(
        o.command_line_warnings,
        [
            "feature gate CoordinatedLeaderElection is always false here",
            "feature gate InOrderInformers is always true here"
        ]
    );
}

/// COMMON-88.
#[test]
fn a_gate_needs_the_gate_that_it_depends_on() {
    let gate = |name| FeatureGate { name, is_on_by_default: false, is_locked: false, help: "" };
    let known = [gate("WorkloadWithJob"), gate("GenericWorkload")];
    let read = |list: &str| {
        super::super::values::parse_feature_gates(&known, &[list.to_owned()], OperatorSettings::new(), &mut Vec::new())
            .map(|s| s.is_feature_gate_on(&known[0]))
    };
    assert_eq!(read("WorkloadWithJob=true,GenericWorkload=true"), Ok(true));
    assert_eq!(read("GenericWorkload=true"), Ok(false));
    assert_eq!(read("AllAlpha=true"), Ok(true));
    let error = "WorkloadWithJob is enabled, but depends on features that are disabled: [GenericWorkload]";
    for without in ["WorkloadWithJob=true", "AllAlpha=true,GenericWorkload=false"] {
        assert_eq!(read(without), Err(error.to_owned()));
    }
}

#[test]
fn flags_configure_tls() {
    let o = run(&[
        "--tls-cert-file=/c",
        "--tls-private-key-file=/k",
        "--cert-dir=/ignored",
        "--tls-sni-cert-key=/c1,/k1:*.example.com,example.com",
        "--tls-sni-cert-key=/c2,/k2",
        "--client-ca-file=/ca",
        "--tls-min-version=VersionTLS13",
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256",
        "--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "--tls-curve-preferences=24,25,29",
        "--disable-http2-serving",
        "--http2-max-streams-per-connection=99",
        "--permit-port-sharing",
        "--authentication-kubeconfig=/n",
        "--authorization-kubeconfig=",
        "--authentication-token-webhook-cache-ttl=1s",
        "--authorization-webhook-cache-authorized-ttl=2s",
        "--authorization-webhook-cache-unauthorized-ttl=0",
    ]);
    let pair = |certificate: &str, key: &str| CertificateFiles { certificate: certificate.into(), key: key.into() };
    let tls = &o.server_settings.tls;
    assert_eq!(tls.default_certificate, CertificateSource::Files(pair("/c", "/k")));
    let names = vec!["*.example.com".to_owned(), "example.com".to_owned()];
    assert_eq!(tls.named_certificates, [(pair("/c1", "/k1"), names), (pair("/c2", "/k2"), Vec::new())]);
    assert_eq!(tls.client_ca_file.as_deref(), Some("/ca".as_ref()));
    assert!(tls.is_tls13_only && tls.is_http1_only && o.server_settings.is_port_shared);
    let suites =
        [CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256];
    assert_eq!(tls.cipher_suites.as_deref(), Some(&suites[..]));
    assert_eq!(tls.key_exchange_groups.as_deref(), Some(&[NamedGroup::secp384r1, NamedGroup::X25519][..]));
    assert_eq!(o.server_settings.max_streams_per_connection, Some(99));
    assert_eq!((o.authentication_kubeconfig.as_deref(), o.authorization_kubeconfig), (Some("/n".as_ref()), None));
    let second = Duration::from_secs(1);
    assert_eq!(
        (
            o.review_options.token_cache_ttl,
            o.review_options.granted_permission_cache_ttl,
            o.review_options.denied_permission_cache_ttl
        ),
        (second, second * 2, Duration::ZERO)
    );
    assert_eq!(o.command_line_warnings, ["--tls-cipher-suites: TLS_RSA_WITH_AES_128_CBC_SHA cannot be served"]);

    let o = run(&["--cert-dir=/d", "--tls-min-version=VersionTLS10"]);
    let own = pair("/d/replicaset-controller.crt", "/d/replicaset-controller.key");
    assert_eq!(o.server_settings.tls.default_certificate, CertificateSource::CreatedIfMissing(own));
    assert_eq!(
        o.command_line_warnings,
        ["--tls-min-version=VersionTLS10: the oldest version that is served is VersionTLS12"]
    );
}

/// COMMON-83.
#[test]
fn flags_limit_metrics_and_labels() {
    let o = run(&[
        "--disabled-metrics=a_total,b",
        "--disabled-metrics=c",
        "--allow-metric-labels=a_total,code='200,404'",
        "--allow-metric-labels=\"b,code=200\",\"b,verb=GET,PUT\"",
        "--allow-metric-labels-manifest=/m",
    ]);
    let pairs = [("a_total,code", "200,404"), ("b,code", "200"), ("b,verb", "GET,PUT")];
    let names = ["a_total", "b", "c"].map(str::to_owned);
    assert_eq!(
        Ok(o.metric_limits),
        MetricLimits::default().with_disabled_metrics(names).with_allowed_value_flags(pairs)
    );
    assert_eq!(o.allow_metric_labels_manifest.as_deref(), Some("/m".as_ref()));
}

/// COMMON-8.
#[test]
fn lists_and_watches_use_protobuf_unless_json_is_set() {
    assert_eq!(run(&[]).preferred_response_format, WireFormat::Protobuf);
    assert_eq!(
        run(&["--kube-api-content-type=application/vnd.kubernetes.protobuf"]).preferred_response_format,
        WireFormat::Protobuf
    );
    assert_eq!(run(&["--kube-api-content-type=application/json"]).preferred_response_format, WireFormat::Json);
}

/// COMMON-86.
#[test]
fn flags_without_effect_are_accepted_with_one_warning() {
    assert!(run(&["--profiling", "--use-service-account-credentials=false"]).command_line_warnings.is_empty());
    let o = run(&["--contention-profiling"]);
    assert_eq!(o.command_line_warnings, ["flag --contention-profiling has no effect here"]);
    let o = run(&[
        "--use-service-account-credentials",
        "--emulated-version=kube=1.35,1.34",
        "--requestheader-allowed-names=a,b",
        "--show-hidden-metrics-for-version=1.35",
        "--log_text_info_buffer_size=64Ki",
        "--concurrent-replicaset-syncs=9",
        "--concurrent-job-syncs=-3",
        "--node-eviction-rate=.5",
        "--node-monitor-period=1s",
    ]);
    assert_eq!(
        o.command_line_warnings,
        ["flags --use-service-account-credentials, --emulated-version, \
          --requestheader-allowed-names, --log-text-info-buffer-size, --show-hidden-metrics-for-version, \
          --concurrent-job-syncs, --node-eviction-rate have no effect here"]
    );
    assert_eq!(o.settings.worker_count(&WORKERS), 9, "a flag of the program itself is read as usual");
    assert_eq!(o.settings.tuned_duration(&PERIOD), Duration::from_secs(1));
}

/// COMMON-51, COMMON-68, COMMON-88, COMMON-89.
#[test]
fn errors_are_one_clear_line() {
    for (arguments, expected) in [
        (&["--kubeconfg=/x"][..], "unexpected argument '--kubeconfg' found; a similar argument exists: '--kubeconfig'"),
        (&["extra"], "unexpected argument 'extra' found"),
        (&["--secure-port=http"], "invalid value 'http' for '--secure-port <PORT>'"),
        (&["--secure-port=70000"], "70000"),
        (&["--leader-elect=maybe"], "\"maybe\" is neither true nor false"),
        (&["--leader-elect-lease-duration=15"], "\"15\" is not a duration such as 30s"),
        (&["--leader-elect-lease-duration=5s"], "lease duration (5s) must be greater than renew deadline (10s)"),
        (
            &["--leader-elect-lease-duration=10.9s", "--leader-elect-renew-deadline=10.5s"],
            "which the lease states in whole seconds, must be greater than renew deadline (10.5s)",
        ),
        (
            &["--leader-elect-retry-period=9s"],
            "renew deadline (10s) must be greater than 1.2 times the retry period (9s)",
        ),
        (&["--leader-elect-resource-lock=endpoints"], "must be \"leases\", but is \"endpoints\""),
        (&["--leader-elect-resource-name=kube-controller-manager"], "is the Lease of the built-in controllers"),
        (&["--leader-elect-resource-name=a/b"], "\"a/b\" is not a valid name"),
        (&["--controllers=*,-nonsense"], "\"nonsense\" is not in the list of known controllers"),
        (&["--controllers=job"], "--controllers switches on none of this program's controllers"),
        (&["--concurrent-replicaset-syncs=0"], "concurrent-replicaset-syncs must be greater than 0, but got 0"),
        (&["--concurrent-replicaset-syncs=-1"], "concurrent-replicaset-syncs must be greater than 0, but got -1"),
        (&["--feature-gates=PodDeletionCost"], "\"PodDeletionCost\" is not of the form name=value"),
        (&["--feature-gates=PodDeletionCost=on"], "PodDeletionCost: \"on\" is neither true nor false"),
        (&["--feature-gates=LogarithmicScaleDown=false"], "cannot set feature gate LogarithmicScaleDown to false"),
        (&["--tune=bursts=1"], "\"bursts\" is not known; known are: burst-replicas, expectations-timeout"),
        (&["--tune=burst-replicas=many"], "burst-replicas: \"many\" is not a whole number"),
        (&["--tune=expectations-timeout=5"], "\"5\" is not a duration"),
        (&["--node-monitor-period=x"], "--node-monitor-period: \"x\" is not a duration"),
        (&["--kube-api-qps=1", "--kube-api-burst=0"], "--kube-api-burst must be greater than 0"),
        (&["--kube-api-qps=NaN"], "--kube-api-qps must be a number"),
        (&["--tls-cert-file=/c"], "--tls-cert-file and --tls-private-key-file must be set together"),
        (&["--tls-cert-file=/c", "--cert-dir=/d"], "--tls-cert-file and --tls-private-key-file must be set together"),
        (&["--tls-sni-cert-key=/c"], "\"/c\" is not of the form certificate,key[:name,...]"),
        (&["--tls-sni-cert-key=/c,/k:"], "is not of the form certificate,key[:name,...]"),
        (&["--tls-min-version=1.3"], "invalid value '1.3' for '--tls-min-version <VERSION>'"),
        (&["--tls-cipher-suites=TLS_ROT13"], "\"TLS_ROT13\" is not known; known are: TLS_ECDHE_"),
        (&["--tls-curve-preferences=P256"], "invalid value 'P256'"),
        (&["--tls-curve-preferences=1"], "none of these groups can be served; known are: 29, 23, 24"),
        (&["--http2-max-streams-per-connection=-1"], "-1"),
        (&["--authentication-token-webhook-cache-ttl=10"], "\"10\" is not a duration"),
        (&["--allow-metric-labels=a,b"], "--allow-metric-labels: \"a,b\" is not of the form metric,label=value,..."),
        (&["--allow-metric-labels=a=b"], "--allow-metric-labels: \"a\" is not of the form metric,label"),
        (&["--allow-metric-labels=\"a,b=c\",\"d,e=f"], "lacks a closing quote"),
        (&["--debug-address=0.0.0.0:80"], "0.0.0.0 is not a loopback address"),
        (&["--debug-address=8080"], "is not of the form 127.0.0.1:8080"),
        (&["--logging-format=xml"], "invalid value 'xml'"),
        (&["--vmodule=store"], "\"store\" is not of the form file=N"),
        (&["-v=loud"], "invalid value 'loud'"),
        (&["--threads=0"], "0"),
        (&["--use-service-account-credentials=perhaps"], "\"perhaps\" is neither true nor false"),
        (&["--emulated-version=kube=new"], "\"kube=new\" is not a version such as 1.35"),
        (&["--show-hidden-metrics-for-version=1.20"], "only the previous minor version, 1.35, is allowed"),
        (&["--log-json-info-buffer-size=big"], "\"big\" is not a size such as 64Ki"),
        (&["--concurrent-job-syncs=many"], "invalid value 'many' for '--concurrent-job-syncs"),
        (&["--node-eviction-rate=often"], "invalid value 'often' for '--node-eviction-rate"),
        (&["--node-monitor-grace-period=50"], "\"50\" is not a duration"),
    ] {
        let Err(error) = read(arguments) else { panic!("{arguments:?} passes") };
        assert!(error.contains(expected), "{arguments:?}: {error:?} lacks {expected:?}");
        assert!(!error.contains('\n') && !error.contains("Usage") && !error.starts_with("error"), "{error:?}");
    }
}

/// COMMON-89.
#[test]
fn help_lists_gates_and_tuned_values_and_no_hidden_flags() {
    for argument in ["--help", "-h"] {
        let Ok(ParsedCommandLine::Print(text)) = read(&[argument]) else { panic!("{argument} prints") };
        for part in [
            "Keeps as many Pods",
            "Leader election:",
            "--leader-elect-lease-duration <DURATION>",
            "[default: 15s]",
            "PodDeletionCost",
            "[default: true]",
            "LogarithmicScaleDown",
            "[locked: true]",
            "burst-replicas",
            "[default: 5m0s]",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(!text.contains("profiling"), "{text}");
    }
    let Ok(ParsedCommandLine::Print(text)) = read(&["--version"]) else { panic!("--version prints") };
    let commit = crate::version::KUBERNETES_VERSION.commit;
    assert_eq!(text, format!("replicaset-controller 1.2.3-rc.1 (Kubernetes v1.36.2, commit {commit})\n"));
}
