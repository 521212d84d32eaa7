//! What a record that is written must pass: the checks of its entity, the rules of its fields, the access rule for what it becomes.
//! The refusals are in this order, after those of the stored record.

use std::collections::BTreeSet;
use std::sync::Arc;

use gatewright_db::Tx;

use super::rules::{self, Subject};
use crate::access::Action;
use crate::call::Call;
use crate::condition::{Bound, Rule, Viewer};
use crate::context::admission::{Admission, bound};
use crate::context::entities::Entities;
use crate::declare::written::Check;
use crate::error::Error;
use crate::plan::Plan;
use crate::readable::Readable;
use crate::value::body::{self, MAX_ERRORS};
use crate::value::{BodyError, FieldError, code};

/// A write under judgement.
pub(super) struct Judge<'a> {
    pub(super) tx: &'a Tx,
    pub(super) entities: &'a Entities,
    pub(super) plan: &'a Plan,
    pub(super) call: &'a Call,
    pub(super) admission: &'a Admission,
}

impl Judge<'_> {
    fn bound(&self, rule: &Arc<Rule>) -> Bound {
        let viewer = self.admission.viewer.clone().unwrap_or_else(|| {
            let now = self.entities.ambient().now();
            Arc::new(Viewer::new(&self.call.identity, &self.admission.standing, now))
        });
        bound(self.plan, rule, &viewer)
    }

    fn readable(&self) -> &Readable {
        self.admission.rights.of(self.plan.index)
    }

    /// Fails if the body has errors or the record does not pass a check. A check that reads an invalid field is not evaluated.
    pub(super) async fn valid(&self, subject: Subject<'_>, invalid: Option<&BodyError>) -> Result<(), Error> {
        let mut errors = match invalid {
            Some(BodyError::Invalid(errors)) => errors.clone(),
            Some(malformed) => return Err(malformed.clone().into()),
            None => Vec::new(),
        };
        let is_wrong = |column: &str| {
            let key = self.plan.fields.wire_key(column);
            errors.iter().any(|error| Some(&*error.field) == key)
        };
        let readable = |check: &&Check| {
            let mut columns = BTreeSet::new();
            check.rule.resolved.condition.own_columns(&mut columns);
            !columns.into_iter().any(is_wrong)
        };
        let checks: Vec<_> = self.plan.write_rules.checks.iter().filter(readable).collect();
        let conditions: Vec<Bound> = checks.iter().map(|check| self.bound(&check.rule)).collect();
        let languages = self.call.languages.as_ref().and_then(|languages| languages.to_str().ok());
        for position in rules::broken(self.tx, self.plan, &conditions, subject).await? {
            let check = checks[position];
            let field = check
                .field
                .map(|index| self.plan.fields.at(index))
                .filter(|field| !field.hidden && self.readable().has_key(&field.key));
            errors.push(FieldError {
                field: field.map(|field| field.key.clone()).unwrap_or_default(),
                code: code::CHECK,
                message: check.message(languages).to_owned(),
            });
        }
        errors.truncate(MAX_ERRORS);
        if errors.is_empty() { Ok(()) } else { Err(BodyError::Invalid(errors).into()) }
    }

    /// Fails if the caller sets a field that its rule keeps from them. `sets` is whether the write gives the field at that
    /// position a value that it would not have without it.
    pub(super) async fn fields(&self, subject: Subject<'_>, sets: impl Fn(usize) -> bool) -> Result<(), Error> {
        if self.call.is_operators() {
            return Ok(());
        }
        let ruled: Vec<_> = self.plan.write_rules.fields.iter().filter(|(index, _)| sets(*index)).collect();
        let conditions: Vec<Bound> = ruled.iter().map(|(_, rule)| self.bound(rule)).collect();
        let broken = rules::broken(self.tx, self.plan, &conditions, subject).await?;
        if broken.is_empty() {
            return Ok(());
        }
        // For callers who may not read a field either, there is no such field.
        let readable = self.readable();
        let key = |position: &usize| &*self.plan.fields.at(ruled[*position].0).key;
        let (known, unknown): (Vec<usize>, Vec<usize>) =
            broken.into_iter().partition(|position| readable.has(ruled[*position].0));
        if !unknown.is_empty() {
            let errors = unknown.iter().map(|position| body::unknown(&self.plan.fields, readable, key(position)));
            return Err(BodyError::Invalid(errors.collect()).into());
        }
        Err(Error::FieldForbidden(known.iter().map(|position| key(position).to_owned()).collect()))
    }

    /// [`fields`](Self::fields) for an update: those that the body sends and whose values differ from the stored ones.
    pub(super) async fn changed_fields(
        &self,
        subject: Subject<'_>,
        is_sent: impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        let fields = self.plan.write_rules.fields.iter().map(|(index, _)| *index);
        let fields: Vec<usize> = fields.filter(|index| is_sent(*index)).collect();
        if fields.is_empty() || self.call.is_operators() {
            return Ok(());
        }
        let changed = rules::changed_among(self.tx, self.plan, &fields, subject).await?;
        let is_changed = |index| changed.iter().any(|position| fields[*position] == index);
        // Whether the value is the present one would reveal it to a caller who may not read it.
        let readable = self.readable();
        self.fields(subject, |index| is_changed(index) || (fields.contains(&index) && !readable.has(index))).await
    }

    /// Fails if the access rule for the record as an update leaves it does not hold.
    pub(super) async fn after_update(&self, subject: Subject<'_>) -> Result<(), Error> {
        if self.call.is_operators() {
            return Ok(());
        }
        let rule = self.plan.write_rules.update_after.as_ref().map(|rule| self.bound(rule));
        rules::check(self.tx, self.plan, &self.call.identity, Action::Update, rule.as_ref(), subject).await
    }
}
