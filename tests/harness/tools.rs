//! The programs that `tests/tools` pins: Python's and Node's.

use std::{
    env,
    ffi::OsStr,
    path::PathBuf,
    process::{Command, Output},
};

/// The folder of the Python programs. `None` if they are neither installed nor required.
pub(crate) fn python_tools() -> Option<PathBuf> {
    folder("GATEWRIGHT_TEST_PYTHON_TOOLS").map(|folder| folder.join("bin"))
}

/// The folder that has `node_modules`. `None` if it is neither there nor required.
pub(crate) fn node_tools() -> Option<PathBuf> {
    folder("GATEWRIGHT_TEST_NODE_TOOLS")
}

fn folder(variable: &str) -> Option<PathBuf> {
    let folder = env::var_os(variable).map(PathBuf::from);
    let required = env::var_os("GATEWRIGHT_TEST_REQUIRED").is_some();
    assert!(folder.is_some() || !required, "{variable} must name the folder of installed tools");
    folder
}

/// Whether a server that a test starts is installed. Fails if it is missing and the tests are required.
pub(crate) fn installed(program: &str) -> bool {
    let required = env::var_os("GATEWRIGHT_TEST_REQUIRED").is_some();
    let found = gatewright_servers::find_program(program).is_some();
    assert!(found || !required, "`{program}` is missing; run `cargo xtask test`");
    found
}

/// Runs a program to its end and returns its output. A failure shows the output.
pub(crate) async fn run<S: AsRef<OsStr>>(program: impl Into<PathBuf>, words: &[S]) -> String {
    let mut command = Command::new(program.into());
    command.args(words);
    let shown = format!("{command:?}");
    let Output { status, stdout, stderr } = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap_or_else(|error| panic!("{shown}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{shown}: {status}\n{out}\n{err}");
    out.into_owned()
}
