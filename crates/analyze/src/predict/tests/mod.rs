//! The paper's figures, tables of small histories, and comparisons with plain definitions.

mod figures;
mod naive;
mod rules;
mod table;
