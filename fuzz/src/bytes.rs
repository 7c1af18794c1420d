//! Numbers and texts read from the input of a fuzz target.

/// Reads values from the front of an input. Past its end, every byte is zero.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number from 10^low to 10^high. Its exponent is evenly distributed.
    pub fn decade(&mut self, low: f64, high: f64) -> f64 {
        let share = f64::from(u16::from_le_bytes([self.byte(), self.byte()])) / f64::from(u16::MAX);
        10_f64.powf(low + share * (high - low))
    }

    /// A time of 10^low to 10^high s; zero for one input byte of eight.
    pub fn time_s(&mut self, low: f64, high: f64) -> f64 {
        if self.byte() < 32 { 0.0 } else { self.decade(low, high) }
    }

    /// One of the texts.
    pub fn pick<'b>(&mut self, texts: &[&'b str]) -> &'b str {
        texts[usize::from(self.byte()) % texts.len()]
    }

    /// Text of the input, up to 255 bytes. Invalid UTF-8 is replaced.
    pub fn text(&mut self) -> String {
        let wanted = usize::from(self.byte()).min(self.0.len());
        let (text, rest) = self.0.split_at(wanted);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }
}
