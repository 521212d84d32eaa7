//! `gatewright mail …`: pending and failed mails.

use std::process::ExitCode;

use anyhow::{anyhow, bail};
use gatewright::mail::stored::{ListMails, MailQueue, MailStatus, Retry};

use crate::args::Common;
use crate::{configuration, output};

pub(crate) async fn list(
    common: &Common,
    status: Option<MailStatus>,
    recipient: Option<String>,
    limit: u32,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let recipient = recipient.map(|address| address.to_lowercase());
    let mails = open(common).await?.list(&ListMails { status, recipient, after: None, limit }).await?;
    if json {
        output::line(&serde_json::json!({ "items": mails }).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    for mail in &mails {
        let error =
            mail.last_error.as_deref().map(|error| format!("  {}", output::one_line(error))).unwrap_or_default();
        let tries = output::count(usize::try_from(mail.attempts).unwrap_or(0), "attempt", "attempts");
        let next = mail.next_attempt_at.map(|at| format!("  next {at}")).unwrap_or_default();
        let (status, recipient) = (mail.status.as_str(), output::one_line(&mail.recipient));
        output::line(&format!("{}  {}  {recipient}  {status}  {tries}{next}{error}", mail.id, mail.kind));
    }
    output::line(&output::count(mails.len(), "mail", "mails"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn retry(common: &Common, id: &str) -> anyhow::Result<ExitCode> {
    match open(common).await?.retry(id).await? {
        Retry::Due(_) => output::line("the mail is due; the running server sends it within 5 seconds"),
        Retry::Sending => bail!("a server is sending mail {id} at the moment"),
        Retry::Expired => bail!("the link in mail {id} has expired: it is no longer sent; ask for a new one"),
        Retry::Missing => return Err(unknown(id)),
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn discard(common: &Common, id: &str) -> anyhow::Result<ExitCode> {
    open(common).await?.discard(id).await?.ok_or_else(|| unknown(id))?;
    output::line("the mail is discarded");
    Ok(ExitCode::SUCCESS)
}

async fn open(common: &Common) -> anyhow::Result<MailQueue> {
    Ok(gatewright::mail_queue(&configuration::for_management(common)?).await?)
}

fn unknown(id: &str) -> anyhow::Error {
    anyhow!("there is no mail {id}: it was sent or discarded; `gatewright mail list` shows the mails")
}
