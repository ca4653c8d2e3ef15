//! A chart of processor time and memory over time, as SVG: three panels over the same axis of seconds.

use plotters::backend::SVGBackend;
use plotters::{
    chart::ChartBuilder,
    coord::Shift,
    drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _},
    element::{PathElement, Text},
    series::LineSeries,
    style::{RGBColor, ShapeStyle, WHITE},
};

use super::{Report, Results};
use crate::bench::{
    NAME,
    timeline::{CONTROLLERS, Point},
};

const SIZE: (u32, u32) = (1200, 1050);
/// Width of the legend, right of the curves.
const LEGEND: u32 = 250;
const PANELS: usize = 3;
const FONT: &str = "sans-serif";
/// Colours that colour-blind people can distinguish.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];
const PHASE: RGBColor = RGBColor(190, 190, 190);
const MEGABYTE: f64 = 1e6;

/// A series to draw.
struct Line {
    label: String,
    colour: RGBColor,
    is_controllers: bool,
    points: Vec<Point>,
}

impl Report {
    /// The chart of the first run of each subject. The same samples give the same text.
    pub(in crate::bench) fn svg(&self) -> anyhow::Result<String> {
        let lines = self.lines();
        let phases = self.results.first().and_then(|results| results.runs.first());
        let phases: Vec<(&str, f64)> = phases.map(|run| run.timeline.phases.clone()).unwrap_or_default();
        let end = lines.iter().flat_map(|line| &line.points).map(|point| point.at).fold(1.0, f64::max);
        let mut text = String::new();
        // Room for the name of a phase that begins near the end.
        draw(&mut text, &lines, &phases, end * 1.06)?;
        Ok(text)
    }

    /// The series of all subjects. If the API server runs inside the bench, the curve of the API server is that of the bench.
    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for (name, is_controllers) in [(CONTROLLERS, true), ("kube-apiserver", false), (NAME, false)] {
            for Results { name: subject, runs } in &self.results {
                let Some(timeline) = runs.first().map(|run| &run.timeline) else { continue };
                let has_server = timeline.series.contains_key("kube-apiserver");
                let label = match name {
                    CONTROLLERS => (*subject).to_owned(),
                    NAME if has_server => continue,
                    NAME => format!("API server, nodes and bench ({subject})"),
                    server => format!("{server} ({subject})"),
                };
                if let Some(points) = timeline.series.get(name) {
                    let colour = COLOURS[lines.len() % COLOURS.len()];
                    lines.push(Line { label, colour, is_controllers, points: points.clone() });
                }
            }
        }
        lines
    }
}

/// The value of a sample on the vertical axis.
type Value = dyn Fn(&Point) -> f64;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failed = DrawingAreaErrorKind<std::io::Error>;

fn draw(text: &mut String, lines: &[Line], phases: &[(&str, f64)], end: f64) -> Result<(), Failed> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let areas = root.split_evenly((PANELS, 1));
    let all: Vec<&Line> = lines.iter().collect();
    let controllers: Vec<&Line> = lines.iter().filter(|line| line.is_controllers).collect();
    let servers: Vec<&Line> = lines.iter().filter(|line| !line.is_controllers).collect();
    let cores = |point: &Point| point.cores;
    let megabytes = |point: &Point| point.resident as f64 / MEGABYTE;
    let panels: [(&str, &[&Line], &Value); PANELS] = [
        ("Processor time, cores", &all, &cores),
        ("Memory of the controllers, MB", &controllers, &megabytes),
        ("Memory of the API servers, MB", &servers, &megabytes),
    ];
    for (area, (title, lines, value)) in areas.iter().zip(panels) {
        panel(area, title, lines, value, phases, end)?;
    }
    root.present()
}

/// Draws one panel. Grey lines mark the beginning of the phases of the first subject.
fn panel(
    area: &Area<'_>,
    title: &str,
    lines: &[&Line],
    value: &Value,
    phases: &[(&str, f64)],
    end: f64,
) -> Result<(), Failed> {
    let highest = lines.iter().flat_map(|line| &line.points).map(value).fold(0.0, f64::max);
    // Room for the names of the phases.
    let top = if highest > 0.0 { highest * 1.1 } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 18))
        .margin(10)
        .margin_right(LEGEND)
        .x_label_area_size(35)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart.configure_mesh().disable_x_mesh().max_light_lines(2).x_desc("seconds").label_style((FONT, 13)).draw()?;
    for (name, at) in phases {
        chart.draw_series(LineSeries::new([(*at, 0.0), (*at, top)], PHASE))?;
        let label = Text::new((*name).to_owned(), (*at + end / 300.0, top * 0.99), (FONT, 12));
        chart.draw_series(std::iter::once(label))?;
    }
    let left = (SIZE.0 - LEGEND + 10) as i32;
    for (row, line) in (0..).zip(lines) {
        let style = ShapeStyle::from(&line.colour).stroke_width(2);
        chart.draw_series(LineSeries::new(line.points.iter().map(|point| (point.at, value(point))), style))?;
        let top = 45 + 20 * row;
        area.draw(&PathElement::new([(left, top + 6), (left + 18, top + 6)], style))?;
        area.draw(&Text::new(line.label.as_str(), (left + 24, top), (FONT, 13)))?;
    }
    Ok(())
}
