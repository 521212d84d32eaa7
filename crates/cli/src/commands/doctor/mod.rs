//! `gatewright doctor URL`: checks a running deployment from outside, as its clients see it.
//!
//! It sends a few GET requests without credentials and changes nothing. [`probe`] sends them, [`judge`] decides what an
//! answer means.

mod judge;
mod probe;

use std::process::ExitCode;

use anyhow::{Context, bail};
use url::Url;

use crate::output;
use judge::Finding;
use probe::Probe;

pub(crate) async fn doctor(url: &str) -> anyhow::Result<ExitCode> {
    let url = url.parse::<Url>().ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(url) = url else { bail!("expected the address of a deployment, such as https://example.com") };
    if !url.username().is_empty() || url.password().is_some() {
        bail!("leave user name and password out of the address; doctor sends no credentials");
    }
    let probe = Probe::new(url).context("cannot create an HTTP client")?;
    let findings = examine(&probe).await;
    let mut problems = 0;
    for finding in &findings {
        problems += usize::from(matches!(finding, Finding::Problem(_)));
        output::line(&finding.to_string());
    }
    let warnings = findings.iter().filter(|finding| matches!(finding, Finding::Warning(_))).count();
    let (problems_found, warnings) =
        (output::count(problems, "problem", "problems"), output::count(warnings, "warning", "warnings"));
    output::line(&format!("{problems_found}, {warnings}"));
    Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs every check. If the server does not answer, that is the only finding.
async fn examine(probe: &Probe) -> Vec<Finding> {
    let mut findings = Vec::new();
    let alive = match probe.get("/healthz").await {
        Ok(answer) => answer,
        Err(error) => return vec![Finding::Problem(format!("no answer from {}: {error}", probe.base()))],
    };
    findings.extend(judge::alive(&alive));
    findings.extend(judge::encryption(probe.base()));
    findings.extend(judge::clock(&alive, probe.now()));
    if let Ok(ready) = probe.get("/readyz").await {
        findings.push(judge::ready(&ready));
    }
    let document = probe.get("/openapi.json").await.ok().and_then(|answer| answer.json());
    findings.extend(judge::document(document.as_ref(), probe.base(), env!("CARGO_PKG_VERSION")));
    if let Ok(mailbox) = probe.get("/dev/mail").await {
        findings.extend(judge::dev_mode(&mailbox));
    }
    if let Ok(forgot) = probe.get("/forgot-password").await {
        findings.extend(judge::mail(&forgot));
    }
    if let Ok(metrics) = probe.get("/metrics").await {
        findings.push(judge::metrics(&metrics, probe.base()));
    }
    if let Ok(crossing) = probe.get_from("/auth/me", judge::STRANGER).await {
        findings.push(judge::crossing(&crossing));
    }
    if let Some(path) = document.as_ref().and_then(judge::a_stream) {
        findings.push(judge::stream(path, &probe.first_bytes(path).await));
    }
    findings
}
