use std::error::Error as StdError;

use bytes::{BufMut, BytesMut};
use gatewright_base::time;
use tokio_postgres::types::{Format, IsNull, ToSql, Type};

use super::numeric;
use crate::Value;
use crate::row::OUTSIDE;

/// Microseconds from 1970 to 2000, where Postgres starts counting.
pub(super) const EPOCH_MICROS: i64 = 946_684_800_000_000;
/// Days from 1970 to 2000.
pub(super) const EPOCH_DAYS: i64 = 10_957;

/// A value, written in the form of the type that the server gave its placeholder.
pub(super) struct Param<'a>(pub(super) &'a Value);

impl std::fmt::Debug for Param<'_> {
    /// The driver logs its parameters, and among them are password hashes and personal data.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

type Failure = Box<dyn StdError + Sync + Send>;

impl ToSql for Param<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Bool(value) => boolean(*value, ty, out)?,
            Value::Int(value) => integer(*value, ty, out)?,
            Value::Float(value) => float(*value, ty, out)?,
            Value::Text(value) => text(value, ty, out)?,
            Value::Json(value) => text(value.as_str(), ty, out)?,
            Value::Bytes(value) => match *ty {
                Type::BYTEA => out.put_slice(value),
                _ => return Err(mismatch("bytes", ty)),
            },
            Value::Time(value) => match *ty {
                Type::TIMESTAMPTZ | Type::TIMESTAMP => out.put_i64(value.as_microsecond() - EPOCH_MICROS),
                _ => text(&time::format(*value), ty, out)?,
            },
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    tokio_postgres::types::to_sql_checked!();
}

fn boolean(value: bool, ty: &Type, out: &mut BytesMut) -> Result<(), Failure> {
    match *ty {
        Type::BOOL => out.put_u8(u8::from(value)),
        _ => integer(i64::from(value), ty, out)?,
    }
    Ok(())
}

fn integer(value: i64, ty: &Type, out: &mut BytesMut) -> Result<(), Failure> {
    match *ty {
        Type::INT8 => out.put_i64(value),
        Type::INT4 => out.put_i32(i32::try_from(value)?),
        Type::INT2 => out.put_i16(i16::try_from(value)?),
        Type::OID => out.put_u32(u32::try_from(value)?),
        Type::BOOL if value == 0 || value == 1 => out.put_u8(u8::from(value == 1)),
        #[expect(clippy::cast_precision_loss, reason = "the column holds a float")]
        Type::FLOAT8 | Type::FLOAT4 => float(value as f64, ty, out)?,
        _ => text(&value.to_string(), ty, out)?,
    }
    Ok(())
}

fn float(value: f64, ty: &Type, out: &mut BytesMut) -> Result<(), Failure> {
    match *ty {
        Type::FLOAT8 => out.put_f64(value),
        #[expect(clippy::cast_possible_truncation, reason = "the column holds a single-precision float")]
        Type::FLOAT4 => out.put_f32(value as f32),
        _ => text(&value.to_string(), ty, out)?,
    }
    Ok(())
}

fn text(value: &str, ty: &Type, out: &mut BytesMut) -> Result<(), Failure> {
    match *ty {
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::JSON | Type::UNKNOWN | Type::REGCLASS => {
            out.put_slice(value.as_bytes());
        }
        Type::JSONB => {
            // The version of the binary form.
            out.put_u8(1);
            out.put_slice(value.as_bytes());
        }
        Type::UUID => out.put_slice(uuid(value)?.as_slice()),
        Type::NUMERIC => numeric::encode(value, out)?,
        Type::TIMESTAMPTZ | Type::TIMESTAMP => {
            let micros = match value.strip_prefix(OUTSIDE) {
                Some(micros) => micros.parse()?,
                None => time::stored(value).ok_or("not an RFC 3339 timestamp")?.as_microsecond(),
            };
            let is_infinite = micros == i64::MIN || micros == i64::MAX;
            out.put_i64(if is_infinite { micros } else { micros.saturating_sub(EPOCH_MICROS) });
        }
        Type::DATE if value.starts_with(OUTSIDE) => {
            let day: i64 = value.trim_start_matches(OUTSIDE).parse()?;
            out.put_i32(i32::try_from(day - EPOCH_DAYS)?);
        }
        Type::DATE => {
            let date: jiff::civil::Date = value.parse()?;
            let days = date.since(jiff::civil::date(2000, 1, 1))?.get_days();
            out.put_i32(days);
        }
        Type::BOOL => match value {
            "true" => out.put_u8(1),
            "false" => out.put_u8(0),
            _ => return Err("not a boolean".into()),
        },
        Type::INT8 | Type::INT4 | Type::INT2 => integer(value.parse()?, ty, out)?,
        Type::FLOAT8 | Type::FLOAT4 => float(value.parse()?, ty, out)?,
        _ => return Err(mismatch("text", ty)),
    }
    Ok(())
}

fn uuid(text: &str) -> Result<[u8; 16], Failure> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return Err("not a UUID".into());
    }
    Ok(u128::from_str_radix(&digits, 16)?.to_be_bytes())
}

fn mismatch(given: &str, ty: &Type) -> Failure {
    format!("{given} cannot be written as {ty}").into()
}
