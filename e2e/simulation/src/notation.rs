//! Reads what users do from text: a line a step, objects in YAML.
//!
//! ```text
//! let web(REPLICAS) = {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: REPLICAS}}
//! steps tidy(NAME) =
//!   settled: delete deployments.apps/NAME Foreground
//! suite deployment
//! scenario scale: a Deployment grows and is deleted
//!   create web(2) + {spec: {minReadySeconds: 10}}
//!   settled: merge deployments.apps/web {spec: {replicas: 4}}
//!   tidy(web)
//! ```
//!
//! A block begins at the margin, its lines are indented by two, and what is indented further continues a line. `let` and `steps`
//! define abbreviations, whose parameters are words in capitals. `VALUE + VALUE` merges objects; in the second one, a key that
//! begins with `/` is a JSON pointer. The README lists the steps.

use std::{collections::BTreeMap, time::Duration};

use sandbox::{Operation, Webhook};
use serde_json::{Value, json};

use super::scenario::{Labelled, Owner, Scenario, Step, Target, What, When};

/// A text that cannot be read, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

fn unreadable<T>(why: &str, text: &str) -> Result<T, Unreadable> {
    Err(Unreadable(format!("{why}: {text:?}")))
}

/// A block of a text that defines no abbreviation.
#[derive(Clone, Debug)]
pub struct Block {
    /// The line at the margin.
    pub head: String,
    /// The indented lines.
    pub lines: Vec<String>,
}

struct Abbreviation {
    parameters: Vec<String>,
    lines: Vec<String>,
}

impl Abbreviation {
    fn of(&self, arguments: &[&str]) -> Result<Vec<String>, Unreadable> {
        if arguments.len() != self.parameters.len() {
            let why =
                format!("an abbreviation has the parameters ({}), not these arguments", self.parameters.join(", "));
            return unreadable(&why, &arguments.join(", "));
        }
        let pairs: Vec<(&str, &str)> =
            self.parameters.iter().map(String::as_str).zip(arguments.iter().copied()).collect();
        Ok(self.lines.iter().map(|line| substitute(line, &pairs)).collect())
    }
}

/// A text with its abbreviations.
#[derive(Default)]
pub struct Notation {
    values: BTreeMap<String, Abbreviation>,
    steps: BTreeMap<String, Abbreviation>,
    /// The other blocks.
    pub blocks: Vec<Block>,
}

impl Notation {
    /// Takes a text apart.
    ///
    /// # Errors
    /// A line that belongs to no block, or an abbreviation without a body.
    pub fn read(text: &str) -> Result<Self, Unreadable> {
        let mut blocks: Vec<Block> = Vec::new();
        for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.trim().starts_with('#')) {
            let words = line.trim_start();
            match (line.len() - words.len(), blocks.last_mut()) {
                (0, _) => blocks.push(Block { head: line.to_owned(), lines: Vec::new() }),
                (2, Some(block)) => block.lines.push(words.to_owned()),
                (_, Some(Block { lines, .. })) => match lines.last_mut() {
                    Some(last) => last.extend([" ", words]),
                    None => lines.push(words.to_owned()),
                },
                (_, None) => return unreadable("this line belongs to no block", line),
            }
        }
        let mut notation = Self::default();
        for Block { head, lines } in blocks {
            let (kind, rest) = head.split_once(' ').unwrap_or((&head, ""));
            let abbreviations = match kind {
                "let" => &mut notation.values,
                "steps" => &mut notation.steps,
                _ => {
                    notation.blocks.push(Block { head, lines });
                    continue;
                }
            };
            let (call, first) = rest.split_once('=').unwrap_or((rest, ""));
            let Some((name, parameters)) = call.trim().strip_suffix(')').and_then(|call| call.split_once('(')) else {
                return unreadable("an abbreviation has the form NAME(PARAMETERS) =", &head);
            };
            let lines =
                if kind == "let" { vec![format!("{first} {}", lines.join(" ")).trim().to_owned()] } else { lines };
            let parameters = split(parameters, ',').into_iter().map(str::to_owned).collect();
            if abbreviations.insert(name.to_owned(), Abbreviation { parameters, lines }).is_some() {
                return unreadable("there is such an abbreviation already", &head);
            }
        }
        Ok(notation)
    }

    /// A text in which every abbreviation is written out.
    ///
    /// # Errors
    /// An abbreviation that does not exist, or has other parameters.
    pub fn expand(&self, text: &str) -> Result<String, Unreadable> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(open) = rest.find('(') {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
            let start = rest[..open].rfind(|c| !is_part(c)).map_or(0, |at| at + 1);
            let Some(length) = closing(&rest[open..]) else { return unreadable("a parenthesis is not closed", rest) };
            let Some(abbreviation) = self.values.get(&rest[start..open]) else {
                return unreadable("there is no such abbreviation", &rest[start..open]);
            };
            out.push_str(&rest[..start]);
            let arguments = split(&rest[open + 1..open + length], ',');
            out.push_str(&self.expand(&abbreviation.of(&arguments)?.concat())?);
            rest = &rest[open + length + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The steps that these lines describe; `words` replaces words in capitals.
    ///
    /// # Errors
    /// A line that is no step.
    pub fn steps(&self, lines: &[String], words: &[(&str, &str)]) -> Result<Vec<Step>, Unreadable> {
        let mut steps = Vec::new();
        for line in lines.iter().map(|line| substitute(line, words)) {
            let call = line.strip_suffix(')').and_then(|call| call.split_once('('));
            if let Some((arguments, abbreviation)) = call.and_then(|(name, all)| Some((all, self.steps.get(name)?))) {
                steps.extend(self.steps(&abbreviation.of(&split(arguments, ','))?, words)?);
                continue;
            }
            let line = self.expand(&line)?;
            let (mut when, what) = timed(&line)?;
            for what in deeds(what)? {
                steps.push(Step { when: std::mem::replace(&mut when, When::After(Duration::ZERO)), what });
            }
        }
        Ok(steps)
    }

    /// The scenarios of a suite: those in the blocks after its name, and those that `same as SUITE: NAMES` repeats.
    ///
    /// # Errors
    /// A block or a step that cannot be read.
    pub fn scenarios(&self, suite: &str) -> Result<Vec<Scenario>, Unreadable> {
        let (mut scenarios, mut current) = (Vec::new(), "");
        for Block { head, lines } in &self.blocks {
            let (kind, rest) = head.split_once(' ').unwrap_or((head, ""));
            if kind == "suite" {
                current = rest;
            }
            if current != suite || kind == "suite" {
                continue;
            }
            let Some((name, about)) = rest.split_once(": ") else { return unreadable("a block has no colon", head) };
            match (kind, name.strip_prefix("as ")) {
                ("scenario", _) => scenarios.push(Scenario {
                    name: name.to_owned(),
                    about: about.to_owned(),
                    steps: self.steps(lines, &[])?,
                }),
                ("same", Some(other)) => {
                    let telling = split(about, ',');
                    let known = self.scenarios(other)?.into_iter();
                    scenarios.extend(known.filter(|scenario| telling.contains(&scenario.name.as_str())));
                }
                _ => return unreadable("neither `suite`, `scenario` nor `same as`", head),
            }
        }
        Ok(scenarios)
    }
}

fn substitute(line: &str, pairs: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for part in line.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        let word = part.trim_end_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let new = pairs.iter().find(|(old, _)| *old == word).map_or(word, |(_, new)| new);
        out.extend([new, &part[word.len()..]]);
    }
    out
}

/// How far inside brackets and quotes each character of a text is.
fn depths(text: &str) -> impl Iterator<Item = (usize, char, usize)> {
    let (mut depth, mut quoted) = (0_usize, false);
    text.char_indices().map(move |(at, c)| {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        (at, c, depth + usize::from(quoted))
    })
}

fn closing(text: &str) -> Option<usize> {
    depths(text).find(|(_, _, depth)| *depth == 0).map(|(at, ..)| at)
}

/// The parts between separators that stand in no brackets and no quotes.
#[must_use]
pub fn split(text: &str, separator: char) -> Vec<&str> {
    let ends = depths(text).filter(|(_, c, depth)| *c == separator && *depth == 0).map(|(at, ..)| at);
    let mut start = 0;
    let mut parts: Vec<&str> = Vec::new();
    for end in ends.chain([text.len()]) {
        parts.push(text[start..end].trim());
        start = end + 1;
    }
    if text.trim().is_empty() { Vec::new() } else { parts }
}

/// A time such as `0.5s` or `10m`.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let number = text.strip_suffix(['s', 'm'])?;
    let seconds: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(if text.ends_with('m') { seconds * 60.0 } else { seconds }).ok()
}

/// When a step is taken, and what is done: a tenth of a second after the step before, if the line does not say it.
fn timed(line: &str) -> Result<(When, &str), Unreadable> {
    let (head, rest) = line.split_once(": ").unwrap_or(("", line));
    let number = |text: &str| text.parse().or_else(|_| unreadable("no number", text));
    let when = match *head.split(' ').collect::<Vec<_>>() {
        ["settled"] => When::Settled,
        ["observed", target] => When::Observed(Target::read(target)),
        ["reaches", target, pointer, least] => When::Reaches(Target::read(target), pointer.to_owned(), number(least)?),
        ["shows", target, pointer, least] => When::Shows(Target::read(target), pointer.to_owned(), number(least)?),
        ["tainted", node, time] => match duration(time) {
            Some(time) => When::Tainted(node.to_owned(), time),
            None => return unreadable("no time", time),
        },
        [time] if let Some(time) = duration(time) => When::After(time),
        _ => return Ok((When::After(Duration::from_millis(100)), line)),
    };
    Ok((when, rest))
}

/// What a line describes, for each of its nodes.
///
/// # Errors
/// An unknown verb, or an object that cannot be read.
pub fn deeds(text: &str) -> Result<Vec<What>, Unreadable> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
    let each = |what: fn(String) -> What| Ok(rest.split(' ').map(|node| what(node.to_owned())).collect());
    let time = || duration(rest).map_or_else(|| unreadable("no time", rest), Ok);
    let labelled = || match more.split(' ').next().and_then(|label| label.split_once('=')) {
        Some((key, value)) => Ok((
            Labelled { resource: first.to_owned(), key: key.to_owned(), value: value.to_owned() },
            more.split_once(' ').map_or("", |(_, rest)| rest),
        )),
        None => unreadable("no label", text),
    };
    Ok(vec![match verb {
        "create" => What::Create(value(rest)?),
        "merge" => What::Merge(Target::read(first), value(more)?),
        "merge-status" => What::MergeStatus(Target::read(first), value(more)?),
        "delete" => What::Delete(Target::read(first), options(more)?),
        "merge-all" => labelled().and_then(|(objects, patch)| Ok(What::MergeAll(objects, value(patch)?)))?,
        "delete-all" => labelled().and_then(|(objects, how)| Ok(What::DeleteAll(objects, options(how)?)))?,
        "evict-all" => What::EvictAll(labelled()?.0),
        "own" => What::Own(Target::read(first), split(more, ',').into_iter().map(owner).collect()),
        "silence" => return each(What::Silence),
        "restore" => return each(What::Restore),
        "renew-only" => return each(What::RenewOnly),
        "ready" => return each(|node| What::Condition(node, "Ready", true)),
        "unready" => return each(|node| What::Condition(node, "Ready", false)),
        "pause" => What::Pause(time()?),
        "stop" => What::Stop(time()?),
        "outage" => What::Outage(time()?),
        "webhook" => What::Webhook(webhook(rest)?),
        "finalize" => What::Finalize(rest.to_owned()),
        "no-webhook" => What::NoWebhook(rest.to_owned()),
        _ => return unreadable("no such step; the README of the simulation lists the steps", text),
    }])
}

/// An owner, which goes last when it is deleted in the foreground unless it is `free`.
fn owner(text: &str) -> Owner {
    let free = text.strip_prefix("free ");
    Owner { target: Target::read(free.unwrap_or(text)), blocked: free.is_none() }
}

/// How something is deleted: `now`, with a propagation policy, or with these options.
fn options(text: &str) -> Result<Value, Unreadable> {
    Ok(match text {
        "" => json!({}),
        "now" => json!({"gracePeriodSeconds": 0}),
        "Background" | "Foreground" | "Orphan" => json!({ "propagationPolicy": text }),
        _ => value(text)?,
    })
}

/// `NAME create|update|delete RESOURCE denies CODE MESSAGE`, or `patches` and a JSON patch.
fn webhook(text: &str) -> Result<Webhook, Unreadable> {
    let parts: Vec<&str> = text.splitn(5, ' ').collect();
    let [name, operation, resource, verb, rest] = *parts else { return unreadable("no webhook", text) };
    let operation = match operation {
        "create" => Operation::Create,
        "update" => Operation::Update,
        "delete" => Operation::Delete,
        _ => return unreadable("no operation", operation),
    };
    let webhook = Webhook::new(name, operation, resource);
    let denial = rest.split_once(' ').and_then(|(code, message)| Some((code.parse().ok()?, message)));
    match (verb, denial) {
        ("patches", _) => Ok(webhook.patches(value(rest)?)),
        ("denies", Some((code, message))) => Ok(webhook.denies(code, message)),
        _ => unreadable("a webhook denies or patches", text),
    }
}

/// An object in YAML, or several that are merged.
fn value(text: &str) -> Result<Value, Unreadable> {
    let mut merged = Value::Null;
    for part in split(text, '+') {
        let more = serde_saphyr::from_str(part).map_err(|why| Unreadable(format!("{why}: {part:?}")))?;
        merge(&mut merged, more)?;
    }
    Ok(merged)
}

fn merge(into: &mut Value, more: Value) -> Result<(), Unreadable> {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) if !more.keys().any(|key| key.starts_with('/')) => {
            more.into_iter().try_for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value))
        }
        (into @ Value::Object(_), Value::Object(more)) => {
            more.into_iter().try_for_each(|(pointer, value)| set(into, &pointer, value))
        }
        (into, more) => {
            *into = more;
            Ok(())
        }
    }
}

fn set(object: &mut Value, pointer: &str, value: Value) -> Result<(), Unreadable> {
    let (parent, field) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    match object.pointer_mut(parent) {
        Some(Value::Array(items)) => match field.parse().ok().and_then(|index: usize| items.get_mut(index)) {
            Some(item) => *item = value,
            None => items.push(value),
        },
        Some(parent) => parent[field.replace("~1", "/").as_str()] = value,
        None => return unreadable("there is nothing at this pointer", pointer),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
let set(NAME, MORE) = {kind: Set, metadata: {name: NAME}}
  + {spec: MORE}
steps lost(NODE) =
  5s: silence NODE other
suite one
# A comment.
scenario a: what it is about
  create set(web-NAME, {size: 1}) + {/spec/size: 2}
  lost(node-1)
  reaches sets/team/web /status/size 3: delete sets/web now
suite two
same as one: a
";

    #[test]
    fn a_text_becomes_steps() {
        let notation = Notation::read(TEXT).unwrap();
        let [scenario] = &notation.scenarios("one").unwrap()[..] else { panic!("one scenario") };
        assert_eq!((scenario.name.as_str(), scenario.about.as_str()), ("a", "what it is about"));
        let steps: Vec<String> = scenario
            .steps
            .iter()
            .map(|Step { when, what }| format!("{when:?} {what:?}").replace("\\\"", "\""))
            .collect();
        assert_eq!(steps.len(), 4);
        assert!(steps[0].starts_with("After(100ms) Create(") && steps[0].contains("web-NAME"), "{}", steps[0]);
        assert!(matches!(&scenario.steps[0].what, What::Create(set) if set["spec"] == json!({"size": 2})));
        assert_eq!(steps[1..3], ["After(5s) Silence(\"node-1\")", "After(0ns) Silence(\"other\")"]);
        assert!(
            matches!(&scenario.steps[3].when, When::Reaches(set, _, 3) if set.namespace.as_deref() == Some("team"))
        );
        assert_eq!(notation.scenarios("two").unwrap().len(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_a_reason() {
        let steps = |line: &str| Notation::default().steps(&[line.to_owned()], &[]).unwrap_err().to_string();
        assert_eq!(steps("dance"), "no such step; the README of the simulation lists the steps: \"dance\"");
        assert_eq!(steps("create none()"), "there is no such abbreviation: \"none\"");
        assert!(steps("create {a").contains("{a"));
        assert!(
            Notation::read("let a() = b\nlet a() = c").err().is_some_and(|why| why.to_string().contains("already"))
        );
        assert_eq!(
            Notation::read("  create a").err(),
            unreadable::<()>("this line belongs to no block", "  create a").err()
        );
    }
}
