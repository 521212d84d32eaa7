//! A create with a number in one statement, where the engine has a server: as many round trips and waits for the disk as one
//! without a number.

use std::ops::Range;

use gatewright_db::{RowRef, Value};
use gatewright_events::EventKind;

use super::commit::Commit;
use super::memory::Memory;
use super::write::Write;
use crate::context::entities::Entities;
use crate::context::gate::share;
use crate::encode::Stored;
use crate::error::Error;
use crate::hooks::change;
use crate::plan::Plan;

/// Two numbers that differ in each digit.
const TRIED: [i64; 2] = [1_111_111_111_111_111_111, 2_222_222_222_222_222_222];

/// Whether one statement may do it.
pub(super) fn is_possible(entities: &Entities, plan: &Plan) -> bool {
    plan.sql.insert_numbered.is_some() && entities.log().is_some() && entities.outbox().is_none()
}

/// Makes, numbers and logs a record. `None` if that takes several statements.
pub(super) async fn create(entities: &Entities, write: &Write) -> Result<Option<Stored>, Error> {
    let plan = &write.plan;
    let (Some(sql), [sequence], Some(log), None) =
        (&plan.sql.insert_numbered, &*plan.sequences, entities.log(), entities.outbox())
    else {
        return Ok(None);
    };
    // The id is the first parameter.
    let place = sequence.field + 1;
    let Some((example, hole)) = example(plan, &write.params, place)? else { return Ok(None) };
    let memory = Memory::default();
    memory.take_values(entities, &write.params, &write.call)?;
    let mut params = write.params.clone();
    params.remove(place);
    let event = change::event(EventKind::Created, plan, example.whole());
    let mut logged = log.with_numbered_insert(params, event, hole);
    let params = std::mem::take(&mut logged.params);
    let each = {
        let (plan, params) = (plan.clone(), write.params.clone());
        move |made: &mut Option<(i64, Stored)>, row: &RowRef<'_>| {
            let record = plan.shape.inserted(&with_number(&params, place, row.get(1)?))?;
            *made = Some((row.get(0)?, record));
            Ok(())
        }
    };
    let commit = Commit::new(entities.bus());
    let announce = {
        let (plan, commit) = (plan.clone(), commit.clone());
        move |made: &Option<(i64, Stored)>| {
            if let Some((position, record)) = made {
                let event = change::event(EventKind::Created, &plan, record.whole());
                commit.announce(vec![logged.numbered_event_at(*position, event)]);
            }
        }
    };
    let db = entities.db().writing_for(share(&write.call));
    let written = db.write_fold(sql.clone(), params, None, each, announce).await;
    let made = written.map_err(|error| Error::from(error).named_by(plan))?;
    commit.wait().await;
    made.map(|(_, record)| Some(record)).ok_or(Error::NotFound)
}

/// The record with another number, and where that is in its JSON. `None` if it is hidden.
fn example(plan: &Plan, params: &[Value], place: usize) -> Result<Option<(Stored, Range<usize>)>, Error> {
    let [one, other] = TRIED.map(|number| plan.shape.inserted(&with_number(params, place, number)));
    let (one, other) = (one?, other?);
    let (json, others) = (one.whole().json(), other.whole().json());
    let differ = |(a, b): (&u8, &u8)| a != b;
    let Some(start) = json.iter().zip(others.iter()).position(differ) else { return Ok(None) };
    let end = start + json[start..].iter().zip(&others[start..]).take_while(|pair| differ(*pair)).count();
    Ok(Some((one, start..end)))
}

fn with_number(params: &[Value], place: usize, number: i64) -> Vec<Value> {
    let mut params = params.to_vec();
    params[place] = Value::Int(number);
    params
}
