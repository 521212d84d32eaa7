use std::process::ExitCode;

use anyhow::bail;
use gatewright::types;

use crate::args::{Common, Language};
use crate::{configuration, output};

pub(crate) fn types(common: &Common, language: Language, functions: bool, dev: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_documents(common, dev)?;
    if config.entities.is_empty() && config.auth.profile.is_empty() {
        // Redirected output would replace an existing file by an empty one.
        bail!("no entities are declared, so there are no types; name the configuration file by --config");
    }
    let module = match language {
        Language::Ts if functions => types::for_functions(&config)?,
        Language::Ts => types::typescript(&config)?,
    };
    output::text(&module);
    Ok(ExitCode::SUCCESS)
}
