//! `gatewright key …`: the keys that sign JWTs.

use std::process::ExitCode;

use gatewright::auth::jwt::{KeyState, ListedKey};
use serde_json::json;

use crate::args::Common;
use crate::{configuration, output};

pub(crate) async fn list(common: &Common, json: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let keys = gatewright::management(&config).await?.signing_keys().list().await?;
    if json {
        output::line(&json!({ "items": keys, "total": keys.len() }).to_string());
    } else {
        print(&keys);
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn rotate(common: &Common) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let keys = gatewright::management(&config).await?.signing_keys().rotate().await?;
    print(&keys);
    Ok(ExitCode::SUCCESS)
}

fn print(keys: &[ListedKey]) {
    for key in keys {
        let state = match key.state {
            KeyState::Waiting => format!("signs from {}", key.signs_from),
            KeyState::Signing => match key.accepted_until {
                Some(last) => format!("signs, and verifies until {last}"),
                None => format!("signs since {}", key.signs_from),
            },
            KeyState::Verifying => match key.accepted_until {
                Some(last) => format!("verifies until {last}"),
                None => "verifies".to_owned(),
            },
            KeyState::Expired => "expired".to_owned(),
        };
        let kid = key.kid.as_deref().unwrap_or("auth.jwt_secret");
        let purpose = if key.id_tokens { "  for id_tokens" } else { "" };
        output::line(&format!("{kid}  {}  {state}{purpose}", key.algorithm));
    }
}
