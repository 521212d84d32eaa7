use std::process::ExitCode;

use gatewright::Finding;
use serde_json::json;

use crate::args::Common;
use crate::{configuration, output};

/// Nothing is printed before the database is open.
const OPENING: &str = "{\"items\":[";

pub(crate) async fn verify(common: &Common, as_json: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let mut total = 0_u64;
    let each = |finding: Finding| {
        if as_json {
            let Finding { table, id, column, reason } = finding;
            let item = json!({ "table": table, "id": id, "column": column, "reason": reason });
            output::text(format!("{}{item}", if total == 0 { OPENING } else { "," }));
        } else {
            output::line(&output::one_line(&finding.to_string()));
        }
        total += 1;
    };
    let records = gatewright::verify(&config, each).await?;
    if as_json {
        let opening = if total == 0 { OPENING } else { "" };
        output::line(&format!("{opening}],\"total\":{total},\"records\":{records}}}"));
    } else {
        let records = output::count(usize::try_from(records).unwrap_or(usize::MAX), "record", "records");
        let values = output::count(usize::try_from(total).unwrap_or(usize::MAX), "value", "values");
        output::line(&format!("{records} read, {values} to correct"));
    }
    Ok(if total == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
