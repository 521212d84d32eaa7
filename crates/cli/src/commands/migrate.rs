use std::process::ExitCode;

use gatewright::schema;

use crate::args::Common;
use crate::{configuration, output};

/// The exit status of `migrate --plan` if changes are pending.
const PENDING: u8 = 3;

pub(crate) async fn migrate(common: &Common, plan: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_creation(common)?;
    let changes = if plan { schema::plan(&config).await? } else { schema::migrate(&config).await? };
    for note in &changes.notes {
        output::line(&format!("-- {note}"));
    }
    let pending = changes.statements.len();
    if plan {
        for statement in &changes.statements {
            output::line(&format!("{statement};"));
        }
    }
    output::line(match (pending, plan) {
        (0, _) => "-- the database is up to date",
        (_, true) => "-- nothing was changed; `gatewright migrate` does it",
        (_, false) => "-- the database was brought up to date",
    });
    Ok(if plan && pending > 0 { ExitCode::from(PENDING) } else { ExitCode::SUCCESS })
}
