//! The Helm chart in `deploy/chart` renders what the overlays render.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use e2e::skips;
use serde_json::{Value, json};

use super::{
    deploy,
    images::{run, run_if_there},
    kustomize::{self, Rendered, documents, needs_kubectl, this_test},
    names, text, yaml,
};
use crate::{
    docs::{markdown, prose},
    repository::{copy_directory, empty_directory},
};

/// Labels that Helm's objects have in addition to those of the overlays.
const OF_HELM: [&str; 4] =
    ["app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"];

/// Runs helm with the chart. None if helm is not installed.
fn helm(command: &[&str], namespace: &str, set: &[&str]) -> Option<Result<String, String>> {
    helm_with(&deploy("chart"), command, namespace, set)
}

/// Runs helm with a chart. None if helm is not installed.
fn helm_with(chart: &Path, command: &[&str], namespace: &str, set: &[&str]) -> Option<Result<String, String>> {
    let program = std::env::var_os("HELM").unwrap_or_else(|| "helm".into());
    let mut helm = Command::new(program);
    helm.args(command).arg(chart).args(["--namespace", namespace]);
    helm.args(set.iter().flat_map(|value| ["--set", *value]));
    match run_if_there(&mut helm) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        ended => Some(ended.unwrap_or_else(|error| panic!("helm: {error}"))),
    }
}

/// What the chart renders on a server of the version that Nonet follows. None if helm is not installed.
fn template(namespace: &str, set: &[&str]) -> Option<Result<Rendered, String>> {
    let rendered = helm(&["template", "--kube-version", "1.36.0", "nonet"], namespace, set)?;
    Some(rendered.map(|text| documents(&text)))
}

/// Ends a test without helm, and leaves a record.
macro_rules! needs_helm {
    () => {
        let lacking = helm(&["lint"], "kube-system", &[]).is_none().then_some("helm is not installed");
        skips::note(this_test!(), lacking);
        if lacking.is_some() {
            return;
        }
    };
}

/// Values that enable some controllers and no others.
fn only(enabled: &[&str]) -> Vec<String> {
    let others = names().into_iter().filter(|name| !enabled.contains(&name.as_str()));
    others.map(|name| format!("controllers.{name}.enabled=false")).collect()
}

/// Takes off the differences that are meant: labels of Helm, the namespace that kustomize gives to a `FlowSchema`, and the
/// namespace behind the name of the chart's `nonet:debug-reader`.
fn comparable(objects: Rendered) -> Rendered {
    let without_namespace = |((kind, name), object): ((String, String), Value)| {
        let bare = |text: String| text.replace("nonet:debug-reader.nonet", "nonet:debug-reader");
        ((kind, bare(name)), serde_json::from_str(&bare(object.to_string())).unwrap())
    };
    let mut objects: Rendered = objects.into_iter().map(without_namespace).collect();
    for ((kind, _), object) in &mut objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        if kind == "FlowSchema" {
            metadata.remove("namespace");
        }
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.retain(|label, _| !OF_HELM.contains(&label.as_str()));
        }
    }
    objects
}

/// What the values of a choice render is what kustomize renders of the overlay for the same choice.
fn assert_same(choice: &str, overlay: Rendered, namespace: &str, values: &[String]) {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let chart = template(namespace, &values).unwrap().unwrap();
    for ((kind, name), object) in &chart {
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/managed-by"], "Helm", "{choice}: {kind} {name}");
        assert_ne!(kind, "Lease", "{choice}: an upgrade would take it from its leader");
    }
    let (chart, overlay) = (comparable(chart), comparable(overlay));
    assert_eq!(chart.keys().collect::<Vec<_>>(), overlay.keys().collect::<Vec<_>>(), "{choice}");
    for (id, object) in chart {
        assert_eq!(object, overlay[&id], "{choice}: {id:?}");
    }
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn the_chart_renders_what_the_overlays_render() {
    needs_kubectl!();
    needs_helm!();
    let of = |controllers: &[&str], values: &[&str]| [only(controllers), owned(values)].concat();
    let workloads = ["deployment-controller", "replicaset-controller", "statefulset-controller"];
    for (path, namespace, values) in [
        ("overlays/default", "kube-system", Vec::new()),
        ("overlays/any-node", "kube-system", owned(&["anyNode=true"])),
        ("overlays/single", "kube-system", owned(&["ha=false"])),
        ("overlays/monitored", "kube-system", owned(&["monitoring.enabled=true"])),
        ("overlays/gang-scheduling", "kube-system", owned(&["gangScheduling=true"])),
        ("examples/batch", "kube-system", only(&["job-controller", "cronjob-controller"])),
        ("examples/garbage-collector", "nonet", only(&["gc-controller"])),
        ("examples/workloads", "kube-system", of(&workloads, &["anyNode=true"])),
        ("kind/controllers", "kube-system", owned(&["anyNode=true", "leadAtOnce=true"])),
    ] {
        assert_same(path, kustomize::build(path), namespace, &values);
    }
}

/// Choices that an operator makes in an overlay of their own.
#[test]
fn the_chart_renders_what_overlays_of_an_operator_render() {
    needs_kubectl!();
    needs_helm!();
    let on = |base: &str, component: &str| json!({"resources": [format!("../{base}")], "components": [format!("../../components/{component}")]});
    let mut in_namespace = on("default", "flow-schemas");
    in_namespace["namespace"] = "nonet".into();
    in_namespace["replacements"] =
        json!([kustomize::kustomization("examples/garbage-collector")["replacements"][0].clone()]);
    let with_images = names().into_iter().map(|name| {
        let (old, new) = (format!("registry.invalid/nonet/{name}"), format!("registry.example/nonet/{name}"));
        json!({"name": old, "newName": new, "newTag": "v0.1.0"})
    });
    let images = json!({"resources": ["../default"], "images": with_images.collect::<Vec<_>>()});
    let patch = |operation: Value| {
        let patch = json!([operation]).to_string();
        json!({"resources": ["../default"], "patches": [{"target": {"kind": "Deployment"}, "patch": patch}]})
    };
    let at = |path: &str, value: Value| {
        patch(json!({"op": "add", "path": format!("/spec/template/{path}"), "value": value}))
    };
    let toleration = at("spec/tolerations/-", json!({"key": "dedicated", "operator": "Exists"}));
    let tolerated = ["tolerations[0].key=dedicated", "tolerations[0].operator=Exists"];
    for (choice, overlay, namespace, values) in [
        ("pull secret", on("default", "pull-secret"), "kube-system", &["image.pullSecrets={registry}"][..]),
        ("lead at once", on("default", "lead-at-once"), "kube-system", &["leadAtOnce=true"]),
        ("one replica on any node", on("single", "any-node"), "kube-system", &["ha=false", "anyNode=true"]),
        ("own namespace", in_namespace, "nonet", &[]),
        ("FlowSchemas", on("default", "flow-schemas"), "kube-system", &["flowSchemas=always"]),
        ("images", images, "kube-system", &["image.registry=registry.example/nonet", "image.tag=v0.1.0"]),
        ("taint", toleration, "kube-system", &tolerated),
        ("nodes", at("spec/nodeSelector/pool", json!("system")), "kube-system", &["nodeSelector.pool=system"]),
        ("label", at("metadata/labels/team", json!("a")), "kube-system", &["podLabels.team=a"]),
        ("annotation", at("metadata/annotations", json!({"a": "b"})), "kube-system", &["podAnnotations.a=b"]),
        ("priority", at("spec/priorityClassName", json!("own")), "kube-system", &["priorityClassName=own"]),
    ] {
        assert_same(choice, kustomize::render("overlays/default", &overlay), namespace, &owned(values));
    }
}

/// The rows of the table of choices, with a value for each word in capitals.
#[test]
fn every_documented_choice_of_values_changes_what_the_chart_renders() {
    needs_helm!();
    const HEAD: &str = "| choice | values |";
    let rows: Vec<String> = prose().map(|(_, _, line)| line).skip_while(|line| line != HEAD).skip(2).collect();
    let rows: Vec<&String> = rows.iter().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 5, "no page has the table {HEAD}");
    let default = template("kube-system", &[]).unwrap().unwrap();
    for row in rows {
        let values = row.rsplit(" | ").next().unwrap();
        let examples = [("RELEASE", "stack"), ("NAMESPACE", "observability"), ("NAME", "gc-controller")];
        let set: Vec<String> = markdown::spans_of_code(values)
            .map(|value| examples.iter().fold(value.replace(": ", "="), |text, (word, by)| text.replace(word, by)))
            .collect();
        let set: Vec<&str> = set.iter().map(String::as_str).filter(|value| value.contains('=')).collect();
        let chosen = template("kube-system", &set).unwrap().unwrap_or_else(|why| panic!("{row}: {why}"));
        assert!(chosen != default, "{row}: {set:?} changes nothing");
    }
}

/// Helm takes a value away if it is set to null.
#[test]
fn values_may_be_taken_away() {
    needs_helm!();
    let default = template("kube-system", &[]).unwrap().unwrap();
    let mut values: Vec<String> = Vec::new();
    for (name, value) in yaml("chart/values.yaml")[0].as_object().unwrap() {
        let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty) || value == &json!([]) || value == "";
        values.extend(is_empty.then(|| format!("{name}=null")));
    }
    values.extend(["image.pullSecrets", "controllers.gc-controller.flags"].map(|name| format!("{name}=null")));
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    assert!(values.len() > 7, "{values:?}");
    assert!(template("kube-system", &values).unwrap().unwrap() == default);
}

#[test]
fn releases_in_two_namespaces_share_no_object_of_the_cluster() {
    needs_helm!();
    let of_cluster = |namespace: &str, controllers: &[&str]| -> BTreeSet<(String, String)> {
        let mut values = only(controllers);
        values.push("monitoring.enabled=true".to_owned());
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let objects = template(namespace, &values).unwrap().unwrap();
        objects.into_iter().filter(|(_, object)| object["metadata"]["namespace"].is_null()).map(|(id, _)| id).collect()
    };
    let collector = of_cluster("one", &["gc-controller"]);
    assert!(collector.len() >= 8, "{collector:?}");
    for namespace in ["two", "kube-system"] {
        let others = of_cluster(namespace, &["job-controller", "cronjob-controller"]);
        assert_eq!(collector.intersection(&others).count(), 0, "{namespace}: {others:?}");
    }
}

#[test]
fn wrong_values_are_refused() {
    needs_helm!();
    for (wrong, shown) in [
        ("anynode=true", "anynode"),
        ("controllers.gc-contoller.enabled=false", "gc-contoller"),
        ("controllers.gc-controller.enable=false", "enable"),
        ("controllers.gc-controller.replicas=-1", "replicas"),
        ("controllers.gc-controller.flags={threads=2}", "flags"),
        ("controllers.gc-controller.image.digest=sha256:0a1b", "digest"),
        ("requireHold=false", "requireHold"),
        ("leadAtOnce=maybe", "leadAtOnce"),
        ("ha=2", "ha"),
        ("probation=soon", "probation"),
        ("flowSchemas=yes", "flowSchemas"),
        ("monitoring.label.release=prometheus", "label"),
        ("tolerations[0].efect=NoExecute", "efect"),
        ("affinity.nodeAfinity.a=b", "nodeAfinity"),
        ("topologySpreadConstraints[0].maxSkew=1", "topologyKey"),
        ("podLabels.a.b=c", "podLabels"),
        ("monitoring.interval=often", "interval"),
    ] {
        let refused = template("kube-system", &[wrong]).unwrap().unwrap_err();
        assert!(refused.contains(shown) && refused.contains("schema"), "{wrong}: {refused}");
    }
}

#[test]
fn images_of_the_chart_are_those_that_are_set_unless_values_say_otherwise() {
    needs_helm!();
    let images = |set: &[&str]| -> BTreeMap<String, (String, String)> {
        let objects = template("kube-system", set).unwrap().unwrap();
        let deployments = objects.values().filter(|object| object["kind"] == "Deployment");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let one = |d: &Value| {
            let labels = &d["metadata"]["labels"];
            let image = text(&d["spec"]["template"]["spec"]["containers"][0]["image"]);
            (text(&labels["app.kubernetes.io/name"]), (image, text(&labels["app.kubernetes.io/version"])))
        };
        deployments.map(one).collect()
    };
    let pair = |image: &str, version: &str| (image.to_owned(), version.to_owned());
    assert_eq!(images(&[])["gc-controller"], pair("registry.invalid/nonet/gc-controller:dev", "dev"));
    let digest = format!("sha256:{}", "a".repeat(64));
    let set = images(&[
        "image.registry=registry.example:5000/team",
        "image.tag=v1.2.3",
        "controllers.job-controller.image.tag=v1.3.0",
        "controllers.cronjob-controller.image.repository=elsewhere.example/cron",
        &format!("controllers.cronjob-controller.image.digest={digest}"),
    ]);
    assert_eq!(set.len(), names().len());
    assert_eq!(set["gc-controller"], pair("registry.example:5000/team/gc-controller:v1.2.3", "v1.2.3"));
    assert_eq!(set["job-controller"], pair("registry.example:5000/team/job-controller:v1.3.0", "v1.3.0"));
    assert_eq!(set["cronjob-controller"], pair(&format!("elsewhere.example/cron:v1.2.3@{digest}"), "v1.2.3"));
}

/// A copy of the chart whose images are pinned by digest, as in a release.
fn pinned_chart() -> std::path::PathBuf {
    let directory = empty_directory("pinned-chart");
    copy_directory(&deploy(""), &directory.join("deploy"));
    let digest = format!("sha256:{}", "a".repeat(64));
    let lines = names().into_iter().map(|name| format!("{name} registry.example/nonet/{name}:v1 {digest}\n"));
    let digests = directory.join("digests");
    fs::write(&digests, lines.collect::<String>()).unwrap();
    let set = directory.join("deploy/images/set");
    run(Command::new(set).args(["registry.example/nonet", "v1", "--digests"]).arg(&digests)).unwrap();
    directory.join("deploy/chart")
}

/// Where the images of the chart are pinned, a tag for one controller does not take its digest away silently.
#[test]
fn an_upgrade_of_one_controller_keeps_its_image_pinned() {
    needs_helm!();
    let chart = pinned_chart();
    let render = |set: &[&str]| {
        helm_with(&chart, &["template", "--kube-version", "1.36.0", "nonet"], "kube-system", set).unwrap()
    };
    let other = format!("sha256:{}", "b".repeat(64));
    let digest = format!("controllers.gc-controller.image.digest={other}");
    let tag = "controllers.gc-controller.image.tag=v2";
    for (set, image) in [
        (&[][..], format!("v1@sha256:{}", "a".repeat(64))),
        (&[tag, &digest], format!("v2@{other}")),
        (&[tag, "controllers.gc-controller.image.digest=none"], "v2".to_owned()),
    ] {
        let rendered = render(set).unwrap();
        let line = format!("image: registry.example/nonet/gc-controller:{image}");
        assert!(rendered.lines().any(|found| found.trim() == line), "{set:?}: no {line}");
    }
    let refused = render(&[tag]).unwrap_err();
    assert!(refused.contains("controllers.gc-controller.image.digest") && refused.contains("`none`"), "{refused}");
}

/// Nobody has to hold anything before an installation, in no namespace: no object leads by itself, and the notes name the
/// commands for this namespace and these controllers.
#[test]
fn an_installation_in_any_namespace_waits_for_its_release() {
    needs_helm!();
    let command = ["install", "nonet", "--dry-run=client"];
    for namespace in ["kube-system", "nonet"] {
        let mut values = only(&["gc-controller"]);
        let install = |values: &[String]| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            helm(&command, namespace, &values).unwrap().unwrap()
        };
        let shown = install(&values);
        let (manifest, notes) = shown.split_once("\nNOTES:\n").unwrap();
        assert!(!manifest.contains("kind: Lease") && !manifest.contains("--lead-without-release"), "{manifest}");
        let release = format!("kubectl nonet release --namespace {namespace}");
        let patch = format!(
            "kubectl --namespace {namespace} patch lease \"$name\" --type merge -p '{{\"spec\":{{\"holderIdentity\":\"\"}}}}'"
        );
        for line in [release.as_str(), "for name in gc-controller; do", &patch] {
            assert!(notes.lines().any(|found| found.trim() == line), "no {line} in:\n{notes}");
        }
        assert!(!notes.contains("overlays/"), "{notes}");
        values.push("leadAtOnce=true".to_owned());
        let shown = install(&values);
        assert!(shown.contains("leadAtOnce is true") && !shown.contains("kubectl nonet release"), "{shown}");
    }
}

#[test]
fn values_reach_the_objects_that_they_are_about() {
    needs_helm!();
    let objects = template(
        "kube-system",
        &[
            "monitoring.enabled=true",
            "monitoring.namespace=observability",
            "monitoring.labels.release=stack",
            "monitoring.interval=15s",
            "controllers.gc-controller.replicas=3",
            "controllers.gc-controller.flags={--threads=2}",
            "controllers.gc-controller.resources.limits.memory=1Gi",
            "probation=",
            "flowSchemas=always",
            "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1",
            "topologySpreadConstraints[0].topologyKey=rack,topologySpreadConstraints[1].topologyKey=row",
            "topologySpreadConstraints[0].maxSkew=1,topologySpreadConstraints[1].maxSkew=1",
            "topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule",
            "topologySpreadConstraints[1].whenUnsatisfiable=ScheduleAnyway",
            "topologySpreadConstraints[1].labelSelector.matchLabels.team=a",
        ],
    );
    let objects = objects.unwrap().unwrap();
    let find = |kind: &str, name: &str| &objects[&(kind.to_owned(), name.to_owned())];
    for (kind, name) in
        [("PodMonitor", "nonet"), ("PrometheusRule", "nonet"), ("PrometheusRule", "nonet-gc-controller-absence")]
    {
        assert_eq!(find(kind, name)["metadata"]["labels"]["release"], "stack", "{kind} {name}");
    }
    let from = &find("NetworkPolicy", "nonet-gc-controller")["spec"]["ingress"][0]["from"][0];
    assert_eq!(from["namespaceSelector"]["matchLabels"], json!({"kubernetes.io/metadata.name": "observability"}));
    assert_eq!(find("PodMonitor", "nonet")["spec"]["podMetricsEndpoints"][0]["interval"], "15s");
    find("FlowSchema", "nonet.kube-system");
    let spec = &find("Deployment", "nonet-gc-controller")["spec"];
    assert_eq!(spec["replicas"], 3);
    let pod = &spec["template"]["spec"];
    let arguments = json!(["--v=2", "--leader-elect-resource-namespace=$(POD_NAMESPACE)", "--threads=2"]);
    assert_eq!(pod["containers"][0]["args"], arguments);
    assert_eq!(pod["containers"][0]["resources"], json!({"limits": {"memory": "1Gi"}}));
    // The rules of another kind stay.
    assert_eq!(
        pod["affinity"]["nodeAffinity"],
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]})
    );
    assert!(pod["affinity"]["podAntiAffinity"].is_object());
    for deployment in objects.values().filter(|object| object["kind"] == "Deployment") {
        let (selector, pod) = (&deployment["spec"]["selector"], &deployment["spec"]["template"]["spec"]);
        let hash = json!(["pod-template-hash"]);
        let rack = json!({
            "topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector, "matchLabelKeys": hash,
        });
        let of_team = json!({"matchLabels": {"team": "a"}});
        let row = json!({
            "topologyKey": "row", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": of_team,
        });
        assert_eq!(pod["topologySpreadConstraints"], json!([rack, row]));
    }
}

#[test]
fn helm_has_nothing_to_say_against_the_chart() {
    needs_helm!();
    helm(&["lint", "--strict"], "kube-system", &["monitoring.enabled=true"]).unwrap().unwrap();
}

#[test]
fn values_and_their_schema_name_every_controller() {
    let keys = |map: &Value| map.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let values = &yaml("chart/values.yaml")[0];
    let schema: Value = serde_json::from_str(&text("chart/values.schema.json")).unwrap();
    let properties = &schema["properties"];
    assert_eq!(keys(&values["controllers"]), names());
    assert_eq!(keys(&properties["controllers"]["properties"]), names());
    // Helm itself adds `global`.
    let documented = keys(values).into_iter().chain(["global".to_owned()]).collect();
    assert_eq!(keys(properties), documented);
    assert_eq!(keys(&properties["monitoring"]["properties"]), keys(&values["monitoring"]));
    assert_eq!(keys(&properties["image"]["properties"]), keys(&values["image"]));
    for controller in values["controllers"].as_object().unwrap().values() {
        assert_eq!(keys(&schema["definitions"]["controller"]["properties"]), keys(controller));
    }
}
