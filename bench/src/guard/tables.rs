//! The tables of the page: the paper's Table 2 as it was measured, and one line for each program.

use std::fmt::Write as _;

use super::kernel::{Guarded, Measured};
use super::patterns::{Mark, ROWS, row_of};
use super::quiet::Quiet;
use super::rivals::Rival;
use crate::bars::to_f64;

/// A share of failing runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// How many.
    pub of: u64,
    /// Of so many.
    pub all: u64,
}

impl Share {
    /// As a part of one; `None` of nothing.
    fn part(self) -> Option<f64> {
        (self.all > 0).then(|| to_f64(self.of) / to_f64(self.all))
    }

    /// Whether it is all, and something.
    fn is_all(self) -> bool {
        self.all > 0 && self.of == self.all
    }
}

/// A column of Table 2.
struct Column {
    title: &'static str,
    /// Its marks in the paper.
    paper: Option<usize>,
    detected: fn(&Measured) -> Share,
    tolerated: fn(&Measured) -> Share,
}

fn detected(guarded: &Guarded) -> Share {
    Share { of: guarded.watched.noted_failing, all: guarded.watched.failing }
}

/// Of the schedules that fail without a guard, as many as fewer fail with it.
fn tolerated(measured: &Measured, guarded: &Guarded) -> Share {
    let all = measured.without.failing;
    Share { of: all.saturating_sub(guarded.stalled.failing), all }
}

fn traced(measured: &Measured, name: &str, count: fn(&Rival) -> u64) -> Share {
    let rival = measured.traced.rivals.iter().find(|rival| rival.name == name);
    Share { of: rival.map_or(0, count), all: measured.traced.failing }
}

const COLUMNS: [Column; 7] = [
    Column {
        title: "ours",
        paper: None,
        detected: |one| detected(&one.ours),
        tolerated: |one| tolerated(one, &one.ours),
    },
    Column {
        title: "AI",
        paper: Some(0),
        detected: |one| detected(&one.plain),
        tolerated: |one| tolerated(one, &one.plain),
    },
    Column {
        title: "AI, traces",
        paper: None,
        detected: |one| traced(one, "AI", |rival| rival.detected),
        tolerated: |one| traced(one, "AI", |rival| rival.tolerated),
    },
    Column {
        title: "AVIO",
        paper: Some(1),
        detected: |one| traced(one, "AVIO", |rival| rival.detected),
        tolerated: |one| traced(one, "AVIO", |rival| rival.tolerated),
    },
    Column {
        title: "DUI",
        paper: Some(2),
        detected: |one| traced(one, "DUI", |rival| rival.detected),
        tolerated: |one| traced(one, "DUI", |rival| rival.tolerated),
    },
    Column {
        title: "CCI",
        paper: Some(3),
        detected: |one| traced(one, "CCI", |rival| rival.detected),
        tolerated: |one| traced(one, "CCI", |rival| rival.tolerated),
    },
    Column {
        title: "PSet",
        paper: Some(4),
        detected: |one| traced(one, "PSet", |rival| rival.detected),
        tolerated: |one| traced(one, "PSet", |rival| rival.tolerated),
    },
];

/// The mean share over programs, and in how many of them it is all.
pub fn cell(shares: &[Share]) -> String {
    let parts: Vec<f64> = shares.iter().filter_map(|share| share.part()).collect();
    if parts.is_empty() {
        return "n/a".to_owned();
    }
    let mean = parts.iter().sum::<f64>() / to_f64(parts.len() as u64);
    let whole = shares.iter().filter(|share| share.is_all()).count();
    format!("{} {whole}/{}", percent(mean), parts.len())
}

/// A part of one in percent; only what is all is called 100 %, only what is nothing 0 %.
pub fn percent(part: f64) -> String {
    match part * 100.0 {
        hundred if hundred >= 100.0 => "100 %".to_owned(),
        nothing if nothing <= 0.0 => "0 %".to_owned(),
        some => format!("{:.1} %", some.clamp(0.1, 99.9)),
    }
}

/// Table 2: detected or tolerated.
pub fn table_2(kernels: &[Measured], page: &mut String, tolerates: bool) {
    let titles: Vec<String> = COLUMNS
        .iter()
        .map(
            |column| {
                if column.paper.is_some() { format!("{} \\| paper", column.title) } else { column.title.to_owned() }
            },
        )
        .collect();
    let _ = writeln!(page, "| pattern | programs | {} |", titles.join(" | "));
    let _ = writeln!(page, "|---|---:|{}", "---:|".repeat(COLUMNS.len()));
    let mut line = |name: &str, of: &[&Measured], marks: Option<&[(Mark, Mark); 5]>| {
        let _ = write!(page, "| {name} | {} |", of.len());
        for column in &COLUMNS {
            let share = if tolerates { column.tolerated } else { column.detected };
            let shares: Vec<Share> = of.iter().map(|one| share(one)).collect();
            let mark = column.paper.zip(marks).and_then(|(at, marks)| marks.get(at));
            let mark = mark.map_or("", |mark| if tolerates { mark.1.text() } else { mark.0.text() });
            let _ = write!(
                page,
                " {}{} |",
                cell(&shares),
                if mark.is_empty() { String::new() } else { format!(" \\| {mark}") }
            );
        }
        page.push('\n');
    };
    for (number, row) in ROWS.iter().enumerate() {
        let of: Vec<&Measured> = kernels.iter().filter(|one| row_of(&one.shape) == Some(number)).collect();
        if !of.is_empty() || row.paper[0].0 != Mark::NoRow {
            line(row.name, &of, Some(&row.paper));
        }
    }
    line("all", &kernels.iter().collect::<Vec<_>>(), None);
}

/// How many runs that pass are flagged.
pub fn flagged(kernels: &[Measured], page: &mut String) {
    let _ = writeln!(page, "| | {} |", COLUMNS.map(|column| column.title).join(" | "));
    let _ = writeln!(page, "|---|{}", "---:|".repeat(COLUMNS.len()));
    let _ = write!(page, "| passing runs with a violation |");
    for column in &COLUMNS {
        let share = |one: &Measured| {
            let guarded = match column.title {
                "ours" => Some(&one.ours),
                "AI" => Some(&one.plain),
                _ => None,
            };
            if let Some(guarded) = guarded {
                return Share { of: guarded.watched.noted_passing, all: guarded.watched.passing() };
            }
            let name = column.title.split(',').next().unwrap_or_default();
            let rival = one.traced.rivals.iter().find(|rival| rival.name == name);
            Share { of: rival.map_or(0, |rival| rival.noted_passing), all: one.traced.passing }
        };
        let parts: Vec<f64> = kernels.iter().filter_map(|one| share(one).part()).collect();
        let mean = parts.iter().sum::<f64>() / to_f64(parts.len().max(1) as u64);
        let _ = write!(page, " {} |", percent(mean));
    }
    page.push('\n');
}

/// One line for each program with a bug.
pub fn kernels(kernels: &[Measured], page: &mut String) {
    *page += "| program | | shape | training | last new | members | failing | detected | failing, guarded | AI: detected | failing | no colours: detected | failing | clips | flagged |\n\
              |---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for one in kernels {
        let found = |guarded: &Guarded| format!("{}", guarded.watched.noted_failing);
        let (uncoloured, with) = one
            .uncoloured
            .as_ref()
            .map_or((String::new(), String::new()), |guarded| (found(guarded), guarded.stalled.failing.to_string()));
        let left = one.ours.stalled.failing;
        let with_ours = if left > 0 { format!("**{left}**") } else { left.to_string() };
        let missed = one.ours.watched.failing - one.ours.watched.noted_failing;
        let detected = if missed > 0 { format!("**{}**", found(&one.ours)) } else { found(&one.ours) };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {}{} | {} | {} | {} | {detected} | {with_ours} | {} | {} | {uncoloured} | {with} | {} of {} | {} |",
            one.name,
            one.language,
            one.shape.replace('|', "\\|"),
            one.training.passed,
            one.training.reserve(),
            one.training.last_new(),
            one.training.members,
            one.without.failing,
            found(&one.plain),
            one.plain.stalled.failing,
            one.clips.passing,
            one.clips.failing,
            one.ours.watched.noted_passing,
        );
    }
}

/// One line for each program without a bug that has something to be said of; the rest is counted.
pub fn quiet(programs: &[Quiet], page: &mut String) {
    *page += "| program | training | last new | members | watched | with a violation | guarded | with a violation | stalls | came, futile | failing |\n\
              |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for one in programs {
        let Some(training) = &one.training else {
            let _ = writeln!(page, "| {} | nothing shared | | | | | | | | | |", one.name);
            continue;
        };
        let (watched, guarded) = (one.all_watched(), one.all_guarded());
        let bold = |count: u64| if count > 0 { format!("**{count}**") } else { count.to_string() };
        let [stalls, came, futile] = guarded.stalls;
        let _ = writeln!(
            page,
            "| {} | {}{} | {} | {} | {} | {} | {} | {} | {stalls} | {came}, {futile} | {} |",
            one.name,
            training.passed,
            training.reserve(),
            training.last_new(),
            training.members,
            watched.runs,
            bold(watched.noted()),
            guarded.runs,
            bold(guarded.noted()),
            bold(guarded.failing + watched.failing),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_is_all() {
        let share = |of, all| Share { of, all };
        assert_eq!(cell(&[share(10, 10), share(5, 5)]), "100 % 2/2");
        assert_eq!(cell(&[share(10, 10), share(0, 0)]), "100 % 1/1");
        assert_eq!(cell(&[share(99_999, 100_000)]), "99.9 % 0/1");
        assert_eq!(cell(&[share(1, 100_000), share(0, 1)]), "0.1 % 0/2");
        assert_eq!(cell(&[share(0, 7)]), "0 % 0/1");
        assert_eq!(cell(&[]), "n/a");
    }
}
