use std::borrow::Cow;
use std::error::Error as StdError;
use std::sync::Arc;

use futures_util::TryStreamExt;
use tokio_postgres::RowStream;
use tokio_postgres::types::{FromSql, Type};

use super::encode::{EPOCH_DAYS, EPOCH_MICROS};
use super::error::classify;
use super::numeric;
use crate::json;
use crate::row::{RowRef, Shape, Source, ValueRef};
use crate::{Error, Row, Sql};

pub(super) fn rows(rows: &[tokio_postgres::Row], sql: &Sql) -> Result<Vec<Row>, Error> {
    let Some(first) = rows.first() else {
        return Ok(Vec::new());
    };
    let shape = Arc::new(Shape::new(sql, first.columns().iter().map(tokio_postgres::Column::name)));
    rows.iter().map(|row| Row::from_ref(&RowRef(Source::Postgres(row)), &shape)).collect()
}

pub(super) fn fold<A>(
    rows: &[tokio_postgres::Row],
    start: A,
    mut each: impl FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
) -> Result<A, Error> {
    let mut state = start;
    for row in rows {
        each(&mut state, &RowRef(Source::Postgres(row)))?;
    }
    Ok(state)
}

/// Passes each row on as it arrives, and adds its size to `bytes`.
pub(super) async fn fold_stream<A>(
    rows: RowStream,
    bytes: &mut usize,
    sql: &Sql,
    start: A,
    mut each: impl FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
) -> Result<A, Error> {
    let mut rows = std::pin::pin!(rows);
    let mut state = start;
    while let Some(row) = rows.try_next().await.map_err(|error| classify(error, sql.as_str()))? {
        *bytes += row.raw_size_bytes();
        each(&mut state, &RowRef(Source::Postgres(&row)))?;
    }
    Ok(state)
}

/// The names of the row's columns.
pub(crate) fn columns(row: &tokio_postgres::Row) -> Vec<&str> {
    row.columns().iter().map(tokio_postgres::Column::name).collect()
}

/// Reads column `index` of `row` without copying it, where its form allows that.
pub(crate) fn value(row: &tokio_postgres::Row, index: usize) -> Result<ValueRef<'_>, Error> {
    let decoded: Result<Option<Decoded<'_>>, _> = row.try_get(index);
    match decoded {
        Ok(None) => Ok(ValueRef::Null),
        Ok(Some(Decoded(value))) => Ok(value),
        Err(_) => Err(Error::Corrupt {
            statement: "query".to_owned(),
            column: row.columns().get(index).map_or_else(|| index.to_string(), |column| column.name().to_owned()),
            found: "a value of another type",
            expected: "a readable value",
        }),
    }
}

struct Decoded<'a>(ValueRef<'a>);

impl<'a> FromSql<'a> for Decoded<'a> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).map(|text| ValueRef::Text(Cow::Borrowed(text)));
        Ok(Self(match *ty {
            Type::BOOL => ValueRef::Bool(bool::from_sql(ty, raw)?),
            Type::INT8 => ValueRef::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => ValueRef::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT2 => ValueRef::Int(i16::from_sql(ty, raw)?.into()),
            Type::OID => ValueRef::Int(u32::from_sql(ty, raw)?.into()),
            Type::FLOAT8 => ValueRef::Float(f64::from_sql(ty, raw)?),
            Type::FLOAT4 => ValueRef::Float(f32::from_sql(ty, raw)?.into()),
            Type::TIMESTAMPTZ | Type::TIMESTAMP => {
                let micros = i64::from_be_bytes(raw.try_into()?);
                // The two ends stand for infinity, and stay so.
                ValueRef::Time(if micros == i64::MIN { micros } else { micros.saturating_add(EPOCH_MICROS) })
            }
            Type::DATE => ValueRef::Date(i64::from(i32::from_be_bytes(raw.try_into()?)) + EPOCH_DAYS),
            Type::UUID => ValueRef::Text(Cow::Owned(uuid(raw.try_into()?))),
            Type::NUMERIC => ValueRef::Text(Cow::Owned(numeric::decode(raw).ok_or("not a finite number")?)),
            Type::JSONB => {
                ValueRef::Text(json::respelled(std::str::from_utf8(raw.get(1..).ok_or("an empty document")?)?))
            }
            Type::BYTEA => ValueRef::Bytes(raw),
            _ => text(raw)?,
        }))
    }

    fn accepts(ty: &Type) -> bool {
        // Types without a text-like binary form that are not read here would come out as rubbish.
        !matches!(
            *ty,
            Type::INTERVAL
                | Type::TIME
                | Type::TIMETZ
                | Type::INET
                | Type::CIDR
                | Type::POINT
                | Type::TEXT_ARRAY
                | Type::INT8_ARRAY
                | Type::INT4_ARRAY
                | Type::MONEY
        )
    }
}

fn uuid(bytes: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}
