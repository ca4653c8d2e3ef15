//! As much of Markdown as the checks need.

/// A fenced block of code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    /// Number of the line that opens it.
    pub(crate) line: usize,
    /// The language behind the opening fence.
    pub(crate) language: String,
    /// Its lines, without the indentation of the fence.
    pub(crate) lines: Vec<String>,
}

/// A page, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// Lines outside of fenced blocks, with their numbers.
    pub(crate) prose: Vec<(usize, String)>,
    pub(crate) fences: Vec<Fence>,
}

pub(crate) fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    let mut open: Option<(usize, Fence)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        open = match (open, trimmed.strip_prefix("```")) {
            (None, None) => {
                parsed.prose.push((number, line.to_owned()));
                None
            }
            (None, Some(language)) => {
                Some((indent, Fence { line: number, language: language.trim().to_owned(), lines: Vec::new() }))
            }
            (Some((_, fence)), Some("")) => {
                parsed.fences.push(fence);
                None
            }
            (Some((indent, mut fence)), _) => {
                let line =
                    if line.len() >= indent && line.is_char_boundary(indent) { &line[indent..] } else { trimmed };
                fence.lines.push(line.to_owned());
                Some((indent, fence))
            }
        };
    }
    parsed.fences.extend(open.map(|(_, fence)| fence));
    parsed
}

/// A line without its spans of code.
pub(crate) fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The spans of code of a line.
pub(crate) fn spans_of_code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of the links and pictures of a page, with the numbers of their lines.
pub(crate) fn links(parsed: &Parsed) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in &parsed.prose {
        let line = without_code(line);
        for (sign, end) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
            let targets = line.match_indices(sign).filter_map(|(at, sign)| line[at + sign.len()..].split(end).next());
            links.extend(targets.map(|target| (*number, target.to_owned())));
        }
    }
    links
}

/// The anchors of the headings of a page, as GitHub makes them, and those that it sets itself.
pub(crate) fn anchors(parsed: &Parsed) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in &parsed.prose {
        for sign in ["id=\"", "name=\""] {
            anchors.extend(
                line.match_indices(sign)
                    .filter_map(|(at, sign)| Some(line[at + sign.len()..].split('"').next()?.to_owned())),
            );
        }
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        let Some(heading) = heading.strip_prefix(' ').filter(|_| (1..=6).contains(&level)) else { continue };
        let anchor = anchor(heading);
        let mut free = anchor.clone();
        let mut repetition = 0;
        while anchors.contains(&free) {
            repetition += 1;
            free = format!("{anchor}-{repetition}");
        }
        anchors.push(free);
    }
    anchors
}

/// The anchor of a heading.
pub(crate) fn anchor(heading: &str) -> String {
    // Of a link, the text counts.
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text += before;
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text += rest;
    let kept = text.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A `b` page\n\nSee [x](y.md#z) and `[no](no.md)`.\n\n   ```yaml\n   a:\n     b: 1\n   ```\n\n## A `b` page\n\n\
        ### [Linked](x.md), twice\n```\nplain\n```\n<img src=\"a.svg\">\n";

    #[test]
    fn a_page_is_taken_apart() {
        let parsed = parse(PAGE);
        let [yaml, plain] = parsed.fences.as_slice() else { panic!("{parsed:?}") };
        assert_eq!((yaml.line, yaml.language.as_str(), yaml.lines.join("\n").as_str()), (5, "yaml", "a:\n  b: 1"));
        assert_eq!((plain.language.as_str(), plain.lines.as_slice()), ("", ["plain".to_owned()].as_slice()));
        let links: Vec<String> = links(&parsed).into_iter().map(|(_, link)| link).collect();
        assert_eq!(links, ["y.md#z", "x.md", "a.svg"]);
        assert_eq!(anchors(&parsed), ["a-b-page", "a-b-page-1", "linked-twice"]);
    }
}
