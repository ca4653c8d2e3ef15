//! What some commands do that people try things out with. Nothing is run.

use std::time::Duration;

/// How long a command takes and what it exits with, if it is one of those that are known: `true`, `false`, `sleep N`,
/// `exit N`, `echo ...` and `date`, alone or as a script of a shell.
pub(super) fn run(words: &[&str]) -> Option<(Duration, i32)> {
    let program = words.first()?.rsplit('/').next()?;
    if matches!(program, "sh" | "bash" | "ash" | "dash") {
        return match words {
            [_, "-c" | "-ec", script, ..] => shell(script),
            _ => None,
        };
    }
    let mut took = Duration::ZERO;
    let code = simple(words, &mut took)?;
    Some((took, code.code))
}

/// What a simple command came to.
struct Done {
    code: i32,
    /// The shell ends with it.
    last: bool,
}

fn shell(script: &str) -> Option<(Duration, i32)> {
    let (mut took, mut code) = (Duration::ZERO, 0);
    for line in script.split([';', '\n']) {
        for part in line.split("&&") {
            let words: Vec<&str> = part.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let done = simple(&words, &mut took)?;
            code = done.code;
            if done.last {
                return Some((took, code));
            }
            if code != 0 {
                break;
            }
        }
    }
    Some((took, code))
}

fn simple(words: &[&str], took: &mut Duration) -> Option<Done> {
    let code = |code: i32| Some(Done { code, last: false });
    match (words.first()?.rsplit('/').next()?, &words[1..]) {
        ("true" | ":" | "echo" | "date", _) => code(0),
        ("false", _) => code(1),
        ("exit", []) => Some(Done { code: 0, last: true }),
        ("exit", [number]) => Some(Done { code: number.parse().ok()?, last: true }),
        ("sleep", [time]) => {
            *took += seconds(time)?;
            code(0)
        }
        _ => None,
    }
}

/// `5`, `0.5s`, `2m`.
fn seconds(text: &str) -> Option<Duration> {
    let (number, unit) = match text.char_indices().last()? {
        (at, 's') => (&text[..at], 1.0),
        (at, 'm') => (&text[..at], 60.0),
        (at, 'h') => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_try_things_out_with() {
        let known = |seconds: f64, code| Some((Duration::from_secs_f64(seconds), code));
        for (words, want) in [
            (&["true"][..], known(0.0, 0)),
            (&["/bin/false"], known(0.0, 1)),
            (&["sleep", "1.5"], known(1.5, 0)),
            (&["sleep", "2m"], known(120.0, 0)),
            (&["/bin/sh", "-c", "date; echo Hello from the Kubernetes cluster"], known(0.0, 0)),
            (&["sh", "-c", "sleep 3 && exit 7"], known(3.0, 7)),
            (&["sh", "-c", "false && sleep 9"], known(0.0, 1)),
            (&["sh", "-c", "exit 2; sleep 9"], known(0.0, 2)),
            (&["sh", "-c", "false\ntrue"], known(0.0, 0)),
            (&["sleep", "forever"], None),
            (&["perl", "-wle", "print"], None),
            (&["sh", "-c", "while true; do date; done"], None),
            (&["sh"], None),
            (&[], None),
        ] {
            assert_eq!(run(words), want, "{words:?}");
        }
    }
}
