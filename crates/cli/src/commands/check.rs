use std::process::ExitCode;

use anyhow::bail;

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
            let entities = output::count(config.entities.len(), "entity", "entities");
            output::line(&format!("{name} is fine: {entities}"));
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => bail!("{problems}"),
    }
}
