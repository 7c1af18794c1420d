//! Instructions of BPF, and jumps to named labels.

use std::collections::BTreeMap;

/// A register.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reg(pub u8);

/// BPF_LDX | BPF_MEM with the size of the value read: one, two, four bytes.
pub(super) const BYTE: u8 = 0x71;
pub(super) const HALF: u8 = 0x69;
pub(super) const WORD: u8 = 0x61;
/// BPF_JMP | BPF_K with BPF_JEQ and BPF_JNE.
const EQUAL: u8 = 0x15;
const UNEQUAL: u8 = 0x55;
/// BPF_JMP | BPF_X | BPF_JGT.
const ABOVE: u8 = 0x2d;
/// BPF_ALU64 with BPF_MOV (immediate, register) and BPF_ADD (immediate).
const MOVE_VALUE: u8 = 0xb7;
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;
/// BPF_STX | BPF_MEM | BPF_DW.
const STORE: u8 = 0x7b;
/// BPF_LD | BPF_IMM | BPF_DW, of two words; its source register marks the value as a map's descriptor.
const LOAD_LONG: u8 = 0x18;
const MAP: u8 = 1;
/// BPF_JMP with BPF_JA, BPF_CALL and BPF_EXIT.
const GO: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// A program under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    words: Vec<u64>,
    /// Index and label of each jump. `finish` fills in the distances.
    jumps: Vec<(usize, &'static str)>,
    places: BTreeMap<&'static str, usize>,
}

impl Assembler {
    /// Appends an instruction: code, destination and source register, offset, value.
    fn add(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        let registers = if cfg!(target_endian = "little") { (from << 4) | to } else { (to << 4) | from };
        let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), value.to_ne_bytes());
        self.words.push(u64::from_ne_bytes([code, registers, a, b, c, d, e, f]));
    }

    fn jump(&mut self, code: u8, left: u8, right: u8, value: i32, to: &'static str) {
        self.jumps.push((self.words.len(), to));
        self.add(code, left, right, 0, value);
    }

    pub(super) fn read(&mut self, size: u8, to: Reg, from: Reg, offset: i16) {
        self.add(size, to.0, from.0, offset, 0);
    }

    /// Writes eight bytes.
    pub(super) fn store(&mut self, to: Reg, from: Reg) {
        self.add(STORE, to.0, from.0, 0, 0);
    }

    pub(super) fn set(&mut self, to: Reg, value: i32) {
        self.add(MOVE_VALUE, to.0, 0, 0, value);
    }

    pub(super) fn set_map(&mut self, to: Reg, map: i32) {
        self.add(LOAD_LONG, to.0, MAP, 0, map);
        self.words.push(0);
    }

    pub(super) fn copy(&mut self, to: Reg, from: Reg) {
        self.add(MOVE, to.0, from.0, 0, 0);
    }

    pub(super) fn increase(&mut self, to: Reg, by: i32) {
        self.add(ADD, to.0, 0, 0, by);
    }

    pub(super) fn call(&mut self, function: i32) {
        self.add(CALL, 0, 0, 0, function);
    }

    pub(super) fn exit(&mut self) {
        self.add(EXIT, 0, 0, 0, 0);
    }

    pub(super) fn go(&mut self, to: &'static str) {
        self.jump(GO, 0, 0, 0, to);
    }

    pub(super) fn go_if_equal(&mut self, left: Reg, value: i32, to: &'static str) {
        self.jump(EQUAL, left.0, 0, value, to);
    }

    pub(super) fn go_unless_equal(&mut self, left: Reg, value: i32, to: &'static str) {
        self.jump(UNEQUAL, left.0, 0, value, to);
    }

    pub(super) fn go_if_above(&mut self, left: Reg, right: Reg, to: &'static str) {
        self.jump(ABOVE, left.0, right.0, 0, to);
    }

    /// Makes the next instruction the target of jumps to `name`.
    pub(super) fn place(&mut self, name: &'static str) {
        self.places.insert(name, self.words.len());
    }

    /// Returns the instructions. A jump to an unknown label goes 32,768 instructions back, which the kernel refuses.
    pub(super) fn finish(mut self) -> Vec<u64> {
        for (at, to) in self.jumps {
            let distance = self.places.get(to).map_or(i16::MIN, |place| *place as i16 - at as i16 - 1);
            let mut bytes = self.words[at].to_ne_bytes();
            bytes[2..4].copy_from_slice(&distance.to_ne_bytes());
            self.words[at] = u64::from_ne_bytes(bytes);
        }
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_as_the_kernel_documents_them() {
        let mut program = Assembler::default();
        program.go_unless_equal(Reg(5), 17, "end");
        program.set_map(Reg(1), 7);
        program.set(Reg(0), 2);
        program.place("end");
        program.exit();
        let expected: [[u8; 8]; 5] = [
            // Jumps over three words: two of `set_map`, one of `set`.
            [0x55, 5, 3, 0, 17, 0, 0, 0],
            [0x18, 0x11, 0, 0, 7, 0, 0, 0],
            [0; 8],
            [0xb7, 0, 0, 0, 2, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(program.finish(), expected.map(u64::from_ne_bytes));
    }
}
