//! Development tasks, run as `cargo xtask NAME`.
//!
//! - `test` finds or installs the programs that tests need, starts private servers, and runs all tests ([`mod@test`]);
//! - `guards` checks the source tree for mistakes that compilers do not report ([`guards`]);
//! - `bench` runs a benchmark by name.
//!
//! It has almost no dependencies, so that `test` starts within seconds in a fresh clone.

use std::{env, ffi::OsString, process::ExitCode};

use anyhow::{Result, bail};

mod components;
mod guards;
mod run;
mod tally;
mod test;
mod tools;

const USAGE: &str = "usage: cargo xtask test [ARGUMENTS OF cargo test]
       cargo xtask guards
       cargo xtask bench NAME [ARGUMENTS]";

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let task = arguments.next().unwrap_or_default();
    match dispatch(&task.to_string_lossy(), arguments.collect()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(task: &str, arguments: Vec<OsString>) -> Result<ExitCode> {
    match task {
        "test" => test::run(arguments),
        "guards" => guards::run(),
        "bench" if !arguments.is_empty() => bench(arguments),
        "bench" => bail!("which benchmark?\n{USAGE}"),
        "" => bail!("{USAGE}"),
        other => bail!("there is no task `{other}`\n{USAGE}"),
    }
}

fn bench(arguments: Vec<OsString>) -> Result<ExitCode> {
    // The benchmarks start the server's binary beside them.
    let mut server = run::cargo();
    server.args(["build", "--release", "--package", "gatewright-cli"]);
    if !run::to_end(server, |_| {})?.success() {
        bail!("the server does not build");
    }
    let mut cargo = run::cargo();
    cargo.args(["run", "--release", "--package", "gatewright-bench", "--"]).args(arguments);
    let status = run::to_end(cargo, |_| {})?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
