//! The log: JSON lines for programs, readable lines for people.

mod fields;

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::{Subscriber, format};

use self::fields::SpanFields;

/// Limits the level regardless of `RUST_LOG`: below `warn`, the SDK behind `/mcp` logs whole calls and answers.
const KEPT_QUIET: &str = "rmcp=warn";

/// Writes the log to standard error: readable lines at a terminal and in dev mode, JSON lines elsewhere.
///
/// `RUST_LOG` chooses what is logged.
pub(crate) fn start(dev: bool) {
    let terminal = std::io::stderr().is_terminal();
    let default = if dev { "info,gatewright::access=debug" } else { "info" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let filter = filter.add_directive(KEPT_QUIET.parse().expect("a directive"));
    // A line that cannot be written is lost. Reporting the loss would write to standard error too, and panic if that is
    // closed.
    let log = Subscriber::builder().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    if terminal || dev {
        log.with_ansi(terminal).with_target(false).init();
    } else {
        log.event_format(format().json().flatten_event(true)).fmt_fields(SpanFields).init();
    }
}
