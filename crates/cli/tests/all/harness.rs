use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The program, in `folder` and without the settings of the person who runs the tests.
pub(crate) fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatewright"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GATEWRIGHT__") {
            command.env_remove(name);
        }
    }
    command.env_remove("RUST_LOG").current_dir(folder);
    command
}

/// Runs a command to its end with `input` on its standard input.
pub(crate) fn run(folder: &Path, words: &[&str], input: &str) -> Ended {
    end(program(folder).args(words), input)
}

/// Runs a prepared command to its end.
pub(crate) fn end(command: &mut Command, input: &str) -> Ended {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // A command that reads nothing may be gone by now.
    let _gone = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ended {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ended {
    /// It failed with status 1, and standard error has this text, without a panic or a backtrace.
    #[track_caller]
    pub(crate) fn failed_saying(&self, words: &[&str]) {
        assert_eq!(self.status, 1, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is missing: {self:?}");
        }
        for noise in ["panicked", "RUST_BACKTRACE", "Os {", "Error("] {
            assert!(!self.err.contains(noise), "{self:?}");
        }
    }

    /// It succeeded.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.status, 0, "{self:?}");
        self
    }
}
