//! Logs, on stderr: one JSON object a line for machines, or text for people.
//!
//! Nothing here reads the environment: the filter and the format come as arguments.

use std::io::{IsTerminal as _, stderr};

use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, fmt::MakeWriter, layer::SubscriberExt as _};

/// The filter when nobody gives one: our own words from `info` up, the libraries' from `warn` up. What kube's watcher
/// warns of is what we tell in our own words, and normal before the first install (403, 404).
pub const DEFAULT_FILTER: &str = "info,kube=warn,kube_runtime::watcher=error,hyper=warn,tower=warn";

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object: `timestamp`, `level`, `target`, `message` and the event's fields side by side, and the
    /// innermost span's fields under `span`.
    #[default]
    Json,
    /// A line for people, in colour on a terminal.
    Text,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not one.
    #[error(
        "the log filter `{filter}` is not valid: {reason}; give a level such as `info`, or `info,kube=debug`"
    )]
    Filter {
        /// As given.
        filter: String,
        /// What the parser says.
        reason: String,
    },
    /// Something has set up logging already.
    #[error("logging is already set up in this process")]
    AlreadySet,
}

/// Sets up logging for the whole process; `filter` is in the syntax of `RUST_LOG`.
pub fn init(format: Format, filter: &str) -> Result<(), TelemetryError> {
    let subscriber = subscriber(format, filter, stderr().is_terminal(), stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::AlreadySet)
}

fn subscriber<W>(
    format: Format,
    filter: &str,
    colour: bool,
    writer: W,
) -> Result<impl Subscriber + Send + Sync, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(filter).map_err(|error| TelemetryError::Filter {
        filter: filter.to_owned(),
        reason: error.to_string(),
    })?;
    let layer = fmt::layer().with_writer(writer);
    let layer = match format {
        Format::Json => layer.json().flatten_event(true).with_span_list(false).boxed(),
        Format::Text => layer.with_ansi(colour).boxed(),
    };
    Ok(Registry::default().with(layer).with(filter))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Result, Write},
        sync::{Arc, Mutex},
    };

    use serde_json::Value;

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn lines(format: Format, colour: bool, log: impl FnOnce()) -> Vec<String> {
        let captured = Captured::default();
        let writer = captured.clone();
        let subscriber = subscriber(format, DEFAULT_FILTER, colour, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = captured.0.lock().unwrap().clone();
        String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn json_lines_carry_the_fields_side_by_side() {
        let lines = lines(Format::Json, true, || {
            let span = tracing::info_span!("reconcile", generation = 3);
            span.in_scope(|| tracing::warn!(revision = 2, "helm said\n\"no\""));
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        let line: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["message"], "helm said\n\"no\"");
        assert_eq!(line["revision"], 2);
        assert_eq!(line["span"]["generation"], 3);
        assert!(line["timestamp"].is_string(), "{line}");
    }

    #[test]
    fn text_is_coloured_only_on_a_terminal() {
        let log = || tracing::info!(revision = 2, "installed");
        let plain = lines(Format::Text, false, log);
        assert!(
            plain[0].ends_with("installed revision=2") && !plain[0].contains('\u{1b}'),
            "{plain:?}"
        );
        assert!(lines(Format::Text, true, log)[0].contains('\u{1b}'));
    }

    #[test]
    fn libraries_speak_from_warn_up() {
        let lines = lines(Format::Text, false, || {
            tracing::debug!("ours, too detailed");
            tracing::info!(target: "kube_client::client::builder", "a library's progress");
            tracing::warn!(target: "kube_client::client", "a library's trouble");
            tracing::warn!(target: "kube_runtime::watcher", "told in our own words");
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("trouble"));
    }

    #[test]
    fn a_wrong_filter_is_explained() {
        let error = subscriber(Format::Json, "info,kube=loud", false, stderr)
            .err()
            .unwrap();
        assert!(
            error
                .to_string()
                .starts_with("the log filter `info,kube=loud` is not valid"),
            "{error}"
        );
    }
}
