//! `Idempotency-Key`: the first request with a key writes, and its repeats get the same answer.
//!
//! Before anything is revealed, the caller's rights are checked as for the first request. The answer is kept in the write's
//! own transaction ([`operations`](crate::operations)); a refusal, which wrote nothing, right after it.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequestParts, OriginalUri};
use axum::response::Response;
use gatewright_base::{Credential, Principal};
use gatewright_http::Problem;
use http::header::{CONTENT_TYPE, IF_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

use super::answer;
use crate::answers::{Asked, Begun, Claim, Keeping, KeptAnswer, KeptAnswers, Render, Written, hex};
use crate::call::Call;
use crate::context::admission::{field_rights, named_standing};
use crate::context::entities::Entities;
use crate::context::gate::share;
use crate::error::Error;
use crate::files::Uploads;
use crate::readable::FieldRights;
use crate::tenancy::{Named, Standing};

/// The header that names a key.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The longest key, in bytes.
const LONGEST_KEY: usize = 255;

/// A key that a caller chose for a request: 1 to 255 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Reads a key. The error is a sentence for the caller.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let is_valid = (1..=LONGEST_KEY).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            Err("an idempotency key has 1 to 255 visible ASCII characters")
        }
    }

    /// The key in the header of a request.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let mut values = headers.get_all(&IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Problem::bad_request("Idempotency-Key is given more than once"));
        }
        Self::parse(value.to_str().unwrap_or_default()).map(Some).map_err(Problem::bad_request)
    }
}

/// An answer, and whether it is a repeat.
#[derive(Debug)]
pub struct Repeatable {
    /// The answer.
    pub answer: KeptAnswer,
    /// Whether an earlier request wrote, and this one did nothing.
    pub is_repeat: bool,
}

impl Entities {
    /// Whether the answer of a call with a key is kept: for signed-in callers, where the program keeps answers.
    fn keeps(&self, call: &Call) -> Option<(&KeptAnswers, String)> {
        let principal = call.identity.principal()?;
        Some((self.answers()?, principal.subject.as_str().to_owned()))
    }

    /// Runs `perform` once for a key of the caller. `request` is everything that the answer depends on, in parts. `rights` checks
    /// whether the caller may write what they ask for; it runs before anything of an earlier request is revealed. `render`
    /// makes the answer, inside of the write's transaction; `perform` gets the call by which to write.
    ///
    /// Anonymous callers have no keys: their writes run each time.
    pub async fn once<F>(
        &self,
        call: &Call,
        key: &IdempotencyKey,
        request: &[&[u8]],
        rights: impl Future<Output = Result<(), Error>>,
        render: Render,
        perform: impl FnOnce(Call) -> F,
    ) -> Result<Repeatable, Problem>
    where
        F: Future<Output = Result<KeptAnswer, Problem>>,
    {
        let Some((answers, caller)) = self.keeps(call) else {
            return Ok(Repeatable { answer: perform(call.clone()).await?, is_repeat: false });
        };
        rights.await?;
        let standing = named_standing(self, call).await.map_err(Problem::from)?;
        // A credential may be limited to a tenant that the request need not name.
        let tenant = match (&standing, &call.tenant) {
            (Standing::Member(membership), _) => membership.tenant.as_str(),
            (_, Named::Tenant(tenant)) => tenant.as_str(),
            (_, Named::Nothing | Named::Unreadable) => "",
        };
        let asked = Asked {
            id: hash(&[caller.as_bytes(), tenant.as_bytes(), key.0.as_bytes()]),
            caller,
            request: hash(request),
            rights: rights_of(call, &standing, &field_rights(self, call).await.map_err(Problem::from)?),
        };
        let begun = answers.begin(share(call), asked).await.map_err(|error| Problem::from(Error::from(error)))?;
        let claim = match begun {
            Begun::New(claim) => claim,
            Begun::Answered(answer) => return Ok(Repeatable { answer, is_repeat: true }),
            Begun::InProgress => return Err(Error::KeyInProgress.into()),
            Begun::Reused => {
                let detail = "the key belongs to another request, or the caller's rights have changed since";
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", detail));
            }
            Begun::Deleted => {
                let detail = "the answer contained a record that was deleted; nothing was done";
                return Err(Problem::new(StatusCode::GONE, "idempotency_answer_deleted", detail));
            }
        };
        let keeping = Keeping { claim: claim.clone(), render };
        let done = perform(Call { keeping: Some(keeping), ..call.clone() }).await;
        settle(answers, &claim, &done).await;
        Ok(Repeatable { answer: done?, is_repeat: false })
    }
}

/// The hash of what decides about the caller's rights: roles, roles in the tenant, scopes, fields that they may not read.
fn rights_of(call: &Call, standing: &Standing, fields: &FieldRights) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(principal) = call.identity.principal() {
        parts.extend(principal.roles.iter().map(|role| format!("role {role}")));
        parts.extend(limits(principal));
    }
    if let Standing::Member(membership) = standing {
        parts.push("member".to_owned());
        parts.extend(membership.roles.iter().map(|role| format!("tenant role {role}")));
    }
    // A declaration may have changed since the answer was kept.
    let unreadable = fields.print();
    if !unreadable.is_empty() {
        parts.push(format!("without {unreadable}"));
    }
    parts.sort_unstable();
    let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
    hash(&parts)
}

/// What limits the rights of a credential.
fn limits(principal: &Principal) -> Vec<String> {
    match &principal.credential {
        Credential::ApiToken { scopes, .. } => {
            let scopes = scopes.iter().map(|scope| format!("scope {scope}"));
            std::iter::once("token".to_owned()).chain(scopes).collect()
        }
        Credential::Grant(grant) => vec![format!("grant {grant:?}")],
        Credential::Session { .. } | Credential::Jwt { .. } => Vec::new(),
    }
}

/// Keeps a refusal, or gives the key back. An answer that wrote something is kept already.
async fn settle(answers: &KeptAnswers, claim: &Claim, done: &Result<KeptAnswer, Problem>) {
    let (status, refusal) = match done {
        Ok(answer) if answer.status < 400 => return,
        // A batch that failed.
        Ok(answer) => (answer.status, answer.clone()),
        Err(problem) => {
            let status = problem.status().as_u16();
            let headers = vec![("content-type".to_owned(), "application/problem+json".to_owned())];
            let body = serde_json::to_vec(problem).unwrap_or_default();
            (status, KeptAnswer { status, headers, body })
        }
    };
    let settled = match status {
        401 | 429 | 500.. => answers.release(claim).await,
        _ if matches!(done, Err(problem) if problem.code() == "idempotency_in_progress") => return,
        _ => answers.refuse(claim, refusal).await,
    };
    if let Err(error) = settled {
        tracing::warn!(%error, "the refusal of a request with an idempotency key was not kept");
    }
}

/// What a request is, besides its body.
pub(super) struct Incoming {
    pub(super) method: Method,
    /// As the client wrote it.
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    /// Who uploaded the files that came with the request.
    pub(super) uploads: Option<Arc<str>>,
}

impl<S: Send + Sync> FromRequestParts<S> for Incoming {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let original = parts.extensions.get::<OriginalUri>().map(|OriginalUri(uri)| uri.clone());
        let uri = original.unwrap_or_else(|| parts.uri.clone());
        let uploads = parts.extensions.get::<Uploads>().map(|Uploads(uploads)| uploads.clone());
        Ok(Self { method: parts.method.clone(), uri, headers: parts.headers.clone(), uploads })
    }
}

impl Incoming {
    pub(super) fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }

    /// The path of the request, without a slash at its end.
    pub(super) fn path(&self) -> &str {
        self.uri.path().trim_end_matches('/')
    }

    /// Answers a write: once, if the request has a key.
    pub(super) async fn answer<F>(
        &self,
        entities: &Entities,
        call: Call,
        body: &[u8],
        rights: impl Future<Output = Result<(), Error>>,
        perform: impl FnOnce(Call) -> F,
    ) -> Result<Response, Problem>
    where
        F: Future<Output = Result<KeptAnswer, Problem>>,
    {
        self.answer_with(entities, call, body, None, rights, perform).await
    }

    /// The same for writes to several entities, which are named.
    pub(super) async fn answer_with<F>(
        &self,
        entities: &Entities,
        call: Call,
        body: &[u8],
        named: Option<Vec<Option<String>>>,
        rights: impl Future<Output = Result<(), Error>>,
        perform: impl FnOnce(Call) -> F,
    ) -> Result<Response, Problem>
    where
        F: Future<Output = Result<KeptAnswer, Problem>>,
    {
        let Some(key) = IdempotencyKey::of(&self.headers)? else {
            return Ok(answer::kept(perform(call).await?, false));
        };
        let path = self.path().to_owned();
        let render: Render = Arc::new(move |written: &Written<'_>| answer::written(written, &path, named.as_deref()));
        // The content type decides whether a change is a merge.
        let [if_match, content_type] = [IF_MATCH, CONTENT_TYPE]
            .map(|name| self.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>());
        let (if_match, content_type) = (if_match.join(&b','), content_type.join(&b','));
        let request: [&[u8]; 6] = [
            self.method.as_str().as_bytes(),
            self.uri.path().as_bytes(),
            self.query().as_bytes(),
            &if_match,
            &content_type,
            body,
        ];
        let Repeatable { answer, is_repeat } =
            Box::pin(entities.once(&call, &key, &request, rights, render, perform)).await?;
        Ok(answer::kept(answer, is_repeat))
    }
}

/// The hash of several parts, none of which can be mistaken for a part of another.
fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(part);
    }
    hex(hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_visible_ascii_of_limited_length() {
        for (text, is_valid) in [
            ("a", true),
            ("\"0190d2b3\"", true),
            (&*"x".repeat(255), true),
            (&*"x".repeat(256), false),
            ("", false),
            ("a b", false),
            ("ä", false),
        ] {
            assert_eq!(IdempotencyKey::parse(text).is_ok(), is_valid, "{text}");
        }
        assert_ne!(hash(&["ab".as_bytes(), b"c"]), hash(&["a".as_bytes(), b"bc"]));
    }
}
