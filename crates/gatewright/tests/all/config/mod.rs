mod description;
mod environment;
mod refusals;
mod secrets;
mod values;
mod weakened;

use gatewright::Config;
use gatewright::config::{Loader, Problems};

/// The settings that a file needs to be checked as in production.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

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
