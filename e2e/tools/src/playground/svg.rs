//! Pictures of the screen as SVG.

use std::fmt::Write as _;

use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::{Buffer, Cell},
    layout::Position,
    style::{Color, Modifier},
};

use super::{board::Board, live};

/// The width of the picture in characters, at which lines show all their columns.
const COLUMNS: u16 = 136;
/// The height of the picture in lines, which is enough for the example with its ReplicaSets and some history.
const ROWS: u16 = 44;

/// The size of a character in pixels, and of the margin around the screen.
const CELL_WIDTH: u32 = 8;
const CELL_HEIGHT: u32 = 17;
const MARGIN: u32 = 12;
/// The size of the font, which is a little wider than a cell: `textLength` sets the exact width.
const FONT_SIZE: u32 = 13;

const BACKGROUND: &str = "#0d1117";
const FOREGROUND: &str = "#d0d7de";

/// Draws the board on a screen of fixed size, and returns that screen as an SVG document.
pub(super) fn picture(board: &Board) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(COLUMNS, ROWS));
    let Ok(_) = terminal.draw(|frame| live::draw(frame, board));
    document(terminal.backend().buffer())
}

/// An SVG document that shows a screen: one element of text for each run of characters of the same style.
fn document(screen: &Buffer) -> String {
    let (columns, rows) = (u32::from(screen.area.width), u32::from(screen.area.height));
    let (width, height) = (columns * CELL_WIDTH + 2 * MARGIN, rows * CELL_HEIGHT + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"{FONT_SIZE}\" fill=\"{FOREGROUND}\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for row in 0..screen.area.height {
        for run in runs(screen, row) {
            write_run(&mut svg, row, &run);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Adjacent characters of one row in the same style.
struct Run<'a> {
    column: u16,
    columns: u16,
    text: String,
    style: &'a Cell,
}

/// The runs of a row. A gap of several blanks ends a run, so that columns stay in line in any font.
fn runs(screen: &Buffer, row: u16) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for column in 0..screen.area.width {
        let Some(cell) = screen.cell(Position::new(column, row)) else { continue };
        if cell.symbol().trim().is_empty() {
            continue;
        }
        match runs.last_mut() {
            Some(run) if looks_like(run.style, cell) && column <= run.column + run.columns + 1 => {
                if column > run.column + run.columns {
                    run.text.push(' ');
                }
                run.text.push_str(cell.symbol());
                run.columns = column + 1 - run.column;
            }
            _ => runs.push(Run { column, columns: 1, text: cell.symbol().to_owned(), style: cell }),
        }
    }
    runs
}

fn looks_like(a: &Cell, b: &Cell) -> bool {
    (a.fg, a.modifier) == (b.fg, b.modifier)
}

fn write_run(svg: &mut String, row: u16, run: &Run<'_>) {
    let x = MARGIN + u32::from(run.column) * CELL_WIDTH;
    // The baseline.
    let y = MARGIN + u32::from(row) * CELL_HEIGHT + CELL_HEIGHT - 4;
    let length = u32::from(run.columns) * CELL_WIDTH;
    let _ = write!(svg, "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\"");
    if let Some(colour) = colour(run.style.fg) {
        let _ = write!(svg, " fill=\"{colour}\"");
    }
    if run.style.modifier.contains(Modifier::BOLD) {
        svg.push_str(" font-weight=\"bold\"");
    }
    if run.style.modifier.contains(Modifier::DIM) {
        svg.push_str(" opacity=\"0.65\"");
    }
    let _ = writeln!(svg, ">{}</text>", escaped(&run.text));
}

/// The colour of the picture for a colour of the view; `None` for the colour of plain text.
fn colour(colour: Color) -> Option<&'static str> {
    match colour {
        Color::Red => Some("#ff7b72"),
        Color::Green => Some("#3fb950"),
        Color::Yellow => Some("#d29922"),
        Color::Blue => Some("#58a6ff"),
        Color::Magenta => Some("#bc8cff"),
        Color::Cyan => Some("#39c5cf"),
        Color::Gray => Some("#b1bac4"),
        Color::DarkGray => Some("#6e7681"),
        _ => None,
    }
}

/// Text with its markup characters escaped. Control characters, which XML does not allow, are left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use ratatui::{layout::Rect, style::Style};

    use super::*;

    fn screen(rows: &[(u16, u16, &str, Style)]) -> Buffer {
        let mut screen = Buffer::empty(Rect::new(0, 0, 20, 3));
        for (column, row, text, style) in rows {
            screen.set_string(*column, *row, text, *style);
        }
        screen
    }

    fn texts(screen: &Buffer) -> Vec<String> {
        document(screen).lines().filter(|line| line.starts_with("<text")).map(str::to_owned).collect()
    }

    #[test]
    fn each_run_of_one_style_stands_at_its_column_and_has_its_width() {
        let green = Style::new().fg(Color::Green).add_modifier(Modifier::BOLD);
        let texts =
            texts(&screen(&[(0, 0, "web ", Style::new()), (4, 0, "●●", green), (6, 0, " of 3   Pods", Style::new())]));
        let [name, pods, number, last] = &texts[..] else { panic!("{texts:?}") };
        assert!(number.starts_with("<text x=\"68\"") && number.ends_with(">of 3</text>"), "{number}");
        assert!(last.starts_with("<text x=\"124\"") && last.ends_with(">Pods</text>"), "{last}");
        assert!(
            name.starts_with("<text x=\"12\" y=\"25\" textLength=\"24\"") && name.ends_with(">web</text>"),
            "{name}"
        );
        assert!(
            pods.starts_with("<text x=\"44\" y=\"25\" textLength=\"16\"") && pods.ends_with(">●●</text>"),
            "{pods}"
        );
        assert!(pods.contains("fill=\"#3fb950\" font-weight=\"bold\""), "{pods}");
        assert!(!name.contains("fill") && !name.contains("font-weight"), "{name}");
    }

    #[test]
    fn text_cannot_break_the_markup() {
        let texts = texts(&screen(&[(0, 1, "<a> & \u{7}", Style::new())]));
        assert!(texts.iter().any(|text| text.contains(">&lt;a&gt; &amp;")), "{texts:?}");
        assert!(!texts.concat().contains('\u{7}'));
    }

    #[test]
    fn a_blank_screen_has_no_text() {
        assert_eq!(texts(&screen(&[])), Vec::<String>::new());
        assert_eq!(texts(&screen(&[(3, 2, "   ", Style::new().fg(Color::Red))])), Vec::<String>::new());
    }

    #[test]
    fn every_colour_of_the_view_has_a_colour_in_the_picture() {
        for (_, sign) in live::SIGNS {
            assert!(colour(sign).is_some(), "{sign}");
        }
    }
}
