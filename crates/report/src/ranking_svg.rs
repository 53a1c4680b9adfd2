//! The neighbourhood of the top code points as a picture: earlier accesses on the left, later ones on the right, and what
//! goes between them. One file without references, readable on light and dark ground.
//!
//! Every edge has a port of its own at both boxes, and its label lies on its last stretch, which is straight: labels
//! cannot meet, and it is clear which edge one belongs to.

use std::fmt::Write as _;

use selvedge_findings::{RankedEdge, RankedNode};

/// An edge of the picture.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The edge.
    pub edge: RankedEdge,
    /// What is written on it.
    pub label: String,
    /// Whether it speaks for the bug.
    pub is_evidence: bool,
}

impl Drawn {
    /// An edge that speaks for the bug.
    pub fn evidence(edge: &RankedEdge, is_labelled: bool) -> Drawn {
        let label = match (edge.is_missing, is_labelled) {
            (true, true) => format!("{} passing, {} failing", edge.passing, edge.failing),
            (true, false) => format!("{}, not all", runs(edge.failing)),
            (false, true) => format!("{} failing, {} passing", edge.failing, edge.passing),
            (false, false) => runs(edge.failing),
        };
        Drawn { edge: edge.clone(), label, is_evidence: true }
    }

    /// An edge that so many runs have, however they ended.
    pub fn usual(edge: RankedEdge, count: u32) -> Drawn {
        Drawn { edge, label: runs(count), is_evidence: false }
    }
}

fn runs(count: u32) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

const WIDTH: u32 = 960;
const MARGIN: u32 = 20;
const BOX_WIDTH: u32 = 300;
const BOX_HEIGHT: u32 = 52;
const GAP: u32 = 16;
const TOP: u32 = 64;
/// Most boxes of a side: more cannot be read.
const MOST_BOXES: usize = 14;
/// Between two edges at a box.
const PORT: u32 = 18;
/// The straight end of an edge, under its label.
const STRAIGHT: u32 = 190;
/// One character is six tenths of its size wide.
const fn chars(width: u32, size: u32) -> usize {
    (width * 10 / (size * 6)) as usize
}
const BOX_CHARS: usize = chars(BOX_WIDTH - 2 * 12, 12);
const TITLE_CHARS: usize = chars(WIDTH - 2 * MARGIN, 14);
const LABEL_CHARS: usize = chars(STRAIGHT - 16, 12);

const STYLE: &str = "\
:root{--ground:#ffffff;--ink:#1b1f24;--soft:#57606a;--box:#f6f8fa;--line:#c4ccd4;--hot:#cf222e;--calm:#8c959f}\
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#e6edf3;--soft:#9198a1;--box:#161b22;--line:#3d444d;--hot:#ff7b72;--calm:#656c76}}\
.ground{fill:var(--ground)}\
text{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;fill:var(--ink)}\
.title{font-size:14px;font-weight:600}.soft{fill:var(--soft)}\
.box{fill:var(--box);stroke:var(--line)}.box.hot{stroke:var(--hot);stroke-width:2}\
.edge{fill:none;stroke:var(--calm);stroke-width:1.5}.edge.hot{stroke:var(--hot);stroke-width:2.5}.edge.missing{stroke-dasharray:6 4}\
.tip{fill:var(--calm)}.tip.hot{fill:var(--hot)}\
.count{fill:var(--soft);stroke:var(--ground);stroke-width:4px;paint-order:stroke}.count.hot{fill:var(--hot);font-weight:600}";

/// What stands below the picture.
const LEGEND: [&str; 3] = [
    "red: speaks for the bug; dashed: missing in runs that fail, or in rare ones; grey: what the same lines do mostly",
    "below a line, what its thread had seen of others before: LcRd it read another's data, LcWr it overwrote another's,",
    "RmRd its data was read, RmWr its data was overwritten",
];

/// Draws edges; `title` stands above, and the code points of `top` get their numbers, the first is #1.
pub fn draw(title: &str, edges: &[Drawn], top: &[String]) -> String {
    drawing(title, edges, top, &format!("<style>{STYLE}</style>\n"))
}

/// The same for a page that has styles for it.
pub fn picture(title: &str, edges: &[Drawn], top: &[String]) -> String {
    drawing(title, edges, top, "")
}

fn drawing(title: &str, edges: &[Drawn], top: &[String], style: &str) -> String {
    let (mut left, mut right) = (Side::default(), Side::default());
    let mut lines = Vec::new();
    for drawn in edges {
        let from = left.place(drawn.edge.from.as_ref(), drawn.is_evidence);
        let to = right.place(Some(&drawn.edge.to), drawn.is_evidence);
        if let (Some(from), Some(to)) = (from, to) {
            lines.push((from, to, drawn));
        }
    }
    for (from, to, _) in &lines {
        left.meets(*from);
        right.meets(*to);
    }
    let height = left.bottom().max(right.bottom()) + 3 * GAP + 16 * LEGEND.len() as u32;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{}\">\n{style}<rect class=\"ground\" width=\"{WIDTH}\" \
         height=\"{height}\"/>\n",
        escaped(title)
    );
    text(&mut svg, "title", (MARGIN, 26), &cut(title, TITLE_CHARS));
    let right_x = WIDTH - MARGIN - BOX_WIDTH;
    text(&mut svg, "soft", (MARGIN, 50), "came first");
    text(&mut svg, "soft", (right_x, 50), "came after, in another thread");
    // Ports in the order of the boxes on the other side, so that edges of one box do not cross each other.
    let mut ports: Vec<(u32, u32)> = vec![(0, 0); lines.len()];
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|at| lines.get(*at).map(|(from, to, _)| (*to, *from)));
    for at in &order {
        if let (Some((from, ..)), Some(port)) = (lines.get(*at), ports.get_mut(*at)) {
            port.0 = left.port(*from);
        }
    }
    order.sort_by_key(|at| lines.get(*at).map(|(from, to, _)| (*from, *to)));
    for at in &order {
        if let (Some((_, to, _)), Some(port)) = (lines.get(*at), ports.get_mut(*at)) {
            port.1 = right.port(*to);
        }
    }
    // What speaks for the bug is drawn last, on top.
    order.sort_by_key(|at| lines.get(*at).map(|(.., drawn)| drawn.is_evidence));
    for (drawn, port) in order.iter().filter_map(|at| Some((lines.get(*at)?.2, ports.get(*at)?))) {
        edge(&mut svg, drawn, *port, right_x);
    }
    // Above all edges, with a rim of the ground's colour.
    for (drawn, (_, y)) in order.iter().filter_map(|at| Some((lines.get(*at)?.2, ports.get(*at)?))) {
        let _ = writeln!(
            svg,
            "<text class=\"count{}\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            hot(drawn.is_evidence),
            right_x - 12,
            y - 6,
            escaped(&cut(&drawn.label, LABEL_CHARS))
        );
    }
    left.draw(&mut svg, MARGIN, top);
    right.draw(&mut svg, right_x, top);
    for (line, words) in (1u32..).zip(LEGEND.iter().rev()) {
        text(&mut svg, "soft", (MARGIN, height + 16 - GAP - 16 * line), words);
    }
    svg.push_str("</svg>\n");
    svg
}

fn edge(svg: &mut String, drawn: &Drawn, (y1, y2): (u32, u32), right_x: u32) {
    let hot = hot(drawn.is_evidence);
    let missing = if drawn.edge.is_missing { " missing" } else { "" };
    let (begin, bend, tip) = (MARGIN + BOX_WIDTH, right_x - STRAIGHT, right_x - 8);
    let middle = u32::midpoint(begin, bend);
    let _ = writeln!(
        svg,
        "<path class=\"edge{hot}{missing}\" d=\"M{begin} {y1}C{middle} {y1} {middle} {y2} {bend} {y2}H{tip}\"/>\n\
         <path class=\"tip{hot}\" d=\"M{right_x} {y2}l-10 -5v10z\"/>"
    );
}

const fn hot(is_evidence: bool) -> &'static str {
    if is_evidence { " hot" } else { "" }
}

fn text(svg: &mut String, class: &str, (x, y): (u32, u32), words: &str) {
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(words));
}

/// The boxes of one side, from above.
#[derive(Default)]
struct Side<'a> {
    boxes: Vec<Shown<'a>>,
}

/// A box.
struct Shown<'a> {
    node: Option<&'a RankedNode>,
    is_evidence: bool,
    /// Edges that meet it.
    edges: u32,
    /// Ports that were given to edges.
    given: u32,
}

impl Shown<'_> {
    fn height(&self) -> u32 {
        BOX_HEIGHT.max(self.edges * PORT + GAP)
    }
}

impl<'a> Side<'a> {
    /// The number of a node's box; nothing where there is no room.
    fn place(&mut self, node: Option<&'a RankedNode>, is_evidence: bool) -> Option<usize> {
        let known = self.boxes.iter().position(|shown| shown.node == node);
        let at = match known {
            Some(at) => at,
            None if self.boxes.len() >= MOST_BOXES => return None,
            None => {
                self.boxes.push(Shown { node, is_evidence: false, edges: 0, given: 0 });
                self.boxes.len() - 1
            }
        };
        if let Some(shown) = self.boxes.get_mut(at) {
            shown.is_evidence |= is_evidence;
        }
        Some(at)
    }

    /// One more edge meets a box.
    fn meets(&mut self, at: usize) {
        if let Some(shown) = self.boxes.get_mut(at) {
            shown.edges += 1;
        }
    }

    /// Where a box begins; past the last one, where it would.
    fn top(&self, at: usize) -> u32 {
        TOP + self.boxes.iter().take(at).map(|shown| shown.height() + GAP).sum::<u32>()
    }

    fn bottom(&self) -> u32 {
        self.top(self.boxes.len())
    }

    /// Where the next edge meets a box.
    fn port(&mut self, at: usize) -> u32 {
        let top = self.top(at);
        let Some(shown) = self.boxes.get_mut(at) else { return top };
        let begin = top + (shown.height() - (shown.edges.max(1) - 1) * PORT) / 2;
        shown.given += 1;
        begin + (shown.given - 1) * PORT
    }

    fn draw(&self, svg: &mut String, x: u32, top: &[String]) {
        for (row, shown) in self.boxes.iter().enumerate() {
            let (y, height) = (self.top(row), shown.height());
            let _ = writeln!(
                svg,
                "<rect class=\"box{}\" x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{height}\" rx=\"6\"/>",
                hot(shown.is_evidence)
            );
            let (first, second) = shown.node.map_or_else(
                || ("nobody had written it".to_owned(), String::new()),
                |node| {
                    let number = top.iter().position(|place| *place == node.place);
                    let number = number.map_or_else(String::new, |at| format!("#{} ", at + 1));
                    let function = node.function.as_deref().unwrap_or("");
                    (format!("{number}{} {} {function}", node.access, node.place), node.context.join(" "))
                },
            );
            text(svg, "", (x + 12, y + 21), &cut(&first, BOX_CHARS));
            if !second.is_empty() {
                text(svg, "soft", (x + 12, y + 40), &cut(&second, BOX_CHARS));
            }
        }
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
        Drawn::evidence(&edge, true)
    }

    #[test]
    fn a_node_is_one_box_and_names_are_escaped() {
        let svg = draw("top <3>", &[edge(Some(1), 2), edge(Some(1), 3), edge(None, 2)], &["a<b>.c:3".to_owned()]);
        assert_eq!(svg.matches("<rect class=\"box").count(), 4, "two on each side");
        assert_eq!(svg.matches("<path class=\"edge").count(), 3);
        assert_eq!(svg.matches("#1 read a&lt;b&gt;.c:3").count(), 1);
        assert_eq!(svg.matches("3 failing, 1 passing").count(), 3);
        assert!(svg.contains("a&lt;b&gt;.c:1") && svg.contains("operator&amp;") && svg.contains("top &lt;3&gt;"));
        assert!(svg.contains("nobody had written it") && svg.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn it_stays_readable_however_much_there_is() {
        let many: Vec<Drawn> = (0..100).map(|line| edge(Some(line), line + 1)).collect();
        let svg = draw("many", &many, &[]);
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
        let svg = draw(&"long ".repeat(100), &many, &[]);
        let mut labels = numbers(&svg, "class=\"count", "y");
        labels.sort_unstable();
        assert_eq!(labels.len(), many.len());
        assert!(labels.windows(2).all(|pair| pair[1] - pair[0] >= PORT), "no label on another");
        let height = numbers(&svg, "<svg", "height")[0];
        assert!(numbers(&svg, "<text", "y").iter().all(|y| *y < height));
        let boxes = |name: &str| numbers(&svg, "class=\"box", name);
        let lower: Vec<u32> = boxes("y").iter().zip(boxes("height")).map(|(y, height)| y + height).collect();
        let legend = numbers(&svg, "red: speaks", "y")[0];
        assert!(lower.iter().all(|bottom| bottom + 12 < legend), "the legend is below all boxes");
        let long = Drawn {
            edge: RankedEdge {
                to: RankedNode { place: "a".repeat(90), context: vec!["LcRd".to_owned(); 40], ..edge(None, 1).edge.to },
                ..edge(None, 1).edge
            },
            label: "§".repeat(90),
            is_evidence: false,
        };
        let svg = draw("t", &[long], &[]);
        let right =
            |line: &&str| line.starts_with("<text") && (line.contains("x=\"32\"") || line.contains("x=\"652\""));
        let of_boxes: Vec<&str> = svg.lines().filter(right).collect();
        assert_eq!(of_boxes.len(), 3);
        for line in of_boxes {
            let text = line.split(['<', '>']).nth(2).expect("text");
            assert!(text.chars().count() * 12 * 6 / 10 <= BOX_WIDTH as usize - 24, "{text}");
        }
        let label = svg.lines().find(|line| line.contains("class=\"count")).expect("a label");
        assert_eq!(label.matches('§').count(), LABEL_CHARS - 1, "{label}");
    }
}
