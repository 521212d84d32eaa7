//! `gatewright token …`: API tokens of users and of service accounts.

use std::collections::HashMap;
use std::process::ExitCode;

use anyhow::anyhow;
use gatewright::auth::service_accounts::ServiceAccountError;
use gatewright::auth::tokens::{ApiTokens, StoredToken, TokenDraft};
use gatewright::auth::users::UserStoreError;
use gatewright::auth::{AccountError, Auth};
use gatewright_base::{Subject, TokenId, time};
use serde_json::{Value, json};

use super::service_account::{self, switched_off};
use super::user;
use crate::args::{Common, Insist, TokenOwner};
use crate::{configuration, output};

/// The arguments for a new token.
pub(crate) struct New<'a> {
    pub(crate) name: &'a str,
    pub(crate) scopes: &'a [String],
    pub(crate) ttl: i64,
}

pub(crate) async fn issue(
    common: &Common,
    owner: TokenOwner,
    New { name, scopes, ttl }: &New<'_>,
    insist: Insist,
) -> anyhow::Result<ExitCode> {
    let draft = TokenDraft::parse(name, &given(scopes), *ttl).map_err(|wrong| {
        let wrong: Vec<_> = wrong.iter().map(ToString::to_string).collect();
        anyhow!("{}", wrong.join("; "))
    })?;
    let config = configuration::for_management(common)?;
    for warning in config.scope_warnings(given(scopes)) {
        output::warning(&warning);
    }
    let auth = gatewright::management(&config).await?;
    let owner = find(&auth, owner, insist).await?;
    let issued = tokens(&auth)?.issue(owner, draft).await?;
    output::line(issued.plaintext.expose());
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn list(common: &Common, json: bool) -> anyhow::Result<ExitCode> {
    let auth = open(common).await?;
    let tokens = tokens(&auth)?.list(None).await?;
    let owners = owners(&auth, &tokens).await?;
    if json {
        let items: Vec<_> = tokens.iter().map(|token| object(token, &owners)).collect();
        output::line(&json!({ "items": items, "total": items.len() }).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    for token in &tokens {
        let scopes: Vec<_> = token.scopes.iter().map(ToString::to_string).collect();
        let scopes = if scopes.is_empty() { "no scopes".to_owned() } else { scopes.join(",") };
        let until = token.expires_at.map_or("no end".to_owned(), |end| format!("until {end}"));
        let used = token.last_used_at.map_or("never used".to_owned(), |at| format!("used {at}"));
        let owner = format!("{} {}", kind(&token.owner), owners[&token.owner]);
        let line = [token.id.as_str(), &token.prefix, &owner, &token.name, &scopes, &until, &used];
        output::line(&line.join("  "));
    }
    output::line(&output::count(tokens.len(), "token", "tokens"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn revoke(common: &Common, id: &str) -> anyhow::Result<ExitCode> {
    let unknown =
        || anyhow!("there is no token {id}, or it is revoked already; `gatewright token list` shows the tokens");
    let parsed = TokenId::parse(id).map_err(|_| unknown())?;
    if !tokens(&open(common).await?)?.revoke(&parsed).await? {
        return Err(unknown());
    }
    output::line(&format!("{id} is revoked"));
    Ok(ExitCode::SUCCESS)
}

async fn open(common: &Common) -> anyhow::Result<Auth> {
    Ok(gatewright::management(&configuration::for_management(common)?).await?)
}

fn tokens(auth: &Auth) -> anyhow::Result<ApiTokens> {
    auth.api_tokens().ok_or_else(switched_off)
}

async fn find(auth: &Auth, owner: TokenOwner, insist: Insist) -> anyhow::Result<Subject> {
    if let Some(email) = owner.user {
        return Ok(Subject::User(user::resolve(&auth.accounts(), &email, insist).await?.id));
    }
    let accounts = auth.service_accounts().ok_or_else(switched_off)?;
    let name = owner.service.unwrap_or_default();
    Ok(Subject::Service(service_account::find(&accounts, &name).await?.id))
}

/// The owners of `tokens` for display: the address or name, or the id if the owner no longer exists.
async fn owners(auth: &Auth, tokens: &[StoredToken]) -> anyhow::Result<HashMap<Subject, String>> {
    let (accounts, services) = (auth.accounts(), auth.service_accounts().ok_or_else(switched_off)?);
    let mut owners = HashMap::new();
    for owner in tokens.iter().map(|token| &token.owner) {
        if owners.contains_key(owner) {
            continue;
        }
        let name = match owner {
            Subject::User(id) => match accounts.find_by_id(id).await {
                Ok(user) => user.email.to_string(),
                Err(AccountError::Users(UserStoreError::NotFound)) => id.to_string(),
                Err(error) => return Err(error.into()),
            },
            Subject::Service(id) => match services.find_by_id(id).await {
                Ok(account) => account.name,
                Err(ServiceAccountError::NotFound) => id.to_string(),
                Err(error) => return Err(error.into()),
            },
        };
        owners.insert(owner.clone(), name);
    }
    Ok(owners)
}

fn kind(owner: &Subject) -> &'static str {
    match owner {
        Subject::User(_) => "user",
        Subject::Service(_) => "service",
    }
}

fn object(token: &StoredToken, owners: &HashMap<Subject, String>) -> Value {
    json!({
        "id": token.id,
        "name": token.name,
        "prefix": token.prefix,
        "ownerKind": kind(&token.owner),
        "ownerId": token.owner.as_str(),
        "owner": owners[&token.owner],
        "scopes": token.scopes,
        "createdAt": time::format(token.created_at),
        "expiresAt": token.expires_at.map(time::format),
        "lastUsedAt": token.last_used_at.map(time::format),
    })
}

/// The scopes from a list on the command line, without empty items, such as one after a trailing comma.
fn given(scopes: &[String]) -> Vec<&str> {
    scopes.iter().map(|scope| scope.trim()).filter(|scope| !scope.is_empty()).collect()
}
