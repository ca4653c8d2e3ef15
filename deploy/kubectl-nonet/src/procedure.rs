//! The hand-over and the way back as one command each: a check, the switch by the operator, the Leases, and a check.
//!
//! Each invocation derives from the cluster which steps are done. Therefore an interrupted procedure continues with the same command.

use std::{io::Write, time::Duration};

use common::clock::Clock;
use jiff::Timestamp;

use crate::{
    check::{
        PlannedOperation, check_controllers,
        release::{self, SelectedLease},
        switch,
    },
    connection::Connection,
    facts::{FactError, Facts},
    finding::{self, Finding, Topic},
    gather::{GatherOptions, gather_facts},
    hand_over::{self, ReleaseOptions, fail, say},
    manager_flags::Switch,
    render,
};

/// Pause between two readings of the cluster during a wait.
const POLL_PERIOD: Duration = Duration::from_secs(2);
/// How long a process may need to end after its Lease was held. Leaders renew every two seconds.
const LEADER_ENDS_WITHIN: Duration = Duration::from_secs(3);

/// Settings of a [`Procedure`].
#[derive(Clone, Debug)]
pub struct ProcedureOptions {
    /// Names of controllers; empty for all that are installed.
    pub names: Vec<String>,
    /// Which facts are read.
    pub gather: GatherOptions,
    /// Value of `--built-in-controllers`; `None` without the flag.
    pub stated_list: Option<String>,
    /// Whether the steps are only printed.
    pub dry_run: bool,
    /// How many seconds to wait for leaders after the release.
    pub seconds_to_lead: u32,
    /// How long to wait for the operator's switch.
    pub switch_timeout: Duration,
}

/// A hand-over or a way back that runs.
pub struct Procedure<'a> {
    connection: &'a Connection,
    clock: &'a Clock,
    options: ProcedureOptions,
    out: &'a mut dyn Write,
}

impl<'a> Procedure<'a> {
    /// Creates a procedure that prints its progress to `out`.
    pub fn new(
        connection: &'a Connection,
        clock: &'a Clock,
        options: ProcedureOptions,
        out: &'a mut dyn Write,
    ) -> Self {
        Self { connection, clock, options, out }
    }

    /// Hands the controllers over from kube-controller-manager to Nonet. Returns whether Nonet runs their loops.
    ///
    /// # Errors
    /// If the cluster cannot be reached at the start.
    pub async fn hand_over(&mut self) -> Result<bool, FactError> {
        let began = self.clock.now();
        let facts = self.gather().await?;
        let selected = match release::select(&facts, &self.options.names) {
            Ok(selected) => selected,
            Err(why) => return Ok(self.fail(&why)),
        };
        if let Err(why) = switch::require_visible_managers(&facts) {
            return Ok(self.fail(&why));
        }
        let all: Vec<&SelectedLease> = selected.iter().collect();
        let is_off = |lease: &SelectedLease| release::built_in_writers(&facts, &[lease]).is_empty();
        let (done, open): (Vec<_>, Vec<_>) = all.iter().copied().partition(|lease| lease.has_leader && is_off(lease));
        let on: Vec<_> = open.iter().copied().filter(|lease| !is_off(lease)).collect();

        self.say(&format!("step 1 of 4: check before the hand-over of {}", list_names(&all)));
        if !done.is_empty() {
            self.say(&format!("already handed over: {}", list_names(&done)));
        }
        let (untouched, switched): (Vec<_>, Vec<_>) =
            open.iter().copied().partition(|lease| lease.has_leader || switch::is_run_by_manager(&facts, lease));
        let mut findings = Vec::new();
        if !untouched.is_empty() {
            findings = check_controllers(&facts, PlannedOperation::HandOver, &names(&untouched));
        }
        // An earlier invocation began the switch of these loops. Step 2 judges them.
        let of_switched = check_controllers(&facts, PlannedOperation::HandOver, &names(&switched));
        for finding in of_switched.into_iter().filter(|finding| finding.topic != Topic::Loops) {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
        if open.is_empty() {
            self.say("nothing to check, because nothing is left to hand over");
        } else if !self.report(&findings) {
            self.say("nothing was changed: correct the problems, and type the same command again");
            return Ok(false);
        }

        self.say("step 2 of 4: you switch the loops off in kube-controller-manager");
        let mut idle_since = None;
        let mut latest = facts.clone();
        if on.is_empty() {
            self.say("already done: no kube-controller-manager runs them");
        } else if !self.print_flags(&facts, &on, Switch::Off) {
            return Ok(self.print_way_back(&all));
        } else if self.options.dry_run {
            self.say("dry run: would wait until no kube-controller-manager runs them");
        } else {
            let waited = self.wait_until("the loops are not off", |facts| release::built_in_writers(facts, &on)).await;
            let Some((facts, last_unmet)) = waited else { return Ok(self.print_way_back(&all)) };
            self.say("done: no kube-controller-manager runs them");
            (latest, idle_since) = (facts, Some(last_unmet));
        }

        self.say("step 3 of 4: release the Leases");
        if self.options.dry_run {
            if !open.is_empty() {
                self.say(&format!("dry run: would release {}, and wait for their leaders", list_names(&open)));
            }
            if !done.is_empty() {
                self.say(&format!("already done: {}", list_names(&done)));
            }
            self.say("step 4 of 4: check after the hand-over");
            self.say("dry run: would check that Nonet alone runs the loops; nothing was written");
            return Ok(true);
        }
        let options = ReleaseOptions { force: false, seconds_to_lead: self.options.seconds_to_lead };
        let wanted = &self.options.names;
        if !hand_over::release(self.connection, self.clock, &latest, wanted, options, self.out).await {
            return Ok(self.print_way_back(&all));
        }
        let interval = self.seconds_since(idle_since.unwrap_or(began));

        self.say("step 4 of 4: check after the hand-over");
        // A restarted kube-controller-manager leads only after the Lease of its predecessor has expired.
        let began_to_check = self.clock.now();
        let findings = loop {
            let facts = match self.gather().await {
                Ok(facts) => facts,
                Err(why) => return Ok(self.fail(&format!("{why}; type the same command again"))),
            };
            let findings = check_controllers(&facts, PlannedOperation::NoOperation, &names(&all));
            let is_late = self.seconds_since(began_to_check) >= i64::from(self.options.seconds_to_lead);
            if finding::exit_code(&findings) != 1 || is_late {
                break findings;
            }
            self.clock.sleep(POLL_PERIOD).await;
        };
        if !self.report(&findings) {
            return Ok(self.print_way_back(&all));
        }
        self.summarize("handed over", &all, (!open.is_empty()).then_some((interval, idle_since.is_some())));
        Ok(true)
    }

    /// Gives the controllers back to kube-controller-manager. Returns whether kube-controller-manager runs their loops.
    ///
    /// # Errors
    /// If the cluster cannot be reached at the start.
    pub async fn way_back(&mut self) -> Result<bool, FactError> {
        let began = self.clock.now();
        let facts = self.gather().await?;
        let selected = match release::select(&facts, &self.options.names) {
            Ok(selected) => selected,
            Err(why) => return Ok(self.fail(&why)),
        };
        if let Err(why) = switch::require_visible_managers(&facts) {
            return Ok(self.fail(&why));
        }
        if switch::is_without_manager(&facts) {
            return Ok(self.fail("there is no kube-controller-manager that could run the loops"));
        }
        let all: Vec<&SelectedLease> = selected.iter().collect();
        let open = switch::not_held(&facts, &all);

        self.say(&format!("step 1 of 3: hold the Leases of {}", list_names(&all)));
        let mut latest = facts.clone();
        if open.is_empty() {
            self.say("already done: all of them are held");
        } else if self.options.dry_run {
            for line in &open {
                self.say(&format!("dry run: would hold {line}"));
            }
        } else {
            if !hand_over::hold(self.connection, &facts, &self.options.names, self.out).await {
                return Ok(self.print_hand_over(&all));
            }
            self.clock.sleep(LEADER_ENDS_WITHIN).await;
            let waited = self.wait_until("the Leases are not held", |facts| switch::not_held(facts, &all)).await;
            let Some((facts, _)) = waited else { return Ok(self.print_hand_over(&all)) };
            self.say("done: no process leads");
            latest = facts;
        }

        self.say("step 2 of 3: you switch the loops on in kube-controller-manager");
        let idle: Vec<_> =
            all.iter().copied().filter(|lease| !switch::idle_loops(&latest, &[*lease]).is_empty()).collect();
        if idle.is_empty() {
            self.say("already done: a kube-controller-manager leads and runs them");
        } else if !self.print_flags(&latest, &idle, Switch::On) {
            return Ok(self.print_hand_over(&all));
        } else if self.options.dry_run {
            self.say("dry run: would wait until a kube-controller-manager leads and runs them");
        } else {
            let waited = self.wait_until("the loops are not on", |facts| switch::idle_loops(facts, &idle)).await;
            let Some((facts, _)) = waited else { return Ok(self.print_hand_over(&all)) };
            self.say("done: a kube-controller-manager leads and runs them");
            latest = facts;
        }
        let interval = self.seconds_since(began);

        self.say("step 3 of 3: check before the removal");
        if self.options.dry_run {
            self.say("dry run: would check that the built-in loops run and that no replica of Nonet leads; nothing was written");
            return Ok(true);
        }
        if !self.report(&check_controllers(&latest, PlannedOperation::Removal, &names(&all))) {
            return Ok(self.print_hand_over(&all));
        }
        let had_leaders = idle.iter().all(|lease| lease.has_leader);
        self.summarize("given back", &all, (!idle.is_empty()).then_some((interval, had_leaders)));
        Ok(true)
    }

    /// Prints the flag that the operator sets. Returns whether a wait shows that it is set; with a stated flag, no wait does.
    fn print_flags(&mut self, facts: &Facts, selected: &[&SelectedLease], switch: Switch) -> bool {
        let stated = self.options.stated_list.clone();
        for line in switch::flag_lines(facts, stated.as_deref(), selected, switch) {
            self.say(&line);
        }
        if stated.is_some() && !self.options.dry_run {
            let state = if switch == Switch::Off { "off" } else { "on" };
            return self.fail(&format!(
                "by --built-in-controllers, the loops are not {state}: set the flag, and type the same command with its new value"
            ));
        }
        true
    }

    /// Reads the facts again and again until `unmet` returns no lines, and prints these lines at each change. Returns the last facts
    /// and the start of the last reading with lines; `None` after the timeout.
    async fn wait_until(&mut self, what: &str, unmet: impl Fn(&Facts) -> Vec<String>) -> Option<(Facts, Timestamp)> {
        let began = self.clock.now();
        let mut last_unmet = began;
        let mut shown = Vec::new();
        loop {
            let started = self.clock.now();
            let lines = match self.gather().await {
                Ok(facts) => {
                    let lines = unmet(&facts);
                    if lines.is_empty() {
                        return Some((facts, last_unmet));
                    }
                    last_unmet = started;
                    lines
                }
                Err(why) => vec![why.to_string()],
            };
            if lines != shown {
                for line in &lines {
                    self.say(&format!("waiting: {line}"));
                }
                shown = lines;
            }
            if self.clock.now().duration_since(began).unsigned_abs() >= self.options.switch_timeout {
                let timeout = common::duration::format(self.options.switch_timeout);
                self.fail(&format!("{what} after {timeout}; type the same command again to wait longer"));
                return None;
            }
            self.clock.sleep(POLL_PERIOD).await;
        }
    }

    /// Prints the findings that need attention. Returns whether there is no problem.
    fn report(&mut self, findings: &[Finding]) -> bool {
        drop(self.out.write_all(render::attention_to_text(findings).as_bytes()));
        finding::exit_code(findings) != 1
    }

    fn summarize(&mut self, what: &str, selected: &[&SelectedLease], interval: Option<(i64, bool)>) {
        let interval = match interval {
            None => String::new(),
            Some((seconds, true)) => format!("; no process ran their loops for at most {seconds} s"),
            Some((seconds, false)) => {
                format!("; no process ran their loops when this command began, and for {seconds} s more")
            }
        };
        self.say(&format!("{what}: {}{interval}", list_names(selected)));
    }

    fn print_way_back(&mut self, selected: &[&SelectedLease]) -> bool {
        self.print_way_out("way-back", selected)
    }

    fn print_hand_over(&mut self, selected: &[&SelectedLease]) -> bool {
        self.print_way_out("hand-over", selected)
    }

    /// Prints the commands that continue and that undo the procedure. Always returns `false`.
    fn print_way_out(&mut self, undo: &str, selected: &[&SelectedLease]) -> bool {
        let place =
            self.options.gather.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        let names = names(selected).join(" ");
        self.say(&format!("to continue, type the same command again; to undo it: kubectl nonet {undo} {names}{place}"));
        false
    }

    async fn gather(&self) -> Result<Facts, FactError> {
        Box::pin(gather_facts(self.connection, self.clock, self.options.gather.clone())).await
    }

    fn seconds_since(&self, since: Timestamp) -> i64 {
        self.clock.now().duration_since(since).as_secs()
    }

    fn say(&mut self, line: &str) {
        say(self.out, line);
    }

    fn fail(&mut self, why: &str) -> bool {
        fail(self.out, why)
    }
}

fn names(selected: &[&SelectedLease]) -> Vec<&'static str> {
    selected.iter().map(|lease| lease.controller.name).collect()
}

fn list_names(selected: &[&SelectedLease]) -> String {
    names(selected).join(", ")
}
