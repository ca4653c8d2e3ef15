//! Logs as Kubernetes components write them: klog text or JSON lines, on stderr.
//!
//! An event is logged if its verbosity is at most klog's `-v`. The field `v` of an event states its verbosity; the default is 0
//! for errors, warnings and information, 4 for `debug!` and 6 for `trace!`. Events of libraries below the level of warnings have
//! 8 or more. [`VerbosityHandle::set_verbosity`] changes the limit at run time.

mod format;

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use tracing::{Event, Level, Metadata, Subscriber, level_filters::LevelFilter, span};
use tracing_subscriber::{
    Layer, layer::Context, layer::SubscriberExt as _, registry::LookupSpan, util::SubscriberInitExt as _,
};

use crate::clock::Clock;
use format::{LogFields, LogLine};

/// Syntax of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// klog's text format.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Format and verbosity of the log.
#[derive(Clone, Debug, Default)]
pub struct LogSettings {
    /// Value of `--logging-format`.
    pub format: LogFormat,
    /// Value of `-v`, from 0 (least) to 10 (most).
    pub verbosity: u8,
    /// Value of `--vmodule`: patterns for names of source files without extension (`*` matches anything), each with a verbosity.
    pub module_verbosities: Vec<(String, u8)>,
}

impl LogSettings {
    /// Parses `pattern=N,...`, the syntax of `--vmodule`.
    pub fn parse_module_verbosities(text: &str) -> Result<Vec<(String, u8)>, String> {
        text.split(',')
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (pattern, level) =
                    part.split_once('=').ok_or_else(|| format!("{part:?} is not of the form file=N"))?;
                let level = level.parse().map_err(|_| format!("{level:?} is not a verbosity"))?;
                Ok((pattern.to_owned(), level))
            })
            .collect()
    }
}

/// Changes the verbosity of a running process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct VerbosityHandle {
    verbosity: Arc<AtomicU8>,
}

impl VerbosityHandle {
    /// Returns a handle that is not connected to a log, so that a change of its verbosity has no effect.
    pub fn new_detached() -> Self {
        Self { verbosity: Arc::default() }
    }

    /// Returns the verbosity of files that `--vmodule` does not name, from 0 (least) to 10 (most).
    pub fn verbosity(&self) -> u8 {
        self.verbosity.load(Ordering::Relaxed)
    }

    /// Sets the verbosity from the next event on. Files that `--vmodule` names keep their own verbosity.
    pub fn set_verbosity(&self, verbosity: u8) {
        self.verbosity.store(verbosity, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Installs the log to stderr for the whole process. Has no effect if another subscriber is already installed.
pub fn install_log(settings: LogSettings) -> VerbosityHandle {
    let (log, handle) = LogLayer::new(
        settings,
        Clock::system(),
        Box::new(|line: &str| {
            // A failed write to stderr cannot be reported anywhere else.
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
        }),
    );
    let _ = tracing_subscriber::registry().with(log).try_init();
    handle
}

/// Function that receives each finished line, with its line break.
type LineSink = Box<dyn Fn(&str) + Send + Sync>;

/// Layer that writes events as lines to a sink.
struct LogLayer {
    settings: LogSettings,
    /// Current verbosity. The verbosity in `settings` is only the initial value.
    handle: VerbosityHandle,
    clock: Clock,
    sink: LineSink,
}

impl LogLayer {
    fn new(settings: LogSettings, clock: Clock, sink: LineSink) -> (Self, VerbosityHandle) {
        let handle = VerbosityHandle { verbosity: Arc::new(AtomicU8::new(settings.verbosity)) };
        (Self { settings, handle: handle.clone(), clock, sink }, handle)
    }

    /// Returns the highest logged verbosity of a source file: by the first matching pattern of `--vmodule`, else by `-v`.
    fn verbosity(&self, metadata: &Metadata<'_>) -> u8 {
        let stem = metadata.file().map_or("", file_stem);
        let module = self.settings.module_verbosities.iter().find(|(pattern, _)| matches_pattern(pattern, stem));
        module.map_or_else(|| self.handle.verbosity(), |(_, level)| *level)
    }
}

fn is_library_target(target: &str) -> bool {
    const LIBRARIES: [&str; 11] =
        ["hyper", "h2", "rustls", "tokio_rustls", "tower", "kube", "kube_client", "mio", "tokio", "axum", "want"];
    let root = target.split("::").next().unwrap_or(target);
    LIBRARIES.contains(&root) || root.starts_with("hyper_") || root.starts_with("tower_")
}

/// Returns the verbosity of an event without the field `v`, by its level.
fn default_verbosity(metadata: &Metadata<'_>) -> u8 {
    let (own, of_library) = match *metadata.level() {
        Level::ERROR | Level::WARN => (0, 0),
        Level::INFO => (0, 8),
        Level::DEBUG => (4, 8),
        Level::TRACE => (6, 10),
    };
    if is_library_target(metadata.target()) { of_library } else { own }
}

/// Returns the name of a file without directory and extension: `store` for `src/store.rs`.
fn file_stem(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.strip_suffix(".rs").unwrap_or(file)
}

/// Whether a name matches a pattern in which `*` matches any text.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches_pattern(tail, &rest[at..]))
        }),
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _context: Context<'_, S>) -> bool {
        if metadata.is_span() {
            return !is_library_target(metadata.target());
        }
        let least = match *metadata.level() {
            _ if is_library_target(metadata.target()) => default_verbosity(metadata),
            Level::ERROR | Level::WARN | Level::INFO => 0,
            // The field `v` is not known yet, and may be smaller than the default of the level.
            Level::DEBUG => 1,
            Level::TRACE => 5,
        };
        self.verbosity(metadata) >= least
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let levels = self.settings.module_verbosities.iter().map(|(_, level)| *level);
        Some(match levels.fold(self.handle.verbosity(), u8::max) {
            0 => LevelFilter::INFO,
            1..5 => LevelFilter::DEBUG,
            5.. => LevelFilter::TRACE,
        })
    }

    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &span::Id, record: &span::Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<LogFields>()
        {
            record.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = LogFields::default();
        if let Some(scope) = context.event_scope(event) {
            for span in scope.from_root() {
                if let Some(outer) = span.extensions().get::<LogFields>() {
                    fields.add_span_values(outer);
                }
            }
        }
        event.record(&mut fields);
        let verbosity = fields.verbosity.unwrap_or_else(|| default_verbosity(metadata));
        if verbosity > self.verbosity(metadata) {
            return;
        }
        let line = LogLine { metadata, verbosity, logged_at: self.clock.now(), fields: &fields };
        (self.sink)(&match self.settings.format {
            LogFormat::Text => line.format_text(),
            LogFormat::Json => line.format_json(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use parking_lot::Mutex;

    /// Runs `body` with a log under `settings`, and returns the text of the log.
    fn logged(settings: LogSettings, body: impl FnOnce(&VerbosityHandle)) -> String {
        let clock = Clock::simulated("2026-01-02T03:04:05.123456Z".parse::<Timestamp>().unwrap(), 0);
        let written = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&written);
        let (log, handle) = LogLayer::new(settings, clock, Box::new(move |line| sink.lock().push_str(line)));
        let subscriber = tracing_subscriber::registry().with(log);
        tracing::subscriber::with_default(subscriber, || body(&handle));
        written.lock().clone()
    }

    /// COMMON-84.
    #[tokio::test(start_paused = true)]
    async fn text_lines_have_klogs_format() {
        let text = logged(LogSettings::default(), |_| {
            tracing::info!(logger = "replicaset-controller", replicas = 3, key = %"a/b", "Too few replicas");
            tracing::error!(err = "it \"broke\"\nbadly", "Sync failed");
        });
        let mut lines = text.lines();
        let pid = format!("{:>7}", std::process::id());
        let first = lines.next().unwrap();
        assert!(first.starts_with(&format!("I0102 03:04:05.123456 {pid} logging.rs:")), "{first}");
        assert!(
            first.ends_with("] \"Too few replicas\" logger=\"replicaset-controller\" replicas=3 key=\"a/b\""),
            "{first}"
        );
        let second = lines.next().unwrap();
        assert!(second.starts_with("E0102 "), "{second}");
        assert!(second.ends_with("] \"Sync failed\" err=\"it \\\"broke\\\"\\nbadly\""), "{second}");
        assert_eq!(lines.next(), None);
    }

    /// COMMON-84.
    #[tokio::test(start_paused = true)]
    async fn json_lines_have_upstreams_keys() {
        let text = logged(LogSettings { format: LogFormat::Json, ..LogSettings::default() }, |_| {
            tracing::info_span!("loop", logger = "job-controller").in_scope(|| {
                tracing::info!(key = "a/b", n = 2, "Done");
            });
        });
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["ts"], 1_767_323_045_123.456);
        assert_eq!(line["logger"], "job-controller");
        assert_eq!(line["msg"], "Done");
        assert_eq!(line["v"], 0);
        assert_eq!(line["key"], "a/b");
        assert_eq!(line["n"], 2);
        assert!(line["caller"].as_str().unwrap().starts_with("src/logging.rs:"), "{line}");
    }

    /// COMMON-84.
    #[tokio::test(start_paused = true)]
    async fn verbosity_changes_at_run_time() {
        let text = logged(LogSettings::default(), |handle| {
            for v in [0, 2, 4, 6, 0] {
                handle.set_verbosity(v);
                tracing::debug!(v = 2, at = v, "two");
                tracing::debug!(at = v, "four");
                tracing::trace!(at = v, "six");
            }
        });
        let seen: Vec<_> = text.lines().map(|l| l.split("] ").nth(1).unwrap()).collect();
        assert_eq!(
            seen,
            ["\"two\" at=2", "\"two\" at=4", "\"four\" at=4", "\"two\" at=6", "\"four\" at=6", "\"six\" at=6"]
        );
    }

    /// COMMON-84.
    #[test]
    fn vmodule_is_parsed_and_matched() {
        let modules = LogSettings::parse_module_verbosities("store=5,lead*=9").unwrap();
        assert_eq!(modules, [("store".to_owned(), 5), ("lead*".to_owned(), 9)]);
        assert!(matches_pattern("lead*", "leader") && matches_pattern("*", "x") && !matches_pattern("lead*", "store"));
        assert!(LogSettings::parse_module_verbosities("store").is_err());
        assert!(LogSettings::parse_module_verbosities("store=many").is_err());
    }
}
