//! Starting cargo from inside cargo.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Command, ExitStatus, Stdio},
};

use anyhow::{Context, Result};
use gatewright_servers::Watchdog;

/// What `cargo run` tells the program it runs about its package. Passed on, it would tell the next cargo's build
/// scripts that they changed.
const OWN: [&str; 5] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// The cargo that started this program, in the workspace's root.
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

/// The workspace's root folder.
pub(crate) fn root() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/..")
}

/// Runs a command to its end without input, showing its output line by line as it comes and handing each line over.
/// Should this program be killed, the command and all that it started end with it.
pub(crate) fn to_end(mut command: Command, mut line: impl FnMut(&str)) -> Result<ExitStatus> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot start `{program}`"))?;
    let _watchdog = Watchdog::start(-i64::from(child.id()), "TERM", None)?;
    let output = child.stdout.take().context("the output was just asked for")?;
    let mut lines = BufReader::new(output);
    let mut bytes = Vec::new();
    while lines.read_until(b'\n', &mut bytes)? > 0 {
        // A reader that went away must not fail the tests.
        let _ = std::io::stdout().write_all(&bytes);
        line(String::from_utf8_lossy(&bytes).trim_end());
        bytes.clear();
    }
    Ok(child.wait()?)
}
