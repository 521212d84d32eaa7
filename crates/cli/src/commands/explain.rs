//! `gatewright explain`: why a caller may or may not do something with a record.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use gatewright::entities::operations::{Check, Explanation, Term, TermValues};
use gatewright::{ExplainAs, ExplainError, Question};

use crate::args::{Common, Explain, ExplainCaller as Caller};
use crate::{configuration, failure, output};

/// The exit status of a refusal.
const DENIED: u8 = 1;
/// The exit status if there is no decision.
const FAILED: u8 = 2;

pub(crate) async fn explain(common: &Common, wanted: &Explain) -> ExitCode {
    match explained(common, wanted).await {
        Ok(explanation) if explanation.allowed => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(DENIED),
        Err(error) => {
            failure::print(&error);
            ExitCode::from(FAILED)
        }
    }
}

async fn explained(common: &Common, wanted: &Explain) -> anyhow::Result<Explanation> {
    let mut config = configuration::as_served(common, wanted.dev)?;
    config.database.create_file = false;
    let caller = match &wanted.caller {
        Caller { anonymous: true, .. } => ExplainAs::Anonymous,
        Caller { email: Some(email), .. } => ExplainAs::User(email),
        Caller { service, .. } => ExplainAs::Service(service.as_deref().unwrap_or_default()),
    };
    let (table, id) = match wanted.record.split_once('/') {
        Some((table, id)) => (table, Some(id)),
        None => (&*wanted.record, None),
    };
    let question = Question { caller, operation: wanted.operation.into(), table, id, tenant: wanted.tenant.as_deref() };
    let mut explanation = gatewright::explain_offline(&config, question).await.map_err(with_hint)?;
    if wanted.json {
        output::line(&serde_json::to_string(&explanation).context("cannot write JSON")?);
    } else {
        if wanted.tenant.is_none() {
            ask_for_tenant(&mut explanation, &format!("send its id in the header {}", config.tenancy.header()));
        }
        print(&explanation);
    }
    Ok(explanation)
}

fn with_hint(error: ExplainError) -> anyhow::Error {
    match error {
        ExplainError::NoAccount(_) => anyhow!("{error}; `gatewright user list` shows the accounts"),
        ExplainError::NoServiceAccount(_) => {
            anyhow!("{error}; `gatewright service-account list` shows the service accounts")
        }
        error => error.into(),
    }
}

/// Replaces the header, which names the tenant in requests, by the flag.
fn ask_for_tenant(explanation: &mut Explanation, header: &str) {
    let details = explanation.checks.iter_mut().filter_map(|check| check.detail.as_mut());
    for text in explanation.reason.iter_mut().chain(details) {
        *text = text.replace(header, "pass it with --tenant");
    }
}

fn print(explanation: &Explanation) {
    output::line(&match (&explanation.reason, explanation.status) {
        (Some(reason), Some(status)) => format!("denied: {reason} ({status})"),
        _ => "allowed".to_owned(),
    });
    for check in &explanation.checks {
        print_check(check);
    }
}

fn print_check(Check { check, passed, detail, rule, terms }: &Check) {
    let found = match passed {
        Some(true) => "ok",
        Some(false) => "no",
        None => "?",
    };
    let detail = detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
    output::line(&format!("{found:3} {check}{detail}"));
    for line in rule.iter().flat_map(|rule| rule.trim().lines()) {
        output::line(&format!("      {}", line.trim()));
    }
    for term in terms {
        print_term(term);
    }
}

fn print_term(Term { term, holds, depth, values }: &Term) {
    let mut line = format!("    {}{} {term}", "  ".repeat(*depth), if *holds { "true " } else { "false" });
    for (index, TermValues { of, values, more, hidden }) in values.iter().enumerate() {
        let shown = match values.as_slice() {
            _ if *hidden => "(hidden)".to_owned(),
            [] => "(absent)".to_owned(),
            values => values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        let _infallible =
            write!(line, "{} {of}: {shown}{}", if index == 0 { "  --" } else { ";" }, if *more { ", …" } else { "" });
    }
    output::line(&line);
}
