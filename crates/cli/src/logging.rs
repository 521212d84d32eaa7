//! The log: JSON lines for programs, readable lines for people.

mod fields;

use std::io::IsTerminal;
use std::sync::Arc;

use gatewright::Config;
use gatewright::config::LogFormat;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::{Subscriber, format};

use self::fields::SpanFields;

/// Limits the level regardless of `RUST_LOG`: below `warn`, the SDK behind `/mcp` logs whole calls and answers.
const KEPT_QUIET: &str = "rmcp=warn";

/// The running log, whose level can change. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Log(Arc<dyn Fn(EnvFilter) -> bool + Send + Sync>);

impl Log {
    /// Logs by the level of another configuration from now on. Returns `false` if `RUST_LOG` sets the level.
    pub(crate) fn follow(&self, config: &Config) -> bool {
        EnvFilter::try_from_default_env().is_err() && (self.0)(filter(config))
    }
}

/// Writes the log to standard error, in the form of `[log]`.
///
/// `RUST_LOG` chooses what is logged, otherwise `[log]` does.
pub(crate) fn start(config: &Config) -> Log {
    let terminal = std::io::stderr().is_terminal();
    let for_people = match config.log.format {
        Some(format) => format == LogFormat::Text,
        None => terminal || config.server.dev_mode,
    };
    // A line that cannot be written is lost. Reporting the loss would write to standard error too, and panic if that is
    // closed.
    let log = Subscriber::builder().with_env_filter(filter(config));
    let log = log.with_writer(std::io::stderr).log_internal_errors(false);
    if for_people {
        let log = log.with_ansi(terminal).with_target(false).with_filter_reloading();
        let handle = log.reload_handle();
        log.init();
        Log(Arc::new(move |filter| handle.reload(filter).is_ok()))
    } else {
        let log = log.event_format(format().json().flatten_event(true)).fmt_fields(SpanFields);
        let log = log.with_filter_reloading();
        let handle = log.reload_handle();
        log.init();
        Log(Arc::new(move |filter| handle.reload(filter).is_ok()))
    }
}

fn filter(config: &Config) -> EnvFilter {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        let has_access = config.log.access.unwrap_or(config.server.dev_mode);
        let access = if has_access { "debug" } else { "off" };
        EnvFilter::new(format!("{},gatewright::access={access}", config.log.level.as_str()))
    });
    filter.add_directive(KEPT_QUIET.parse().expect("a directive"))
}
