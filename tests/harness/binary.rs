//! The binary under test, and its short-lived commands.

use std::{
    env,
    ffi::OsStr,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{OnceLock, mpsc},
    thread,
    time::Duration,
};

use gatewright_servers::signal;

/// The server's binary: the one in `GATEWRIGHT_BIN`, or one built now.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let binary = BINARY.get_or_init(|| env::var_os("GATEWRIGHT_BIN").map_or_else(build, |path| Some(path.into())));
    binary.as_deref().expect("the server did not build")
}

fn build() -> Option<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--package", "gatewright-cli", "--message-format=json-render-diagnostics"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let messages = String::from_utf8(output.stdout).unwrap();
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .find(|path| path.ends_with("gatewright"))
}

/// The output and exit status of a command.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs `gatewright` with these arguments in this folder, to its end. The limit is a minute.
pub(crate) fn gatewright<S: AsRef<OsStr>>(folder: &Path, words: &[S], input: &str) -> Finished {
    let mut command = clean(Command::new(binary()));
    command.args(words).current_dir(folder);
    finish(command, input)
}

/// Runs a command to its end. The limit is a minute.
pub(crate) fn finish(mut command: Command, input: &str) -> Finished {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that reads no input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let process = i64::from(child.id());
    let (ended, waiting) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        if waiting.recv_timeout(Duration::from_mins(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
            signal(process, "KILL");
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(ended);
    watch.join().unwrap();
    Finished {
        status: output.status.code().expect("ended by a signal, or not within a minute"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Removes the caller's own settings of the server, which must not influence the test.
pub(crate) fn clean(mut command: Command) -> Command {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("GATEWRIGHT__") {
            command.env_remove(name);
        }
    }
    command.env_remove("RUST_LOG");
    command
}
