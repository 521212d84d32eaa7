//! Who of the callers that follow an entity may see an event, where an access rule decides that, and who wants it, where a
//! stream's filter follows relations.
//!
//! Open streams register their callers with such filters, equal ones once. A write to the entity asks the rule and the filters for all
//! of them in one statement, in its own transaction, and the event carries the answer to the streams. If the write changed what the rule reads, the same
//! statement asks who could read the record before. Of an event without an answer, such as another
//! replica's, and for a caller who came after the question, nobody here can tell: the database is asked again.

mod wanted;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use gatewright_db::{Engine, Tx, Value};
use gatewright_events::sse::Sight;
use parking_lot::Mutex;

use self::wanted::Case;
pub(crate) use self::wanted::{TooManyFilters, Wanted};
use crate::access::Action;
use crate::condition::Viewer;
use crate::condition::bound::for_callers;
use crate::operations::Error;
use crate::operations::before::row;
use crate::plan::{Plan, quoted};

/// What a rule can know of a caller, and what the caller wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Follower {
    me: Option<Arc<str>>,
    roles: Arc<str>,
    tenant: Option<Arc<str>>,
    wanted: Option<Wanted>,
}

/// What a follower may see of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Hidden,
    /// They could read the record before, and may not any more.
    Left,
    Shown,
    /// They may see it and do not want it.
    Unwanted,
}

/// The callers of open streams, and the answers about the latest events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Followers(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By entity, each with the number of their streams.
    open: Mutex<HashMap<usize, BTreeMap<Follower, usize>>>,
    latest: Mutex<Latest>,
}

/// The audiences of the latest events by the events' ids, for those that come from the log.
#[derive(Debug, Default)]
struct Latest {
    audiences: VecDeque<(String, Audience)>,
    callers: usize,
}

/// Audiences that are remembered.
const MOST_AUDIENCES: usize = 1_024;
/// Callers in all of them together.
const MOST_CALLERS: usize = 65_536;
/// Different filters of one caller on one entity. Anonymous callers count as one.
const MOST_OF_CALLER: usize = 8;
/// Different filters on one entity.
const MOST_FILTERS: usize = 64;

/// A stream's place among the followers, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Place {
    followers: Followers,
    entity: usize,
    follower: Follower,
}

/// The followers that were asked about, each with what they may see of the event.
#[derive(Debug, Clone, Default)]
pub(crate) struct Audience(Arc<HashMap<Follower, Answer>>);

impl Followers {
    /// Takes a place for a caller and what they want, unless that would be one filter too many.
    pub(crate) fn join(&self, entity: usize, viewer: &Viewer, wanted: Option<Wanted>) -> Result<Place, TooManyFilters> {
        let Viewer { me, roles, tenant, now: _ } = viewer.clone();
        let follower = Follower { me, roles, tenant, wanted };
        let mut all = self.0.open.lock();
        let open = all.entry(entity).or_default();
        let has_room = follower.has_room(open.keys());
        if has_room {
            *open.entry(follower.clone()).or_default() += 1;
        } else if open.is_empty() {
            all.remove(&entity);
        }
        drop(all);
        if has_room { Ok(Place { followers: self.clone(), entity, follower }) } else { Err(TooManyFilters) }
    }

    /// Whether a write to the entity has filters to ask.
    pub(crate) fn want(&self, entity: usize) -> bool {
        let all = self.0.open.lock();
        all.get(&entity).is_some_and(|open| open.keys().any(|follower| follower.wanted.is_some()))
    }

    /// Whether anybody follows the entity.
    pub(crate) fn follow(&self, entity: usize) -> bool {
        self.0.open.lock().contains_key(&entity)
    }

    fn of(&self, entity: usize) -> Vec<Follower> {
        self.0.open.lock().get(&entity).map(|followers| followers.keys().cloned().collect()).unwrap_or_default()
    }

    /// Who may see and wants the record as it is now, and who could see it as it was `before`. `None` where nobody must be asked.
    pub(crate) async fn audience(
        &self,
        tx: &Tx,
        plan: &Plan,
        id: &str,
        before: Option<&str>,
        now: jiff::Timestamp,
    ) -> Result<Option<Audience>, Error> {
        let rule = plan.row_rules.get(Action::Read);
        let followers = self.of(plan.index);
        if followers.is_empty() {
            return Ok(rule.map(|_| Audience::default()));
        }
        let filters: BTreeSet<&Wanted> = followers.iter().filter_map(|follower| follower.wanted.as_ref()).collect();
        let filters: Vec<&Wanted> = filters.into_iter().collect();
        let described = |follower: &Follower| {
            let wanted = follower.wanted.as_ref().and_then(|wanted| filters.binary_search(&wanted).ok());
            serde_json::json!({"me": follower.me.as_deref(), "roles": &*follower.roles, "tenant": follower.tenant.as_deref(),
                "wanted": wanted})
        };
        let all = serde_json::Value::from(followers.iter().map(described).collect::<Vec<_>>()).to_string();
        let table = quoted(&plan.table);
        let mut params = vec![Value::Text(all), Value::from(id)];
        let may = match rule {
            None => "1 = 1".to_owned(),
            Some(rule) => {
                let (condition, more) =
                    for_callers(&rule.resolved.condition, None, &plan.catalog, plan.engine, now, &table, 3);
                params.extend(more);
                format!("EXISTS (SELECT 1 FROM {table} WHERE \"id\" = ?2 AND {condition})")
            }
        };
        let Case { sql: shown, params: more } = Case::new(&filters, &table, params.len() + 1, now);
        params.extend(more);
        let callers = callers(plan.engine);
        let sql = match before.and_then(|before| row(plan, before, params.len() + 1)).zip(rule) {
            None => format!("SELECT \"_c\".\"n\" AS n, {shown} AS may FROM {callers} WHERE {may}"),
            Some(((row, values), rule)) => {
                params.extend(values);
                let first = params.len() + 1;
                let (condition, more) =
                    for_callers(&rule.resolved.condition, None, &plan.catalog, plan.engine, now, &table, first);
                params.extend(more);
                let could = format!("EXISTS (SELECT 1 FROM ({row}) AS {table} WHERE {condition})");
                format!(
                    "SELECT \"_c\".\"n\" AS n, CASE WHEN {may} THEN {shown} WHEN {could} THEN 1 ELSE 0 END AS may FROM {callers}"
                )
            }
        };
        let rows = tx.query(sql, params).await?;
        let mut audience: Vec<(Follower, Answer)> =
            followers.into_iter().map(|follower| (follower, Answer::Hidden)).collect();
        for row in rows {
            let number: i64 = row.get("n")?;
            if let Some((_, answer)) = usize::try_from(number).ok().and_then(|number| audience.get_mut(number)) {
                *answer = match row.get::<i64>("may")? {
                    3 => Answer::Unwanted,
                    2 => Answer::Shown,
                    1 => Answer::Left,
                    _ => Answer::Hidden,
                };
            }
        }
        Ok(Some(Audience(Arc::new(audience.into_iter().collect()))))
    }

    /// Remembers the audience of the event with this id, before its transaction commits: the log may show it at once.
    pub(crate) fn remember(&self, event: &str, audience: &Audience) {
        let mut latest = self.0.latest.lock();
        latest.callers += audience.0.len();
        latest.audiences.push_back((event.to_owned(), audience.clone()));
        while latest.audiences.len() > MOST_AUDIENCES || latest.callers > MOST_CALLERS {
            let Some((_, oldest)) = latest.audiences.pop_front() else { return };
            latest.callers -= oldest.0.len();
        }
    }

    /// The audience that was remembered.
    pub(crate) fn remembered(&self, event: &str) -> Option<Audience> {
        let latest = self.0.latest.lock();
        latest.audiences.iter().rev().find(|(id, _)| id == event).map(|(_, audience)| audience.clone())
    }
}

impl Follower {
    /// Whether what it wants may be asked beside what these want.
    fn has_room<'a>(&self, open: impl Iterator<Item = &'a Self>) -> bool {
        let Some(wanted) = &self.wanted else { return true };
        let (mut all, mut own) = (BTreeSet::from([wanted]), BTreeSet::from([wanted]));
        for other in open {
            let Some(others) = &other.wanted else { continue };
            all.insert(others);
            if other.me == self.me {
                own.insert(others);
            }
        }
        own.len() <= MOST_OF_CALLER && all.len() <= MOST_FILTERS
    }
}

impl Audience {
    /// The same, given who could see the record before the write.
    pub(crate) fn after(self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        let now = |(follower, answer): (&Follower, &Answer)| {
            let could = matches!(before.0.get(follower), Some(Answer::Shown | Answer::Unwanted));
            (follower.clone(), if could && *answer == Answer::Hidden { Answer::Left } else { *answer })
        };
        Self(Arc::new(self.0.iter().map(now).collect()))
    }
}

/// The callers in the JSON array that is the first parameter, as a table.
fn callers(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => {
            "(SELECT \"key\" AS \"n\", json_extract(\"value\", '$.me') AS \"me\", json_extract(\"value\", '$.roles') AS \"roles\", \
             json_extract(\"value\", '$.tenant') AS \"tenant\", json_extract(\"value\", '$.wanted') AS \"wanted\" FROM json_each(?1)) AS \"_c\""
        }
        Engine::Postgres => {
            "(SELECT \"number\" - 1 AS \"n\", \"caller\" ->> 'me' AS \"me\", \"caller\" ->> 'roles' AS \"roles\", \
             \"caller\" ->> 'tenant' AS \"tenant\", CAST(\"caller\" ->> 'wanted' AS integer) AS \"wanted\" \
             FROM jsonb_array_elements(CAST(?1 AS jsonb)) WITH ORDINALITY AS \"_a\" (\"caller\", \"number\")) AS \"_c\""
        }
    }
}

impl Place {
    /// What the caller may see and wants of an event with this audience; unknown if they were not asked about.
    pub(crate) fn sight(&self, audience: &Audience) -> Sight {
        match audience.0.get(&self.follower) {
            None => Sight::Unknown,
            Some(Answer::Shown) => Sight::Shown,
            Some(Answer::Left) => Sight::Left,
            Some(Answer::Hidden | Answer::Unwanted) => Sight::Hidden,
        }
    }

    /// Whether the caller may see an event with this audience, wanted or not.
    pub(crate) fn may_see(&self, audience: &Audience) -> bool {
        matches!(audience.0.get(&self.follower), Some(Answer::Shown | Answer::Unwanted))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.followers.0.open.lock();
        let Some(followers) = all.get_mut(&self.entity) else { return };
        if let Some(streams) = followers.get_mut(&self.follower) {
            *streams -= 1;
            if *streams == 0 {
                followers.remove(&self.follower);
            }
        }
        if followers.is_empty() {
            all.remove(&self.entity);
        }
    }
}
