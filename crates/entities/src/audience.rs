//! The audience of an event: which followers of the entity may see it, if an access rule decides that, and whose filter
//! it matches, if the filter follows relations.
//!
//! Open streams register their callers and such filters; equal ones are registered once. A write to the entity
//! evaluates the rule and the filters for all of them in one statement, in its own transaction, and the event contains
//! the result for the streams. If the write changed what the rule reads, the same statement returns who could read the
//! record before. For an event without a result, such as another replica's, and for a caller who registered later, the
//! database is queried again.
//!
//! A write waits for the evaluation. Callers write the filters, and create the records that a rule reads. So both have
//! little [time](time), and the stream evaluates what is slower after the commit.

mod overruns;
mod share;
mod time;
mod wanted;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use gatewright_db::{Engine, RowRef, Tx, Value, ValueRef};
use gatewright_events::sse::Visibility;
use jiff::Timestamp;
use parking_lot::Mutex;

use self::overruns::Overruns;
pub(crate) use self::share::Holder;
use self::share::has_room;
pub(crate) use self::time::ListenerTime;
use self::wanted::Case;
pub(crate) use self::wanted::{TooManyFilters, Wanted};
use crate::access::Action;
use crate::before::row;
use crate::condition::Viewer;
use crate::condition::bound::for_callers;
use crate::condition::reach::Rule;
use crate::error::Error;
use crate::fragment::quoted;
use crate::plan::Plan;

/// The properties of a caller that a rule can read, and the caller's filter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Follower {
    me: Option<Arc<str>>,
    roles: Arc<str>,
    tenant_roles: Arc<str>,
    tenant: Option<Arc<str>>,
    wanted: Option<Wanted>,
}

/// Whether a follower may see an event, and whether it matches the follower's filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Hidden,
    /// They could read the record before, but may no longer.
    Left,
    Shown,
    /// They may see it, but it does not match their filter.
    Unwanted,
    /// They may see it. The write did not evaluate their filter.
    Unasked,
}

impl Answer {
    /// Whether the follower may see the record as it is now. The filter does not matter.
    fn may_see(self) -> bool {
        match self {
            Self::Shown | Self::Unwanted | Self::Unasked => true,
            Self::Hidden | Self::Left => false,
        }
    }
}

/// The callers of open streams, and the answers about the latest events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Followers(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    open: Mutex<Open>,
    /// Of filters.
    overruns: Overruns,
    /// Of the read rule, for a caller.
    slow_rules: Overruns,
    latest: Mutex<Latest>,
}

/// By entity.
type Open = HashMap<usize, BTreeMap<Follower, Streams>>;

/// How many streams each holder has with one follower: anonymous callers at different addresses are one follower.
type Streams = HashMap<Holder, usize>;

/// The audiences of the latest events by event id, for events that are read from the log.
#[derive(Debug, Default)]
struct Latest {
    audiences: VecDeque<(String, Audience)>,
    callers: usize,
}

/// Audiences that are remembered.
const MAX_AUDIENCES: usize = 1_024;
/// Callers in all of them together.
const MAX_CALLERS: usize = 65_536;

/// A stream's place among the followers. Dropping it removes the stream.
#[derive(Debug)]
pub(crate) struct Place {
    followers: Followers,
    entity: usize,
    follower: Follower,
    holder: Holder,
}

/// A follower, and whether a write evaluates its filter.
struct Asked {
    follower: Follower,
    asks: bool,
}

/// The followers that the write evaluated, each with its answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Audience(Arc<HashMap<Follower, Answer>>);

impl Followers {
    /// Registers a new stream with its filter, which counts against the share of `holder`. Fails if this would be one
    /// filter too many.
    pub(crate) fn join(
        &self,
        entity: usize,
        viewer: &Viewer,
        holder: &Holder,
        wanted: Option<Wanted>,
    ) -> Result<Place, TooManyFilters> {
        let follower = Follower::new(viewer, wanted);
        let mut all = self.0.open.lock();
        let is_refused = all.get(&entity).is_some_and(|open| !follower.has_room(holder, open));
        if is_refused { Err(TooManyFilters) } else { Ok(self.enter(&mut all, entity, follower, holder)) }
    }

    /// Registers a stream that was admitted before, whose caller's rights may have changed, and with them its filter. It keeps
    /// its place, no matter how many filters others have.
    pub(crate) fn rejoin(&self, entity: usize, viewer: &Viewer, holder: &Holder, wanted: Option<Wanted>) -> Place {
        self.enter(&mut self.0.open.lock(), entity, Follower::new(viewer, wanted), holder)
    }

    fn enter(&self, all: &mut Open, entity: usize, follower: Follower, holder: &Holder) -> Place {
        let streams = all.entry(entity).or_default().entry(follower.clone()).or_default();
        *streams.entry(holder.clone()).or_default() += 1;
        Place { followers: self.clone(), entity, follower, holder: holder.clone() }
    }

    /// Whether a write to the entity has filters to evaluate.
    pub(crate) fn want(&self, entity: usize) -> bool {
        let all = self.0.open.lock();
        all.get(&entity).is_some_and(|open| open.keys().any(|follower| follower.wanted.is_some()))
    }

    /// Whether the entity has followers.
    pub(crate) fn follow(&self, entity: usize) -> bool {
        self.0.open.lock().contains_key(&entity)
    }

    /// The entity's followers, except of callers for whom the rule recently took too long. A write evaluates the filter of
    /// each, except of callers whose filters recently took too long.
    fn of(&self, entity: usize, now: Timestamp) -> Vec<Asked> {
        let all = self.0.open.lock();
        let Some(followers) = all.get(&entity) else { return Vec::new() };
        let asked = |(follower, streams): (&Follower, &Streams)| {
            if self.0.slow_rules.include(entity, streams.keys(), now) {
                return None;
            }
            let asks = follower.wanted.is_some() && !self.0.overruns.include(entity, streams.keys(), now);
            Some(Asked { follower: follower.clone(), asks })
        };
        followers.iter().filter_map(asked).collect()
    }

    /// The filters of this follower's callers, or the rule for them, are evaluated after the commit for a while.
    fn note(&self, overruns: &Overruns, entity: usize, follower: &Follower, now: Timestamp) {
        let all = self.0.open.lock();
        let callers = all.get(&entity).and_then(|followers| followers.get(follower));
        overruns.note(entity, callers.into_iter().flat_map(HashMap::keys), now);
    }

    /// The followers that may see the record as it is now and whose filters match it, and those that could read it as it was
    /// `before`. `None` if no statement is needed.
    pub(crate) async fn audience(
        &self,
        tx: &Tx,
        plan: &Plan,
        id: &str,
        before: Option<&str>,
        now: Timestamp,
        time: &ListenerTime,
    ) -> Result<Option<Audience>, Error> {
        let mut asked = self.of(plan.index, now);
        let filters = &time.filters;
        if !filters.is_spent() && asked.iter().any(|asked| asked.asks) {
            let (sql, params) = statement(plan, &asked, id, before, now);
            let mut answers: Vec<(usize, Answer)> = Vec::with_capacity(asked.len());
            let had = filters.left();
            let mut left = had;
            let each = |row: &RowRef<'_>| {
                answers.extend(answer(row)?);
                Ok(())
            };
            let is_whole = tx.fold_within(&mut left, sql, params, each).await?;
            filters.leave(left);
            if is_whole {
                return Ok(Some(Audience::of(asked, &answers)));
            }
            // The rows came in the order of the followers.
            let slow = asked.iter().skip(answers.len()).find(|asked| asked.asks);
            if let Some(slow) = slow.filter(|_| filters.is_fair(had)) {
                self.note(&self.0.overruns, plan.index, &slow.follower, now);
            }
        }
        for asked in &mut asked {
            asked.asks = false;
        }
        self.rights_of(tx, plan, asked, id, before, now, time).await
    }

    /// The same without the filters: who may see the record.
    pub(crate) async fn rights(
        &self,
        tx: &Tx,
        plan: &Plan,
        id: &str,
        now: Timestamp,
        time: &ListenerTime,
    ) -> Result<Option<Audience>, Error> {
        let mut asked = self.of(plan.index, now);
        for asked in &mut asked {
            asked.asks = false;
        }
        self.rights_of(tx, plan, asked, id, None, now, time).await
    }

    #[expect(clippy::too_many_arguments, reason = "two callers pass on what they got")]
    async fn rights_of(
        &self,
        tx: &Tx,
        plan: &Plan,
        asked: Vec<Asked>,
        id: &str,
        before: Option<&str>,
        now: Timestamp,
        time: &ListenerTime,
    ) -> Result<Option<Audience>, Error> {
        let rule = plan.row_rules.get(Action::Read);
        if asked.is_empty() {
            return Ok(rule.map(|_| Audience::default()));
        }
        if rule.is_none() {
            // Every follower may see it.
            let all: Vec<(usize, Answer)> = (0..asked.len()).map(|at| (at, Answer::Shown)).collect();
            return Ok(Some(Audience::of(asked, &all)));
        }
        let rules = &time.rules;
        let mut answers = Vec::with_capacity(asked.len());
        let had = rules.left();
        if !had.is_zero() {
            let (sql, params) = statement(plan, &asked, id, before, now);
            let mut left = had;
            let each = |row: &RowRef<'_>| {
                answers.extend(answer(row)?);
                Ok(())
            };
            let is_whole = tx.fold_within(&mut left, sql, params, each).await?;
            rules.leave(left);
            // The rows came in the order of the followers.
            let slow = asked.get(answers.len()).filter(|_| !is_whole && rules.is_fair(had));
            if let Some(slow) = slow {
                self.note(&self.0.slow_rules, plan.index, &slow.follower, now);
            }
        }
        Ok(Some(Audience::of(asked, &answers)))
    }

    /// Remembers the audience of the event with this id, before its transaction commits: the log may show it at once.
    pub(crate) fn remember(&self, event: &str, audience: &Audience) {
        let mut latest = self.0.latest.lock();
        latest.callers += audience.0.len();
        latest.audiences.push_back((event.to_owned(), audience.clone()));
        while latest.audiences.len() > MAX_AUDIENCES || latest.callers > MAX_CALLERS {
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
    fn new(viewer: &Viewer, wanted: Option<Wanted>) -> Self {
        let Viewer { me, roles, tenant_roles, tenant, now: _ } = viewer.clone();
        Self { me, roles, tenant_roles, tenant, wanted }
    }

    /// Whether there is room for the filter of `holder` in addition to those in `open`.
    fn has_room(&self, holder: &Holder, open: &BTreeMap<Self, Streams>) -> bool {
        let Some(wanted) = &self.wanted else { return true };
        let filters = open.iter().filter_map(|(other, streams)| Some((other.wanted.as_ref()?, streams.keys())));
        has_room(wanted, holder, filters)
    }
}

/// The statement for all of `asked`, with one row for each follower, in their order: `n` is its number, `may` is read by [`answer`].
fn statement(plan: &Plan, asked: &[Asked], id: &str, before: Option<&str>, now: Timestamp) -> (String, Vec<Value>) {
    let rule = plan.row_rules.get(Action::Read);
    let wanted = |asked: &Asked| asked.follower.wanted.clone().filter(|_| asked.asks);
    let filters: BTreeSet<Wanted> = asked.iter().filter_map(wanted).collect();
    let filters: Vec<&Wanted> = filters.iter().collect();
    let described = |asked: &Asked| {
        let Follower { me, roles, tenant_roles, tenant, .. } = &asked.follower;
        let wanted = wanted(asked).and_then(|wanted| filters.binary_search(&&wanted).ok());
        serde_json::json!({"me": me.as_deref(), "roles": &**roles, "tenant_roles": &**tenant_roles,
            "tenant": tenant.as_deref(), "wanted": wanted})
    };
    let all = serde_json::Value::from(asked.iter().map(described).collect::<Vec<_>>()).to_string();
    let table = quoted(&plan.table);
    let mut params = vec![Value::Text(all), Value::from(id)];
    let condition = |rule: &Rule, params: &mut Vec<Value>| {
        let (condition, first) = (&rule.resolved.condition, params.len() + 1);
        let (sql, more) = for_callers(condition, None, &plan.catalog, plan.engine, now, &table, first);
        params.extend(more);
        sql
    };
    let may = rule.map_or_else(
        || "1 = 1".to_owned(),
        |rule| {
            let condition = condition(rule, &mut params);
            format!("EXISTS (SELECT 1 FROM {table} WHERE \"id\" = ?2 AND {condition})")
        },
    );
    let Case { sql: shown, params: more } = Case::new(&filters, &table, params.len() + 1, now);
    params.extend(more);
    let row = before.and_then(|before| row(plan, before, params.len() + 1));
    let could = rule.zip(row).map_or_else(String::new, |(rule, (row, values))| {
        params.extend(values);
        let condition = condition(rule, &mut params);
        format!(" WHEN EXISTS (SELECT 1 FROM ({row}) AS {table} WHERE {condition}) THEN 1")
    });
    let callers = callers(plan.engine);
    let sql = format!("SELECT \"_c\".\"n\" AS n, CASE WHEN {may} THEN {shown}{could} ELSE 0 END AS may FROM {callers}");
    (sql, params)
}

/// The follower's number and its answer.
fn answer(row: &RowRef<'_>) -> Result<Option<(usize, Answer)>, gatewright_db::Error> {
    let (ValueRef::Int(number), ValueRef::Int(may)) = (row.value(0)?, row.value(1)?) else { return Ok(None) };
    let answer = match may {
        3 => Answer::Unwanted,
        2 => Answer::Shown,
        1 => Answer::Left,
        _ => Answer::Hidden,
    };
    Ok(usize::try_from(number).ok().map(|number| (number, answer)))
}

impl Audience {
    /// Of followers with these answers. Streams of the others read the event from the log.
    fn of(asked: Vec<Asked>, answers: &[(usize, Answer)]) -> Self {
        let mut of_all = vec![None; asked.len()];
        for (number, answer) in answers {
            if let (Some(place), Some(Asked { follower, asks })) = (of_all.get_mut(*number), asked.get(*number)) {
                let is_unfiltered = *answer == Answer::Shown && follower.wanted.is_some() && !asks;
                *place = Some(if is_unfiltered { Answer::Unasked } else { *answer });
            }
        }
        let answered = asked.into_iter().zip(of_all).filter_map(|(asked, answer)| Some((asked.follower, answer?)));
        Self(Arc::new(answered.collect()))
    }

    /// The same, given who could see the record before the write.
    pub(crate) fn after(self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        let now = |(follower, answer): (&Follower, &Answer)| {
            let could = before.0.get(follower).is_some_and(|answer| answer.may_see());
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
             json_extract(\"value\", '$.tenant_roles') AS \"tenant_roles\", \
             json_extract(\"value\", '$.tenant') AS \"tenant\", json_extract(\"value\", '$.wanted') AS \"wanted\" FROM json_each(?1)) AS \"_c\""
        }
        Engine::Postgres => {
            "(SELECT \"number\" - 1 AS \"n\", \"caller\" ->> 'me' AS \"me\", \"caller\" ->> 'roles' AS \"roles\", \
             \"caller\" ->> 'tenant_roles' AS \"tenant_roles\", \
             \"caller\" ->> 'tenant' AS \"tenant\", CAST(\"caller\" ->> 'wanted' AS integer) AS \"wanted\" \
             FROM jsonb_array_elements(CAST(?1 AS jsonb)) WITH ORDINALITY AS \"_a\" (\"caller\", \"number\")) AS \"_c\""
        }
    }
}

impl Place {
    /// What the caller sees of an event with this audience; unknown if the write did not evaluate their filter.
    pub(crate) fn visibility(&self, audience: &Audience) -> Visibility {
        match audience.0.get(&self.follower) {
            None | Some(Answer::Unasked) => Visibility::Unknown,
            Some(Answer::Shown) => Visibility::Shown,
            Some(Answer::Left) => Visibility::Left,
            Some(Answer::Hidden | Answer::Unwanted) => Visibility::Hidden,
        }
    }

    /// Whether the caller may see an event with this audience, wanted or not.
    pub(crate) fn may_see(&self, audience: &Audience) -> bool {
        audience.0.get(&self.follower).is_some_and(|answer| answer.may_see())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.followers.0.open.lock();
        let Some(followers) = all.get_mut(&self.entity) else { return };
        if let Some(streams) = followers.get_mut(&self.follower) {
            if let Some(count) = streams.get_mut(&self.holder) {
                *count -= 1;
                if *count == 0 {
                    streams.remove(&self.holder);
                }
            }
            if streams.is_empty() {
                followers.remove(&self.follower);
            }
        }
        if followers.is_empty() {
            all.remove(&self.entity);
        }
    }
}
