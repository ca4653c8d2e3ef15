//! `why` and completion on the command line.

use std::{io::Write as _, time::Duration};

use clap::{Args, CommandFactory as _};
use common::clock::Clock;
use serde_json::json;

use super::{Cli, Output, ServerOptions, open};
use crate::{
    complete::{self, Completion},
    connection::Connection,
    why::{self, Target, reader::Reader, tree::Answer},
};

/// Text that `--help` and `-h` of `why` print after the flags.
pub(super) const AFTER_WHY_HELP: &str = "\
Exit codes:
  0  it waits for nothing; with --all-failing: nothing fails
  1  it waits; with --all-failing: something fails
  2  wrong usage, no usable kubeconfig, no connection, no such object, or with --all-failing: not everything could be read

The command writes nothing, and reads with your own rights. What you may not read is named.";

/// Exit code if not everything could be read.
const CANNOT_TELL: u8 = 2;
/// How long a completion waits for the API server.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two answers of `why --watch`.
const WATCH_PERIOD: Duration = Duration::from_secs(2);
/// After this time without an answer, `why` says that it waits for the API server.
const SLOW_AFTER: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub(super) struct Why {
    /// The object, for example deployment/web, sts/db, pod/web-0, node/worker-1
    #[arg(value_name = "KIND/NAME", num_args = 1..=2, required_unless_present = "all_failing", conflicts_with = "all_failing")]
    object: Vec<String>,
    /// Explain all objects of the namespace that do not work and do not get better by themselves
    #[arg(long)]
    all_failing: bool,
    /// With --all-failing: in all namespaces
    #[arg(short = 'A', long, requires = "all_failing", conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Answer again whenever the answer changes
    #[arg(short, long)]
    watch: bool,
    /// Format of the output
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    output: Output,
    /// Namespace of the object [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    server: ServerOptions,
}

/// Explains an object, or all that fail; with `--watch` again whenever the answer changes.
pub(super) async fn explain(options: &Why, out: &mut impl std::io::Write) -> Result<u8, String> {
    // `KIND NAME` is usual with kubectl, too.
    let target = match options.object.as_slice() {
        [] => None,
        words => Some(Target::parse(&words.join("/")).map_err(|why| why.to_string())?),
    };
    let connection = open(&options.server).await?;
    let default = connection.client.default_namespace().to_owned();
    let namespace = options.namespace.clone().unwrap_or(default);
    let clock = Clock::system();
    let mut shown = String::new();
    loop {
        let scope = match &target {
            Some(target) if !target.is_namespaced() => None,
            _ if options.all_namespaces => None,
            _ => Some(namespace.as_str()),
        };
        let place = scope.map_or_else(|| "all namespaces".to_owned(), |namespace| format!("namespace {namespace}"));
        let reader = Reader::new(&connection, scope);
        let asking = async {
            match &target {
                Some(target) => why::explain(&reader, &clock, &namespace, target).await.map(|one| vec![one]),
                None => why::explain_failing(&reader, &clock, scope).await,
            }
        };
        let answers = match with_progress(&clock, Box::pin(asking)).await {
            Ok(answers) => answers,
            // An object that is gone, or a server that does not answer, may come back.
            Err(why) if options.watch && !shown.is_empty() => {
                drop(writeln!(std::io::stderr(), "{why}"));
                clock.sleep(WATCH_PERIOD).await;
                continue;
            }
            Err(why) => return Err(why.to_string()),
        };
        let text = match options.output {
            Output::Json => {
                let value = if target.is_some() { json!(answers.first()) } else { json!(answers) };
                format!("{value:#}\n")
            }
            Output::Text => answers_to_text(&answers, target.is_none(), &place, &reader),
        };
        let code = if target.is_some() {
            u8::from(answers.iter().any(|answer| answer.cause.is_some()))
        } else if answers.iter().any(Answer::fails) {
            1
        } else if reader.unread().is_empty() {
            0
        } else {
            CANNOT_TELL
        };
        if without_ages(&text) != without_ages(&shown) {
            let time = if shown.is_empty() || options.output == Output::Json {
                String::new()
            } else {
                format!("\n{:.0}\n", clock.now())
            };
            // Without a reader of the output, nothing is left to do.
            if out.write_all(format!("{time}{text}").as_bytes()).and_then(|()| out.flush()).is_err() {
                return Ok(code);
            }
            shown = text;
        }
        if !options.watch {
            return Ok(code);
        }
        clock.sleep(WATCH_PERIOD).await;
    }
}

fn answers_to_text(answers: &[Answer], are_all: bool, place: &str, reader: &Reader) -> String {
    let width = terminal_size::terminal_size().map_or(usize::MAX, |(width, _)| usize::from(width.0));
    if !are_all {
        return answers.iter().map(|answer| answer.to_text(width, false)).collect::<Vec<_>>().concat();
    }
    let fail = |answer: &&Answer| answer.fails();
    let mut texts: Vec<String> = answers.iter().filter(fail).map(|answer| answer.to_text(width, true) + "\n").collect();
    let rest = |answer: &&Answer| !answer.fails();
    texts.extend(answers.iter().filter(rest).filter_map(|answer| {
        let namespace = Some(&answer.namespace).filter(|namespace| !namespace.is_empty());
        Some(format!(
            "{}{} {} waits: {}\n",
            namespace.map_or_else(String::new, |namespace| format!("{namespace}: ")),
            answer.tree.kind,
            answer.tree.name,
            answer.cause.as_ref()?.text
        ))
    }));
    let unread = reader.unread();
    texts.extend(unread.iter().map(|(resource, why)| format!("not read: {resource}: {why}\n")));
    if answers.iter().all(|answer| !answer.fails()) {
        let what = if unread.is_empty() { "Nothing fails" } else { "Nothing fails in what could be read" };
        texts.push(format!("{what}: {place}.\n"));
    }
    texts.concat()
}

/// Removes ages such as `12s`, which change although nothing has happened.
fn without_ages(text: &str) -> String {
    let is_age = |word: &str| {
        let digits = word.trim_end_matches([',', ';', ']', ')']).trim_end_matches(['s', 'm', 'h', 'd']);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && digits.len() < word.len()
    };
    text.split(' ').filter(|word| !is_age(word)).collect::<Vec<_>>().join(" ")
}

/// Awaits an answer, and says on stderr each second that the API server is slow.
async fn with_progress<T>(clock: &Clock, answer: impl Future<Output = T>) -> T {
    let mut answer = std::pin::pin!(answer);
    let mut seconds = 0;
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            () = clock.sleep(SLOW_AFTER) => {
                seconds += 1;
                drop(writeln!(std::io::stderr(), "waiting for the API server for {seconds}s"));
            }
        }
    }
}

/// Prints what the last word may become. A cluster that cannot be asked gives no candidates.
pub(super) async fn print_completions(words: &[String]) {
    let kinds = why::kind_names();
    let text = match complete::complete(&Cli::command(), words, &kinds) {
        Completion::Words(words, adds_space) => complete::to_text(&words, adds_space),
        Completion::Objects { kind, namespace } => {
            let mut names = Vec::new();
            if let Ok(connection) = Connection::open(None, None, COMPLETION_TIMEOUT).await {
                let namespace = namespace.unwrap_or_else(|| connection.client.default_namespace().to_owned());
                let reader = Reader::new(&connection, Some(&namespace));
                names = why::names(&reader, &kind, &namespace).await;
            }
            let last = words.last().map(String::as_str).unwrap_or_default();
            let words: Vec<String> = names.into_iter().map(|name| format!("{kind}/{name}")).collect();
            complete::to_text(&words.into_iter().filter(|word| word.starts_with(last)).collect::<Vec<_>>(), true)
        }
    };
    drop(std::io::stdout().write_all(text.as_bytes()));
}
