use std::path::Path;

use anyhow::anyhow;
use gatewright::Config;
use gatewright::config::Loader;

use crate::args::{Common, Serve};

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
    let nameless = loader.name().is_none();
    loader.load().map_err(|problems| {
        if nameless {
            anyhow!("there is no {DEFAULT_FILE} in this folder (`gatewright init` writes one)\n{problems}")
        } else {
            problems.into()
        }
    })
}

/// The configuration for work on accounts and tables, which needs none of the secrets that serving needs.
pub(crate) fn for_management(common: &Common) -> anyhow::Result<Config> {
    Ok(loader(common)?.for_management().load()?)
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
