//! Pieces of Markdown.

use crate::generate::MARK;

/// The first lines of a page.
pub(super) fn head(title: &str, introduction: &str) -> String {
    format!("# {title}\n\n<!-- {MARK}. Do not edit. -->\n\n{}\n", wrapped(introduction))
}

/// A table with one row for each entry; nothing if there are no rows.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(header.iter().map(|&cell| cell.to_owned()).collect());
    text += &line(vec!["---".to_owned(); header.len()]);
    for row in rows {
        text += &line(row.iter().map(|cell| cell.replace('\n', " ").replace('|', "\\|")).collect());
    }
    text
}

/// Adds a heading with what follows it; nothing if there is no content.
pub(super) fn section(page: &mut String, heading: &str, content: &str) {
    if !content.is_empty() {
        page.extend(["\n", heading, "\n\n", content]);
    }
}

/// Text of a program as prose: nothing in it is markup.
pub(super) fn plain(text: &str) -> String {
    text.replace('*', "\\*").replace('<', "&lt;")
}

/// A span of code; nothing if it is empty.
pub(super) fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

pub(super) fn codes<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(code).collect::<Vec<_>>().join(", ")
}

/// Paragraphs with lines of at most 130 columns.
pub(super) fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 130;
    let wrap = |paragraph: &str| {
        let (mut out, mut column) = (String::new(), 0);
        for word in paragraph.split_whitespace() {
            let width = word.chars().count();
            if column > 0 && column + 1 + width > COLUMNS {
                out.push('\n');
                column = 0;
            } else if column > 0 {
                out.push(' ');
                column += 1;
            }
            out += word;
            column += width;
        }
        out
    };
    text.split("\n\n").map(wrap).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_cannot_end_their_row() {
        let text = table(&["a", "b"], &[vec!["x|y".to_owned(), "one\ntwo".to_owned()]]);
        assert_eq!(text, "| a | b |\n| --- | --- |\n| x\\|y | one two |\n");
        assert_eq!(table(&["a"], &[]), "");
    }

    #[test]
    fn lines_are_short() {
        let text = wrapped(&format!("{}\n\nnext", "word ".repeat(60)));
        assert!(text.lines().all(|line| line.len() <= 130) && text.ends_with("\n\nnext"), "{text}");
    }
}
