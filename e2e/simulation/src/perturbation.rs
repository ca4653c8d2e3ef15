//! What goes wrong in a run, as data with a short text.
//!
//! ```text
//! crash:after-effect@17        the process that makes the 17th write crashes when it has taken effect and is not answered
//! hold:replicaset-controller/pods@12+30s,error:409@14
//! ```

use std::{fmt, str::FromStr, time::Duration};

use common::duration;

use super::neighbour;

/// Faults of a run; none in an unperturbed one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Perturbation(pub Vec<Fault>);

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: Kind,
    /// With what it does.
    pub at: At,
}

/// The moment a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// When this write of the controllers leaves, counted from 1. What concerns one process concerns the one that writes.
    Write(u64),
    /// Before this step of the users, counted from 1. What concerns one process concerns the suite's own controller.
    Step(u64),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(k) => write!(f, "{k}"),
            Self::Step(k) => write!(f, "step{k}"),
        }
    }
}

impl At {
    fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok().filter(|k| *k > 0);
        text.strip_prefix("step").map_or_else(|| number(text).map(Self::Write), |step| number(step).map(Self::Step))
    }
}

/// When a process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The write does not leave.
    Before,
    /// The write takes effect and is not answered.
    AfterEffect,
    /// The write is answered.
    AfterResponse,
}

/// How a write fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 409 Conflict.
    Conflict,
    /// 429 with `Retry-After`.
    TooManyRequests,
    /// 500; nothing was done.
    Before,
    /// 500; it was done.
    After,
    /// 503; nothing was done.
    Unavailable,
    /// The connection breaks; nothing was done.
    CutBefore,
    /// The connection breaks; it was done.
    CutAfter,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The process crashes and is restarted with empty memory.
    Crash(Moment),
    /// The write fails.
    Error(Failure),
    /// Writes like this one are refused for a while, as by an admission webhook, with 403 or 422.
    Reject(u16, Duration),
    /// Whatever the process reads is answered with 500 for a while; watches go on.
    Unread(Duration),
    /// A process hears nothing of one resource for a while: program, resource, how long.
    Hold(String, String, Duration),
    /// The process crashes, and is restarted against a server from which every event comes that much late.
    Lag(Duration),
    /// The process is cut off for a while, and what has happened meanwhile is forgotten by the server.
    Missed(Duration),
    /// A Pod is deleted and another one of its name created while the process that made the write hears nothing of Pods.
    Recreate(Duration),
    /// Another replica takes over, in order.
    FailOver,
    /// Another replica takes over, in order, whose caches were filled before and hear of nothing for that long.
    StaleStandby(Duration),
    /// Another replica takes over from one that hangs, which wakes up after that long.
    PausedLeader(Duration),
    /// The clock of the process jumps by so many seconds.
    Clock(i64),
    /// A user does something.
    Interfere(String),
    /// A hostile neighbour creates its objects in its own namespace.
    Neighbour(String),
}

pub(super) const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The simplest of each kind, as the list of perturbations shows them.
pub const FORMS: &[(&str, &str)] = &[
    ("none", "no fault"),
    ("crash:before@K", "the process that makes write K crashes before it sends the request"),
    ("crash:after-effect@K", "... after the write took effect, and before the answer"),
    ("crash:after-response@K", "... after the answer"),
    (
        "error:E@K",
        "write K fails: 409, 429, 500, 503, cut (the connection breaks); 500-after and cut-after: it took effect",
    ),
    ("reject:403@K+D", "writes of the same kind as write K are refused for the time D, with 403 or 422"),
    ("unread@K+D", "from write K on, all reads of the process are answered with 500 for the time D; watches continue"),
    ("hold:P/R@K+D", "from write K on, program P gets no events of resource R for the time D"),
    ("lag@K+D", "crash, and the restarted process gets all events with a delay of D"),
    ("missed@K+D", "the process is cut off for D, and the server no longer has the events of that time (410)"),
    (
        "recreate@K+D",
        "a Pod is deleted and recreated with the same name, while the process gets no events of Pods for D",
    ),
    ("failover@K", "a second replica takes over after write K"),
    (
        "stale-standby@K+D",
        "a second replica takes over after the next write; it gets no events from shortly after write K until D later",
    ),
    ("paused-leader@K+D", "the leader hangs after write K, is replaced, and continues its plan after D"),
    ("clock:S@K", "the clock of the process jumps by S (+2h, -1s)"),
    ("interfere:I@K", "a user makes the interference I of the suite, and reverses it if possible"),
    ("neighbour:N@K", "the hostile neighbour N, listed below, creates its objects in its own namespace"),
    ("...@stepK", "before step K of the users, for faults that need no write: hold, missed, failover, clock, ..."),
];

impl Kind {
    /// Whether the process it strikes goes no further, for now or for good.
    pub fn ends(&self) -> bool {
        matches!(self, Self::Crash(_) | Self::Lag(_) | Self::PausedLeader(_))
    }
}

impl Fault {
    /// For how long it keeps a controller from seeing the truth.
    pub fn lag(&self) -> Duration {
        match &self.kind {
            Kind::Hold(_, _, time)
            | Kind::Lag(time)
            | Kind::Missed(time)
            | Kind::Recreate(time)
            | Kind::StaleStandby(time) => *time,
            // A request that is told to come back later is of a plan that is older by then.
            Kind::Error(Failure::TooManyRequests) => RETRY_AFTER,
            _ => Duration::ZERO,
        }
    }

    /// Whether users change what is wanted, so that the run need not end like an unperturbed one.
    pub fn changes_the_wish(&self) -> bool {
        matches!(self.kind, Kind::Interfere(_) | Kind::Recreate(_))
    }

    /// The family it is counted in.
    pub fn family(&self) -> &'static str {
        match &self.kind {
            Kind::Crash(_) => "crash",
            Kind::Error(_) | Kind::Unread(_) => "error",
            Kind::Reject(..) => "reject",
            Kind::Hold(..) | Kind::Lag(_) => "stale",
            Kind::Missed(_) | Kind::Recreate(_) => "missed",
            Kind::FailOver | Kind::StaleStandby(_) | Kind::PausedLeader(_) => "failover",
            Kind::Clock(_) => "clock",
            Kind::Interfere(_) => "interfere",
            Kind::Neighbour(_) => "neighbour",
        }
    }
}

impl Perturbation {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// One fault.
    pub fn one(kind: Kind, at: At) -> Self {
        Self(vec![Fault { kind, at }])
    }

    /// Whether a clock jumps ahead, and something else goes wrong: a deadline passes before what it is about has happened.
    pub fn hastens_deadlines(&self) -> bool {
        self.0.len() > 1 && self.0.iter().any(|fault| matches!(fault.kind, Kind::Clock(1..)))
    }

    /// For how long it keeps a controller from seeing the truth.
    pub fn lag(&self) -> Duration {
        self.0.iter().map(Fault::lag).sum()
    }

    /// How far apart the clocks of two processes are at most.
    pub fn skew(&self) -> Duration {
        let jump = |fault: &Fault| match fault.kind {
            Kind::Clock(seconds) => Duration::from_secs(seconds.unsigned_abs()),
            _ => Duration::ZERO,
        };
        self.0.iter().map(jump).sum()
    }

    /// Whether the run need not end like an unperturbed one.
    pub fn changes_the_wish(&self) -> bool {
        self.0.iter().any(Fault::changes_the_wish)
    }

    /// Whether hostile neighbours are all that distinguishes the run from the unperturbed one.
    pub fn has_only_neighbours(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|fault| matches!(fault.kind, Kind::Neighbour(_)))
    }

    /// The family it is counted in.
    pub fn family(&self) -> &'static str {
        match self.0.as_slice() {
            [] => "none",
            [one] => one.family(),
            _ => "several",
        }
    }
}

impl fmt::Display for Perturbation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (i, fault) in self.0.iter().enumerate() {
            write!(f, "{}{fault}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

const MOMENTS: &[(&str, Moment)] =
    &[("before", Moment::Before), ("after-effect", Moment::AfterEffect), ("after-response", Moment::AfterResponse)];
const FAILURES: &[(&str, Failure)] = &[
    ("409", Failure::Conflict),
    ("429", Failure::TooManyRequests),
    ("500", Failure::Before),
    ("500-after", Failure::After),
    ("503", Failure::Unavailable),
    ("cut", Failure::CutBefore),
    ("cut-after", Failure::CutAfter),
];

fn named<T: PartialEq>(all: &[(&'static str, T)], wanted: &T) -> &'static str {
    all.iter().find(|(_, value)| value == wanted).map_or("", |(name, _)| *name)
}

fn called<T: Copy>(all: &[(&'static str, T)], name: &str) -> Option<T> {
    all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, time) = match &self.kind {
            Kind::Crash(moment) => (format!("crash:{}", named(MOMENTS, moment)), None),
            Kind::Error(failure) => (format!("error:{}", named(FAILURES, failure)), None),
            Kind::Reject(code, time) => (format!("reject:{code}"), Some(time)),
            Kind::Unread(time) => ("unread".to_owned(), Some(time)),
            Kind::Hold(program, resource, time) => (format!("hold:{program}/{resource}"), Some(time)),
            Kind::Lag(time) => ("lag".to_owned(), Some(time)),
            Kind::Missed(time) => ("missed".to_owned(), Some(time)),
            Kind::Recreate(time) => ("recreate".to_owned(), Some(time)),
            Kind::FailOver => ("failover".to_owned(), None),
            Kind::StaleStandby(time) => ("stale-standby".to_owned(), Some(time)),
            Kind::PausedLeader(time) => ("paused-leader".to_owned(), Some(time)),
            Kind::Clock(seconds) => {
                let size = duration::format(Duration::from_secs(seconds.unsigned_abs()));
                (format!("clock:{}{size}", if *seconds < 0 { "-" } else { "+" }), None)
            }
            Kind::Interfere(name) => (format!("interfere:{name}"), None),
            Kind::Neighbour(name) => (format!("neighbour:{name}"), None),
        };
        write!(f, "{what}@{}", self.at)?;
        time.map_or(Ok(()), |time| write!(f, "+{}", duration::format(*time)))
    }
}

/// A text that is no perturbation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no perturbation; see --list")]
pub struct Unreadable(String);

impl FromStr for Perturbation {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        if text == "none" {
            return Ok(Self::none());
        }
        let one = |text: &str| fault(text).ok_or_else(|| Unreadable(text.to_owned()));
        text.split(',').map(str::trim).map(one).collect::<Result<_, _>>().map(Self)
    }
}

fn fault(text: &str) -> Option<Fault> {
    let (what, rest) = text.split_once('@')?;
    let (at, time) = match rest.split_once('+') {
        Some((at, time)) => (at, Some(duration::parse(time).ok()?)),
        None => (rest, None),
    };
    let (what, argument) = what.split_once(':').unwrap_or((what, ""));
    let kind = match (what, time) {
        ("crash", None) => Kind::Crash(called(MOMENTS, argument)?),
        ("error", None) => Kind::Error(called(FAILURES, argument)?),
        ("reject", Some(time)) => Kind::Reject(argument.parse().ok().filter(|c| matches!(c, 403 | 422))?, time),
        ("hold", Some(time)) => {
            let (program, resource) = argument.split_once('/')?;
            Kind::Hold(program.to_owned(), resource.to_owned(), time)
        }
        ("unread", Some(time)) => Kind::Unread(time),
        ("lag", Some(time)) => Kind::Lag(time),
        ("missed", Some(time)) => Kind::Missed(time),
        ("recreate", Some(time)) => Kind::Recreate(time),
        ("failover", None) => Kind::FailOver,
        ("stale-standby", Some(time)) => Kind::StaleStandby(time),
        ("paused-leader", Some(time)) => Kind::PausedLeader(time),
        ("clock", None) => {
            let size = duration::parse(argument.get(1..)?).ok()?.as_secs();
            let size = i64::try_from(size).ok()?;
            Kind::Clock(match argument.get(..1)? {
                "+" => size,
                "-" => -size,
                _ => return None,
            })
        }
        ("interfere", None) if !argument.is_empty() => Kind::Interfere(argument.to_owned()),
        ("neighbour", None) => Kind::Neighbour(neighbour::find(argument)?.name.to_owned()),
        _ => return None,
    };
    Some(Fault { kind, at: At::parse(at)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_read() {
        for text in [
            "none",
            "crash:before@1",
            "crash:after-effect@17,error:cut-after@18",
            "error:500-after@3",
            "reject:403@5+30s",
            "hold:replicaset-controller/pods@12+1m30s",
            "lag@4+10s",
            "unread@4+30s",
            "missed@4+20s",
            "recreate@4+30s",
            "failover@9",
            "stale-standby@9+30s",
            "paused-leader@9+1m0s",
            "clock:+2h0m0s@4",
            "clock:-1s@4",
            "interfere:scale@7",
            "neighbour:refused@step1",
            "hold:replicaset-controller/pods@step2+30s",
        ] {
            assert_eq!(text.parse::<Perturbation>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for text in [
            "",
            "crash",
            "crash:now@1",
            "crash:before@0",
            "missed@step0+1s",
            "crash:before@1+3s",
            "hold:pods@1+3s",
            "reject:500@1+1s",
            "neighbour:nobody@step1",
        ] {
            assert!(text.parse::<Perturbation>().is_err(), "{text}");
        }
    }
}
