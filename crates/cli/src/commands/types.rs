use std::process::ExitCode;

use gatewright::types;

use crate::args::{Common, Language};
use crate::{configuration, output};

pub(crate) fn types(common: &Common, language: Language) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let module = match language {
        Language::Ts => types::typescript(&config)?,
    };
    output::text(&module);
    Ok(ExitCode::SUCCESS)
}
