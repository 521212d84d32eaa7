use std::path::Path;

use anyhow::anyhow;
use gatewright::Config;
use gatewright::config::Loader;

use crate::args::{Common, Serve};
use crate::output;

const DEFAULT_FILE: &str = "gatewright.toml";

/// The configuration that the flags, the environment and the file make together.
pub(crate) fn loader(common: &Common) -> anyhow::Result<Loader> {
    Ok(overlay(common, file(common)?.unwrap_or_else(Loader::empty)))
}

/// The same for `serve`, which has an example to show where there is no file.
pub(crate) fn for_serving(common: &Common, serve: &Serve) -> anyhow::Result<Config> {
    let loader = match file(common)? {
        Some(loader) => loader,
        None if serve.dev => Loader::example(),
        None => Loader::empty(),
    };
    let mut loader = overlay(common, loader);
    if let Some(address) = serve.listen {
        loader = loader.listen(address.to_string());
    }
    if serve.dev {
        loader = loader.dev_mode();
    }
    if serve.allow_public_dev {
        loader = loader.allow_public_dev_mode();
    }
    warn(&loader);
    let nameless = loader.name().is_none();
    loader.load().map_err(|problems| {
        if nameless {
            anyhow!("there is no {DEFAULT_FILE} in this folder (`gatewright init` writes one)\n{problems}")
        } else {
            problems.into()
        }
    })
}

/// The configuration for work on what is there, which needs none of the secrets that serving needs. A SQLite file that is
/// missing is not made: its path may be mistyped.
pub(crate) fn for_management(common: &Common) -> anyhow::Result<Config> {
    let mut config = for_creation(common)?;
    config.database.create_file = false;
    Ok(config)
}

/// The same for work that may be the first on a database.
pub(crate) fn for_creation(common: &Common) -> anyhow::Result<Config> {
    let loader = loader(common)?;
    warn(&loader);
    Ok(loader.for_management().load()?)
}

/// Says on standard error what is probably not meant in the environment.
fn warn(loader: &Loader) {
    for warning in loader.warnings() {
        output::warning(&warning);
    }
}

/// Says on standard error that a SQLite file will be made, where it is missing.
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
