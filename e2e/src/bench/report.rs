//! What was measured: rows with their goals, as a table for people and as JSON for programs.

use serde::Serialize;

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// The value is at most so much.
    AtMost(f64),
    /// The value is at most so many times the reference.
    TimesReference(f64),
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was measured, in words.
    pub name: String,
    /// The figure; absent where it could not be measured.
    pub value: Option<f64>,
    /// Its unit, and that of the reference.
    pub unit: &'static str,
    /// What it is compared with, measured in the same run.
    pub reference: Option<f64>,
    /// Value by reference.
    pub ratio: Option<f64>,
    /// The goal in words.
    pub goal: Option<String>,
    /// Whether the goal is met; absent without a goal.
    pub met: Option<bool>,
    /// What else there is to say, or why there is no value.
    pub note: Option<String>,
}

impl Row {
    /// A figure.
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value: Some(value),
            unit,
            reference: None,
            ratio: None,
            goal: None,
            met: None,
            note: None,
        }
    }

    /// A figure that could not be had.
    pub fn unmeasured(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            value: None,
            note: Some(why.into()),
            ..Self::new(name, 0.0, "")
        }
    }

    /// The same compared with a figure of the same unit.
    #[must_use]
    pub fn against(mut self, reference: f64) -> Self {
        self.reference = Some(reference);
        self.ratio = self
            .value
            .filter(|_| reference > 0.0)
            .map(|value| value / reference);
        self
    }

    /// The same with a goal, to be given last. A ratio without a reference is not met.
    #[must_use]
    pub fn goal(mut self, goal: Goal) -> Self {
        let (measured, limit, words) = match goal {
            Goal::AtMost(limit) => (
                self.value,
                limit,
                format!("<= {limit} {}", self.unit).trim_end().to_owned(),
            ),
            Goal::TimesReference(limit) => (self.ratio, limit, format!("<= {limit}x")),
        };
        self.goal = Some(words);
        self.met = Some(measured.is_some_and(|measured| measured <= limit));
        self
    }

    /// The same with a remark.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    fn cells(&self) -> [String; 7] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let met = self.met.map(|met| if met { "yes" } else { "NO" }.to_owned());
        [
            self.name.clone(),
            self.value.map_or_else(|| "NOT MEASURED".to_owned(), figure),
            self.unit.to_owned(),
            or_dash(self.reference.map(figure)),
            or_dash(self.ratio.map(|ratio| format!("{ratio:.2}x"))),
            or_dash(self.goal.clone()),
            or_dash(met),
        ]
    }
}

/// Three digits that count, or all before the point.
fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 | 100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// All rows of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// In the order of measuring.
    pub rows: Vec<Row>,
}

impl Report {
    /// Header of [`Self::table`].
    pub const HEADER: [&'static str; 7] = ["WHAT", "VALUE", "UNIT", "REFERENCE", "RATIO", "GOAL", "MET"];

    /// Adds a row.
    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// The rows as text.
    pub fn table(&self) -> Vec<[String; 7]> {
        self.rows.iter().map(Row::cells).collect()
    }

    /// Remarks, each after the name of its row.
    pub fn notes(&self) -> Vec<String> {
        let noted = self.rows.iter().filter_map(|row| Some((row, row.note.as_ref()?)));
        noted.map(|(row, note)| format!("{}: {note}", row.name)).collect()
    }

    /// Names of what could not be measured.
    pub fn unmeasured(&self) -> Vec<&str> {
        self.names(|row| row.value.is_none())
    }

    /// Names of the rows whose goal is not met.
    pub fn unmet(&self) -> Vec<&str> {
        self.names(|row| row.met == Some(false))
    }

    fn names(&self, of: impl Fn(&Row) -> bool) -> Vec<&str> {
        let rows = self.rows.iter().filter(|row| of(row));
        rows.map(|row| row.name.as_str()).collect()
    }

    /// As `bench.json` holds it.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// The middle of several figures; `None` without any.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Each figure, for a remark.
pub fn each(figures: &[f64]) -> String {
    let texts: Vec<_> = figures.iter().copied().map(figure).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        report.push(
            Row::new("install", 1.5, "s")
                .against(1.25)
                .goal(Goal::TimesReference(1.2)),
        );
        report.push(
            Row::new("memory", 21.04, "MiB")
                .goal(Goal::AtMost(20.0))
                .note("release build"),
        );
        report.push(Row::new("requests", 1234.0, "requests"));
        report.push(Row::unmeasured("drift", "the cluster died"));
        report
    }

    #[test]
    fn a_goal_is_met_by_the_value_or_by_the_ratio() {
        let met: Vec<_> = report().rows.iter().map(|row| row.met).collect();
        assert_eq!(met, [Some(true), Some(false), None, None]);
        assert_eq!(report().unmet(), ["memory"]);
        assert_eq!(report().unmeasured(), ["drift"]);
        let zero = Row::new("helm starts", 0.0, "").goal(Goal::AtMost(0.0));
        assert_eq!((zero.met, zero.goal.as_deref()), (Some(true), Some("<= 0")));
        let alone = Row::new("install", 1.0, "s").goal(Goal::TimesReference(1.2));
        assert_eq!(alone.met, Some(false));
        let by_nothing = Row::new("install", 1.0, "s").against(0.0);
        assert_eq!(by_nothing.ratio, None);
    }

    #[test]
    fn cells_show_three_digits_and_dashes() {
        let table = report().table();
        let expected = [
            ["install", "1.50", "s", "1.25", "1.20x", "<= 1.2x", "yes"],
            ["memory", "21.0", "MiB", "-", "-", "<= 20 MiB", "NO"],
            ["requests", "1234", "requests", "-", "-", "-", "-"],
            ["drift", "NOT MEASURED", "", "-", "-", "-", "-"],
        ];
        assert_eq!(table, expected.map(|row| row.map(str::to_owned)));
        assert_eq!(
            report().notes(),
            ["memory: release build", "drift: the cluster died"]
        );
        assert_eq!(each(&[0.0123, 0.5, 0.0]), "0.0123, 0.500, 0");
    }

    #[test]
    fn json_has_every_field_in_every_row() {
        let json: Value = serde_json::from_str(&report().json().unwrap()).unwrap();
        assert_eq!(
            json["rows"][0],
            json!({
                "name": "install", "value": 1.5, "unit": "s", "reference": 1.25, "ratio": 1.2,
                "goal": "<= 1.2x", "met": true, "note": null,
            })
        );
        assert_eq!(json["rows"][3]["value"], Value::Null);
        assert_eq!(json["rows"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
