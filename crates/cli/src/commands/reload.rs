//! `gatewright reload`: the running server reads its configuration again.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use serde_json::Value;

use crate::args::Common;
use crate::running::Running;
use crate::{configuration, output};

/// How long the server may take.
const TIMEOUT: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

pub(crate) async fn reload(common: &Common) -> anyhow::Result<ExitCode> {
    // An invalid file is told here: the server would refuse it too.
    let config = configuration::to_reload(common)?;
    let server = Running::find(&config)?;
    let before = read(&server.outcome);
    server.hang_up()?;
    let answer = tokio::time::timeout(TIMEOUT, async {
        loop {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            let now = read(&server.outcome);
            if now != before && now["process"] == server.process {
                return now;
            }
        }
    });
    let Ok(answer) = answer.await else {
        bail!("the server (process {}) did not answer in {} seconds; see its log", server.process, TIMEOUT.as_secs());
    };
    if let Some(error) = answer["error"].as_str() {
        bail!("the server keeps its configuration:\n{}", output::lines(error));
    }
    let named = |key: &str| -> Vec<String> {
        answer[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(output::one_line).collect()
    };
    let (applied, needs_restart) = (named("applied"), named("needsRestart"));
    output::line(&if applied.is_empty() {
        "the server has read its configuration again; no setting changed".to_owned()
    } else {
        format!("the server has read its configuration again; changed: {}", applied.join(", "))
    });
    if !needs_restart.is_empty() {
        output::line(&format!("needs a restart: {}", needs_restart.join(", ")));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Value {
    std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}
