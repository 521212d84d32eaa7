use std::process::ExitCode;

use anyhow::bail;

use crate::args::Common;
use crate::{configuration, output};

pub(crate) fn check(common: &Common) -> anyhow::Result<ExitCode> {
    let loader = configuration::loader(common)?;
    let name = loader.name().unwrap_or("the configuration").to_owned();
    match loader.load() {
        Ok(config) => {
            for warning in config.warnings() {
                output::line(&format!("warning: {warning}"));
            }
            output::line(&format!("{name} is fine: {} entities", config.entities.len()));
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => bail!("{problems}"),
    }
}
