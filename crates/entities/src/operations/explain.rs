//! Explains why a caller may or may not do something with a record.
//!
//! The checks are those of the operations, in their order. All of them run, and the first that fails decides. Rules are
//! evaluated as in the operations, term by term. Nothing is written.

use std::sync::Arc;

use gatewright_base::{canonical_id, time};
use gatewright_db::{Tx, Value};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::rules::{self, Count, Subject};
use super::write;
use crate::access::{Action, Reach, Refusal};
use crate::call::Call;
use crate::condition::terms::{Compared, Source, Term as Part, terms};
use crate::condition::{Bound, Operand, Rule, Viewer};
use crate::context::admission::{admitted, bound, standing};
use crate::context::table::Table;
use crate::declare::Kind;
use crate::encode;
use crate::encode::Stored;
use crate::error::Error;
use crate::filter::syntax::Word;
use crate::fragment::quoted;
use crate::plan::Plan;
use crate::readable::FieldRights;
use crate::value::types::is_id;

/// The most values of one side that are shown.
const MAX_VALUES: usize = 20;

/// A decision, and its reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Whether the operation is allowed. Without a record, only access to the entity is checked.
    pub allowed: bool,
    /// `read`, `create`, `update` or `delete`.
    pub operation: &'static str,
    /// The table.
    pub table: String,
    /// The record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The status of the answer, if the operation is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The checks, in the order in which they refuse.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// `access` (identity, permission, scope, tenant membership), `record` (it exists), `tenant`, `owner`, `rules.read`,
    /// `rules.create`, `rules.update` or its parts `rules.update_before` and `rules.update_after`, `rules.delete`,
    /// `fields.read`, `fields.write` or `check`.
    pub check: &'static str,
    /// Whether it passed. `None` if it depends on what is written, or on a record and the question names none.
    pub passed: Option<bool>,
    /// Details of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The rule, as it was declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Its terms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub terms: Vec<Term>,
}

/// A comparison of a rule, or `any(…)` and `all(…)`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Term {
    /// As it was declared.
    pub term: String,
    /// Whether it is true, without the negation around it.
    pub holds: bool,
    /// The number of `any` and `all` around it. These are part of its text.
    pub depth: usize,
    /// The compared values.
    pub values: Vec<Values>,
}

/// The values of one side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Values {
    /// The path or the word.
    pub of: String,
    /// Its values; empty if it is absent. With several related records there are several values, of which at most 20
    /// are shown.
    pub values: Vec<Json>,
    /// Whether there are more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Whether the field is hidden, so that its values are not shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

/// A check, and the refusal if it failed.
type Finding = (Check, Option<Error>);

/// Why the caller may do something, or may not, and the first refusal.
pub(crate) async fn explain(
    table: Table<'_>,
    call: &Call,
    action: Action,
    id: Option<&str>,
) -> Result<(Explanation, Option<Error>), Error> {
    let Table { entities, plan } = table;
    let id = id.map(|id| canonical_id(id).into_owned());
    let standing = standing(table, call).await?;
    let viewer = Arc::new(Viewer::new(&call.identity, &standing, entities.ambient().now()));
    let (decided, refusal) = match admitted(table, call, &standing, action) {
        Ok(reach) => (Some(reach), None),
        Err(error) => (None, Some(error)),
    };
    let mut findings = vec![finding("access", refusal)];
    let anonymous = call.identity.principal().is_none();
    let asked = Asked { plan: plan.clone(), viewer, action, reach: decided, anonymous };
    findings.extend(unreadable(&asked).map(|check| (check, None)));
    match id.clone() {
        None => findings.extend(asked.rules().map(|(check, rule)| (unasked(check, rule), None))),
        Some(id) => {
            let found = entities.db().read(async move |tx: &Tx| asked.of(tx, &id).await);
            findings.extend(found.await?);
        }
    }
    findings.extend(on_change(plan, action).map(|check| (check, None)));
    let (checks, refusals): (Vec<Check>, Vec<Option<Error>>) = findings.into_iter().unzip();
    let refusal = refusals.into_iter().flatten().next();
    let explanation = Explanation {
        allowed: refusal.is_none(),
        operation: action.as_str(),
        table: plan.table.to_string(),
        id,
        status: None,
        reason: refusal.as_ref().map(Error::to_string),
        checks,
    };
    Ok((explanation, refusal))
}

fn finding(check: &'static str, refusal: Option<Error>) -> Finding {
    let detail = refusal.as_ref().map(Error::to_string);
    (Check { check, passed: Some(refusal.is_none()), detail, rule: None, terms: Vec::new() }, refusal)
}

/// A rule without a record to ask it of.
fn unasked(check: &'static str, rule: &Rule) -> Check {
    let detail = Some("depends on the record".to_owned());
    Check { check, passed: None, detail, rule: Some(rule.text.clone()), terms: Vec::new() }
}

/// The fields that the caller does not see. They refuse nothing.
fn unreadable(asked: &Asked) -> Option<Check> {
    let rights = FieldRights::of_viewer(std::slice::from_ref(&asked.plan), &asked.viewer);
    let readable = rights.of(0);
    let fields = asked.plan.fields.iter().enumerate().filter(|(index, field)| !field.hidden && !readable.has(*index));
    let fields: Vec<&str> = fields.map(|(_, field)| &*field.column).collect();
    let detail = format!("these fields do not exist for the caller: {}", fields.join(", "));
    let check = Check { check: "fields.read", passed: Some(true), detail: Some(detail), rule: None, terms: Vec::new() };
    (!fields.is_empty()).then_some(check)
}

/// What is checked of the values that a create or an update gives, in its order. The question has none.
fn on_change(plan: &Plan, action: Action) -> impl Iterator<Item = Check> {
    let rules = Some(&plan.write_rules).filter(|_| matches!(action, Action::Create | Action::Update));
    let column = |index: usize| &*plan.fields.at(index).column;
    let undecided = |check, rule: &Rule, of: Option<String>| {
        let of = of.map(|of| format!("{of}: ")).unwrap_or_default();
        let detail = Some(format!("{of}depends on what is written"));
        Check { check, passed: None, detail, rule: Some(rule.text.clone()), terms: Vec::new() }
    };
    let after = rules.filter(|rules| rules.is_split && action == Action::Update);
    let after = after.and_then(|rules| rules.update_after.as_ref());
    let checks = rules.into_iter().flat_map(|rules| &rules.checks);
    let checks = checks.map(move |check| {
        let field = check.field.map(|index| format!("{} ", column(index))).unwrap_or_default();
        undecided("check", &check.rule, Some(format!("\"{field}{}\"", check.message)))
    });
    let fields = rules.into_iter().flat_map(|rules| &rules.fields);
    let fields = fields.map(move |(index, rule)| undecided("fields.write", rule, Some(column(*index).to_owned())));
    checks.chain(fields).chain(after.map(move |rule| undecided("rules.update_after", rule, None)))
}

/// The question: which action, on which record.
struct Asked {
    plan: Arc<Plan>,
    viewer: Arc<Viewer>,
    action: Action,
    /// How far the caller reaches; absent if access is refused.
    reach: Option<Reach>,
    anonymous: bool,
}

impl Asked {
    /// The rules that decide, in their order.
    fn rules(&self) -> impl Iterator<Item = (&'static str, &Arc<Rule>)> {
        let read = (self.action != Action::Create).then_some((Action::Read, "rules.read"));
        let own = match self.action {
            Action::Read => None,
            Action::Create => Some((Action::Create, "rules.create")),
            Action::Update if self.plan.write_rules.is_split => Some((Action::Update, "rules.update_before")),
            Action::Update => Some((Action::Update, "rules.update")),
            Action::Delete => Some((Action::Delete, "rules.delete")),
        };
        let both = read.into_iter().chain(own);
        both.filter_map(|(action, check)| Some((check, self.plan.row_rules.get(action)?)))
    }

    async fn of(&self, tx: &Tx, id: &str) -> Result<Vec<Finding>, Error> {
        let Some((owner, tenant)) = self.record(tx, id).await? else {
            return Ok(vec![finding("record", Some(Error::NotFound))]);
        };
        let mut findings = vec![finding("record", None)];
        if let Some(reach) = &self.reach {
            for (check, wanted, found) in [
                ("tenant", reach.tenant().map(gatewright_base::TenantId::as_str), tenant),
                ("owner", reach.owner(), owner),
            ] {
                let Some(wanted) = wanted else { continue };
                let passes = found.as_deref() == Some(wanted);
                let detail = match &found {
                    Some(found) => format!("the {check} is {found}, the caller reaches {wanted}"),
                    None => format!("the record has no {check}, the caller reaches {wanted}"),
                };
                let (check, refusal) = finding(check, (!passes).then_some(Error::NotFound));
                findings.push((Check { detail: Some(detail), ..check }, refusal));
            }
        }
        for (check, rule) in self.rules() {
            findings.push(self.rule(tx, id, check, rule).await?);
        }
        Ok(findings)
    }

    /// Owner and tenant of the record, if it is there and not in the trash.
    async fn record(&self, tx: &Tx, id: &str) -> Result<Option<(Option<String>, Option<String>)>, Error> {
        if !is_id(id) {
            return Ok(None);
        }
        let sql = self.plan.sql.with_ids(1, "");
        let record = write::one(tx, &self.plan, &sql, vec![Value::from(id)]).await?;
        Ok(record
            .filter(|record| !record.is_deleted())
            .map(Stored::into_whole)
            .map(|record| (record.owner().map(ToString::to_string), record.tenant().map(ToString::to_string))))
    }

    async fn rule(&self, tx: &Tx, id: &str, check: &'static str, rule: &Arc<Rule>) -> Result<Finding, Error> {
        let reads = check == "rules.read";
        let count = if reads { Count::All } else { Count::WithoutItself };
        let asked = bound(&self.plan, rule, &self.viewer);
        let holds = rules::holds(tx, &self.plan, &asked, Subject::Stored(id), count).await?;
        let refusal = match (holds, reads, self.anonymous) {
            (true, _, _) => None,
            (false, true, _) => Some(Error::NotFound),
            (false, false, true) => Some(Refusal::Unauthenticated.into()),
            (false, false, false) => Some(Error::Rule(self.action)),
        };
        let mut found = Vec::new();
        let parts = terms(&rule.text, &self.plan.catalog, self.plan.index)
            .map_err(|fault| Error::Query(format!("{check}: {fault}")))?;
        for Part { rule, depth, compared } in &parts {
            let asked = bound(&self.plan, rule, &self.viewer);
            let holds = rules::holds(tx, &self.plan, &asked, Subject::Stored(id), count).await?;
            let mut values = Vec::with_capacity(compared.len());
            for side in compared {
                values.push(self.values(tx, id, &asked, count, side).await?);
            }
            found.push(Term { term: rule.text.clone(), holds, depth: *depth, values });
        }
        let (plain, refusal) = finding(check, refusal);
        Ok((Check { detail: None, rule: Some(rule.text.clone()), terms: found, ..plain }, refusal))
    }

    async fn values(&self, tx: &Tx, id: &str, asked: &Bound, count: Count, side: &Compared) -> Result<Values, Error> {
        let shown = |values| Values { of: side.text.clone(), values, more: false, hidden: false };
        let (hops, operand) = match &side.value {
            Source::Caller(word) => return Ok(shown(self.word(*word))),
            Source::Hidden => return Ok(Values { hidden: true, ..shown(Vec::new()) }),
            Source::Path { hops, operand } => (hops, operand),
        };
        let checked = (count == Count::WithoutItself).then_some(self.plan.index);
        let table = quoted(&self.plan.table);
        let (sql, more) = asked.values(&table, checked, hops, operand, MAX_VALUES + 1);
        let params = [vec![Value::from(id)], more].concat();
        let kind = match operand {
            Operand::Column { kind, .. } => *kind,
            _ => Kind::Json,
        };
        let plan = self.plan.clone();
        let each = move |values: &mut Vec<Json>, row: &gatewright_db::RowRef<'_>| {
            let mut json = Vec::new();
            encode::value(&plan.table, "v", kind, &row.value(0)?, &mut json)?;
            // Stored JSON was checked when it was written.
            let value: Json = serde_json::from_slice(&json).unwrap_or_default();
            values.extend(Some(value).filter(|value| !value.is_null()));
            Ok(())
        };
        let mut values = tx.fold(sql, params, Vec::new(), each).await?;
        let more = values.len() > MAX_VALUES;
        values.truncate(MAX_VALUES);
        Ok(Values { more, ..shown(values) })
    }

    fn word(&self, word: Word) -> Vec<Json> {
        match word {
            Word::Me => self.viewer.me.iter().map(|me| json!(&**me)).collect(),
            Word::Roles => serde_json::from_str(&self.viewer.roles).unwrap_or_default(),
            Word::TenantRoles => serde_json::from_str(&self.viewer.tenant_roles).unwrap_or_default(),
            Word::Tenant => self.viewer.tenant.iter().map(|tenant| json!(&**tenant)).collect(),
            Word::Now => vec![json!(time::format(self.viewer.now))],
        }
    }
}
