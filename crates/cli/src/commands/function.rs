//! `gatewright function …`: the functions of a configuration.

use std::process::ExitCode;

use anyhow::anyhow;

use crate::args::Common;
use crate::{configuration, output};

pub(crate) fn list(common: &Common, json: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let functions = gatewright::functions(&config).map_err(|faults| anyhow!("functions:\n{faults}"))?;
    if json {
        output::line(&serde_json::json!({ "items": functions }).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    for function in &functions {
        output::line(&format!("{}  {}  {}  {}", function.name, function.kind, function.file, function.trigger));
    }
    output::line(&output::count(functions.len(), "function", "functions"));
    Ok(ExitCode::SUCCESS)
}
