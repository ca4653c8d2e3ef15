//! Releases and holds Leases.

use std::{io::Write, time::Duration};

use common::{clock::Clock, process::leader::HAND_OVER_HOLDER_IDENTITY};
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use serde_json::{Value, json};

use crate::{
    check::release::{self, SelectedLease},
    connection::Connection,
    facts::{FactError, FactResult, Facts},
};

/// `leaseDurationSeconds` of a held Lease: ten years, for programs that do not know holds.
const HOLD_DURATION_SECONDS: i32 = 10 * 365 * 24 * 3600;
/// How often a change is repeated because another client has written the Lease meanwhile. Leaders write every two seconds.
const MAX_CONFLICTS: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Settings of [`release()`].
#[derive(Clone, Copy, Debug)]
pub struct ReleaseOptions {
    /// Whether a Lease is released although a second writer may start.
    pub force: bool,
    /// How many seconds to wait for leaders.
    pub seconds_to_lead: u32,
}

/// Result of a change of a Lease.
enum Change {
    /// The Lease does not exist.
    Absent,
    /// The Lease, as found, needed no change.
    NotNeeded(Lease),
    /// The Lease was changed; as it was before.
    Made(Lease),
}

/// A Lease that a process is expected to take.
struct ExpectedLeader<'a> {
    lease: &'a SelectedLease,
    /// What was done with the Lease.
    done: &'static str,
    before: (String, Option<MicroTime>),
}

/// Releases the Leases of the named controllers, or of all installed controllers, and waits until processes lead. Returns
/// whether a process leads with each Lease.
pub async fn release(
    connection: &Connection,
    clock: &Clock,
    facts: &Facts,
    names: &[String],
    options: ReleaseOptions,
    out: &mut dyn Write,
) -> bool {
    let selected = match release::select(facts, names) {
        Ok(selected) => selected,
        Err(why) => return fail(out, &why),
    };
    let second_writers = release::second_writers(facts, &selected);
    for line in &second_writers {
        say(out, &format!("{}: {line}", if options.force { "warning" } else { "error" }));
    }
    if !second_writers.is_empty() && !options.force {
        return fail(out, "nothing was released, because a second writer might start; --force releases anyway");
    }
    let spec = json!({"holderIdentity": ""});
    let is_held = |lease: &Lease| holder(lease) == HAND_OVER_HOLDER_IDENTITY;
    let (mut all_led, mut expected) = (true, Vec::new());
    for (index, lease) in selected.iter().enumerate() {
        let name = lease.controller.name;
        let (done, found) = match change(connection, lease, &spec, &|found| lease.may_be_held && is_held(found)).await {
            Ok(Change::Absent) => {
                all_led = fail(out, &absent(lease));
                continue;
            }
            Ok(Change::NotNeeded(found)) if lease.has_leader => {
                say(out, &format!("{name}: not held; it has the holder {}", holder(&found)));
                continue;
            }
            Ok(Change::NotNeeded(found)) => ("not held", found),
            Ok(Change::Made(found)) => ("released", found),
            Err(why) => {
                for ExpectedLeader { lease, done, .. } in &expected {
                    say(out, &format!("{}: {done}", lease.controller.name));
                }
                return stop(out, &selected[index..], "released", &why);
            }
        };
        expected.push(ExpectedLeader { lease, done, before: term(&found) });
    }
    await_leaders(connection, clock, expected, options.seconds_to_lead, out).await && all_led
}

/// Holds the Leases of the named controllers, or of all installed controllers. Returns whether all of them are held.
pub async fn hold(connection: &Connection, facts: &Facts, names: &[String], out: &mut dyn Write) -> bool {
    let selected = match release::select(facts, names) {
        Ok(selected) => selected,
        Err(why) => return fail(out, &why),
    };
    let spec = json!({"holderIdentity": HAND_OVER_HOLDER_IDENTITY, "leaseDurationSeconds": HOLD_DURATION_SECONDS});
    let is_needed = |lease: &Lease| {
        let duration = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        holder(lease) != HAND_OVER_HOLDER_IDENTITY || duration != Some(HOLD_DURATION_SECONDS)
    };
    let mut all_held = true;
    for (index, lease) in selected.iter().enumerate() {
        let name = lease.controller.name;
        match change(connection, lease, &spec, &is_needed).await {
            Ok(Change::Absent) => all_held = fail(out, &absent(lease)),
            Ok(Change::NotNeeded(_)) => say(out, &format!("{name}: already held")),
            Ok(Change::Made(found)) => match holder(&found) {
                "" | HAND_OVER_HOLDER_IDENTITY => say(out, &format!("{name}: held; there was no leader")),
                leader => say(out, &format!("{name}: held; its leader {leader} ends within two seconds")),
            },
            Err(why) => return stop(out, &selected[index..], "held", &why),
        }
    }
    all_held
}

/// Merges `spec` into a Lease if that is needed, and if no other client writes the Lease between the read and the write.
async fn change(
    connection: &Connection,
    lease: &SelectedLease,
    spec: &Value,
    is_needed: &dyn Fn(&Lease) -> bool,
) -> FactResult<Change> {
    let (namespace, name) = (lease.namespace.as_str(), lease.controller.name);
    for _ in 0..=MAX_CONFLICTS {
        let Some(found) = connection.get_object::<Lease>(Some(namespace), name).await? else {
            return Ok(Change::Absent);
        };
        if !is_needed(&found) {
            return Ok(Change::NotNeeded(found));
        }
        let patch = json!({"metadata": {"resourceVersion": found.metadata.resource_version}, "spec": spec});
        if connection.patch_lease(namespace, name, &patch).await?.is_some() {
            return Ok(Change::Made(found));
        }
    }
    let why = format!("another client has changed the Lease each of {} times", MAX_CONFLICTS + 1);
    Err(FactError::RequestFailed { request: format!("changing the Lease {namespace}/{name}"), why })
}

/// Waits until a process leads with each Lease, and returns whether it does.
async fn await_leaders(
    connection: &Connection,
    clock: &Clock,
    mut expected: Vec<ExpectedLeader<'_>>,
    seconds: u32,
    out: &mut dyn Write,
) -> bool {
    let mut last_error = String::new();
    for _ in 0..seconds {
        if expected.is_empty() {
            break;
        }
        clock.sleep(PAUSE).await;
        let mut leaderless = Vec::new();
        for each in expected {
            let (namespace, name) = (each.lease.namespace.as_str(), each.lease.controller.name);
            match connection.get_object::<Lease>(Some(namespace), name).await {
                Ok(Some(lease)) if is_led(&lease) && term(&lease) != each.before => {
                    say(out, &format!("{name}: {}, led by {}", each.done, holder(&lease)));
                    continue;
                }
                Ok(_) => {}
                Err(why) => last_error = format!(" ({why})"),
            }
            leaderless.push(each);
        }
        expected = leaderless;
    }
    for ExpectedLeader { lease, done, .. } in &expected {
        let (namespace, name) = (&lease.namespace, lease.controller.name);
        let why = format!("kubectl nonet check -n {namespace} shows why");
        say(out, &format!("error: {name}: {done}, but no process has led for {seconds} s{last_error}; {why}"));
    }
    expected.is_empty()
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn is_led(lease: &Lease) -> bool {
    !matches!(holder(lease), "" | HAND_OVER_HOLDER_IDENTITY)
}

/// Returns holder and renewal, which change when a process takes or renews the Lease.
fn term(lease: &Lease) -> (String, Option<MicroTime>) {
    (holder(lease).to_owned(), lease.spec.as_ref().and_then(|spec| spec.renew_time.clone()))
}

fn absent(lease: &SelectedLease) -> String {
    let name = lease.controller.name;
    format!(
        "{name} has no Lease in the namespace {}: a running process of {name} creates it; start one first",
        lease.namespace
    )
}

/// Prints which Leases remain unchanged after a failed request. Always returns `false`.
fn stop(out: &mut dyn Write, remaining: &[SelectedLease], done: &str, why: &FactError) -> bool {
    let names: Vec<&str> = remaining.iter().map(|lease| lease.controller.name).collect();
    fail(out, &format!("not {done}: {}: {why}; {}; then type the same command again", names.join(", "), why.remedy()))
}

/// Prints an error on one line. Always returns `false`.
pub(crate) fn fail(out: &mut dyn Write, why: &str) -> bool {
    say(out, &format!("error: {why}"));
    false
}

/// Prints a line. It is no error if a reader closes the pipe before all output is written.
pub(crate) fn say(out: &mut dyn Write, line: &str) {
    drop(writeln!(out, "{line}"));
}
