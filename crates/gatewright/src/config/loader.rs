use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use gatewright_base::Secret;
use gatewright_entities::TextPlace;

use super::check::names_of;
use super::read::{
    Finding, Node, PREFIX, Report, SecretPaths, SecretSources, Section, Table, Value, almost, overlay, parse,
};
use super::{Config, Fault, Faults, Place, Problem, Problems, Written};

/// Reads a [`Config`]: the environment overrides the file, the command line overrides both.
///
/// ```
/// use gatewright::config::Loader;
///
/// let config = Loader::text("gatewright.toml", "[server]\ndev_mode = true").load()?;
/// assert!(config.server.dev_mode);
///
/// let problems = Loader::text("gatewright.toml", "[server]\nlisten = 80").dev_mode().load().unwrap_err();
/// assert!(problems.to_string().starts_with("gatewright.toml:2:10: server.listen: expected"));
/// # Ok::<(), gatewright::config::Problems>(())
/// ```
#[derive(Clone)]
pub struct Loader {
    name: Option<String>,
    /// The folder of the file, unless it is the current one.
    folder: Option<PathBuf>,
    text: String,
    environment: Vec<(OsString, OsString)>,
    flags: Vec<(&'static str, &'static str, Flag)>,
    serves: bool,
    /// Whether secrets in files are read.
    reads_secrets: bool,
}

/// Why a configuration file cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read the configuration {}: {reason}{}",
    path.display(),
    if reason.kind() == std::io::ErrorKind::NotFound { "; `gatewright init` writes one" } else { "" }
)]
pub struct LoadError {
    path: PathBuf,
    reason: std::io::Error,
}

#[derive(Clone)]
enum Flag {
    Text(String),
    On,
}

impl Loader {
    /// Starts from an empty file.
    pub fn empty() -> Self {
        Self {
            name: None,
            folder: None,
            text: String::new(),
            environment: Vec::new(),
            flags: Vec::new(),
            serves: true,
            reads_secrets: true,
        }
    }

    /// Starts from the example that `gatewright serve --dev` uses without a file: a blog.
    pub fn example() -> Self {
        Self::text("examples/blog.toml", include_str!("blog.toml"))
    }

    /// Starts from TOML text. Messages call it `name`.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: Some(name.into()), text: text.into(), ..Self::empty() }
    }

    /// Starts from a file.
    pub fn file(path: &Path) -> Result<Self, LoadError> {
        let text = std::fs::read_to_string(path).map_err(|reason| LoadError { path: path.to_owned(), reason })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
        Ok(Self { folder, ..Self::text(path.display().to_string(), text) })
    }

    /// Overrides the file with environment variables. Those that do not start with `GATEWRIGHT__` are ignored.
    pub fn environment(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.environment.extend(variables);
        self
    }

    /// Listens on `address`. Overrides file and environment.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.flags.push(("--listen", "server.listen", Flag::Text(address.into())));
        self
    }

    /// Uses the database at `url`. Overrides file and environment.
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.flags.push(("--database", "database.url", Flag::Text(url.into())));
        self
    }

    /// Enables dev mode. Overrides file and environment.
    pub fn dev_mode(mut self) -> Self {
        self.flags.push(("--dev", "server.dev_mode", Flag::On));
        self
    }

    /// Allows dev mode with an address that other computers can reach. Overrides file and environment.
    pub fn allow_public_dev_mode(mut self) -> Self {
        self.flags.push(("--allow-public-dev", "server.allow_public_dev_mode", Flag::On));
        self
    }

    /// For management of accounts and tables: settings that only serving needs, such as a signing secret, may be
    /// missing.
    pub fn for_management(mut self) -> Self {
        self.serves = false;
        self
    }

    /// The same, for documents that contain no secret: secrets in files are not read, and empty.
    pub fn for_documents(self) -> Self {
        Self { reads_secrets: false, ..self.for_management() }
    }

    /// Probable mistakes around the file, one sentence each: ignored variables with names similar to the server's, and files
    /// with secrets that every user can read. [`Config::warnings`] has the warnings about values.
    pub fn warnings(&self) -> Vec<String> {
        let names = self.environment.iter().filter_map(|(name, _)| name.to_str());
        let settings = Config::settings();
        let sections: BTreeSet<&str> =
            settings.iter().filter_map(|setting| setting.section.split('.').next()).collect();
        let mut warnings = almost(names, &sections);
        warnings.extend(self.beside().and_then(|(_, warning)| warning));
        warnings.extend(self.exposed().iter().map(ToString::to_string));
        warnings
    }

    /// Whether a variable sets a key.
    pub fn has_environment(&self) -> bool {
        self.environment.iter().any(|(name, _)| name.to_str().is_some_and(|name| name.starts_with(PREFIX)))
    }

    /// The URL of a SQLite database that the file names relative to its own folder, and a warning if there is such a file
    /// in the current folder, to which such a path was relative before.
    fn beside(&self) -> Option<(String, Option<String>)> {
        let folder = self.folder.as_deref()?;
        let mut tree = parse("", &self.text).ok()?;
        // A variable and a flag are relative to the current folder.
        overlay(&mut tree, self.environment.iter().cloned(), &secret_paths());
        let written = tree.locate("database.url");
        if self.flags.iter().any(|(_, key, _)| *key == "database.url") || matches!(written, Some(Place::Environment(_)))
        {
            return None;
        }
        let (findings, secrets) = (RefCell::default(), self.secret_sources());
        let report = Report::new(&findings, &secrets);
        let database = Section::read(Some((&tree, &Place::Unwritten)), report, Config::read).database;
        let here = database.file().filter(|file| file.is_relative())?;
        let there = folder.join(here);
        let url = |file: &Path| format!("sqlite://{}", file.display());
        if !here.exists() || std::fs::canonicalize(here).ok() == std::fs::canonicalize(&there).ok() {
            return Some((url(&there), None));
        }
        // An upgrade must not begin with an empty database.
        let (used, advice) = if there.exists() {
            (&*there, "the other one is not used; rename it if you do not need it")
        } else {
            (here, "move it there, with its `-wal` and `-shm` files, while no server runs")
        };
        let (shown, expected) = (used.display(), there.display());
        let message = format!(
            "database.url in the file is relative to the folder of the file: {expected}. There is also {} in the current \
             folder. {shown} is used: {advice}",
            here.display()
        );
        Some((url(used), Some(message)))
    }

    /// Warnings about files with secrets that every user can read.
    fn exposed(&self) -> Vec<Problem> {
        let Ok(mut tree) = parse(self.name.as_deref().unwrap_or(""), &self.text) else { return Vec::new() };
        overlay(&mut tree, self.environment.iter().cloned(), &secret_paths());
        let (findings, secrets) = (RefCell::default(), self.secret_sources());
        Section::read(Some((&tree, &Place::Unwritten)), Report::new(&findings, &secrets), Config::read);
        secrets.exposed.into_inner()
    }

    fn secret_sources(&self) -> SecretSources {
        let variable = |name: &str| {
            let (_, value) = self.environment.iter().rev().find(|(known, _)| known == name)?;
            (!value.is_empty()).then(|| PathBuf::from(value))
        };
        SecretSources {
            folder: self.folder.clone(),
            credentials: variable("CREDENTIALS_DIRECTORY"),
            home: variable("HOME"),
            stay_unread: !self.reads_secrets,
            exposed: RefCell::default(),
            read: RefCell::default(),
        }
    }

    /// The name of the file in messages, if there is one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What is written, to compare it with a later configuration. `None` if it cannot be read.
    pub fn written(&self) -> Option<Written> {
        let mut tree = parse("", &self.text).ok()?;
        overlay(&mut tree, self.environment.iter().cloned(), &secret_paths());
        for (flag, key, value) in self.flags.clone() {
            put_flag(&mut tree, flag, key, value, &mut Vec::new());
        }
        let (findings, secrets) = (RefCell::default(), self.secret_sources());
        Section::read(Some((&tree, &Place::Unwritten)), Report::new(&findings, &secrets), Config::read);
        Some(Written::new(&tree, &secrets.read.into_inner()))
    }

    /// Reads and checks everything, and returns all errors together.
    pub fn load(self) -> Result<Config, Problems> {
        self.load_with_warnings().map(|(config, _)| config)
    }

    /// The same, with the warnings of [`Config::warnings`] and their places, and a warning about a missing `[email]`.
    pub fn load_with_warnings(self) -> Result<(Config, Vec<Problem>), Problems> {
        let (beside, secrets, paths) = (self.beside(), self.secret_sources(), secret_paths());
        let mut tree = parse(self.name.as_deref().unwrap_or(""), &self.text).map_err(Problems)?;
        let mut problems = overlay(&mut tree, self.environment, &paths);
        for (flag, key, value) in self.flags {
            put_flag(&mut tree, flag, key, value, &mut problems);
        }
        let findings = RefCell::default();
        let root = Place::Unwritten;
        let mut config = Section::read(Some((&tree, &root)), Report::new(&findings, &secrets), Config::read);
        let findings = findings.into_inner();
        if let Some((url, _)) = beside {
            config.database.url = Secret::new(url);
        }

        let mut faults =
            if self.serves { config.check() } else { config.check_for_management() }.err().unwrap_or_default();
        faults.0.retain(|fault| !findings.iter().any(|finding| explains(finding, fault)));
        if !self.reads_secrets {
            faults.0.retain(|fault| !paths.contains_key(&without_indices(&fault.key)));
        }
        let default_place = self.name.map_or(root, |name| Place::File { name, line: 1, column: 1 });
        problems.extend(findings.into_iter().map(|Finding { path, mut problem }| {
            problem.message.push_str(&names_of(&config, &path));
            problem
        }));
        let placed = |fault| place(&tree, &self.text, fault, &default_place);
        problems.extend(faults.0.into_iter().map(placed));
        if problems.is_empty() {
            let mut warnings: Vec<_> = config.warnings_of_file().into_iter().map(placed).collect();
            warnings.sort();
            return Ok((config, warnings));
        }
        problems.sort();
        problems.dedup();
        Err(Problems(problems))
    }
}

impl Config {
    /// Reads only TOML text, without environment and flags.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, Problems> {
        Loader::text(name, text).load()
    }
}

/// The settings whose values are secrets, and whether each is a list.
fn secret_paths() -> SecretPaths {
    let secrets = Config::settings().into_iter().filter(super::Setting::is_secret);
    secrets.map(|setting| (format!("{}.{}", setting.section, setting.key), setting.is_secret_list())).collect()
}

/// A path without the numbers of its parts: `outbox.consumer.secret` for `outbox.consumer[2].secret`.
fn without_indices(path: &str) -> String {
    path.split('.').map(|step| step.split('[').next().unwrap_or(step)).collect::<Vec<_>>().join(".")
}

/// Whether a fault only follows from a finding. A value that could not be read was replaced by a placeholder, which the
/// checks may refuse. A field without its type cannot be checked.
fn explains(finding: &Finding, fault: &Fault) -> bool {
    let whole = finding.path.strip_suffix(".type").unwrap_or(&finding.path);
    fault.key.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn place(tree: &Table, text: &str, Fault { key, message, at }: Fault, default: &Place) -> Problem {
    let place = tree.locate(&key).unwrap_or(default).clone();
    let (place, message) = match at {
        None => (place, message),
        Some(at) => match inside(&place, text, at) {
            Some(place) => (place, message),
            // The text is not in the file: it is the value of a variable, for example.
            None => (place, format!("{message} at {}:{}", at.line, at.column)),
        },
    };
    Problem { place, message: format!("{key}: {message}") }
}

/// The place in the file of a word in the text that begins at `place`. Escapes count as one character.
fn inside(place: &Place, text: &str, at: TextPlace) -> Option<Place> {
    let Place::File { name, line, column } = place else { return None };
    let written: String = text.lines().nth(line - 1)?.chars().skip(column - 1).collect();
    let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quotes| written.starts_with(quotes))?;
    // A line break directly after three quotes is not part of the text.
    let skipped = usize::from(quotes.len() == 3 && written.trim_end().len() == 3);
    let (down, right) = (usize::try_from(at.line).ok()? - 1, usize::try_from(at.column).ok()? - 1);
    let column = if down + skipped == 0 { column + quotes.len() + right } else { right + 1 };
    Some(Place::File { name: name.clone(), line: line + skipped + down, column })
}

fn put_flag(tree: &mut Table, flag: &'static str, key: &str, value: Flag, problems: &mut Vec<Problem>) {
    let value = match value {
        Flag::Text(text) => Value::Text(text),
        Flag::On => Value::Bool(true),
    };
    let place = Place::CommandLine(flag);
    let path: Vec<&str> = key.split('.').collect();
    if let Err(in_the_way) = tree.put(&path, Node::new(value, place.clone())) {
        problems.push(Problem { place, message: format!("`{in_the_way}` is not a section in the file") });
    }
}

impl From<Faults> for Problems {
    fn from(faults: Faults) -> Self {
        Self(
            faults
                .0
                .into_iter()
                .map(|Fault { key, message, .. }| Problem {
                    place: Place::Unwritten,
                    message: format!("{key}: {message}"),
                })
                .collect(),
        )
    }
}
