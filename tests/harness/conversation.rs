//! A program that runs step by step: it prints a line of JSON after each step, and waits for a line before the next.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use gatewright_servers::Watchdog;
use serde_json::Value;

/// The time limit of a step.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A running program. Dropping it ends it.
pub(crate) struct Conversation {
    child: Child,
    input: ChildStdin,
    output: Option<BufReader<ChildStdout>>,
    _watchdog: Watchdog,
}

impl Conversation {
    pub(crate) fn start<S: AsRef<OsStr>>(program: impl Into<PathBuf>, words: &[S]) -> Self {
        let mut child = Command::new(program.into())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let watchdog = Watchdog::start(child.id().into(), "TERM", None).unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().map(BufReader::new));
        Self { child, input, output, _watchdog: watchdog }
    }

    /// The output of its next step.
    pub(crate) async fn step(&mut self) -> Value {
        let mut output = self.output.take().expect("one question at a time");
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).map(|_| (line, output)).unwrap()
        });
        let (line, output) = tokio::time::timeout(TIMEOUT, reading).await.expect("the program takes its step").unwrap();
        self.output = Some(output);
        serde_json::from_str(&line).unwrap_or_else(|_| {
            let _ = self.child.kill();
            let mut errors = String::new();
            let _ = self.child.stderr.take().unwrap().read_to_string(&mut errors);
            panic!("{line}\n{errors}")
        })
    }

    /// Lets it continue.
    pub(crate) fn resume(&mut self) {
        self.input.write_all(b"\n").unwrap();
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
