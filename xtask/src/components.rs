//! Finds or installs the programs that the tests use.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use gatewright_servers::{find_program, is_superuser};

use crate::run::root;

/// A program that tests use. To add one, add a row to [`COMPONENTS`].
struct Component {
    /// Its names. Any of them is enough.
    programs: &'static [&'static str],
    /// The Debian package that contains it.
    package: &'static str,
    /// The variable that passes its path to the tests, if they start it themselves.
    variable: Option<&'static str>,
}

const COMPONENTS: [Component; 18] = [
    Component { programs: &["postgres"], package: "postgresql", variable: None },
    Component { programs: &["initdb"], package: "postgresql", variable: None },
    Component { programs: &["pgbouncer"], package: "pgbouncer", variable: None },
    Component { programs: &["nginx"], package: "nginx-light", variable: None },
    Component { programs: &["redis-server"], package: "redis-server", variable: None },
    Component { programs: &["nats-server"], package: "nats-server", variable: None },
    Component {
        programs: &["chromium", "chromium-browser", "google-chrome"],
        package: "chromium",
        variable: Some("GATEWRIGHT_TEST_CHROMIUM"),
    },
    Component {
        programs: &["chromedriver"],
        package: "chromium-driver",
        variable: Some("GATEWRIGHT_TEST_CHROMEDRIVER"),
    },
    Component { programs: &["node", "nodejs"], package: "nodejs", variable: Some("GATEWRIGHT_TEST_NODE") },
    Component { programs: &["npm"], package: "npm", variable: Some("GATEWRIGHT_TEST_NPM") },
    Component { programs: &["oathtool"], package: "oathtool", variable: Some("GATEWRIGHT_TEST_OATHTOOL") },
    Component { programs: &["curl"], package: "curl", variable: None },
    Component { programs: &["python3"], package: "python3", variable: Some("GATEWRIGHT_TEST_PYTHON") },
    Component { programs: &["aiosmtpd"], package: "python3-aiosmtpd", variable: Some("GATEWRIGHT_TEST_AIOSMTPD") },
    // The tests of packages: they expand the unit's system call filter, build the package, and install it.
    Component { programs: &["systemd-analyze"], package: "systemd", variable: None },
    Component { programs: &["dpkg-shlibdeps"], package: "dpkg-dev", variable: None },
    Component { programs: &["adduser"], package: "adduser", variable: None },
    Component { programs: &["deb-systemd-helper"], package: "init-system-helpers", variable: None },
];

/// A module of the system's Python that the tests of packages use, and the Debian package that contains it.
const MODULE: (&str, &str) = ("seccomp", "python3-seccomp");

/// Finds every program, and returns the variables that pass their paths to the tests.
///
/// Missing programs are installed with `apt-get`, if that needs no password.
pub(crate) fn ensure() -> Result<Vec<(&'static str, PathBuf)>> {
    let missing = missing();
    if !missing.is_empty() {
        install(&missing)?;
    }
    if !has_module() {
        bail!("the package {} is installed, but /usr/bin/python3 has no module `{}`", MODULE.1, MODULE.0);
    }
    if let Some(component) = COMPONENTS.iter().find(|component| component.find().is_none()) {
        bail!(
            "the package {} is installed, but `{}` is not on the PATH",
            component.package,
            component.programs.join("` or `")
        );
    }
    Ok(COMPONENTS.iter().filter_map(|component| Some((component.variable?, component.find()?))).collect())
}

impl Component {
    fn find(&self) -> Option<PathBuf> {
        self.programs.iter().find_map(|name| find_program(name))
    }
}

/// The folders in which npm packages are installed: the identity provider of the black-box tests, and the client with
/// its compiler.
const PACKAGES: [&str; 3] = ["tests/identity-provider", "clients/typescript", "clients/react"];

/// Installs the packages of the lock files, if they are missing or a file has changed.
pub(crate) fn ensure_packages() -> Result<()> {
    PACKAGES.iter().try_for_each(|folder| ensure_packages_of(folder))
}

fn ensure_packages_of(name: &str) -> Result<()> {
    let folder = Path::new(root()).join(name);
    let lock = fs::read(folder.join("package-lock.json"))?;
    // npm keeps no copy of the lock file that it installed from, so a copy is stored beside the installed packages.
    let installed = folder.join("node_modules/.installed");
    if fs::read(&installed).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    println!("installing with npm: {name}");
    let npm = find_program("npm").context("`npm` is not on the PATH")?;
    let status = Command::new(npm)
        .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("npm did not install what the tests need; run `npm ci` in {name}");
    }
    Ok(fs::write(installed, lock)?)
}

fn missing() -> Vec<&'static str> {
    let mut packages: Vec<_> =
        COMPONENTS.iter().filter(|component| component.find().is_none()).map(|component| component.package).collect();
    packages.extend((!has_module()).then_some(MODULE.1));
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn has_module() -> bool {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", &format!("import {}", MODULE.0)]).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

/// Installs Debian packages, if that needs no password.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let by_hand = format!("the tests need the Debian packages `{0}`: apt-get install {0}", packages.join(" "));
    let prefix: &[&str] = if is_superuser() { &[] } else { &["sudo", "-n"] };
    if find_program("apt-get").is_none() || !(prefix.is_empty() || succeeds(&["sudo", "-n", "true"])) {
        bail!("{by_hand}");
    }
    println!("installing with apt-get: {}", packages.join(" "));
    let steps: [&[&str]; 2] = [
        &["apt-get", "update", "-qq"],
        &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq", "--no-install-recommends"],
    ];
    // An update may fail for one of several sources and still find the packages, so only the installation counts.
    succeeds(&[prefix, steps[0]].concat());
    if !succeeds(&[prefix, steps[1], packages].concat()) {
        bail!("apt-get did not install them; {by_hand}");
    }
    Ok(())
}

fn succeeds(words: &[&str]) -> bool {
    words.split_first().is_some_and(|(program, arguments)| {
        Command::new(program).args(arguments).stdin(Stdio::null()).status().is_ok_and(|status| status.success())
    })
}
