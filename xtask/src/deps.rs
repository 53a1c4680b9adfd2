//! `deps-check`: which of our crates may depend on which.
//!
//! Product crates form layers (`events` at the bottom, `cli` on top); what tests and measures stands
//! outside. All kinds of dependency count, those of tests and build scripts too. Nobody depends on
//! `selvedge-rt`: it reaches programs as an object file, never as Rust code.

use std::path::Path;

use serde_json::Value;

use crate::Outcome;
use crate::command::{cargo, output};

/// What a package may depend on.
enum May {
    /// These product crates.
    Only(&'static [&'static str]),
    /// Every product crate but the runtime (and itself).
    AnyProduct,
}

/// A package and what it may depend on.
struct Rule {
    name: &'static str,
    may: May,
    /// Whether it is part of what users get.
    product: bool,
}

const fn product(name: &'static str, may: &'static [&'static str]) -> Rule {
    Rule { name, may: May::Only(may), product: true }
}

const fn outside(name: &'static str) -> Rule {
    Rule { name, may: May::AnyProduct, product: false }
}

const RUNTIME: &str = "selvedge-rt";
/// Programs to try things on: open to everything that is outside the product.
const CORPUS: &str = "selvedge-corpus";

/// Every package of the repository. The design's arrows, spelled out.
const RULES: &[Rule] = &[
    product("selvedge", &[]),
    product("selvedge-events", &[]),
    product("selvedge-sched", &["selvedge-events"]),
    product(RUNTIME, &["selvedge-events", "selvedge-sched"]),
    product("selvedge-image", &["selvedge-events"]),
    product("selvedge-trace", &["selvedge-events"]),
    product("selvedge-findings", &[]),
    product("selvedge-analyze", &["selvedge-events", "selvedge-trace", "selvedge-findings"]),
    product(
        "selvedge-drive",
        &[
            "selvedge-events",
            "selvedge-sched",
            "selvedge-image",
            "selvedge-trace",
            "selvedge-findings",
            "selvedge-analyze",
        ],
    ),
    product(
        "selvedge-report",
        &[
            "selvedge-events",
            "selvedge-sched",
            "selvedge-image",
            "selvedge-trace",
            "selvedge-findings",
            "selvedge-analyze",
        ],
    ),
    Rule { name: "selvedge-cli", may: May::AnyProduct, product: true },
    outside(CORPUS),
    outside("selvedge-itest"),
    outside("selvedge-bench"),
    outside("selvedge-fuzz"),
    outside("xtask"),
];

/// A package and our own packages that it depends on.
#[derive(Debug)]
struct Package {
    name: String,
    needs: Vec<String>,
}

/// Checks the workspace and the fuzz targets beside it.
pub(crate) fn check(root: &Path) -> Outcome {
    let mut packages = Vec::new();
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let metadata = ["metadata", "--format-version", "1", "--no-deps", "--manifest-path", manifest];
        packages.extend(read(&output(cargo(root).args(metadata))?)?);
    }
    let wrong = violations(&packages);
    if !wrong.is_empty() {
        return Err(format!("dependencies that the design does not have:\n  {}", wrong.join("\n  ")).into());
    }
    let arrows: usize = packages.iter().map(|package| package.needs.len()).sum();
    println!("deps-check: {} packages, {arrows} arrows, all as designed", packages.len());
    Ok(())
}

/// The packages in what `cargo metadata` prints. A dependency with a path is one of ours.
fn read(metadata: &str) -> Outcome<Vec<Package>> {
    let metadata: Value = serde_json::from_str(metadata)?;
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let package = |value: &Value| {
        let dependencies = list(value, "dependencies");
        let mut needs: Vec<String> =
            dependencies.iter().filter(|dependency| dependency["path"].is_string()).map(name).collect();
        needs.sort();
        needs.dedup();
        Package { name: name(value), needs }
    };
    let packages: Vec<Package> = list(&metadata, "packages").iter().map(package).collect();
    if packages.is_empty() { Err("cargo metadata lists no packages".into()) } else { Ok(packages) }
}

/// What is wrong, one sentence each.
fn violations(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages {
        let Some(rule) = rule(&package.name) else {
            wrong.push(format!("{} has no rule: give it a row in xtask/src/deps.rs", package.name));
            continue;
        };
        for need in &package.needs {
            if !allowed(rule, need) {
                wrong.push(format!("{} -> {need}", package.name));
            }
        }
    }
    wrong
}

fn rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == name)
}

fn allowed(from: &Rule, to: &str) -> bool {
    match from.may {
        May::Only(names) => names.contains(&to),
        May::AnyProduct if to == CORPUS => !from.product,
        May::AnyProduct => to != RUNTIME && rule(to).is_some_and(|to| to.product),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(rows: &[(&str, &[&str])]) -> Vec<String> {
        let package = |(name, needs): &(&str, &[&str])| Package {
            name: (*name).to_owned(),
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        };
        violations(&rows.iter().map(package).collect::<Vec<_>>())
    }

    #[test]
    fn the_designs_arrows_are_allowed() {
        let none: Vec<String> = Vec::new();
        let wrong = graph(&[
            ("selvedge-events", &[]),
            ("selvedge-sched", &["selvedge-events"]),
            ("selvedge-rt", &["selvedge-events", "selvedge-sched"]),
            ("selvedge-image", &["selvedge-events"]),
            ("selvedge-trace", &["selvedge-events"]),
            ("selvedge-analyze", &["selvedge-trace", "selvedge-findings"]),
            (
                "selvedge-report",
                &["selvedge-findings", "selvedge-sched", "selvedge-trace", "selvedge-image", "selvedge-analyze"],
            ),
            ("selvedge-drive", &["selvedge-findings", "selvedge-image", "selvedge-analyze", "selvedge-sched"]),
            ("selvedge-cli", &["selvedge-drive", "selvedge-report", "selvedge-events"]),
            ("selvedge-itest", &["selvedge-cli", "selvedge-trace"]),
            ("xtask", &["selvedge-events", "selvedge-findings"]),
        ]);
        assert_eq!(wrong, none);
    }

    #[test]
    fn every_other_arrow_is_named() {
        let rows: &[(&str, &[&str])] = &[
            ("selvedge-events", &["selvedge-sched"]),
            ("selvedge-image", &["selvedge-events", "selvedge-trace"]),
            ("selvedge-trace", &["selvedge-findings"]),
            ("selvedge-findings", &["selvedge-events"]),
            ("selvedge-analyze", &["selvedge-image"]),
            ("selvedge-drive", &["selvedge-report"]),
            ("selvedge-report", &["selvedge-drive"]),
            ("selvedge-cli", &["selvedge-rt"]),
            ("selvedge-bench", &["selvedge-rt"]),
            ("xtask", &["selvedge-itest"]),
        ];
        let expected = [
            "selvedge-events -> selvedge-sched",
            "selvedge-image -> selvedge-trace",
            "selvedge-trace -> selvedge-findings",
            "selvedge-findings -> selvedge-events",
            "selvedge-analyze -> selvedge-image",
            "selvedge-drive -> selvedge-report",
            "selvedge-report -> selvedge-drive",
            "selvedge-cli -> selvedge-rt",
            "selvedge-bench -> selvedge-rt",
            "xtask -> selvedge-itest",
        ];
        assert_eq!(graph(rows), expected);
    }

    #[test]
    fn nobody_may_depend_on_the_runtime() {
        assert!(RULES.iter().all(|rule| !allowed(rule, RUNTIME)));
    }

    #[test]
    fn the_rules_have_no_cycle_and_name_only_packages_that_have_a_rule() {
        // Rows are in layers: a product crate may only name rows above its own.
        for (at, row) in RULES.iter().enumerate() {
            if let May::Only(names) = row.may {
                for name in names {
                    assert!(RULES[..at].iter().any(|below| below.name == *name), "{} -> {name}", row.name);
                }
            }
        }
    }

    #[test]
    fn unknown_packages_are_asked_for_a_rule() {
        let wrong = graph(&[("selvedge-extra", &["selvedge-events"])]);
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].contains("selvedge-extra has no rule"));
    }

    #[test]
    fn metadata_is_read_with_its_kinds_and_without_strangers() {
        let text = r#"{"packages": [{"name": "selvedge-image", "dependencies": [
            {"name": "selvedge-events", "path": "crates/events", "kind": null},
            {"name": "selvedge-trace", "path": "crates/trace", "kind": "dev"},
            {"name": "serde", "path": null, "kind": null},
            {"name": "selvedge-events", "path": "crates/events", "kind": "build"}]}]}"#;
        let packages = read(text).unwrap();
        assert_eq!(packages[0].needs, ["selvedge-events", "selvedge-trace"]);
        assert_eq!(violations(&packages), ["selvedge-image -> selvedge-trace"]);
        assert!(read("{}").is_err());
    }
}
