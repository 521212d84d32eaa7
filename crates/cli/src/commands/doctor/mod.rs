//! `gatewright doctor URL`: checks a running deployment from outside, as its clients see it.
//!
//! It sends a few GET requests without credentials and changes nothing. [`probe`] sends them, [`judge`] decides what an
//! answer means. If the deployment's configuration or database is named, [`database`] reads what requests do not show.

mod database;
mod judge;
mod probe;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use reqwest::Certificate;
use url::Url;

use crate::args::Common;
use crate::output;
use judge::Finding;
use probe::Probe;

pub(crate) async fn doctor(common: &Common, url: &str, ca: Option<&Path>) -> anyhow::Result<ExitCode> {
    let url = url.parse::<Url>().ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(url) = url else { bail!("expected the address of a deployment, such as https://example.com") };
    if !url.username().is_empty() || url.password().is_some() {
        bail!("leave user name and password out of the address; doctor sends no credentials");
    }
    let authorities = match ca {
        Some(file) => authorities(file)?,
        None => Vec::new(),
    };
    let probe = Probe::new(url, authorities).context("cannot create an HTTP client")?;
    let mut findings = examine(&probe).await;
    if common.config.is_some() || common.database.is_some() {
        findings.extend(database::examine(common).await);
    }
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

/// The certificates in a PEM file.
fn authorities(file: &Path) -> anyhow::Result<Vec<Certificate>> {
    let unreadable = || format!("cannot read the certificates in {}", file.display());
    let pem = std::fs::read(file).with_context(unreadable)?;
    let found = Certificate::from_pem_bundle(&pem).with_context(unreadable)?;
    if found.is_empty() {
        bail!("{} has no certificate; --ca takes a PEM file", file.display());
    }
    Ok(found)
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
        findings.extend(judge::ready(&ready));
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
