//! `gatewright user …`: management of accounts.

use std::io::{BufRead, IsTerminal, Read};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use gatewright::auth::plugins::invitations::NewInvitation;
use gatewright::auth::users::{ListUsers, User, UserPage, UserStoreError};
use gatewright::auth::{AccountError, AccountName, Accounts, EmailAddress, Unverified};
use gatewright::entities::operations::OwnedRecords;
use gatewright::{Config, DeleteAccountError};
use gatewright_base::Roles;
use serde_json::{Value, json};

use crate::args::{Common, Insist};
use crate::{configuration, output, password};

/// The arguments for a new account.
pub(crate) struct New<'a> {
    pub(crate) email: &'a str,
    pub(crate) roles: Option<Vec<String>>,
    pub(crate) admin: bool,
    pub(crate) dev: bool,
}

pub(crate) async fn create(
    common: &Common,
    New { email, roles, admin, dev }: New<'_>,
    from_stdin: bool,
) -> anyhow::Result<ExitCode> {
    let config = configuration::as_served(common, dev)?;
    let roles = roles.as_deref().map(named);
    warn_of_unknown(&config, roles.as_ref().unwrap_or(&Roles::default()));
    let roles = if admin { Some(administering(&config, roles)) } else { roles };
    // Checked before the database is opened, so that a mistake creates no file.
    EmailAddress::parse(email).map_err(|error| explain(error.into(), email))?;
    let password = password::read(from_stdin)?;
    configuration::note_new_file(&config);
    let accounts = gatewright::accounts(&config).await?;
    let user = accounts.create(email, Some(password), roles).await.map_err(|error| explain(error, email))?;
    output::line(&format!("created {} ({})", user.email, user.id));
    if admin {
        print_console_address(&config);
    }
    Ok(ExitCode::SUCCESS)
}

/// The given roles, or the default ones, and the role of administrators.
fn administering(config: &Config, roles: Option<Roles>) -> Roles {
    let roles = roles.unwrap_or_else(|| config.auth.default_roles.clone());
    roles.iter().chain([&*config.admin.role]).collect()
}

/// Prints the address of the console, or warns if it is off.
fn print_console_address(config: &Config) {
    if !config.has_admin() {
        output::warning("the console is disabled; set `enabled = true` in `[admin]`, or use --dev for `serve --dev`");
        return;
    }
    let base = config.public_url().origin().ascii_serialization();
    output::line(&format!("the console is at {base}/admin"));
    if config.admin.require_two_factor {
        output::line(&format!("first enable the second factor at {base}/account: `admin.require_two_factor` is true"));
    }
}

pub(crate) async fn list(common: &Common, limit: i64, offset: i64, json: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let accounts = gatewright::accounts(&config).await?;
    let page = accounts.list(ListUsers::new(limit, offset)).await?;
    if json {
        output::line(&detailed(&accounts, &page).await?.to_string());
    } else {
        print(&page);
    }
    Ok(ExitCode::SUCCESS)
}

/// The page as JSON, with what only operators see.
async fn detailed(accounts: &Accounts, page: &UserPage) -> anyhow::Result<Value> {
    let ids: Vec<_> = page.items.iter().map(|item| item.id.clone()).collect();
    let dates = accounts.dates(&ids).await?;
    let mut items = Vec::new();
    for summary in &page.items {
        let mut item = serde_json::to_value(summary).context("cannot write JSON")?;
        let dates = dates.get(&summary.id);
        let moment = |at: Option<jiff::Timestamp>| at.map(gatewright_base::time::format);
        let tenants = accounts.tenants(&summary.id).await?;
        let tenants = tenants.iter().map(|tenant| json!({ "id": tenant.id.as_str(), "roles": tenant.roles }));
        item["emailVerified"] = accounts.find_by_id(&summary.id).await?.email_verified.into();
        item["secondFactor"] = accounts.has_second_factor(&summary.id).await?.into();
        item["lastSignInAt"] = json!(moment(dates.and_then(|dates| dates.last_sign_in_at)));
        item["createdAt"] = json!(moment(dates.map(|dates| dates.created_at)));
        item["disabledAt"] = json!(moment(dates.and_then(|dates| dates.disabled_at)));
        item["tenants"] = tenants.collect();
        items.push(item);
    }
    Ok(json!({ "items": items, "total": page.total }))
}

pub(crate) async fn set_roles(
    common: &Common,
    email: &str,
    roles: Vec<String>,
    insist: Insist,
) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let accounts = gatewright::accounts(&config).await?;
    let (user, roles) = (find(&accounts, email).await?, named(&roles));
    // Roles are taken from any account. They are given only to one whose address somebody has confirmed.
    if roles.iter().any(|role| !user.roles.contains(role)) {
        resolve(&accounts, email, insist).await?;
    }
    warn_of_unknown(&config, &roles);
    accounts.set_roles(&user.id, &roles).await?;
    output::line(&format!("{} now has {}", user.email, shown(&roles)));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn set_password(
    common: &Common,
    email: &str,
    from_stdin: bool,
    insist: Insist,
) -> anyhow::Result<ExitCode> {
    let accounts = open(common).await?;
    let user = resolve(&accounts, email, insist).await?;
    let is_claim = accounts.resolve(AccountName::Id(&user.id), Unverified::Refuse).await.is_err();
    accounts.set_password(&user.id, password::read(from_stdin)?).await?;
    output::line(&format!("{} has a new password; sessions and JSON web tokens are ended", user.email));
    if is_claim {
        output::line(
            "nobody had confirmed the address: passkeys, the second factor, API tokens, linked providers and connected \
             programs were removed too",
        );
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn disable_two_factor(common: &Common, email: &str) -> anyhow::Result<ExitCode> {
    let accounts = open(common).await?;
    let user = find(&accounts, email).await?;
    let removed = accounts.disable_two_factor(&user.id).await?;
    output::line(&if removed {
        format!(
            "{} now signs in without a second factor; sessions stay valid, `gatewright user logout` ends them",
            user.email
        )
    } else {
        format!("{} has no second factor", user.email)
    });
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn logout(common: &Common, email: &str) -> anyhow::Result<ExitCode> {
    let accounts = open(common).await?;
    let user = find(&accounts, email).await?;
    let sessions = accounts.sign_out_everywhere(&user.id).await?;
    output::line(&format!(
        "{} is signed out of {}; JSON web tokens are ended",
        user.email,
        output::count(usize::try_from(sessions).unwrap_or(usize::MAX), "session", "sessions")
    ));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn invite(
    common: &Common,
    email: &str,
    roles: Option<Vec<String>>,
    tenant: Option<String>,
    next: Option<String>,
) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let address = EmailAddress::parse(email).map_err(|error| explain(error.into(), email))?;
    let roles = roles.as_deref().map(named);
    warn_of_unknown(&config, roles.as_ref().unwrap_or(&Roles::default()));
    let asks_for_next = next.is_some();
    let mut invitation = NewInvitation::new(address).roles(roles).next(next);
    if let Some(tenant) = tenant {
        invitation = invitation.tenant(gatewright::tenant_id(&tenant)?, Vec::new());
    }
    let issued = gatewright::invite(&config, invitation).await?;
    let until = issued.expires_at.strftime("%Y-%m-%d %H:%M UTC");
    if issued.mailed {
        output::line(&format!("invited {email} until {until}; the link was mailed"));
    } else {
        output::line(&format!("invited {email} until {until}; nothing is mailed without [email]"));
    }
    if asks_for_next && !issued.link.expose().contains("&next=") {
        output::warning("the address of --next is not allowed and was left out; list it in `auth.redirect_urls`");
    }
    if config.server.dev_mode {
        output::line(issued.link.expose());
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn disable(common: &Common, email: &str) -> anyhow::Result<ExitCode> {
    let accounts = open(common).await?;
    let user = find(&accounts, email).await?;
    accounts.disable(&user.id).await?;
    output::line(&format!(
        "{} is disabled: sessions and JSON web tokens are ended, API tokens are refused; `gatewright user enable` undoes it",
        user.email
    ));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn enable(common: &Common, email: &str) -> anyhow::Result<ExitCode> {
    let accounts = open(common).await?;
    let user = find(&accounts, email).await?;
    accounts.enable(&user.id).await?;
    output::line(&format!("{} is enabled: sign-in and API tokens work", user.email));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn delete(common: &Common, email: &str, yes: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let accounts = gatewright::accounts(&config).await?;
    let user = find(&accounts, email).await?;
    let records = match config.auth.on_account_delete {
        OwnedRecords::Keep => "its records stay, without an owner",
        OwnedRecords::Delete => "its records are deleted",
    };
    if !yes {
        confirm(user.email.as_str(), records)?;
    }
    drop(accounts);
    gatewright::delete_account(&config, &user.id).await.map_err(|error| match error {
        DeleteAccountError::Account(error) => explain(error, email),
        error => error.into(),
    })?;
    output::line(&format!(
        "deleted {} ({}); sessions, JSON web tokens, API tokens and links are ended; {records}; the audit log keeps the id",
        user.email, user.id
    ));
    Ok(ExitCode::SUCCESS)
}

/// Asks the operator to type the address again.
fn confirm(email: &str, records: &str) -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        bail!("there is no terminal to ask; use --yes to delete {email} without confirmation");
    }
    eprint!("This deletes the account permanently; {records}. Type {email} to confirm: ");
    let mut line = String::new();
    std::io::stdin().lock().take(1024).read_line(&mut line).context("cannot read the answer")?;
    if line.trim() != email {
        bail!("not confirmed; nothing was deleted");
    }
    Ok(())
}

async fn open(common: &Common) -> anyhow::Result<Accounts> {
    Ok(gatewright::accounts(&configuration::for_management(common)?).await?)
}

pub(super) async fn find(accounts: &Accounts, email: &str) -> anyhow::Result<User> {
    accounts.find(email).await.map_err(|error| explain(error, email))
}

/// The account that gets something.
pub(super) async fn resolve(accounts: &Accounts, email: &str, insist: Insist) -> anyhow::Result<User> {
    let found = accounts.resolve(AccountName::Address(email), insist.unverified.into()).await;
    found.map_err(|error| explain(error, email))
}

/// Adds to an error which account it is about, and what to do.
pub(super) fn explain(error: AccountError, email: &str) -> anyhow::Error {
    let email = email.trim();
    match error {
        AccountError::Users(UserStoreError::NotFound) => {
            anyhow!("there is no account {email}; `gatewright user list` shows the accounts")
        }
        AccountError::Users(UserStoreError::EmailTaken) => {
            anyhow!("there is an account {email} already; `gatewright user set-password` changes its password")
        }
        AccountError::Users(error @ UserStoreError::Referenced(_)) => {
            anyhow!(
                "{error}; delete these records first, or give the relation `on_delete = \"set_null\"` or \"cascade\""
            )
        }
        AccountError::Email(error) => anyhow!("{email}: {error}"),
        error @ AccountError::Unverified(_) => unverified(&error),
        other => other.into(),
    }
}

/// Adds what to do.
pub(super) fn unverified(error: &AccountError) -> anyhow::Error {
    anyhow!(
        "{error}; ask its owner to confirm the address or to sign in with a link by mail, or use --unverified to act on \
         it nevertheless"
    )
}

/// The roles from a list on the command line.
pub(super) fn named(roles: &[String]) -> Roles {
    roles.iter().map(|role| role.trim()).filter(|role| !role.is_empty()).collect()
}

/// Warns about roles that permit nothing. They are assigned anyway: the configuration may change later.
pub(super) fn warn_of_unknown(config: &Config, roles: &Roles) {
    for warning in config.role_warnings(roles) {
        output::warning(&warning);
    }
}

/// Roles as text for a person.
pub(super) fn shown(roles: &Roles) -> String {
    if roles.is_empty() { "no roles".to_owned() } else { roles.iter().collect::<Vec<_>>().join(", ") }
}

fn print(page: &UserPage) {
    for user in &page.items {
        let disabled = if user.disabled { "  disabled" } else { "" };
        let hash = if user.unknown_hash { "  unknown hash" } else { "" };
        output::line(&format!("{}  {}  {}{disabled}{hash}", user.id, user.email, shown(&user.roles)));
    }
    output::line(&format!("{} of {}", page.items.len(), page.total));
}
