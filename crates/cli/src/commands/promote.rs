use std::process::ExitCode;

use gatewright_base::Secret;

use crate::args::Common;
use crate::{configuration, output};

pub(crate) async fn promote(common: &Common, to: &Secret, leave: &[String]) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let copied = gatewright::promote(&config, to, leave).await?;
    let width = copied.iter().map(|copied| copied.table.len()).max().unwrap_or(0);
    for copied in &copied {
        output::line(&format!("{:width$}  {:>9}  {}", copied.table, copied.rows, copied.checksum));
    }
    let rows: u64 = copied.iter().map(|copied| copied.rows).sum();
    output::line(&format!(
        "copied {} and {}; counts and checksums are equal on both sides",
        output::count(copied.len(), "table", "tables"),
        output::count(usize::try_from(rows).unwrap_or(usize::MAX), "row", "rows"),
    ));
    output::line("next: set `database.url` to the target and start the server; the SQLite file is unchanged");
    Ok(ExitCode::SUCCESS)
}
