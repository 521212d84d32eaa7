//! Runs cargo from inside cargo.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Command, ExitStatus, Stdio},
};

use anyhow::{Context, Result};
use gatewright_servers::Watchdog;

/// Variables that `cargo run` sets about its own package. If they were passed on, the build scripts of the next cargo
/// would run again.
const OWN: [&str; 5] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// The cargo command that started this program, in the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for (name, _) in env::vars_os() {
        if OWN.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// The root folder of the workspace.
pub(crate) fn root() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/..")
}

/// Runs a command to its end without input. Shows its output line by line, and passes each line to `line`. If this
/// program is killed, the command and its children end too.
pub(crate) fn to_end(mut command: Command, mut line: impl FnMut(&str)) -> Result<ExitStatus> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot start `{program}`"))?;
    let _watchdog = Watchdog::start(-i64::from(child.id()), "TERM", None)?;
    let output = child.stdout.take().context("the output was just requested")?;
    let mut lines = BufReader::new(output);
    let mut bytes = Vec::new();
    while lines.read_until(b'\n', &mut bytes)? > 0 {
        // A closed output must not fail the tests.
        let _ = std::io::stdout().write_all(&bytes);
        line(String::from_utf8_lossy(&bytes).trim_end());
        bytes.clear();
    }
    Ok(child.wait()?)
}
