//! Functions before writes, in their transactions.

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_entities::Record;
use gatewright_entities::hooks::{EntityHooks, Values, Writing};
use gatewright_entities::operations::Error;
use gatewright_functions::{Data, Ended, Function, Step};
use gatewright_http::{FieldError, Problem};
use http::StatusCode;

use super::host::Place;
use super::{Functions, LOG, caller, failed, records};

/// How deep writes of functions may be nested.
const NESTING: u8 = 8;

/// The functions of one entity.
pub(super) struct Before {
    functions: Functions,
    create: Vec<Named>,
    update: Vec<Named>,
    delete: Vec<Named>,
}

struct Named {
    function: Arc<Function>,
    name: Arc<str>,
}

impl Before {
    pub(super) fn new(functions: &Functions) -> Self {
        Self { functions: functions.clone(), create: Vec::new(), update: Vec::new(), delete: Vec::new() }
    }

    pub(super) fn add(&mut self, action: &str, function: &Arc<Function>) {
        let list = match action {
            "create" => &mut self.create,
            "update" => &mut self.update,
            _ => &mut self.delete,
        };
        list.push(Named { function: function.clone(), name: function.name.as_str().into() });
    }

    async fn write(
        &self,
        all: &[Named],
        writing: Writing<'_>,
        old: Option<&Record>,
        values: &mut Values,
    ) -> Result<(), Error> {
        for named in all {
            let given = given(values);
            let mut argument = vec![("values".to_owned(), given.clone())];
            argument.extend(old.map(|old| ("old".to_owned(), records::record(writing.plan, old.json()))));
            let returned = self.run(named, writing, argument).await?;
            let returned = returned.get("values").cloned().unwrap_or(Data::Null);
            change(values, &given, returned).inspect_err(|error| {
                tracing::error!(target: LOG, function = named.function.name, "{error}");
            })?;
        }
        Ok(())
    }

    /// Runs one function, and returns what it leaves of its argument.
    async fn run(&self, named: &Named, writing: Writing<'_>, mut argument: Vec<(String, Data)>) -> Result<Data, Error> {
        let Writing { transaction, call, .. } = writing;
        if call.nesting() >= NESTING {
            tracing::error!(target: LOG, function = named.function.name, "writes of functions are nested too deeply");
            return Err(failed().into());
        }
        argument.push(("caller".to_owned(), caller(&call.identity)));
        let left = || self.functions.0.write_timeout.saturating_sub(transaction.hook_time());
        let mut running = self.functions.call(&named.function, Data::Object(argument), left())?;
        let place = Place::Within(transaction);
        let ended = loop {
            let before = running.left();
            let step = running.step();
            transaction.add_hook_time(before.saturating_sub(running.left()));
            self.functions.log_lines(&mut running);
            match step {
                Step::Ended(ended) => break ended,
                Step::Wants(requests) => {
                    for request in requests {
                        let answer = place.perform(call, &named.name, &request).await?;
                        running.answer(request.id, answer);
                    }
                    running.restrict(left());
                }
            }
        };
        drop(running);
        match ended {
            Ok(Ended::Value(value)) => Ok(value),
            Ok(Ended::Refused { status, answer }) => Err(refusal(&named.function, &status, &answer).into()),
            Err(failure) => {
                self.functions.log_failure(&named.function, &failure);
                Err(failed().into())
            }
        }
    }
}

#[async_trait]
impl EntityHooks for Before {
    fn completes(&self) -> bool {
        true
    }

    fn sees_reads(&self) -> bool {
        false
    }

    async fn before_create(&self, writing: Writing<'_>, values: &mut Values) -> Result<(), Error> {
        self.write(&self.create, writing, None, values).await
    }

    async fn before_update(&self, writing: Writing<'_>, record: &Record, values: &mut Values) -> Result<(), Error> {
        self.write(&self.update, writing, Some(record), values).await
    }

    async fn before_delete(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        for named in &self.delete {
            let old = records::record(writing.plan, record.json());
            self.run(named, writing, vec![("old".to_owned(), old)]).await?;
        }
        Ok(())
    }
}

/// What the write sets, by the keys of the wire.
fn given(values: &Values) -> Data {
    let entry = |(field, value): (&gatewright_entities::PlanField, serde_json::Value)| {
        let data = Data::from(value);
        (field.key().to_owned(), if field.is_wide() { records::bigint(data) } else { data })
    };
    Data::Object(values.iter().map(entry).collect())
}

/// Sets what the function has changed. A field that it has left alone keeps exactly what was sent.
fn change(values: &mut Values, given: &Data, returned: Data) -> Result<(), Error> {
    let Data::Object(returned) = returned else {
        return Err(failed().with_detail("a function replaced `values`").into());
    };
    let Data::Object(sent) = given else { return Ok(()) };
    for (key, _) in sent.iter().filter(|(key, _)| !returned.iter().any(|(name, _)| name == key)) {
        if let Some(column) = values.column_of(key).map(str::to_owned) {
            values.leave(&column);
        }
    }
    for (key, value) in returned {
        let is_kept = given.get(&key).is_some_and(|given| records::is_same(given, &value));
        if is_kept {
            continue;
        }
        let column = values.column_of(&key).map(str::to_owned).ok_or_else(|| {
            tracing::error!(target: LOG, "a function sets `{key}`, which is no field");
            failed()
        })?;
        values.set(&column, value.into_json()).map_err(|error| match error {
            Error::Hook(reason) => {
                tracing::error!(target: LOG, "{reason}");
                failed().into()
            }
            error => error,
        })?;
    }
    Ok(())
}

/// The answer to a write that a function refuses.
pub(super) fn refusal(function: &Function, status: &Data, answer: &Data) -> Problem {
    let status = match status {
        Data::Number(status) => status.as_u64().and_then(|status| u16::try_from(status).ok()),
        _ => None,
    };
    let status =
        status.filter(|status| (400..500).contains(status)).and_then(|status| StatusCode::from_u16(status).ok());
    let Some(status) = status else {
        tracing::error!(target: LOG, function = function.name, "refuse() takes a status from 400 to 499");
        return failed();
    };
    match answer {
        Data::Object(fields) => {
            let text =
                |value: &Data| value.as_str().map_or_else(|| value.clone().into_json().to_string(), str::to_owned);
            let errors = fields.iter().map(|(field, message)| FieldError {
                field: Some(field.clone().into()),
                code: "refused".into(),
                message: text(message).into(),
            });
            Problem::new(status, "refused", "the write was refused").with_fields(errors)
        }
        answer => {
            let detail = answer.as_str().unwrap_or("the write was refused").to_owned();
            Problem::new(status, "refused", detail)
        }
    }
}
