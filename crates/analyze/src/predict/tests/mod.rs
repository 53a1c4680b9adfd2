//! The paper's figures, tables of small histories, and comparisons with plain definitions.

mod figures;
mod goals;
mod naive;
mod rules;
mod table;
