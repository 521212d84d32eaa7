//! The functions of a configuration, for their operator.

use gatewright_base::Ambient;
use gatewright_functions::Trigger;

use super::Functions;
use crate::{Config, FunctionInfo};

/// Compiles the functions of a configuration and lists them, by files and then in the order of their exports.
///
/// Fails with a text that has a line for everything that is wrong.
pub fn functions(config: &Config) -> Result<Vec<FunctionInfo>, String> {
    let Some(functions) = Functions::load(config, &Ambient::system())? else { return Ok(Vec::new()) };
    let info = |function: &std::sync::Arc<gatewright_functions::Function>| {
        let (kind, trigger) = match &function.trigger {
            Trigger::Before { entity, action } => ("before", format!("{entity} {action}")),
            Trigger::On { entity, event } => {
                ("on", entity.as_ref().map_or_else(|| event.clone(), |entity| format!("{entity}.{event}")))
            }
            Trigger::Job { schedule, timezone } => ("job", format!("{schedule} {timezone}")),
            Trigger::Route { method, path, .. } => ("route", format!("{method} {}", super::routes::mounted(path))),
        };
        FunctionInfo { name: function.name.clone(), kind, file: function.file.clone(), trigger }
    };
    Ok(functions.all().iter().map(info).collect())
}
