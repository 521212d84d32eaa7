//! Programs from `PyPI` and npm that the tests use. They are installed into the build folder, at the versions that
//! `tests/tools` pins.
//!
//! They are in `target/test-tools`, Python's in a virtual environment. Installed programs are reused while the pins are
//! unchanged.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{components, run};

/// A set of programs with one file of pins.
struct Set {
    /// Its folder under `target/test-tools`.
    name: &'static str,
    /// The files with the pins, in `tests/tools`.
    pins: &'static [&'static str],
    /// The variable that passes its folder to the tests.
    variable: &'static str,
    install: fn(&Path, &Path) -> Result<()>,
}

const SETS: [Set; 2] = [
    Set { name: "python", pins: &["requirements.txt"], variable: "GATEWRIGHT_TEST_PYTHON_TOOLS", install: python },
    Set {
        name: "node",
        pins: &["package.json", "package-lock.json"],
        variable: "GATEWRIGHT_TEST_NODE_TOOLS",
        install: node,
    },
];

/// Installs the sets, and returns the variables that pass their folders to the tests.
pub(crate) fn ensure() -> Result<Vec<(&'static str, PathBuf)>> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(run::root()).join("target"), PathBuf::from);
    let pins = Path::new(run::root()).join("tests/tools");
    SETS.iter().map(|set| Ok((set.variable, set.ensure(&target.join("test-tools"), &pins)?))).collect()
}

impl Set {
    fn ensure(&self, place: &Path, pins: &Path) -> Result<PathBuf> {
        let (folder, stamp) = (place.join(self.name), place.join(format!("{}.pins", self.name)));
        let wanted = self.pins.iter().map(|file| read(&pins.join(file))).collect::<Result<Vec<_>>>()?.concat();
        if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return fs::canonicalize(folder).context("the folder of installed tools");
        }
        println!("installing the tests' {} tools", self.name);
        let _absent = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let folder = fs::canonicalize(folder)?;
        (self.install)(&folder, pins).with_context(|| format!("the tests need the tools of {}", pins.display()))?;
        // Written last, so that an interrupted installation starts again.
        fs::write(stamp, wanted)?;
        Ok(folder)
    }
}

fn python(folder: &Path, pins: &Path) -> Result<()> {
    let environment = || command("python3").args(["-m", "venv"]).arg(folder).status();
    if !environment()?.success() {
        components::install(&["python3-venv"])?;
        if !environment()?.success() {
            bail!("python3 makes no virtual environment");
        }
    }
    let pip = folder.join("bin/pip");
    finished(
        command(&pip)
            .args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r"])
            .arg(pins.join("requirements.txt")),
    )
}

fn node(folder: &Path, pins: &Path) -> Result<()> {
    for file in ["package.json", "package-lock.json"] {
        fs::copy(pins.join(file), folder.join(file))?;
    }
    let quiet = ["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"];
    finished(command("npm").args(quiet).current_dir(folder))
}

fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

fn finished(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot start `{program}`"))?;
    if status.success() { Ok(()) } else { bail!("`{program}` failed: {status}") }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}
