//! The time zone in which times are grouped.

use gatewright_base::time;
use gatewright_db::dialect::Zone;
use jiff::tz::{Offset, TimeZone};

use super::groups::By;
use super::parameters::{TIMEZONE, UTC_OFFSET};

/// Where days and hours begin.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Clock(TimeZone);

impl Default for Clock {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Clock {
    /// Reads the time zone among the parameters of a list. The error is a sentence for the caller.
    pub(super) fn read(parameters: &[(String, String)], by: &[By]) -> Result<Self, String> {
        let given = |name: &str| parameters.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
        if by.is_empty() {
            return Ok(Self::default());
        }
        match (given(TIMEZONE), given(UTC_OFFSET)) {
            (None, None) => Ok(Self::default()),
            (Some(_), Some(_)) => Err(format!("{TIMEZONE} and {UTC_OFFSET} exclude each other")),
            (Some(name), None) => zone(name)
                .map(Self)
                .ok_or_else(|| format!("{TIMEZONE} is the name of a time zone, such as Europe/Berlin")),
            (None, Some(offset)) => self::offset(offset)
                .map(|offset| Self(offset.to_time_zone()))
                .ok_or_else(|| format!("{UTC_OFFSET} is an offset from -14:00 to +14:00, such as +02:00")),
        }
    }

    /// For SQL.
    pub(super) fn sql(&self) -> Zone<'_> {
        match self.0.iana_name() {
            Some(name) => Zone::Named(name),
            None => Zone::Offset(self.0.to_fixed_offset().map_or(0, Offset::seconds)),
        }
    }

    /// Writes the time at the end of `out`, JSON from `start`, with the offset that it has here.
    pub(super) fn localize(&self, out: &mut Vec<u8>, start: usize) {
        let text = std::str::from_utf8(&out[start..]).ok().and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
        let Some(at) = text.and_then(time::parse) else { return };
        let format = if self.0 == TimeZone::UTC { "\"%Y-%m-%dT%H:%M:%SZ\"" } else { "\"%Y-%m-%dT%H:%M:%S%:z\"" };
        let local = at.to_zoned(self.0.clone()).strftime(format).to_string();
        out.truncate(start);
        out.extend_from_slice(local.as_bytes());
    }
}

/// A zone that both engines know by this name: one of places, or UTC.
fn zone(name: &str) -> Option<TimeZone> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+');
    if name.len() > 64 || !name.bytes().all(is_name) {
        return None;
    }
    TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some())
}

/// `+02:00`; a space in the place of the sign is a `+` that was not escaped.
fn offset(text: &str) -> Option<Offset> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' | b' ' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let digits = |text: &str| {
        (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse::<i32>().ok())?
    };
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    let minutes = (minutes < 60).then_some(sign * (hours * 60 + minutes))?;
    Offset::from_seconds(minutes * 60).ok().filter(|_| minutes.abs() <= 14 * 60)
}
