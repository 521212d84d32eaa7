//! `cargo xtask test`: runs all tests, from a fresh clone.
//!
//! It first provides programs ([`components`], [`tools`]), then private servers, and then runs the tests. Environment
//! variables pass the addresses of the servers to the tests; `CONTRIBUTING.md` lists them. The last line has the
//! counts, and nothing is printed after it.

use std::{env, ffi::OsString, num::NonZeroUsize, process::ExitCode, thread};

use anyhow::{Context, Result};
use gatewright_servers::{PrivateNats, PrivatePostgres, PrivateRedis};

use crate::{components, run, tally::Tally, tools};

/// How often the tests with a number of cases of their own repeat them in a soak: ten times the usual.
const SOAK: [(&str, &str); 3] =
    [("GATEWRIGHT_TEST_RULES", "10"), ("GATEWRIGHT_TEST_FUZZ_CASES", "3000"), ("GATEWRIGHT_TEST_ROUNDS", "40")];
/// The names of these tests contain one of these texts.
const SOAKED: [&str; 5] = ["differential", "fuzz", "checker", "failover", "replicas"];

/// Runs all tests, or those that cargo's `arguments` select.
pub(crate) fn run(arguments: Vec<OsString>) -> Result<ExitCode> {
    run_with(Vec::new(), arguments)
}

/// Runs the tests that have a number of cases, with many more of them.
pub(crate) fn soak() -> Result<ExitCode> {
    let selected = words(&["--all-targets", "--"]).into_iter().chain(words(&SOAKED)).collect();
    run_with(SOAK.map(|(name, value)| (name, value.into())).into(), selected)
}

fn run_with(mut environment: Vec<(&'static str, OsString)>, arguments: Vec<OsString>) -> Result<ExitCode> {
    environment.push(("GATEWRIGHT_TEST_REQUIRED", "1".into()));
    if env::var_os("RUST_TEST_THREADS").is_none() {
        environment.push(("RUST_TEST_THREADS", threads().to_string().into()));
    }
    let mut programs = components::ensure()?;
    programs.extend(tools::newer_node(&programs)?);
    environment.extend(programs.into_iter().map(|(name, path)| (name, path.into())));
    components::ensure_packages()?;
    environment.extend(tools::ensure()?.into_iter().map(|(name, path)| (name, path.into())));

    let postgres = PrivatePostgres::start()?;
    let redis = PrivateRedis::start()?;
    let nats = PrivateNats::start()?;
    environment.extend([
        ("GATEWRIGHT_TEST_POSTGRES", postgres.url().into()),
        ("GATEWRIGHT_TEST_REDIS", redis.url().into()),
        ("GATEWRIGHT_TEST_NATS", nats.url().into()),
    ]);

    let mut tally = Tally::default();
    let mut failed_silently = false;
    let whole = arguments.is_empty();
    // The server is built together with the tests. A separate build would use other features, and would compile it
    // again.
    if !names_package(&arguments)
        && env::var_os("GATEWRIGHT_BIN").is_none()
        && let Some(binary) = build_everything()?
    {
        environment.push(("GATEWRIGHT_BIN", binary.into()));
    }
    let runs = if whole {
        vec![words(&["--workspace", "--all-targets"]), words(&["--workspace", "--doc"])]
    } else {
        vec![selection(arguments)]
    };
    for selected in runs {
        let before = tally.failed;
        let mut cargo = run::cargo();
        cargo.args(["test", "--no-fail-fast"]).args(selected);
        cargo.envs(environment.iter().map(|(name, value)| (name, value)));
        let status = run::to_end(cargo, |line| tally.read(line))?;
        failed_silently |= !status.success() && tally.failed == before;
    }
    if whole && !failed_silently && (1..=RUN_AGAIN).contains(&tally.failures.len()) {
        run_again(&mut tally, &environment)?;
    }
    drop((postgres, redis, nats));

    if failed_silently {
        println!("\ncargo test failed beside the counted tests: see above for what did not build or crashed");
        tally.failed += 1;
    } else if tally == Tally::default() {
        println!("\nno test ran");
    }
    println!("\n{tally}");
    Ok(if tally.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The number of parallel tests: more than there are cores, because tests mostly wait for servers, timeouts and the
/// disk.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get) + 4
}

/// The maximum number of failed tests that run a second time.
const RUN_AGAIN: usize = 3;

/// Runs the failed tests again, alone, to find those that fail only on a busy machine. The last line names them. The
/// run has failed in either case.
fn run_again(tally: &mut Tally, environment: &[(&str, OsString)]) -> Result<()> {
    println!("\nrunning again, alone: {}", tally.failures.join(", "));
    let mut cargo = run::cargo();
    cargo.args(["test", "--no-fail-fast", "--workspace", "--all-targets", "--", "--exact"]).args(&tally.failures);
    cargo.envs(environment.iter().map(|(name, value)| (name, value))).env("RUST_TEST_THREADS", "1");
    let mut again = Tally::default();
    let status = run::to_end(cargo, |line| again.read(line))?;
    // A doctest has no name to select, and a binary that crashes names no test.
    if status.success() == again.failures.is_empty() && again.passed + again.failed >= tally.failed {
        tally.settle(&again);
    }
    Ok(())
}

/// Builds the test binaries, and returns the path of the server's binary. `None` if a build fails: the run that follows
/// then reports the error.
fn build_everything() -> Result<Option<String>> {
    let mut cargo = run::cargo();
    cargo.args(["build", "--workspace", "--all-targets", "--message-format=json-render-diagnostics"]);
    let output = cargo.stderr(std::process::Stdio::inherit()).output().context("cannot start cargo")?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(server_binary).next_back())
}

/// The path of the server's binary, if this line of cargo's report has it. A test binary has a hash in its name.
fn server_binary(message: &str) -> Option<String> {
    let (_, rest) = message.split_once(r#""executable":""#)?;
    let (path, _) = rest.split_once('"')?;
    path.ends_with("/gatewright").then(|| path.to_owned())
}

/// The caller's selection of tests. Without a package it selects from the whole workspace.
fn selection(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut words = if names_package(&arguments) { Vec::new() } else { words(&["--workspace"]) };
    words.extend(arguments);
    words
}

/// Whether the caller chose packages.
fn names_package(arguments: &[OsString]) -> bool {
    let mut options = arguments.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    options.any(|word| ["-p", "--package", "--workspace"].iter().any(|option| word.starts_with(option)))
}

fn words(list: &[&str]) -> Vec<OsString> {
    list.iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_without_a_package_is_made_from_the_workspace() {
        for (given, run) in [
            (&["a_test_name"][..], &["--workspace", "a_test_name"][..]),
            (&["-p", "gatewright-db"], &["-p", "gatewright-db"]),
            (&["-pgatewright-db"], &["-pgatewright-db"]),
            (&["--package=x", "--", "name"], &["--package=x", "--", "name"]),
            (&["--", "-p"], &["--workspace", "--", "-p"]),
        ] {
            assert_eq!(selection(words(given)), words(run));
        }
    }

    #[test]
    fn the_server_s_binary_is_read_from_cargo_s_messages() {
        let message = |path: &str| format!(r#"{{"reason":"compiler-artifact","executable":"{path}","fresh":true}}"#);
        assert_eq!(server_binary(&message("/t/debug/gatewright")).as_deref(), Some("/t/debug/gatewright"));
        assert_eq!(server_binary(&message("/t/debug/deps/gatewright-0a")), None);
        assert_eq!(server_binary(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
