//! Development tasks, run as `cargo xtask NAME`. [`TASKS`] lists them.
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

/// A task. To add one, add a row to [`TASKS`].
struct Task {
    name: &'static str,
    arguments: &'static str,
    does: &'static str,
    /// On two cores, after a first build.
    takes: &'static str,
    run: fn(Vec<OsString>) -> Result<ExitCode>,
}

const TASKS: [Task; 7] = [
    Task {
        name: "check",
        arguments: "",
        does: "format, guards and lints, for the time between two edits",
        takes: "1 min",
        run: |_| commands(&[&["fmt", "--all", "--check"], &["xtask", "guards"], &LINTS]),
    },
    Task {
        name: "fix",
        arguments: "",
        does: "formats, and writes the reference pages of the handbook",
        takes: "2 min",
        run: |_| {
            commands(&[
                &["fmt", "--all"],
                &["run", "--quiet", "--package", "gatewright-cli", "--", "reference", "docs"],
            ])
        },
    },
    Task {
        name: "guards",
        arguments: "",
        does: "finds mistakes in the source tree that compilers do not report",
        takes: "1 s",
        run: |_| guards::run(),
    },
    Task {
        name: "test",
        arguments: "[ARGUMENTS OF cargo test]",
        does: "finds or installs what tests need, starts private servers, and runs all tests or the selected ones",
        takes: "20 min",
        run: test::run,
    },
    Task {
        name: "soak",
        arguments: "",
        does: "the tests with random cases, kills and failovers, with ten times as many of them",
        takes: "1 h",
        run: |_| test::soak(),
    },
    Task {
        name: "docs",
        arguments: "",
        does: "the documentation of the crates, with warnings as errors",
        takes: "3 min",
        run: |_| commands(&[&["doc", "--workspace", "--no-deps", "--locked"]]),
    },
    Task {
        name: "bench",
        arguments: "NAME [ARGUMENTS]",
        does: "runs a benchmark by its name, with the server of the release profile",
        takes: "by name",
        run: bench,
    },
];

const LINTS: [&str; 7] = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];

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

fn dispatch(name: &str, arguments: Vec<OsString>) -> Result<ExitCode> {
    if ["--help", "-h", "help"].contains(&name) {
        println!("{}", usage());
        return Ok(ExitCode::SUCCESS);
    }
    match TASKS.iter().find(|task| task.name == name) {
        Some(task) => (task.run)(arguments),
        None if name.is_empty() => bail!("which task?\n\n{}", usage()),
        None => bail!("there is no task `{name}`\n\n{}", usage()),
    }
}

/// Every task with its arguments, what it does, and how long it takes.
fn usage() -> String {
    let rows = TASKS.iter().map(|task| {
        let call = format!("{} {}", task.name, task.arguments);
        format!("\n  {call:<33} {:<8} {}", task.takes, task.does)
    });
    format!("usage: cargo xtask TASK\n{}", rows.collect::<Vec<_>>().concat())
}

/// Runs commands of cargo one after the other, until one fails.
fn commands(list: &[&[&str]]) -> Result<ExitCode> {
    for words in list {
        let mut cargo = run::cargo();
        cargo.args(*words).env("RUSTDOCFLAGS", "-D warnings");
        if !run::to_end(cargo, |_| {})?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn bench(arguments: Vec<OsString>) -> Result<ExitCode> {
    if arguments.is_empty() {
        bail!("which benchmark?\n\n{}", usage());
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_task_on_a_line() {
        let usage = usage();
        for task in &TASKS {
            assert_eq!(usage.lines().filter(|line| line.trim_start().starts_with(task.name)).count(), 1, "{usage}");
        }
        assert!(usage.lines().all(|line| line.len() <= 160), "{usage}");
        assert!(dispatch("nonsense", Vec::new()).unwrap_err().to_string().contains("soak"));
    }
}
