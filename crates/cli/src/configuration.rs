use std::path::Path;

use anyhow::{Context, anyhow};
use gatewright::Config;
use gatewright::config::{Loader, Written};

use crate::args::{Common, Serve};
use crate::output;

const DEFAULT_FILE: &str = "gatewright.toml";

/// The configuration from the flags, the environment and the file. With `--dev` and without a file it is the example.
pub(crate) fn loader(common: &Common, dev: bool) -> anyhow::Result<Loader> {
    let loader = match file(common)? {
        Some(loader) => loader,
        None if dev => Loader::example(),
        None => Loader::empty(),
    };
    let loader = overlay(common, loader);
    Ok(if dev { loader.dev_mode() } else { loader })
}

/// The same, for `serve`, and what is written in it.
pub(crate) fn for_serving(common: &Common, serve: &Serve) -> anyhow::Result<(Config, Written)> {
    let mut loader = loader(common, serve.dev)?;
    if let Some(address) = serve.listen {
        loader = loader.listen(address.to_string());
    }
    if serve.allow_public_dev {
        loader = loader.allow_public_dev_mode();
    }
    warn(&loader);
    let nameless = loader.name().is_none();
    let written = loader.written();
    let config = loader.load().map_err(|problems| {
        if nameless { anyhow!("{} (`gatewright init` writes one)\n{problems}", no_file()) } else { problems.into() }
    })?;
    Ok((config, written.context("the configuration cannot be read")?))
}

/// The configuration for work on an existing database. It needs none of the secrets that serving needs. A missing
/// SQLite file is not created: its path may be mistyped.
pub(crate) fn for_management(common: &Common) -> anyhow::Result<Config> {
    let mut config = for_creation(common)?;
    config.database.create_file = false;
    Ok(config)
}

/// The same, for work that may create the database.
pub(crate) fn for_creation(common: &Common) -> anyhow::Result<Config> {
    managing(loader(common, false)?)
}

/// The configuration for a command that has `--dev`. Without a file, a note says what the command works on.
pub(crate) fn as_served(common: &Common, dev: bool) -> anyhow::Result<Config> {
    let loader = loader(common, dev)?;
    note_missing_file(&loader, dev);
    managing(loader)
}

/// The configuration for a document of what is served. It needs no secret, so files with secrets are not read.
pub(crate) fn for_documents(common: &Common, dev: bool) -> anyhow::Result<Config> {
    let loader = loader(common, dev)?.for_documents();
    note_missing_file(&loader, dev);
    warn(&loader);
    Ok(loader.load()?)
}

/// The configuration whose server is asked to read it again. The server needs the secrets, this command does not.
pub(crate) fn to_reload(common: &Common) -> anyhow::Result<Config> {
    let loader = loader(common, false)?;
    warn(&loader);
    Ok(loader.for_management().load()?)
}

fn managing(loader: Loader) -> anyhow::Result<Config> {
    warn(&loader);
    Ok(loader.for_management().load()?)
}

/// Prints a note to standard error if there is no configuration: neither a file nor, as in containers, the environment.
pub(crate) fn note_missing_file(loader: &Loader, dev: bool) {
    if !dev && loader.name().is_none() && !loader.has_environment() {
        output::note(&format!("{}; --dev takes the example that `gatewright serve --dev` serves", no_file()));
    }
}

/// The message that there is no configuration file.
pub(crate) fn no_file() -> String {
    format!("there is no {DEFAULT_FILE} in this folder")
}

/// Prints warnings about probable mistakes in the environment to standard error.
fn warn(loader: &Loader) {
    for warning in loader.warnings() {
        output::warning(&warning);
    }
}

/// Prints a note to standard error if a SQLite file is missing and will be created.
pub(crate) fn note_new_file(config: &Config) {
    if let Some(file) = config.database.file().filter(|file| !file.exists()) {
        output::note(&format!("creating the SQLite file {}", file.display()));
    }
}

fn file(common: &Common) -> anyhow::Result<Option<Loader>> {
    Ok(match &common.config {
        Some(path) => Some(Loader::file(path)?),
        None if Path::new(DEFAULT_FILE).exists() => Some(Loader::file(Path::new(DEFAULT_FILE))?),
        None => None,
    })
}

fn overlay(common: &Common, loader: Loader) -> Loader {
    let loader = loader.environment(std::env::vars_os());
    match &common.database {
        Some(url) => loader.database(url),
        None => loader,
    }
}
