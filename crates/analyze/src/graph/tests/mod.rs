//! Graphs held against the paper's figures and against plain definitions.

mod algebra;
mod figures;
mod machine;
mod ranks;
mod text;
