//! What functions ask of the service: operations on records, as their caller or as the system.

use std::borrow::Cow;
use std::sync::Arc;

use gatewright_base::TenantId;
use gatewright_entities::operations::{Error, MixedBatch, OnConflict, Transaction};
use gatewright_entities::{Call, Entities, ListQuery, Plan, RecordQuery};
use gatewright_functions::{Data, HostError, Request};
use gatewright_http::Problem;
use url::form_urlencoded::Serializer;

use super::{emit, records};

/// Where operations of a function happen.
pub(super) enum Place<'a> {
    /// In the transaction of a write.
    Within(&'a Transaction<'a>),
    /// Each by itself.
    Alone(&'a Entities),
}

/// One operation on records, read from a request.
struct Operation<'a> {
    name: &'a str,
    entity: Option<&'a str>,
    arguments: &'a [Data],
    call: Call,
}

impl Place<'_> {
    pub(super) fn entities(&self) -> &Entities {
        match self {
            Self::Within(transaction) => transaction.entities(),
            Self::Alone(entities) => entities,
        }
    }

    /// Does what `request` asks, for a function with this name that was called for `call`. The outer error ends the function.
    pub(super) async fn perform(
        &self,
        call: &Call,
        function: &Arc<str>,
        request: &Request,
    ) -> Result<Result<Data, HostError>, Error> {
        if request.operation == "emit" {
            return emit::perform(self, &call.by_hook(function), &request.arguments).await;
        }
        let operation = match Operation::read(call, function, request) {
            Ok(operation) => operation,
            Err(error) => return Ok(Err(error)),
        };
        let done = match self {
            Self::Within(transaction) if operation.writes() => {
                let part = transaction.sql().begin_part().await?;
                let done = operation.perform(self).await;
                match done {
                    Ok(done) => {
                        transaction.sql().keep_part(part).await?;
                        Ok(done)
                    }
                    // What the database refused for good, no function can go on from.
                    Err(error @ Error::Database(_)) => return Err(error),
                    Err(error) => {
                        transaction.sql().undo_part(part).await?;
                        Err(error)
                    }
                }
            }
            Self::Within(_) | Self::Alone(_) => operation.perform(self).await,
        };
        match done {
            Ok(data) => Ok(Ok(data)),
            Err(error @ Error::Database(_)) if matches!(self, Self::Within(_)) => Err(error),
            Err(error) => Ok(Err(records::error(&Problem::from(error)))),
        }
    }
}

impl<'a> Operation<'a> {
    fn read(call: &Call, function: &Arc<str>, request: &'a Request) -> Result<Self, HostError> {
        let [tenant, Data::Text(name), rest @ ..] = request.arguments.as_slice() else {
            return Err(wrong("this operation is not known here"));
        };
        let call = call.by_hook(function);
        let call = match (request.operation.as_str(), tenant) {
            ("db", _) => call,
            ("system", Data::Text(tenant)) => {
                let tenant = TenantId::parse(tenant).map_err(|_| wrong("this is no id of a tenant"))?;
                call.in_tenant(tenant).as_operator()
            }
            ("system", _) => call.in_no_tenant().as_operator(),
            _ => return Err(wrong("this is not possible here")),
        };
        let (entity, arguments) = match (name.as_str(), rest) {
            ("batch", arguments) => (None, arguments),
            (_, [Data::Text(entity), arguments @ ..]) => (Some(entity.as_str()), arguments),
            _ => return Err(wrong("the name of an entity is missing")),
        };
        Ok(Self { name, entity, arguments, call })
    }

    fn writes(&self) -> bool {
        !matches!(self.name, "list" | "get")
    }

    async fn perform(&self, place: &Place<'_>) -> Result<Data, Error> {
        if self.name == "batch" {
            let operations = self.arguments.first().cloned().unwrap_or(Data::List(Vec::new())).into_json();
            let body = serde_json::json!({ "operations": operations }).to_string();
            let batch = match place {
                Place::Within(transaction) => Box::pin(transaction.batch(&self.call, body.as_bytes())).await?,
                Place::Alone(entities) => Box::pin(entities.batch(&self.call, body.as_bytes())).await?,
            };
            return batched(batch, place.entities());
        }
        let table = place.entities().table(self.entity.unwrap_or_default())?;
        let plan = table.plan();
        let record = |json: &[u8]| records::within_data(records::record(plan, json));
        let id = || self.text(0);
        Ok(match (self.name, place) {
            ("list", Place::Within(transaction)) => {
                let list = Box::pin(transaction.table(plan.name())?.list(&self.call, &self.list_query())).await?;
                records::answer(plan, &list.to_json(place.entities().json_case()))
            }
            ("list", Place::Alone(_)) => {
                let list = Box::pin(table.list(&self.call, &self.list_query())).await?;
                records::answer(plan, &list.to_json(place.entities().json_case()))
            }
            ("get", Place::Within(transaction)) => {
                record(Box::pin(transaction.table(plan.name())?.get(&self.call, id()?)).await?.json())
            }
            ("get", Place::Alone(_)) => {
                let query = RecordQuery::parse(&self.query(1));
                record(&Box::pin(table.view(&self.call, id()?, &query)).await?.json)
            }
            ("create", Place::Within(transaction)) => {
                record(Box::pin(transaction.table(plan.name())?.create(&self.call, &*self.body(0)?)).await?.json())
            }
            ("create", Place::Alone(_)) => record(Box::pin(table.create(&self.call, &*self.body(0)?)).await?.json()),
            ("update", Place::Within(transaction)) => {
                let updated = transaction.table(plan.name())?;
                record(Box::pin(updated.update(&self.call, id()?, &*self.body(1)?)).await?.json())
            }
            ("update", Place::Alone(_)) => {
                record(Box::pin(table.update(&self.call, id()?, &*self.body(1)?, None)).await?.json())
            }
            ("delete", Place::Within(transaction)) => {
                Box::pin(transaction.table(plan.name())?.delete(&self.call, id()?)).await?;
                Data::Null
            }
            ("delete", Place::Alone(_)) => {
                Box::pin(table.delete(&self.call, id()?, None)).await?;
                Data::Null
            }
            ("upsert", Place::Within(transaction)) => {
                let on = self.on_conflict()?;
                let upserted = transaction.table(plan.name())?;
                record(Box::pin(upserted.upsert(&self.call, &*self.body(0)?, &on)).await?.0.json())
            }
            ("upsert", Place::Alone(_)) => {
                let on = self.on_conflict()?;
                record(Box::pin(table.upsert(&self.call, &*self.body(0)?, &on)).await?.0.json())
            }
            _ => return Err(Error::Query("this operation is not known".to_owned())),
        })
    }

    fn text(&self, at: usize) -> Result<&str, Error> {
        let text = self.arguments.get(at).and_then(Data::as_str);
        text.ok_or_else(|| Error::Query(format!("{}: an id is a text", self.name)))
    }

    fn body(&self, at: usize) -> Result<Vec<u8>, Error> {
        match self.arguments.get(at) {
            Some(data @ Data::Object(_)) => Ok(data.clone().into_json().to_string().into_bytes()),
            _ => Err(Error::Query(format!("{}: the data is an object", self.name))),
        }
    }

    fn list_query(&self) -> ListQuery {
        ListQuery::parse(&self.query(0))
    }

    /// The options of a read, as a query string.
    fn query(&self, at: usize) -> String {
        let mut query = Serializer::new(String::new());
        if let Some(Data::Object(options)) = self.arguments.get(at) {
            for (name, value) in options {
                let text: Cow<'_, str> = match value {
                    Data::Null => continue,
                    Data::Text(text) => text.into(),
                    Data::List(items) => {
                        let items = items.iter().map(|item| item.as_str().map_or_else(|| plain(item), str::to_owned));
                        items.collect::<Vec<_>>().join(",").into()
                    }
                    other => plain(other).into(),
                };
                query.append_pair(name, &text);
            }
        }
        query.finish()
    }

    fn on_conflict(&self) -> Result<OnConflict, Error> {
        let options = self.arguments.get(1);
        let part = |key: &str| options.and_then(|options| options.get(key));
        let fields = match part("on") {
            Some(Data::List(fields)) => fields.iter().filter_map(Data::as_str).map(str::to_owned).collect(),
            Some(Data::Text(field)) => vec![field.clone()],
            _ => Vec::new(),
        };
        match part("resolution").and_then(Data::as_str) {
            None | Some("update") => Ok(OnConflict::update(fields)),
            Some("ignore") => Ok(OnConflict::ignore(fields)),
            Some(_) => Err(Error::Query("resolution is update or ignore".to_owned())),
        }
    }
}

/// A number or another plain value, as a parameter.
fn plain(data: &Data) -> String {
    data.clone().into_json().to_string()
}

fn batched(MixedBatch { entities: names, batch }: MixedBatch, entities: &Entities) -> Result<Data, Error> {
    let (json, problem) = batch.to_json(Some(&names), entities.json_case());
    if let Some(problem) = problem {
        return Err(Error::from(problem));
    }
    let plan = |name: &str| -> Option<&Arc<Plan>> { entities.plan(name) };
    let Data::Object(entries) = Data::from(serde_json::from_slice::<serde_json::Value>(&json).unwrap_or_default())
    else {
        return Ok(Data::Null);
    };
    let result = |data: Data| {
        let known = data.get("entity").and_then(Data::as_str).and_then(plan).cloned();
        match (data, known) {
            (Data::Object(parts), Some(plan)) => Data::Object(
                parts
                    .into_iter()
                    .map(|(key, value)| {
                        let value = if key == "data" { records::widened(&plan, value) } else { value };
                        (key, value)
                    })
                    .collect(),
            ),
            (data, _) => data,
        }
    };
    let entry = |(key, value): (String, Data)| match value {
        Data::List(results) => (key, Data::List(results.into_iter().map(result).collect())),
        value => (key, value),
    };
    Ok(Data::Object(entries.into_iter().map(entry).collect()))
}

/// The function asks for what there is not.
pub(super) fn wrong(message: &str) -> HostError {
    records::exception(500, "function_failed", message)
}
