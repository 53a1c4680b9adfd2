//! The neighbourhood of the top code points as a picture: earlier accesses on the left, later ones on the right, and what
//! goes between them. One file without references, readable on light and dark ground.

use std::fmt::Write as _;

use selvedge_findings::{RankedEdge, RankedNode};

/// An edge of the picture.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The edge.
    pub edge: RankedEdge,
    /// Whether it speaks for the bug.
    pub is_evidence: bool,
}

const WIDTH: u32 = 900;
const BOX_WIDTH: u32 = 300;
const BOX_HEIGHT: u32 = 52;
const GAP: u32 = 18;
const TOP: u32 = 64;
/// Most boxes of a side: more cannot be read.
const MOST_BOXES: usize = 14;
/// Between the lines of two labels.
const LABEL: u32 = 16;
/// Characters that fit: one is six tenths of its size wide.
const BOX_CHARS: usize = (BOX_WIDTH as usize - 2 * 12) * 10 / (12 * 6);
const TITLE_CHARS: usize = (WIDTH as usize - 2 * 20) * 10 / (14 * 6);

const STYLE: &str = "\
:root{--ground:#ffffff;--ink:#1b1f24;--soft:#57606a;--box:#f6f8fa;--line:#c4ccd4;--hot:#cf222e;--calm:#8c959f}\
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#e6edf3;--soft:#9198a1;--box:#161b22;--line:#3d444d;--hot:#ff7b72;--calm:#656c76}}\
.ground{fill:var(--ground)}\
text{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;fill:var(--ink)}\
.title{font-size:14px;font-weight:600}.soft{fill:var(--soft)}\
.box{fill:var(--box);stroke:var(--line)}.box.hot{stroke:var(--hot);stroke-width:2}\
.edge{fill:none;stroke:var(--calm);stroke-width:1.5}.edge.hot{stroke:var(--hot);stroke-width:2.5}.edge.missing{stroke-dasharray:6 4}\
.count{fill:var(--soft);stroke:var(--ground);stroke-width:4px;paint-order:stroke}.count.hot{fill:var(--hot);font-weight:600}";

/// Draws edges; `title` stands above.
pub fn draw(title: &str, edges: &[Drawn]) -> String {
    drawing(title, edges, &format!("<style>{STYLE}</style>\n"))
}

/// The same for a page that has styles for it.
pub fn picture(title: &str, edges: &[Drawn]) -> String {
    drawing(title, edges, "")
}

fn drawing(title: &str, edges: &[Drawn], style: &str) -> String {
    let (mut left, mut right): (Vec<Shown<'_>>, Vec<Shown<'_>>) = (Vec::new(), Vec::new());
    let mut lines = Vec::new();
    for drawn in edges {
        let from = place(&mut left, drawn.edge.from.as_ref(), drawn.is_evidence);
        let to = place(&mut right, Some(&drawn.edge.to), drawn.is_evidence);
        if let (Some(from), Some(to)) = (from, to) {
            lines.push((from, to, drawn));
        }
    }
    // What speaks for the bug is drawn last, on top.
    lines.sort_by_key(|(.., drawn)| drawn.is_evidence);
    // Labels of curves that cross in the middle do not lie on each other: the first free line below.
    let mut labels: Vec<u32> = Vec::new();
    for (from, to, _) in &lines {
        let mut at = u32::midpoint(middle(*from), middle(*to)).saturating_sub(4);
        while labels.iter().any(|known| known.abs_diff(at) < LABEL) {
            at += 2;
        }
        labels.push(at);
    }
    let rows = u32::try_from(left.len().max(right.len())).unwrap_or(0).max(1);
    let lowest = labels.iter().max().copied().unwrap_or(0);
    let height = (TOP + rows * (BOX_HEIGHT + GAP)).max(lowest + LABEL) + GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{}\">\n{style}<rect class=\"ground\" width=\"{WIDTH}\" \
         height=\"{height}\"/>\n",
        escaped(title)
    );
    let _ = writeln!(svg, "<text class=\"title\" x=\"20\" y=\"26\">{}</text>", escaped(&cut(title, TITLE_CHARS)));
    let right_x = WIDTH - 20 - BOX_WIDTH;
    let _ = writeln!(svg, "<text class=\"soft\" x=\"20\" y=\"50\">came first</text>");
    let _ = writeln!(svg, "<text class=\"soft\" x=\"{right_x}\" y=\"50\">came after, in another thread</text>");
    let (begin, end) = (20 + BOX_WIDTH, right_x);
    let between = u32::midpoint(begin, end);
    for (from, to, drawn) in &lines {
        let hot = if drawn.is_evidence { " hot" } else { "" };
        let missing = if drawn.edge.is_missing { " missing" } else { "" };
        let (y1, y2) = (middle(*from), middle(*to));
        let _ = writeln!(
            svg,
            "<path class=\"edge{hot}{missing}\" d=\"M{begin} {y1}C{between} {y1} {between} {y2} {end} {y2}\"/>"
        );
    }
    // Above all curves, with a rim of the ground's colour.
    for ((.., drawn), at) in lines.iter().zip(labels) {
        let hot = if drawn.is_evidence { " hot" } else { "" };
        let _ = writeln!(
            svg,
            "<text class=\"count{hot}\" x=\"{between}\" y=\"{at}\" text-anchor=\"middle\">{}</text>",
            counted(&drawn.edge)
        );
    }
    boxes(&mut svg, &left, 20);
    boxes(&mut svg, &right, right_x);
    svg.push_str("</svg>\n");
    svg
}

/// A box of one side.
struct Shown<'a> {
    node: Option<&'a RankedNode>,
    is_evidence: bool,
}

/// The number of a node's box; nothing where there is no room.
fn place<'a>(side: &mut Vec<Shown<'a>>, node: Option<&'a RankedNode>, is_evidence: bool) -> Option<u32> {
    let known = side.iter().position(|shown| shown.node == node);
    let at = match known {
        Some(at) => at,
        None if side.len() >= MOST_BOXES => return None,
        None => {
            side.push(Shown { node, is_evidence: false });
            side.len() - 1
        }
    };
    if let Some(shown) = side.get_mut(at) {
        shown.is_evidence |= is_evidence;
    }
    u32::try_from(at).ok()
}

fn middle(row: u32) -> u32 {
    TOP + row * (BOX_HEIGHT + GAP) + BOX_HEIGHT / 2
}

fn counted(edge: &RankedEdge) -> String {
    match (edge.failing, edge.passing) {
        (0, _) if edge.is_missing => "in no failing run".to_owned(),
        (failing, _) if edge.is_missing => format!("missed in all but {failing} failing"),
        (failing, 0) => format!("{failing} failing"),
        (0, passing) => format!("{passing} passing"),
        (failing, passing) => format!("{failing} failing, {passing} passing"),
    }
}

fn boxes(svg: &mut String, side: &[Shown<'_>], x: u32) {
    for (row, shown) in side.iter().enumerate() {
        let y = TOP + u32::try_from(row).unwrap_or(0) * (BOX_HEIGHT + GAP);
        let hot = if shown.is_evidence { " hot" } else { "" };
        let _ = writeln!(
            svg,
            "<rect class=\"box{hot}\" x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>"
        );
        let (first, second) = match shown.node {
            Some(node) => {
                let function = node.function.as_deref().unwrap_or("");
                let context = if node.context.is_empty() { "-".to_owned() } else { node.context.join(" ") };
                (format!("{} {} {function}", node.access, node.place), context)
            }
            None => ("nobody had written it".to_owned(), String::new()),
        };
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", x + 12, y + 21, escaped(&cut(&first, BOX_CHARS)));
        let _ = writeln!(
            svg,
            "<text class=\"soft\" x=\"{}\" y=\"{}\">{}</text>",
            x + 12,
            y + 40,
            escaped(&cut(&second, BOX_CHARS))
        );
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: Option<u32>, to: u32) -> Drawn {
        let node = |line: u32| RankedNode {
            place: format!("a<b>.c:{line}"),
            function: Some("operator&".to_owned()),
            access: "read".to_owned(),
            context: vec!["LcRd".to_owned()],
        };
        let edge = RankedEdge {
            from: from.map(node),
            to: node(to),
            failing: 3,
            passing: 1,
            pair_passes: true,
            is_missing: false,
        };
        Drawn { edge, is_evidence: true }
    }

    #[test]
    fn a_node_is_one_box_and_names_are_escaped() {
        let svg = draw("top <3>", &[edge(Some(1), 2), edge(Some(1), 3), edge(None, 2)]);
        assert_eq!(svg.matches("<rect class=\"box").count(), 4, "two on each side");
        assert_eq!(svg.matches("<path").count(), 3);
        assert!(svg.contains("a&lt;b&gt;.c:1") && svg.contains("operator&amp;") && svg.contains("top &lt;3&gt;"));
        assert!(svg.contains("nobody had written it") && svg.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn it_stays_readable_however_much_there_is() {
        let many: Vec<Drawn> = (0..100).map(|line| edge(Some(line), line + 1)).collect();
        let svg = draw("many", &many);
        assert_eq!(svg.matches("<rect class=\"box").count(), 2 * MOST_BOXES);
    }

    /// The numbers of an attribute, of all lines that have a word.
    fn numbers(svg: &str, word: &str, name: &str) -> Vec<u32> {
        let value = |line: &str| line.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?.parse().ok();
        svg.lines().filter(|line| line.contains(word)).filter_map(value).collect()
    }

    #[test]
    fn nothing_overlaps_or_leaves_the_picture() {
        // All of one side meet all of the other: far more labels than boxes.
        let many: Vec<Drawn> = (0..12).flat_map(|from| (0..12).map(move |to| edge(Some(from), to))).collect();
        let svg = draw(&"long ".repeat(100), &many);
        let mut labels = numbers(&svg, "class=\"count", "y");
        labels.sort_unstable();
        assert_eq!(labels.len(), many.len());
        assert!(labels.windows(2).all(|pair| pair[1] - pair[0] >= LABEL));
        let height = numbers(&svg, "<svg", "height")[0];
        assert!(labels.last().is_some_and(|last| *last < height));
        let long = Drawn {
            edge: RankedEdge {
                to: RankedNode { place: "a".repeat(90), context: vec!["LcRd".to_owned(); 40], ..edge(None, 1).edge.to },
                ..edge(None, 1).edge
            },
            is_evidence: false,
        };
        for line in draw("t", &[long]).lines().filter(|line| line.starts_with("<text") && !line.contains("title")) {
            let text = line.split(['<', '>']).nth(2).expect("text");
            assert!(text.chars().count() * 12 * 6 / 10 <= BOX_WIDTH as usize - 24, "{text}");
        }
    }
}
