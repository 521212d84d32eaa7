//! Who of the callers that follow an entity may see an event, where an access rule decides that.
//!
//! Open streams register their callers, equal ones once. A write to the entity asks the rule for all of them in one statement,
//! in its own transaction, and the event carries the answer to the streams. If the write changed what the rule reads, the same
//! statement asks who could read the record before. Of an event without an answer, such as another
//! replica's, and for a caller who came after the question, nobody here can tell: the database is asked again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use gatewright_db::{Engine, Tx, Value};
use gatewright_events::sse::Sight;
use parking_lot::Mutex;

use crate::access::Action;
use crate::condition::Viewer;
use crate::condition::bound::for_callers;
use crate::operations::Error;
use crate::operations::before::row;
use crate::plan::{Plan, quoted};

/// What a rule can know of a caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Follower {
    me: Option<Arc<str>>,
    roles: Arc<str>,
    tenant: Option<Arc<str>>,
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

/// A stream's place among the followers, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Place {
    followers: Followers,
    entity: usize,
    follower: Follower,
}

/// The followers that were asked about, each with what they may see of the event.
#[derive(Debug, Clone, Default)]
pub(crate) struct Audience(Arc<HashMap<Follower, Sight>>);

impl Followers {
    pub(crate) fn join(&self, entity: usize, viewer: &Viewer) -> Place {
        let follower = Follower { me: viewer.me.clone(), roles: viewer.roles.clone(), tenant: viewer.tenant.clone() };
        *self.0.open.lock().entry(entity).or_default().entry(follower.clone()).or_default() += 1;
        Place { followers: self.clone(), entity, follower }
    }

    /// Whether anybody follows the entity.
    pub(crate) fn follow(&self, entity: usize) -> bool {
        self.0.open.lock().contains_key(&entity)
    }

    fn of(&self, entity: usize) -> Vec<Follower> {
        self.0.open.lock().get(&entity).map(|followers| followers.keys().cloned().collect()).unwrap_or_default()
    }

    /// Who may see the record as it is now, and who could as it was `before`. `None` where no rule decides.
    pub(crate) async fn audience(
        &self,
        tx: &Tx,
        plan: &Plan,
        id: &str,
        before: Option<&str>,
        now: jiff::Timestamp,
    ) -> Result<Option<Audience>, Error> {
        let Some(rule) = plan.row_rules.get(Action::Read) else { return Ok(None) };
        let followers = self.of(plan.index);
        if followers.is_empty() {
            return Ok(Some(Audience::default()));
        }
        let described = |follower: &Follower| serde_json::json!({"me": follower.me.as_deref(), "roles": &*follower.roles, "tenant": follower.tenant.as_deref()});
        let all = serde_json::Value::from(followers.iter().map(described).collect::<Vec<_>>()).to_string();
        let table = quoted(&plan.table);
        let (condition, more) = for_callers(rule, &plan.catalog, plan.engine, now, &table, 3);
        let mut params = [vec![Value::Text(all), Value::from(id)], more].concat();
        let may = format!("EXISTS (SELECT 1 FROM {table} WHERE \"id\" = ?2 AND {condition})");
        let callers = callers(plan.engine);
        let sql = match before.and_then(|before| row(plan, before, params.len() + 1)) {
            None => format!("SELECT \"_c\".\"n\" AS n, 2 AS may FROM {callers} WHERE {may}"),
            Some((row, values)) => {
                params.extend(values);
                let (condition, more) = for_callers(rule, &plan.catalog, plan.engine, now, &table, params.len() + 1);
                params.extend(more);
                let could = format!("EXISTS (SELECT 1 FROM ({row}) AS {table} WHERE {condition})");
                format!(
                    "SELECT \"_c\".\"n\" AS n, CASE WHEN {may} THEN 2 WHEN {could} THEN 1 ELSE 0 END AS may FROM {callers}"
                )
            }
        };
        let rows = tx.query(sql, params).await?;
        let mut audience: Vec<(Follower, Sight)> =
            followers.into_iter().map(|follower| (follower, Sight::Hidden)).collect();
        for row in rows {
            let number: i64 = row.get("n")?;
            if let Some((_, sight)) = usize::try_from(number).ok().and_then(|number| audience.get_mut(number)) {
                *sight = match row.get::<i64>("may")? {
                    2 => Sight::Shown,
                    1 => Sight::Left,
                    _ => Sight::Hidden,
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

impl Audience {
    /// The same, given who could see the record before the write.
    pub(crate) fn after(self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        let now = |(follower, sight): (&Follower, &Sight)| {
            let left = *sight == Sight::Hidden && before.0.get(follower) == Some(&Sight::Shown);
            (follower.clone(), if left { Sight::Left } else { *sight })
        };
        Self(Arc::new(self.0.iter().map(now).collect()))
    }
}

/// The callers in the JSON array that is the first parameter, as a table.
fn callers(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => {
            "(SELECT \"key\" AS \"n\", json_extract(\"value\", '$.me') AS \"me\", json_extract(\"value\", '$.roles') AS \"roles\", \
             json_extract(\"value\", '$.tenant') AS \"tenant\" FROM json_each(?1)) AS \"_c\""
        }
        Engine::Postgres => {
            "(SELECT \"number\" - 1 AS \"n\", \"caller\" ->> 'me' AS \"me\", \"caller\" ->> 'roles' AS \"roles\", \
             \"caller\" ->> 'tenant' AS \"tenant\" \
             FROM jsonb_array_elements(CAST(?1 AS jsonb)) WITH ORDINALITY AS \"_a\" (\"caller\", \"number\")) AS \"_c\""
        }
    }
}

impl Place {
    /// What the caller may see of an event with this audience; unknown if they were not asked about.
    pub(crate) fn sight(&self, audience: &Audience) -> Sight {
        audience.0.get(&self.follower).copied().unwrap_or(Sight::Unknown)
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
