//! Hooks that wait for another system, and so cannot run inside of a transaction.
//!
//! A write meets its hook at its place in the transaction, after the caller was admitted. If the answer is not known, the question is
//! noted, and the transaction ends without an effect. The question is asked outside of any transaction, and the write begins again with
//! the answer. So every interface has these hooks, in the same order as others, and everything is checked again after the answer.
//! An answer is for the record and the values as they were sent: if these have changed meanwhile, the question is asked once more.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use gatewright_base::Shares;
use gatewright_db::Share;
use gatewright_http::Problem;
use http::StatusCode;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::{EntityHooks, Object, Values, Writing};
use crate::access::Action;
use crate::call::Call;
use crate::context::gate::share;
use crate::encode::Record;
use crate::error::Error;
use crate::plan::{Field, Plan};
use crate::query::ListQuery;

/// How many questions of one caller are asked at a time.
const OF_ONE: usize = 4;
/// How many of all callers.
const OF_ALL: usize = 512;
/// How far clocks may be apart within a request, in milliseconds.
const TOLERANCE: i64 = 1_000;
/// The longest text of a time, and the length of that of an id.
const TIME_LENGTH: usize = 40;
const ID_LENGTH: usize = 36;

/// Code that runs before a write and may wait for another system. It runs outside of any transaction, after the access rules have admitted
/// the caller, and before the hooks that run inside. Its values are checked as those of [`EntityHooks`] are.
///
/// It may be called more than once for a write: the transaction after it may begin again.
#[async_trait]
pub trait OutsideHook: Send + Sync + 'static {
    /// Whether it runs before this action.
    fn precedes(&self, action: Action) -> bool;

    /// Returns the values to set, by their keys on the wire. `spent` is the time that hooks of this kind have taken in the request.
    async fn ask(&self, asked: &Asked, spent: Duration) -> Result<Object, Problem>;
}

/// A write, as a hook outside of its transaction sees it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The entity.
    pub plan: Arc<Plan>,
    /// What is about to happen.
    pub action: Action,
    /// The caller.
    pub call: Call,
    /// The values that the write sets, by their keys on the wire. `None` for a deletion.
    pub values: Option<Object>,
    /// The record before the write. `None` for a new one.
    pub old: Option<Record>,
}

/// The hooks of an entity that run outside, then its other hooks.
pub(crate) struct Outside {
    pub(crate) hooks: Vec<Arc<dyn OutsideHook>>,
    pub(crate) inner: Option<Arc<dyn EntityHooks>>,
}

/// The questions and answers of one request. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Questions(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// When the transaction began first.
    began: Option<Instant>,
    /// The same in milliseconds since 1970. What is made from then on, each run may make anew.
    since: Option<i64>,
    /// How often each place was reached in the present run of the transaction.
    reached: HashMap<Place, usize>,
    answers: HashMap<(Place, usize), Answer>,
    /// Those whose record or values have changed once.
    changed: HashSet<(Place, usize)>,
    open: Vec<Open>,
    spent: Duration,
}

/// Where a question comes from: the hook of an entity, before an action on a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    entity: usize,
    hook: usize,
    action: Action,
    /// Of a new record, none.
    id: Option<String>,
}

struct Answer {
    /// Of what was sent.
    print: Print,
    values: Result<Object, Problem>,
}

/// What a question is about, as hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Print {
    old: Option<blake3::Hash>,
    values: Option<blake3::Hash>,
}

struct Open {
    key: (Place, usize),
    print: Print,
    asked: Asked,
    hook: Arc<dyn OutsideHook>,
}

/// The transaction needs an answer first.
#[derive(Debug, thiserror::Error)]
#[error("a question to a hook is open")]
struct IsOpen;

/// Limits how many questions are asked at a time.
pub(crate) fn turns() -> Shares<Share> {
    Shares::within(OF_ONE, OF_ALL)
}

impl Questions {
    /// A transaction begins, maybe again.
    pub(crate) fn begin(&self) {
        let mut state = self.0.lock();
        state.began.get_or_insert_with(Instant::now);
        state.reached.clear();
        state.open.clear();
    }

    /// Whether a question is open, so that nothing may be committed.
    pub(crate) fn are_open(&self) -> bool {
        !self.0.lock().open.is_empty()
    }

    /// The error that ends a transaction with open questions.
    pub(crate) fn error() -> Error {
        Error::Answer(Box::new(IsOpen))
    }

    /// Whether a transaction has ended because of an open question.
    pub(crate) fn is_open(error: &Error) -> bool {
        matches!(error, Error::Answer(reason) if reason.is::<IsOpen>())
    }

    /// The answer of a hook. If it is not known, it is an open question now.
    fn answer(
        &self,
        number: usize,
        hook: &Arc<dyn OutsideHook>,
        asked: impl FnOnce() -> Asked,
        about: &About<'_>,
        values: Option<&Values>,
    ) -> Result<Object, Error> {
        let mut state = self.0.lock();
        let id = about.old.map(|old| old.id().to_owned());
        let place = Place { entity: about.plan.index, hook: number, action: about.action, id };
        let count = state.reached.entry(place.clone()).or_default();
        let key = (place, *count);
        *count += 1;
        let running = state.began.map_or(Duration::ZERO, |began| began.elapsed());
        let since = *state.since.get_or_insert_with(|| about.before(running));
        let print = Print { old: about.old.map(print), values: values.map(|values| print_of(values, since)) };
        if let Some(answer) = state.answers.remove(&key) {
            if answer.print == print {
                let values = answer.values.clone();
                state.answers.insert(key, answer);
                return values.map_err(Error::from);
            }
            // What an open question leaves of the values is known only after its answer.
            if state.open.is_empty() && !state.changed.insert(key.clone()) {
                let detail = "this record or its values change at the same time; nothing was changed; try again";
                return Err(Problem::conflict(detail).into());
            }
        }
        // What an earlier write of the same request leaves of the record is known only after its answer.
        let is_first =
            |open: &Open| key.0.id.is_none() || open.key.0.id != key.0.id || open.key.0.entity != key.0.entity;
        if state.open.iter().all(is_first) {
            state.open.push(Open { key, print, asked: asked(), hook: hook.clone() });
        }
        Err(Self::error())
    }

    /// Asks what is open, in order, until one is refused. Answers are taken by the next run of the transaction.
    pub(crate) async fn ask(&self, turns: &Shares<Share>) {
        let (open, before) = {
            let mut state = self.0.lock();
            (std::mem::take(&mut state.open), state.spent)
        };
        let began = std::sync::OnceLock::new();
        let answers = stream::iter(open).map(|Open { key, print, asked, hook }| {
            let began = &began;
            async move {
                let _turn = turns.take(share(&asked.call)).await;
                let spent = before + began.get_or_init(Instant::now).elapsed();
                (key, Answer { print, values: hook.ask(&asked, spent).await })
            }
        });
        let mut answers = std::pin::pin!(answers.buffered(OF_ONE));
        while let Some((key, answer)) = answers.next().await {
            let is_refused = answer.values.is_err();
            self.0.lock().answers.insert(key, answer);
            if is_refused {
                break;
            }
        }
        if let Some(began) = began.get() {
            self.0.lock().spent += began.elapsed();
        }
    }
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Questions").field("open", &self.0.lock().open.len()).finish_non_exhaustive()
    }
}

/// What a question is about.
struct About<'a> {
    plan: &'a Arc<Plan>,
    action: Action,
    call: &'a Call,
    old: Option<&'a Record>,
    now: Timestamp,
}

impl About<'_> {
    /// The time this long ago, in milliseconds since 1970.
    fn before(&self, time: Duration) -> i64 {
        let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.now.as_millisecond().saturating_sub(time).saturating_sub(TOLERANCE)
    }
}

impl Outside {
    /// The answers of the hooks before an action, one after the other: each sees the values that earlier ones have set.
    fn ask(
        &self,
        writing: Writing<'_>,
        action: Action,
        old: Option<&Record>,
        mut values: Option<&mut Values>,
    ) -> Result<(), Error> {
        let now = writing.transaction.entities().ambient().now();
        let about = About { plan: writing.plan, action, call: writing.call, old, now };
        for (number, hook) in self.hooks.iter().enumerate().filter(|(_, hook)| hook.precedes(action)) {
            let given = values.as_deref();
            let asked = || Asked {
                plan: about.plan.clone(),
                action,
                call: about.call.clone(),
                values: given
                    .map(|values| values.iter().map(|(field, value)| (field.key().to_owned(), value)).collect()),
                old: old.cloned(),
            };
            let answer = writing.transaction.questions().answer(number, hook, asked, &about, given)?;
            if let Some(values) = values.as_deref_mut() {
                set(values, answer)?;
            }
        }
        Ok(())
    }
}

/// A hash of a record without its times, which a transaction that begins again sets anew.
fn print(record: &Record) -> blake3::Hash {
    let mut members: Object = serde_json::from_slice(record.json()).unwrap_or_default();
    members.retain(|key, _| !["createdAt", "created_at", "updatedAt", "updated_at"].contains(&key.as_str()));
    blake3::hash(Value::from(members).to_string().as_bytes())
}

/// A hash of the values of a write, without what each run of the transaction makes anew.
fn print_of(values: &Values, since: i64) -> blake3::Hash {
    let member = |(field, mut value): (&Field, Value)| {
        leave_out(&mut value, since, field.relation.is_some() || field.links.is_some());
        (field.key().to_owned(), value)
    };
    let members: Object = values.iter().map(member).collect();
    blake3::hash(Value::from(members).to_string().as_bytes())
}

/// Empties the texts that each run makes anew. `refers`: the value names records.
fn leave_out(value: &mut Value, since: i64, refers: bool) {
    match value {
        Value::String(text) if is_made_anew(text.as_str(), since, refers) => text.clear(),
        Value::Array(items) => items.iter_mut().for_each(|item| leave_out(item, since, refers)),
        Value::Object(members) => members.values_mut().for_each(|member| leave_out(member, since, refers)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a text is a time from `since` on, an id that the service has made since then, or an id by chance that names no record. Code that
/// writes in a transaction makes these, and with them the times that lie ahead.
fn is_made_anew(text: &str, since: i64, refers: bool) -> bool {
    if text.len() == ID_LENGTH
        && let Ok(id) = Uuid::try_parse(text)
    {
        return match id.get_version_num() {
            // It begins with its time (RFC 9562, section 5.7).
            7 => i64::try_from(id.as_u128() >> 80).is_ok_and(|at| at >= since),
            4 => !refers,
            _ => false,
        };
    }
    text.len() <= TIME_LENGTH && text.parse::<Timestamp>().is_ok_and(|at| at.as_millisecond() >= since)
}

/// Sets what a hook has answered. What is as it was sent stays exactly as it was sent.
fn set(values: &mut Values, answer: Object) -> Result<(), Error> {
    for (key, value) in answer {
        let column = values.column_of(&key).map(str::to_owned);
        if column.as_ref().is_some_and(|column| values.get(column).as_ref() == Some(&value)) {
            continue;
        }
        let done = column.map(|column| values.set(&column, value));
        match done {
            Some(Ok(())) => {}
            Some(Err(error @ Error::Body(_))) => return Err(error),
            // The owner and the tenant, and what is no field.
            Some(Err(_)) | None => {
                tracing::error!(
                    entity = values.plan().name(),
                    "a hook sets `{key}`, which is no field that it may set"
                );
                return Err(OutsideFailed.into());
            }
        }
    }
    Ok(())
}

/// The answer where a hook outside of the server has failed. What went wrong is in the log.
#[derive(Debug, Clone, Copy)]
pub struct OutsideFailed;

impl From<OutsideFailed> for Problem {
    fn from(OutsideFailed: OutsideFailed) -> Self {
        Problem::new(StatusCode::BAD_GATEWAY, "hook_failed", "a hook of this service failed; nothing was changed")
    }
}

impl From<OutsideFailed> for Error {
    fn from(failed: OutsideFailed) -> Self {
        Problem::from(failed).into()
    }
}

#[async_trait]
impl EntityHooks for Outside {
    fn completes(&self) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.completes())
    }

    fn sees_reads(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.sees_reads())
    }

    fn leaves_server(&self, action: Action) -> bool {
        self.hooks.iter().any(|hook| hook.precedes(action))
    }

    async fn before_create(&self, writing: Writing<'_>, values: &mut Values) -> Result<(), Error> {
        self.ask(writing, Action::Create, None, Some(values))?;
        match &self.inner {
            Some(inner) => inner.before_create(writing, values).await,
            None => Ok(()),
        }
    }

    async fn after_create(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        match &self.inner {
            Some(inner) => inner.after_create(writing, record).await,
            None => Ok(()),
        }
    }

    async fn before_update(&self, writing: Writing<'_>, record: &Record, values: &mut Values) -> Result<(), Error> {
        self.ask(writing, Action::Update, Some(record), Some(values))?;
        match &self.inner {
            Some(inner) => inner.before_update(writing, record, values).await,
            None => Ok(()),
        }
    }

    async fn after_update(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        match &self.inner {
            Some(inner) => inner.after_update(writing, record).await,
            None => Ok(()),
        }
    }

    async fn before_delete(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        self.ask(writing, Action::Delete, Some(record), None)?;
        match &self.inner {
            Some(inner) => inner.before_delete(writing, record).await,
            None => Ok(()),
        }
    }

    async fn after_delete(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        match &self.inner {
            Some(inner) => inner.after_delete(writing, record).await,
            None => Ok(()),
        }
    }

    async fn before_get(&self, call: &Call, id: &str) -> Result<(), Error> {
        match &self.inner {
            Some(inner) => inner.before_get(call, id).await,
            None => Ok(()),
        }
    }

    async fn after_get(&self, call: &Call, record: &mut Object) -> Result<(), Error> {
        match &self.inner {
            Some(inner) => inner.after_get(call, record).await,
            None => Ok(()),
        }
    }

    async fn before_list(&self, call: &Call, query: &mut ListQuery) -> Result<(), Error> {
        match &self.inner {
            Some(inner) => inner.before_list(call, query).await,
            None => Ok(()),
        }
    }

    async fn after_list(&self, call: &Call, records: &mut Vec<Object>) -> Result<(), Error> {
        match &self.inner {
            Some(inner) => inner.after_list(call, records).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_each_run_makes_anew_is_left_out_and_nothing_else() {
        let since: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let since = since.as_millisecond();
        let id = |millis: i64| {
            let millis = u64::try_from(millis).unwrap();
            uuid::Builder::from_unix_timestamp_millis(millis, &[7; 10]).into_uuid().to_string()
        };
        let by_chance = uuid::Builder::from_random_bytes([7; 16]).into_uuid().to_string();
        let left = |mut value: Value, refers: bool| {
            leave_out(&mut value, since, refers);
            value
        };
        for refers in [false, true] {
            for text in [id(since), id(since + 9), "2026-01-02T03:04:05.5Z".to_owned()] {
                assert_eq!(left(json!({"a": [text], "b": 1}), refers), json!({"a": [""], "b": 1}));
            }
            for text in [id(since - 1), "2026-01-02T03:04:04Z".to_owned(), "2026-01-03".to_owned(), "tea".to_owned()] {
                assert_eq!(left(json!([text]), refers), json!([text]));
            }
        }
        assert_eq!(left(json!(by_chance), false), json!(""));
        assert_eq!(left(json!(by_chance), true), json!(by_chance), "it may name another record");
    }
}
