//! Writes that a controller wants to make and that the server refuses for ever: the situations of `situations.txt`.

use std::{collections::BTreeMap, time::Duration};

use common::{
    clock::Clock,
    runtime::LoopDefinition,
    settings::{OperatorSettings, TunableValue},
};
use sandbox::{Sandbox, loops::Loops};
use serde_json::{Value, json};
use simulation::{notation::Notation, scenario::What, users};

use super::{
    JOB, Pace, RECOVERED, USUAL, WAKES,
    server::{BUSY, Ban, Operation, REFUSALS, Refusal, Refusing, Sent, TERMINATING},
};

/// How long the server refuses.
const HOUR: Duration = Duration::from_hours(1);
/// How long a situation has to come about before its trigger.
const PREPARED: Duration = Duration::from_secs(60);
/// How often a request is sent that is answered with `Retry-After`: once, and ten times more (client-go `maxRetries`).
const TRIES_OF_BUSY: u64 = 11;
/// How often a create is sent into a namespace that terminates: once, and again at each progress deadline of a Deployment.
const INTO_TERMINATING: u64 = 1 + 6;
/// How many other writes a situation takes: its objects, their statuses.
const OTHERS: u64 = 8;
/// How many Events tell of what was done before the refusal.
const EARLIER: u64 = 2;
/// How often a write is made at most once it is granted: one for each of three Pods, or a status that follows what it tells of.
const GRANTED: u64 = 4;

/// The certificate authorities that serviceaccount-controller publishes.
const ROOT_CA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../common/client/testdata/ca.crt");

struct Situation {
    name: String,
    operation: Operation,
    resource: String,
    pace: Pace,
    /// How often a sync writes, reads and tells: `writes`, `on-conflict`, `events`, `others`, `reads`.
    numbers: BTreeMap<String, u64>,
    /// The lines that make the objects, and those that make the controller want the write.
    before: Vec<String>,
    then: Vec<String>,
}

impl Situation {
    fn read(head: &str, lines: &[String]) -> Self {
        let (name, write) = head.split_once(": ").unwrap();
        let (operation, resource) = write.split_once(' ').unwrap();
        let operation = match operation {
            "create" => Operation::Create,
            "update" => Operation::Update,
            "status" => Operation::Status,
            "delete" => Operation::Delete,
            _ => panic!("no operation: {operation}"),
        };
        let usual = [("writes", 1), ("on-conflict", 1), ("events", 1), ("others", 0), ("reads", 0)];
        let mut numbers = BTreeMap::from(usual.map(|(word, number)| (word.to_owned(), number)));
        let (mut before, mut then, mut pace) = (Vec::new(), Vec::new(), USUAL);
        for line in lines {
            let (word, rest) = line.split_once(' ').unwrap();
            match word {
                "before" => before.push(rest.to_owned()),
                "then" => then.push(rest.to_owned()),
                "pace" => pace = self::pace(rest),
                _ => *numbers.get_mut(word).unwrap_or_else(|| panic!("{line}")) = rest.parse().unwrap(),
            }
        }
        Self { name: name.to_owned(), operation, resource: resource.to_owned(), pace, numbers, before, then }
    }

    fn refusals(&self) -> Vec<&'static Refusal> {
        let creates = self.operation == Operation::Create;
        let fits = |refusal: &&Refusal| creates || refusal.name != "quota";
        REFUSALS.iter().filter(fits).chain([&BUSY]).chain(creates.then_some(&TERMINATING)).collect()
    }

    /// What is wrong with the requests of an hour in which the write is refused.
    fn judge(&self, refusal: &Refusal, sent: &Sent) -> Vec<String> {
        let [writes, events, others, reads] = ["writes", "events", "others", "reads"].map(|word| self.numbers[word]);
        let syncs = self.pace.attempts_in(HOUR) + WAKES;
        let repeats = if refusal.name == "conflict" { self.numbers["on-conflict"].max(writes) } else { writes };
        let tries = if refusal.name == BUSY.name { TRIES_OF_BUSY } else { 1 };
        let is_terminating = refusal.name == TERMINATING.name;
        let (most, least) = if is_terminating { (INTO_TERMINATING, 1) } else { (syncs * repeats * tries, 2 * tries) };
        let mut wrong = Vec::new();
        let mut must = |holds: bool, what: String| wrong.extend((!holds).then_some(what));
        must(sent.refused <= most, format!("{} refused writes are more than {most}", sent.refused));
        must(sent.refused >= least, format!("{} refused writes are fewer than {least}", sent.refused));
        // A conflict, for one, has the object read again.
        let reads = sent.refused + WAKES + syncs * reads;
        must(sent.reads <= reads, format!("{} reads are more than {reads}", sent.reads));
        let others = OTHERS + syncs * others;
        must(sent.others <= others, format!("{} other writes are more than {others}", sent.others));
        let tells = events > 0;
        let events = if is_terminating { 0 } else { syncs * events } + EARLIER;
        must(sent.events <= events, format!("{} Events are more than {events}", sent.events));
        // What only a user can change has to be told again and again.
        let told = if refusal.is_denial() && tells { 10 } else { 0 };
        must(sent.events >= told, format!("{} Events are fewer than {told}", sent.events));
        wrong
    }
}

/// The back-offs and periods that differ from the usual back-off.
fn pace(name: &str) -> Pace {
    let seconds = Duration::from_secs;
    match name {
        "jobs" => JOB,
        "slices" => Pace::Exponential(seconds(1), seconds(1000)),
        "mirrors" => Pace::Exponential(seconds(1), seconds(100)),
        // Pod garbage collection.
        "passes" => Pace::Every(seconds(20)),
        // The node monitor.
        "rounds" => Pace::Every(seconds(5)),
        _ => panic!("no pace: {name}"),
    }
}

async fn perform(sandbox: &Sandbox, notation: &Notation, lines: &[String], place: &str) {
    for mut step in notation.steps(lines, &[("PLACE", place)]).unwrap() {
        if let What::Create(object) = &mut step.what
            && object["kind"] != "Node"
            && object["metadata"]["namespace"].is_null()
        {
            object["metadata"]["namespace"] = json!(place);
        }
        users::perform_in(sandbox, place, &step.what).await.unwrap();
    }
}

/// Lets a controller meet every refusal in every situation of a group.
fn meet(group: &str, loops: &[LoopDefinition], tunes: &[(&str, TunableValue)]) {
    let notation = Notation::read(include_str!("situations.txt")).unwrap();
    let mut blocks = notation.blocks.iter().skip_while(|block| block.head != format!("group {group}"));
    let common = blocks.next().expect("the group exists");
    let of_group =
        blocks.map_while(|block| Some(Situation::read(block.head.strip_prefix("situation ")?, &block.lines)));
    let situations: Vec<Situation> = of_group.collect();
    let settings = tunes.iter().fold(OperatorSettings::new(), |all, (name, value)| all.with_tunable(name, *value));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let sandbox = Sandbox::builder().clock(clock.clone()).writes(0).history(1000).build();
        let server = Refusing::new(&sandbox);
        let mut places = Vec::new();
        for situation in &situations {
            for refusal in situation.refusals() {
                let place = format!("{}-{}", situation.name, refusal.name);
                let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}});
                sandbox.create(namespace).await.unwrap();
                let Situation { operation, resource, .. } = situation;
                server.ban(&place, Ban { operation: *operation, resource: resource.clone(), refusal });
                places.push((situation, refusal, place));
            }
        }
        perform(&sandbox, &notation, &common.lines, "default").await;
        tokio::spawn(renew_leases(sandbox.clone()));
        let client = kube::Client::new(server.clone(), "default");
        let loops = Loops::start(&client, &clock, settings, loops);
        for (situation, _, place) in &places {
            perform(&sandbox, &notation, &situation.before, place).await;
        }
        clock.sleep(PREPARED).await;
        for (situation, _, place) in &places {
            perform(&sandbox, &notation, &situation.then, place).await;
        }
        clock.sleep(HOUR).await;
        let sent: Vec<Sent> = places.iter().map(|(.., place)| server.sent(place)).collect();
        server.lift();
        clock.sleep(RECOVERED).await;
        let mut wrong = Vec::new();
        for ((situation, refusal, place), sent) in places.iter().zip(&sent) {
            let after = server.sent(place).granted;
            let mut found = situation.judge(refusal, sent);
            // A namespace that terminates does so for good.
            if refusal.name != TERMINATING.name && !(1..=GRANTED).contains(&after) {
                found.push(format!("the write is made {after} times once it is granted"));
            }
            wrong.extend(found.into_iter().map(|what| format!("{place}: {what} ({sent:?})")));
        }
        drop(loops);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// Renews the Leases of the nodes of a group, as their kubelets do.
async fn renew_leases(sandbox: Sandbox) {
    const LEASES: &str = "leases.coordination.k8s.io";
    const NAMESPACE: Option<&str> = Some("kube-node-lease");
    let leases: Vec<Value> = sandbox.list(LEASES, NAMESPACE).await.unwrap();
    while !leases.is_empty() {
        let time = jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%S.%6fZ", sandbox.clock().now()).unwrap();
        for lease in &leases {
            let (name, patch) = (lease["metadata"]["name"].as_str().unwrap(), json!({"spec": {"renewTime": time}}));
            sandbox.merge(LEASES, NAMESPACE, name, None, patch).await.unwrap();
        }
        sandbox.clock().sleep(Duration::from_secs(25)).await;
    }
}

/// A test for each group, with the loops of its controller.
macro_rules! groups {
    ($($name:ident $group:literal $controller:ident $tunes:expr;)*) => {
        $(#[test]
        fn $name() {
            meet($group, $controller::LOOPS, $tunes);
        })*
    };
}

groups! {
    replica_sets "replica-sets" replicaset_controller &[];
    deployments "deployments" deployment_controller &[];
    stateful_sets "stateful-sets" statefulset_controller &[];
    daemon_sets "daemon-sets" daemonset_controller &[];
    jobs "jobs" job_controller &[];
    cron_jobs "cron-jobs" cronjob_controller &[];
    services "services" endpointslice_controller &[];
    dependents "dependents" gc_controller &[];
    pods_and_nodes "pods-and-nodes" node_lifecycle_controller
        &[("node-monitor-grace-period", TunableValue::Duration(Duration::from_hours(10)))];
    namespaces "namespaces" serviceaccount_controller
        &[("root-ca-file", TunableValue::File(ROOT_CA_FILE))];
    silent_nodes "silent-nodes" node_lifecycle_controller &[];
}
