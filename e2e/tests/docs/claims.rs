//! The claims of `docs/behaviour/` and the tests and oracles that cite them.
//!
//! A claim is an item of a list that begins with its number, `- **DEPLOYMENT-1** ...`. The prefix is the first word in the name
//! of the page, in capitals: `NODE` for `node-lifecycle-controller.md`. The numbers of a page have no gaps; a
//! new claim gets the next one, wherever it stands. A test that holds a claim has the number in its comment, `/// DEPLOYMENT-1,
//! DEPLOYMENT-2.`, and an oracle of the simulation has it in its field, `claims: "DEPLOYMENT-1, DEPLOYMENT-2"`. A claim that
//! neither cites ends with a mark that says so.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::LazyLock,
};

use super::{check, files, markdown, read, root};

/// The prefixes of the numbers of claims: one for each page.
static PREFIXES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let pages = fs::read_dir(root().join(DIRECTORY)).into_iter().flatten().filter_map(Result::ok);
    pages.filter_map(|page| page.file_name().to_str().map(prefix)).collect()
});

/// Where the pages are.
const DIRECTORY: &str = "docs/behaviour";
/// The sources whose oracles cite claims.
const ORACLES: &str = "e2e/simulation/src/";
/// The end of a claim that no test cites.
const UNTESTED: &str = " *(no test of its own)*";

type Number = (String, u32);

/// The prefix of the claims of a page, given by its path: the first word of its name in capitals.
fn prefix(page: &str) -> String {
    let name = page.rsplit('/').next().unwrap_or_default();
    name.split(['-', '.']).next().unwrap_or_default().to_ascii_uppercase()
}

/// `DEPLOYMENT-12` as a prefix and a number; anything else is no claim's.
fn number(word: &str) -> Option<Number> {
    let (prefix, digits) = word.rsplit_once('-')?;
    let is_known = PREFIXES.contains(prefix);
    (is_known && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(())?;
    Some((prefix.to_owned(), digits.parse().ok()?))
}

/// The claims of a page in their order: number, text and line.
fn claims(page: &str) -> Vec<(Option<Number>, String, usize)> {
    let mut claims: Vec<(Option<Number>, String, usize)> = Vec::new();
    let mut is_open = false;
    for (line, text) in markdown::parse(page).prose {
        if let Some(rest) = text.strip_prefix("- **") {
            let (word, rest) = rest.split_once("**").unwrap_or((rest, ""));
            // Other items may begin in bold, too.
            let is_claim =
                word.contains('-') && word.split('-').next().is_some_and(|p| p.bytes().all(|b| b.is_ascii_uppercase()));
            is_open = is_claim;
            if is_claim {
                claims.push((number(word), rest.trim_end().to_owned(), line));
            }
        } else if is_open && text.starts_with("  ") {
            if let Some((_, claim, _)) = claims.last_mut() {
                *claim += " ";
                *claim += text.trim();
            }
        } else {
            is_open = false;
        }
    }
    claims
}

/// The claims that comments of a source cite, with the lines of the citations.
fn citations(source: &str) -> Vec<(Number, usize)> {
    let comments =
        (1..).zip(source.lines()).filter_map(|(line, text)| Some((line, text.trim_start().strip_prefix("//")?)));
    let words = |text: &'_ str| {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter_map(number).collect::<Vec<_>>()
    };
    comments.flat_map(|(line, text)| words(text).into_iter().map(move |number| (number, line))).collect()
}

/// The words in the fields `claims: "..."` of a source, with their lines. An oracle that checks no claim has an empty field.
fn words_of_oracles(source: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for (start, field) in source.match_indices("claims:") {
        let value = source[start + field.len()..].trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let words = value.map_or("", |(value, _)| value).split(',').map(str::trim).filter(|word| !word.is_empty());
        let line = source[..start].matches('\n').count() + 1;
        found.extend(words.map(|word| (word, line)));
    }
    found
}

/// What is wrong with pages, given by name and text, and citations, given by file and text.
fn troubles(pages: &[(String, String)], sources: &[(String, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut known: BTreeMap<Number, (String, bool)> = BTreeMap::new();
    let mut page_of_prefix: BTreeMap<String, &str> = BTreeMap::new();
    for (path, text) in pages {
        let prefix = prefix(path);
        if let Some(other) = page_of_prefix.insert(prefix.clone(), path) {
            wrong.push(format!("{path}: its claims have the prefix {prefix}, as those of {other}"));
            continue;
        }
        let mut next = 1;
        let mut claims = claims(text);
        claims.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        for (number, text, line) in claims {
            if number != Some((prefix.clone(), next)) {
                let found = number.map_or_else(|| "something else".to_owned(), |(prefix, n)| format!("{prefix}-{n}"));
                wrong.push(format!("{path}:{line}: the next claim is {prefix}-{next}, not {found}"));
                break;
            }
            known.insert((prefix.clone(), next), (format!("{path}:{line}"), text.ends_with(UNTESTED)));
            next += 1;
        }
        if next == 1 {
            wrong.push(format!("{path}: there are no claims"));
        }
    }
    let mut cited = BTreeSet::new();
    for (path, text) in sources {
        let mut citations = citations(text);
        for (word, line) in words_of_oracles(text).into_iter().filter(|_| path.starts_with(ORACLES)) {
            match number(word) {
                Some(number) => citations.push((number, line)),
                None => wrong.push(format!("{path}:{line}: {word:?} is not the number of a claim")),
            }
        }
        for (number, line) in citations {
            let (prefix, n) = &number;
            if !known.contains_key(&number) {
                wrong.push(format!("{path}:{line}: there is no claim {prefix}-{n}"));
            }
            cited.insert(number);
        }
    }
    for (number, (place, is_marked)) in known {
        let (is_cited, (prefix, n)) = (cited.contains(&number), number);
        if is_cited && is_marked {
            wrong.push(format!("{place}: a test cites {prefix}-{n}, so that the mark is wrong"));
        } else if !is_cited && !is_marked {
            wrong.push(format!("{place}: no test cites {prefix}-{n}; the claim has to end with{UNTESTED:?}"));
        }
    }
    wrong
}

#[test]
fn every_claim_is_cited_or_marked_and_every_citation_resolves() {
    let all = files();
    let is_page = |path: &&String| {
        path.starts_with(&format!("{DIRECTORY}/")) && path.ends_with(".md") && !path.ends_with("/README.md")
    };
    let pages: Vec<_> = all.iter().filter(is_page).map(|path| (path.clone(), read(path))).collect();
    assert!(!pages.is_empty(), "{DIRECTORY} has no pages");
    let is_source = |path: &&String| path.ends_with(".rs") && !path.starts_with("e2e/tests/docs/");
    let readable = |path: &String| fs::read_to_string(root().join(path)).ok().map(|text| (path.clone(), text));
    let sources: Vec<_> = all.iter().filter(is_source).filter_map(readable).collect();
    check(troubles(&pages, &sources));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, source: &str) -> Vec<String> {
        found_in(page, "a.rs", source)
    }

    fn found_in(page: &str, path: &str, source: &str) -> Vec<String> {
        let [page, source] =
            [("docs/behaviour/gc.md", page), (path, source)].map(|(path, text)| (path.to_owned(), text.to_owned()));
        troubles(&[page], &[source])
    }

    fn assert_found(found: &[String], expected: &str) {
        assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:?}");
    }

    #[test]
    fn a_page_whose_claims_are_cited_or_marked_is_right() {
        let page = "# gc\n\n- **GC-1** One\n  and more.\n- **Note:** not a claim.\n- **GC-2** Two,\n  wrapped. *(no test of its own)*\n";
        assert_eq!(found(page, "/// Holds.\n/// GC-1.\nfn test() {}\n"), Vec::<String>::new());
    }

    #[test]
    fn gaps_and_unknown_citations_and_wrong_marks_are_found() {
        let one = "- **GC-1** One.\n";
        for (page, source, expected) in [
            ("- **GC-2** Two.\n", "/// GC-2.", "the next claim is GC-1, not GC-2"),
            ("- **GC-1** One.\n- **GC-1** Again.\n", "/// GC-1.", "the next claim is GC-2, not GC-1"),
            ("- **JOB-1** One.\n", "/// JOB-1.", "not JOB-1"),
            ("No list.\n", "", "there are no claims"),
            (one, "/// GC-1, GC-7.", "a.rs:1: there is no claim GC-7"),
            (one, "let x = \"GC-1\";", "no test cites GC-1"),
            ("- **GC-1** One. *(no test of its own)*\n", "// GC-1", "the mark is wrong"),
        ] {
            assert_found(&found(page, source), expected);
        }
    }

    #[test]
    fn claims_may_stand_in_any_order() {
        let page = "- **GC-1** One.\n- **GC-3** Three.\n\n## Next\n\n- **GC-2** Two.\n";
        assert_eq!(found(page, "/// GC-1, GC-2, GC-3."), Vec::<String>::new());
        let gap = found("- **GC-3** Three.\n- **GC-1** One.\n", "/// GC-1, GC-3.");
        assert_found(&gap, "the next claim is GC-2, not GC-3");
    }

    #[test]
    fn oracles_of_the_simulation_cite_claims_in_a_field() {
        let found = |path: &str, source: &str| found_in("- **GC-1** One.\n- **GC-2** Two.\n", path, source);
        let oracle = "e2e/simulation/src/a.rs";
        let both =
            "Invariant { name: \"a\", claims: \"GC-1\", check: a },\nclaims:\n    \"GC-2, GC-1\",\nclaims: \"\",\n";
        assert_eq!(found(oracle, both), Vec::<String>::new());
        for (path, source, expected) in [
            (oracle, "\n  claims: \"GC-1, GC-7\"", "e2e/simulation/src/a.rs:2: there is no claim GC-7"),
            (oracle, "claims: \"gc 15.1\"", "e2e/simulation/src/a.rs:1: \"gc 15.1\" is not the number of a claim"),
            (oracle, "name: \"GC-1\"", "no test cites GC-1"),
            ("other/src/a.rs", "claims: \"GC-1\"", "no test cites GC-1"),
        ] {
            assert_found(&found(path, source), expected);
        }
    }

    #[test]
    fn only_numbers_of_claims_are_citations() {
        let cited = citations("/// UTF-8 and GC-12, STATEFULSET-3. RFC-1\ncode(); // JOB-1\n//! NODE-4\n");
        let cited: Vec<(&str, u32, usize)> = cited.iter().map(|((prefix, n), line)| (&**prefix, *n, *line)).collect();
        assert_eq!(cited, [("GC", 12, 1), ("STATEFULSET", 3, 1), ("NODE", 4, 3)]);
    }
}
