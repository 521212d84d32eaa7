use gatewright_http::preferences;

use super::ExportFormat;
use crate::plan::Plan;
use crate::query::ListQuery;

/// The parameters of an export.
const FORMAT: &str = "format";
const RAW: &str = "raw";
const CSV: &str = "text/csv";
const NDJSON: &str = "application/x-ndjson";

impl ExportFormat {
    /// The format that a request for a list asks for, with its query; `None` for a page as JSON. `accept` is its header of that
    /// name. The parameters `format` and `raw` are conditions where fields have these names. The error is a sentence for the
    /// caller.
    pub fn asked(plan: &Plan, query: &str, accept: &str) -> Result<Option<(Self, ListQuery)>, String> {
        let mut pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let mut take = |name: &str| {
            let given = plan.is_parameter(name).then(|| pairs.iter().position(|(given, _)| given == name)).flatten();
            given.map(|place| pairs.remove(place).1)
        };
        let wanted = match take(FORMAT).as_deref() {
            None => accepted(accept),
            Some("json") => None,
            Some("csv") => Some(CSV),
            Some("ndjson") => Some(NDJSON),
            Some(_) => return Err("format is json, csv or ndjson".to_owned()),
        };
        let format = match wanted {
            Some(CSV) => {
                let is_raw = match take(RAW).as_deref() {
                    None | Some("false") => false,
                    Some("true") => true,
                    Some(_) => return Err("raw is true or false".to_owned()),
                };
                Some(Self::Csv { is_raw })
            }
            Some(_) => Some(Self::Ndjson),
            None => None,
        };
        Ok(format.map(|format| (format, pairs.into_iter().collect())))
    }

    /// The query of a page as JSON, which may say so.
    pub(crate) fn without(plan: &Plan, query: &str) -> ListQuery {
        if !plan.takes_format() {
            return ListQuery::parse(query);
        }
        form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name != FORMAT).collect()
    }

    /// The media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Csv { .. } => "text/csv; charset=utf-8; header=present",
            Self::Ndjson => NDJSON,
        }
    }

    /// The ending of a file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Csv { .. } => "csv",
            Self::Ndjson => "ndjson",
        }
    }
}

/// The format that `Accept` prefers to JSON. Wildcards stand for JSON; a format by its name comes before them.
fn accepted(accept: &str) -> Option<&'static str> {
    let mut best: Option<(&'static str, u16)> = None;
    let (mut json, mut any) = (0, 0);
    for (range, quality) in preferences(accept) {
        let range = range.to_ascii_lowercase();
        let found = match &*range {
            CSV => CSV,
            NDJSON => NDJSON,
            "application/json" => {
                json = json.max(quality);
                continue;
            }
            "*/*" | "application/*" => {
                any = any.max(quality);
                continue;
            }
            _ => continue,
        };
        if quality > best.map_or(0, |(_, quality)| quality) {
            best = Some((found, quality));
        }
    }
    best.filter(|(_, quality)| *quality > json && *quality >= any).map(|(found, _)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_preferred_to_json_only_by_its_name() {
        for (accept, expected) in [
            ("", None),
            ("*/*", None),
            ("application/json", None),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", None),
            ("text/csv", Some(CSV)),
            ("TEXT/CSV", Some(CSV)),
            ("text/csv, */*", Some(CSV)),
            ("text/csv;q=0.5, */*", None),
            ("text/csv, application/json", None),
            ("text/csv;q=0", None),
            ("application/json;q=0.9, application/x-ndjson", Some(NDJSON)),
            ("text/csv;q=0.9, application/x-ndjson", Some(NDJSON)),
            ("application/*", None),
        ] {
            assert_eq!(accepted(accept), expected, "{accept:?}");
        }
    }
}
