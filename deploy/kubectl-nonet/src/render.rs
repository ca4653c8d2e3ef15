//! Renders findings as text or JSON.

pub mod status;

use serde_json::json;

use crate::{
    check::format_count,
    finding::{Finding, FindingStatus, exit_code},
};

/// Renders findings as lines of status, topic and text. A line with an arrow contains the remedy. The last line is a summary.
pub fn to_text(findings: &[Finding]) -> String {
    let lines: String = findings.iter().map(line).collect();
    format!("{lines}{}\n", summary(findings))
}

/// Renders the findings that need attention as [`to_text`] does. The summary counts all findings.
pub(crate) fn attention_to_text(findings: &[Finding]) -> String {
    let lines: String = findings.iter().filter(|finding| finding.status >= FindingStatus::Warning).map(line).collect();
    format!("{lines}{}\n", summary(findings))
}

/// Renders a finding as one line, and its remedy as a second one.
pub(crate) fn line(finding: &Finding) -> String {
    let line = format!("{:<8} {:<13} {}\n", finding.status, finding.topic, finding.found);
    let remedy = finding.remedy.as_ref().map(|remedy| format!("{:<8} {:<13} -> {remedy}\n", "", ""));
    line + &remedy.unwrap_or_default()
}

/// Renders findings as one JSON object with a summary.
pub fn to_json(findings: &[Finding]) -> String {
    let object = json!({
        "summary": {
            "ok": count(findings, FindingStatus::Ok),
            "info": count(findings, FindingStatus::Info),
            "warning": count(findings, FindingStatus::Warning),
            "problem": count(findings, FindingStatus::Problem),
            "unknown": count(findings, FindingStatus::Unknown),
            "exitCode": exit_code(findings),
        },
        "findings": findings,
    });
    format!("{object:#}\n")
}

fn count(findings: &[Finding], status: FindingStatus) -> usize {
    findings.iter().filter(|finding| finding.status == status).count()
}

fn summary(findings: &[Finding]) -> String {
    let [problems, unknown, warnings] =
        [FindingStatus::Problem, FindingStatus::Unknown, FindingStatus::Warning].map(|s| count(findings, s));
    format!(
        "{}, {unknown} unknown, {}, {} ok",
        format_count(problems, "problem"),
        format_count(warnings, "warning"),
        count(findings, FindingStatus::Ok)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Findings, Topic};

    #[test]
    fn findings_are_rendered_and_decide_the_exit_code() {
        let mut findings = Findings::for_topic(Topic::Leases);
        findings.add_ok("all is well");
        let fine = findings.into_list();
        assert_eq!(exit_code(&fine), 0);
        assert_eq!(to_text(&fine), "ok       leases        all is well\n0 problems, 0 unknown, 0 warnings, 1 ok\n");

        let mut findings = Findings::for_topic(Topic::Loops);
        findings.add(FindingStatus::Unknown, "cannot tell", "ask");
        let unknown = [fine.clone(), findings.into_list()].concat();
        assert_eq!(exit_code(&unknown), 3);
        assert!(
            to_text(&unknown).contains("unknown  loops         cannot tell\n                       -> ask\n"),
            "{}",
            to_text(&unknown)
        );

        let mut findings = Findings::for_topic(Topic::Pods);
        findings.add(FindingStatus::Problem, "it crashes", "");
        let broken = [unknown, findings.into_list()].concat();
        assert_eq!(exit_code(&broken), 1);
        let parsed: serde_json::Value = serde_json::from_str(&to_json(&broken)).unwrap();
        assert_eq!(parsed["summary"]["problem"], 1);
        assert_eq!(parsed["findings"][1]["do"], "ask");
        assert_eq!(parsed["findings"][2]["status"], "problem");
    }
}
