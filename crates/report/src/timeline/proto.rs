//! As much of protocol buffers as a timeline needs: a message is built field by field and put into its parent.

/// A message in the making.
#[derive(Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

impl Message {
    /// A whole number.
    pub(super) fn number(&mut self, field: u64, value: u64) -> &mut Message {
        self.varint(field << 3 | VARINT);
        self.varint(value);
        self
    }

    /// A whole number of eight bytes.
    pub(super) fn fixed(&mut self, field: u64, value: u64) -> &mut Message {
        self.varint(field << 3 | FIXED64);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Text.
    pub(super) fn text(&mut self, field: u64, value: &str) -> &mut Message {
        self.field(field, value.as_bytes())
    }

    /// Another message.
    pub(super) fn message(&mut self, field: u64, value: &Message) -> &mut Message {
        self.field(field, &value.bytes)
    }

    /// What was built.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn field(&mut self, field: u64, value: &[u8]) -> &mut Message {
        self.varint(field << 3 | BYTES);
        self.varint(value.len() as u64);
        self.bytes.extend(value);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_the_format_says() {
        let mut inner = Message::default();
        inner.number(1, 150);
        assert_eq!(inner.bytes(), [0x08, 0x96, 0x01]);
        let mut outer = Message::default();
        outer.message(3, &inner).text(2, "testing").fixed(47, 1);
        let mut expected = vec![0x1a, 0x03, 0x08, 0x96, 0x01, 0x12, 0x07];
        expected.extend(b"testing");
        expected.extend([0xf9, 0x02, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(outer.bytes(), expected);
        let mut most = Message::default();
        most.number(1, u64::MAX);
        assert_eq!(most.bytes().len(), 11);
    }
}
