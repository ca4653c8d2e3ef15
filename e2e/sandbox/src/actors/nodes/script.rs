//! What a Pod is to live through, as its annotations say.

use std::time::Duration;

use common::meta::Annotations;

use super::{
    command,
    objects::{COMPLETION_INDEX, Pod},
};

/// What every annotation of a script starts with.
pub(super) const PREFIX: &str = "sim/";

/// One Pod's script. The default is a Pod that is Ready as soon as it runs and runs until it is deleted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Script {
    /// From being taken on by the node to running.
    pub(super) start_after: Duration,
    /// From running to ready.
    pub(super) ready_after: Duration,
    /// The readiness probe never succeeds.
    pub(super) never_ready: bool,
    /// From ready to unready.
    pub(super) unready_after: Option<Duration>,
    /// From unready to ready again.
    pub(super) unready_for: Option<Duration>,
    /// The code containers exit with, if they do.
    pub(super) exit: Option<i32>,
    /// From running to the exit, or to the failure of the Pod.
    pub(super) after: Option<Duration>,
    /// How often containers exit before they stay up.
    pub(super) exit_times: Option<u32>,
    /// Exit codes of single containers.
    pub(super) exit_of: Vec<(Box<str>, i32)>,
    /// How long each restart is held back, instead of the kubelet's growing back-off.
    pub(super) restart_after: Option<Duration>,
    /// The reason the node fails the Pod with.
    pub(super) fail_reason: Option<Box<str>>,
    /// The message that goes with it.
    pub(super) fail_message: Option<Box<str>>,
    /// From the request to delete to the end of the containers.
    pub(super) terminate_after: Duration,
    /// The code containers exit with when they are told to end.
    pub(super) exit_on_term: Option<i32>,
}

impl Script {
    /// The script of a Pod: its annotations, and, where they do not say how its first container ends, that one's command.
    pub(super) fn of(pod: &Pod, complain: impl Fn(&str, &str)) -> Option<Box<Self>> {
        let script = Self::read(&pod.metadata.annotations, complain);
        if script.as_ref().is_some_and(|s| s.exit.is_some() || !s.exit_of.is_empty() || s.fail_reason.is_some()) {
            return script;
        }
        let first = pod.spec.containers.first()?;
        let words: Vec<&str> = first.command.iter().chain(&first.args).map(|word| &**word).collect();
        let Some((after, code)) = command::run(&words) else { return script };
        let mut script = script.unwrap_or_default();
        script.after.get_or_insert(after);
        script.exit = Some(code);
        Some(script)
    }

    /// Reads a script; none if there is not a single annotation of one. `complain` is told of values that mean nothing.
    pub(super) fn read(annotations: &Annotations, complain: impl Fn(&str, &str)) -> Option<Box<Self>> {
        if !annotations.iter().any(|(key, _)| key.starts_with(PREFIX)) {
            return None;
        }
        let mut script = Self::default();
        let index = annotations.get(COMPLETION_INDEX);
        let mut indexed = None;
        for (key, value) in annotations.iter() {
            let Some(name) = key.strip_prefix(PREFIX) else { continue };
            let understood = match name {
                "start-after" => seconds(value).map(|d| script.start_after = d),
                "ready-after" => seconds(value).map(|d| script.ready_after = d),
                "never-ready" => value.parse().ok().map(|b| script.never_ready = b),
                "unready-after" => seconds(value).map(|d| script.unready_after = Some(d)),
                "unready-for" => seconds(value).map(|d| script.unready_for = Some(d)),
                "exit" => value.parse().ok().map(|code| script.exit = Some(code)),
                "after" => seconds(value).map(|d| script.after = Some(d)),
                "exit-times" => value.parse().ok().map(|n| script.exit_times = Some(n)),
                "restart-after" => seconds(value).map(|d| script.restart_after = Some(d)),
                "fail-reason" => (!value.is_empty()).then(|| script.fail_reason = Some(value.into())),
                "fail-message" => {
                    let _: () = script.fail_message = Some(value.into());
                    Some(())
                }
                "terminate-after" => seconds(value).map(|d| script.terminate_after = d),
                "exit-on-term" => value.parse().ok().map(|code| script.exit_on_term = Some(code)),
                _ => {
                    if let Some(i) = name.strip_prefix("exit-index-") {
                        value.parse().ok().map(|code| {
                            if Some(i) == index {
                                indexed = Some(code);
                            }
                        })
                    } else if let Some(container) = name.strip_prefix("exit-container-") {
                        value.parse().ok().map(|code| script.exit_of.push((container.into(), code)))
                    } else {
                        None
                    }
                }
            };
            if understood.is_none() {
                complain(key, value);
            }
        }
        if indexed.is_some() {
            script.exit = indexed;
        }
        Some(Box::new(script))
    }

    /// The code a container exits with by itself.
    pub(super) fn exit_code(&self, container: &str) -> i32 {
        self.exit_of.iter().find(|(name, _)| **name == *container).map_or(self.exit.unwrap_or(0), |(_, code)| *code)
    }

    /// Whether containers exit by themselves, having done so `times` times before.
    pub(super) fn exits_again(&self, times: u32) -> bool {
        (self.exit.is_some() || !self.exit_of.is_empty()) && self.exit_times.is_none_or(|limit| times < limit)
    }
}

/// Seconds (`0.5`, `600`) or a duration as Go writes them (`1m30s`).
fn seconds(text: &str) -> Option<Duration> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .or_else(|| common::duration::parse(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Option<Box<Script>> {
        Script::read(&Annotations::from_pairs(pairs.iter().copied()), |key, value| panic!("{key}={value}"))
    }

    #[test]
    fn a_pod_without_annotations_has_no_script() {
        assert_eq!(read(&[("note", "1")]), None);
    }

    #[test]
    fn seconds_and_go_durations_are_read() {
        let script =
            read(&[("sim/ready-after", "0.5"), ("sim/after", "1m30s"), ("sim/terminate-after", "600")]).unwrap();
        assert_eq!(script.ready_after, Duration::from_millis(500));
        assert_eq!(script.after, Some(Duration::from_secs(90)));
        assert_eq!(script.terminate_after, Duration::from_secs(600));
    }

    #[test]
    fn the_code_of_a_completion_index_overrides_the_code_of_the_job() {
        let pairs = [("sim/exit", "0"), ("sim/exit-index-1", "3"), (COMPLETION_INDEX, "1")];
        assert_eq!(read(&pairs).unwrap().exit, Some(3));
        let pairs = [("sim/exit", "0"), ("sim/exit-index-1", "3"), (COMPLETION_INDEX, "2")];
        assert_eq!(read(&pairs).unwrap().exit, Some(0));
    }

    #[test]
    fn what_cannot_be_read_is_named_and_left_out() {
        let seen = std::cell::RefCell::new(Vec::new());
        let pairs = [("sim/ready-after", "soon"), ("sim/dance", "1"), ("sim/exit", "7")];
        let annotations = Annotations::from_pairs(pairs);
        let script = Script::read(&annotations, |key, _| seen.borrow_mut().push(key.to_owned())).unwrap();
        assert_eq!(*seen.borrow(), ["sim/dance", "sim/ready-after"]);
        assert_eq!(script.exit, Some(7));
    }
}
