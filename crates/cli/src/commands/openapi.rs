use std::process::ExitCode;

use gatewright::openapi;

use crate::args::Common;
use crate::{configuration, output};

pub(crate) fn openapi(common: &Common, dev: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_documents(common, dev)?;
    output::line(&openapi::document(&config)?.to_pretty_json()?);
    Ok(ExitCode::SUCCESS)
}
