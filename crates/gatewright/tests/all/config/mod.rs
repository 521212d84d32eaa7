mod description;
mod environment;
mod providers;
mod refusals;
mod secret_files;
mod secrets;
mod values;
mod weakened;

use gatewright::Config;
use gatewright::config::{Loader, Problems};

/// The settings that a file needs to be checked as in production.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A private key for tests alone, as a file writes it.
pub(crate) const APPLE_KEY: &str = "\"-----BEGIN PRIVATE KEY-----\\n\
     MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgWVgHvMA6mb0zZrEm\\n\
     IWzNx6+WG8nKchH3X/BIbL3xA8ehRANCAAQ5fyYzq5JGSjqv8XGJYFbPk7MHGscz\\n\
     6VLpShiVfosv8n5jeUi2gr5C8JmSKAlONe6Ta+qA8q6Cu/Z+nJSk871n\\n\
     -----END PRIVATE KEY-----\\n\"";

/// Reads a file, in dev mode at any address so that only what the test writes can be wrong.
fn read(text: &str) -> Result<Config, Problems> {
    Loader::text("f.toml", text).dev_mode().allow_public_dev_mode().load()
}

/// Reads a file as production would.
fn read_for_production(text: &str) -> Result<Config, Problems> {
    Config::from_toml("f.toml", text)
}

/// Every problem, one line each; empty when there is none.
fn problems(result: Result<Config, Problems>) -> String {
    result.err().map(|problems| problems.to_string()).unwrap_or_default()
}

fn variables<const N: usize>(list: [(&str, &str); N]) -> [(std::ffi::OsString, std::ffi::OsString); N] {
    list.map(|(name, text)| (name.into(), text.into()))
}
