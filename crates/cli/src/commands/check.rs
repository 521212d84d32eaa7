use std::process::ExitCode;

use anyhow::{anyhow, bail};

use crate::args::Common;
use crate::{configuration, output};

pub(crate) async fn check(common: &Common, dev: bool) -> anyhow::Result<ExitCode> {
    let loader = configuration::loader(common, dev)?;
    configuration::note_missing_file(&loader, dev);
    let name = loader.name().unwrap_or("the configuration").to_owned();
    for warning in loader.warnings() {
        output::line(&format!("warning: {warning}"));
    }
    match loader.load_with_warnings() {
        Ok((config, warnings)) => {
            for warning in warnings {
                output::line(&format!("warning: {warning}"));
            }
            gatewright::check_encoding(&config).await?;
            let functions = gatewright::check_functions(&config).map_err(|faults| anyhow!("functions:\n{faults}"))?;
            let functions = match functions {
                0 => String::new(),
                count => format!(", {}", output::count(count, "function", "functions")),
            };
            let entities = output::count(config.entities.len(), "entity", "entities");
            output::line(&format!("{name} is fine: {entities}{functions}"));
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => bail!("{problems}"),
    }
}
