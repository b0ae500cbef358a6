//! Tables: which contain data and which are used for layout, and where spans leave cells empty.

use std::collections::HashMap;

use ego_tree::{NodeId, NodeRef, iter::Edge};
use scraper::Node;

use super::element::Role;

/// Maximum columns of a row; further cells and wider spans count as one.
const MAX_COLUMNS: usize = 64;
/// Rows of a table in the tight rendering.
pub(super) const TIGHT_ROWS: usize = 6;

/// What a scan of a table tells.
#[derive(Debug, Default, Clone, Copy)]
struct Facts {
    rows: usize,
    /// Most non-empty cells in one row.
    widest: usize,
    cells_in_row: usize,
    cell_filled: bool,
    has_header: bool,
    has_table: bool,
    has_blocks: bool,
    has_lists: bool,
    is_presentation: bool,
}

impl Facts {
    fn is_data(&self) -> bool {
        let rich = self.has_table
            || (self.has_blocks && !self.has_header)
            || (self.has_lists && self.rows < 2);
        self.widest >= 2 && !rich && !self.is_presentation
    }

    fn end_cell(&mut self) {
        self.cells_in_row += usize::from(self.cell_filled);
        self.cell_filled = false;
        self.widest = self.widest.max(self.cells_in_row);
    }
}

/// Records for a table and all nested ones whether they contain data.
pub(super) fn note_tables(table: NodeRef<'_, Node>, found: &mut HashMap<NodeId, bool>) {
    let mut open: Vec<Facts> = Vec::new();
    for edge in table.traverse() {
        match edge {
            Edge::Open(node) => match node.value() {
                Node::Text(text) => {
                    if let Some(facts) = open.last_mut() {
                        facts.cell_filled |= text.chars().any(|c| !c.is_whitespace());
                    }
                }
                Node::Element(element) => {
                    let role = Role::of(element);
                    if role == Role::Table {
                        if let Some(outer) = open.last_mut() {
                            outer.has_table = true;
                        }
                        let role = element.attr("role").unwrap_or("");
                        let is_presentation = matches!(role, "presentation" | "none");
                        open.push(Facts { is_presentation, ..Facts::default() });
                    } else if let Some(facts) = open.last_mut() {
                        note(facts, role);
                    }
                }
                _ => {}
            },
            Edge::Close(node) => {
                let Some(element) = node.value().as_element() else { continue };
                match Role::of(element) {
                    Role::Table => {
                        if let Some(facts) = open.pop() {
                            found.insert(node.id(), facts.is_data());
                        }
                    }
                    Role::Cell | Role::HeaderCell => {
                        if let Some(facts) = open.last_mut() {
                            facts.end_cell();
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

fn note(facts: &mut Facts, role: Role) {
    match role {
        Role::Row => {
            facts.rows += 1;
            facts.cells_in_row = 0;
        }
        Role::HeaderCell => facts.has_header = true,
        Role::Image | Role::Input => facts.cell_filled = true,
        Role::Heading(_) | Role::Preformatted | Role::Quote | Role::Rule => facts.has_blocks = true,
        Role::BulletList | Role::NumberedList => facts.has_lists = true,
        _ => {}
    }
}

/// An open table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Whether it contains data.
    pub(super) is_data: bool,
    pub(super) rows: usize,
    /// Rows omitted from the tight rendering.
    pub(super) rows_left_out: usize,
    column: usize,
    /// For each column, how many further rows a span from above covers.
    covered: Vec<usize>,
    row_has_header: bool,
    separator_written: bool,
}

impl Table {
    pub(super) fn new(is_data: bool) -> Self {
        Self { is_data, ..Self::default() }
    }

    pub(super) fn begin_row(&mut self) {
        self.column = 0;
        self.row_has_header = false;
    }

    /// Starts a cell. Returns the number of cells: its own and the empty ones that spans leave
    /// before it.
    pub(super) fn begin_cell(&mut self, is_header: bool) -> usize {
        self.row_has_header |= is_header;
        let mut begun = 1;
        while self.covered.get(self.column).is_some_and(|&rows| rows > 0) {
            self.covered[self.column] -= 1;
            self.column += 1;
            begun += 1;
        }
        begun
    }

    /// Ends a cell. Returns the number of empty cells that follow from its width.
    pub(super) fn end_cell(&mut self, columns: usize, rows: usize) -> usize {
        let columns = columns.clamp(1, MAX_COLUMNS);
        for _ in 0..columns {
            if self.column >= MAX_COLUMNS {
                return 0;
            }
            if self.covered.len() <= self.column {
                self.covered.resize(self.column + 1, 0);
            }
            self.covered[self.column] = rows.saturating_sub(1);
            self.column += 1;
        }
        columns - 1
    }

    /// Ends a written row. Returns the line that must follow a header.
    pub(super) fn end_row(&mut self) -> Option<String> {
        self.rows += 1;
        let is_header = self.row_has_header && self.rows == 1 && !self.separator_written;
        for rows in self.covered.iter_mut().skip(self.column) {
            *rows = rows.saturating_sub(1);
        }
        if !is_header {
            return None;
        }
        self.separator_written = true;
        Some(format!("|{}", "---|".repeat(self.column.clamp(1, MAX_COLUMNS))))
    }
}
