use url::Url;

use super::Faults;
use crate::config::Config;

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let on = config.csrf.enabled || config.browser_backend.is_some();
    faults.require(
        !on || config.server.dev_mode || !config.csrf.secret.is_empty(),
        "csrf.secret",
        "is required outside dev mode when [csrf] or [browser_backend] is on: put the output of `gatewright secret` there",
    );
    faults.require_length(config, "csrf.secret", &config.csrf.secret);
    for (index, origin) in config.browser_backend.iter().flat_map(|b| b.allowed_origins.iter().enumerate()) {
        faults.require(
            is_exact_origin(origin),
            format!("browser_backend.allowed_origins[{index}]"),
            "must be an exact origin such as \"https://app.example.com\": http or https, host and port alone, no \
             wildcard, no slash at the end",
        );
    }
}

/// Whether a browser could send `text` as its Origin, letter for letter.
fn is_exact_origin(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.contains('*'))
            && url.origin().ascii_serialization() == text
    })
}
