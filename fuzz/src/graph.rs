//! `graph_reader`: reads a file of a graph, and what was read must come back.

use selvedge_analyze::graph::file::{from_bytes, to_bytes};
use selvedge_events::bytes::checksum;

/// Reads the bytes as a file, as they are and with a checksum that fits.
pub fn exercise(bytes: &[u8]) {
    read(bytes);
    if let Some((body, _)) = bytes.split_last_chunk::<8>() {
        let mut whole = body.to_vec();
        whole.extend_from_slice(&checksum(body).to_le_bytes());
        read(&whole);
    }
}

fn read(bytes: &[u8]) {
    match from_bytes(bytes) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(graph) => {
            assert_eq!(from_bytes(&to_bytes(&graph)).as_ref(), Ok(&graph), "what was written is read");
            let double = graph.union(&graph).expect("a graph is like itself");
            assert_eq!(double.edges().len(), graph.edges().len());
            assert!(double.difference(&graph).expect("alike").edges().is_empty());
        }
    }
}
