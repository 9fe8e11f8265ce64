//! Which memory a task is about to use: the accesses of its next instructions whose addresses the registers tell.
//!
//! Not much of the processor is played here: enough to go once round a loop whose pointers move along, which is where
//! programs spend their time, and where an interrupt mostly comes just behind the access that took long.

use super::Registers;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register, UsedMemory,
};
use std::collections::{BTreeSet, HashMap};

/// Accesses that are taken of one moment (benches/online-seen.md).
pub(super) const ACCESSES: usize = 8;
/// Instructions that are looked at: what follows them is another moment.
const INSTRUCTIONS: usize = 48;
/// Addresses of programs: what is above is the kernel's (57 bits with five levels of page tables).
pub(super) const USER_ADDRESSES: u64 = 1 << 56;
/// The first page is nobody's.
pub(super) const FIRST_ADDRESS: u64 = 4096;

/// Code of a task around the instruction that it runs next, or from there on.
#[derive(Debug, Clone, Copy)]
pub struct Code<'a> {
    /// The address of the first byte.
    pub start: u64,
    /// As far as it is known.
    pub bytes: &'a [u8],
}

/// An access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) address: u64,
    /// How many bytes, at least 1.
    pub(super) bytes: u64,
    pub(super) writes: bool,
    /// One instruction that writes what it makes of what is there.
    pub(super) updates: bool,
}

/// What a task is about to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment {
    /// The next accesses to memory other than the stack and thread-local storage, the first ones, at most `ACCESSES`.
    pub(super) accesses: Vec<Access>,
    /// It goes round a loop that reads the same places each time and writes nothing: that says nothing of what it works
    /// with.
    pub(super) repeats: bool,
    /// And it computes nothing but how often it has gone round: it goes on until somebody else writes there, if anybody
    /// does.
    pub(super) may_wait: bool,
}

/// Decodes instructions of x86-64.
pub(super) struct Decode {
    factory: InstructionInfoFactory,
}

impl Default for Decode {
    fn default() -> Self {
        Self { factory: InstructionInfoFactory::new() }
    }
}

impl Decode {
    /// What a task does next, as far as `code` goes and what is in the registers of an address is known.
    ///
    /// Of a branch backwards it is taken for granted that it is taken, and that one forwards is not: loops go on.
    pub(super) fn next(&mut self, registers: &Registers, code: &Code) -> Moment {
        let mut known = Known(registers.general.map(Some));
        let mut decoder = Decoder::with_ip(64, code.bytes, code.start, DecoderOptions::NONE);
        let mut accesses = Vec::with_capacity(ACCESSES);
        let (mut next, mut goes_round, mut knows_all) = (registers.instruction, false, true);
        let mut carried = Carried::default();
        for _ in 0..INSTRUCTIONS {
            let at = next.wrapping_sub(code.start);
            if at >= code.bytes.len() as u64 || decoder.set_position(at as usize).is_err() {
                break;
            }
            decoder.set_ip(next);
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                break;
            }
            let info = self.factory.info(&instruction);
            carried.run(&instruction, info);
            for memory in info.used_memory().iter().filter(|memory| is_shareable(memory)) {
                let access = known.access(memory);
                knows_all &= access.is_some();
                accesses.extend(access);
            }
            if accesses.len() >= ACCESSES {
                break;
            }
            next = match instruction.flow_control() {
                FlowControl::Next => instruction.next_ip(),
                FlowControl::ConditionalBranch if instruction.near_branch_target() > instruction.ip() => {
                    instruction.next_ip()
                }
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => instruction.near_branch_target(),
                _ => break,
            };
            goes_round |= next <= instruction.ip();
            let result = known.result(&instruction);
            let written = info.used_registers().iter().filter(|used| writes(used.access()));
            written.filter_map(|used| number(used.register())).for_each(|number| known.0[number] = None);
            if let Some((number, value)) = result {
                known.0[number] = Some(value);
            }
        }
        accesses.truncate(ACCESSES);
        let repeats = goes_round && knows_all && reads_the_same(&accesses);
        Moment { accesses, repeats, may_wait: repeats && !carried.computes && !carried.counts_to_a_bound() }
    }
}

/// What a loop carries from one round to the next in registers: a loop that makes something of it, other than counting,
/// computes.
#[derive(Default)]
struct Carried {
    /// When an instruction was first run, and when a register last got a value that does not come of its own.
    first_run: HashMap<u64, usize>,
    renewed: HashMap<Register, usize>,
    steps: usize,
    computes: bool,
    /// Registers that move along from round to round.
    counts: BTreeSet<Register>,
    /// Those that hold what was loaded from memory.
    loaded: BTreeSet<Register>,
    /// Registers that were compared with what is in memory, or with another that was loaded from there; none where that
    /// was a constant.
    compared: Vec<Option<Register>>,
}

impl Carried {
    /// Whether all that the loop compares with what it reads is what it counts itself: it ends by itself, whoever
    /// writes the bound.
    fn counts_to_a_bound(&self) -> bool {
        let counts = |with: &Option<Register>| with.is_some_and(|register| self.counts.contains(&register));
        !self.compared.is_empty() && self.compared.iter().all(counts)
    }

    /// What the instruction compares with what is in memory, and what it loads.
    fn compare(&mut self, instruction: &Instruction) {
        let register = |operand: u32| {
            (instruction.op_kind(operand) == OpKind::Register).then(|| instruction.op_register(operand).full_register())
        };
        let is_memory = |operand: u32| instruction.op_kind(operand) == OpKind::Memory;
        match instruction.mnemonic() {
            Mnemonic::Cmp | Mnemonic::Test => {
                let of_memory = |operand: u32| {
                    is_memory(operand) || register(operand).is_some_and(|register| self.loaded.contains(&register))
                };
                if let Some(operand) = (0..2).find(|&operand| of_memory(operand)) {
                    self.compared.push(register(1 - operand));
                }
            }
            Mnemonic::Mov | Mnemonic::Movsxd | Mnemonic::Movsx | Mnemonic::Movzx if is_memory(1) => {
                self.loaded.extend(register(0));
            }
            _ => {}
        }
    }

    fn run(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        self.steps += 1;
        self.compare(instruction);
        let first = *self.first_run.entry(instruction.ip()).or_insert(self.steps);
        let used = || info.used_registers().iter().map(|used| (used.register().full_register(), used.access()));
        for (register, _) in used().filter(|(_, access)| writes(*access)) {
            let of_its_own = used().any(|(other, access)| other == register && reads(access));
            if of_its_own && is_a_place_or_count(instruction, register) {
                self.counts.insert(register);
            }
            if !of_its_own {
                self.renewed.insert(register, self.steps);
            } else if first < self.steps && !is_a_place_or_count(instruction, register) {
                self.computes |= self.renewed.get(&register).is_none_or(|&renewed| renewed < first);
            }
        }
    }
}

/// Whether a register that an instruction makes another of says no more than where the program is, or how often it went
/// round.
fn is_a_place_or_count(instruction: &Instruction, register: Register) -> bool {
    let counts = matches!(instruction.mnemonic(), Mnemonic::Inc | Mnemonic::Dec | Mnemonic::Lea)
        || matches!(instruction.mnemonic(), Mnemonic::Add | Mnemonic::Sub)
            && instruction.op_count() == 2
            && !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory);
    counts || register == Register::RSP
}

/// Whether accesses read every place twice and more, and write nothing.
fn reads_the_same(accesses: &[Access]) -> bool {
    let places: BTreeSet<u64> = accesses.iter().map(|access| access.address).collect();
    !accesses.is_empty() && accesses.len() >= 2 * places.len() && !accesses.iter().any(|access| access.writes)
}

/// Whether an operand is memory that may be another's, too: not the thread's stack, as far as that is seen by the
/// register, and not thread-local storage.
fn is_shareable(memory: &UsedMemory) -> bool {
    let is_stack = number(memory.base()) == number(Register::RSP) && memory.base() != Register::None;
    // x86-64 has no other segments with a base (Intel's manual, volume 1, 3.3.4).
    let is_threads = matches!(memory.segment(), Register::FS | Register::GS);
    !is_stack && !is_threads && !matches!(memory.access(), OpAccess::None | OpAccess::NoMemAccess)
}

/// What is in the general registers, by number, as far as it is known.
struct Known([Option<u64>; 16]);

impl Known {
    /// The access of an operand that is shareable, where its address is known and may be a program's.
    fn access(&self, memory: &UsedMemory) -> Option<Access> {
        let value = |register: Register, _, _| match register {
            Register::ES | Register::CS | Register::SS | Register::DS => Some(0),
            // An operand's displacement is its address then.
            Register::RIP | Register::EIP => Some(0),
            register => self.value(register),
        };
        // Of gathers the registers are vectors, which nobody has seen.
        let address = memory.try_virtual_address(0, value);
        let address = address.filter(|address| (FIRST_ADDRESS..USER_ADDRESSES).contains(address))?;
        let bytes = (memory.memory_size().size() as u64).max(1);
        let (reads, writes) = (reads(memory.access()), writes(memory.access()));
        Some(Access { address, bytes, writes, updates: reads && writes })
    }

    fn value(&self, register: Register) -> Option<u64> {
        let value = self.0[number(register)?]?;
        match register.size() {
            8 => Some(value),
            4 => Some(value & u64::from(u32::MAX)),
            _ => None,
        }
    }

    /// What an instruction leaves in the register that it is about, where it is one of the few that move pointers
    /// along.
    fn result(&self, instruction: &Instruction) -> Option<(usize, u64)> {
        if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::Register {
            return None;
        }
        let register = instruction.op0_register();
        let (number, size) = (number(register)?, register.size());
        if size < 4 {
            return None;
        }
        let own = || self.value(register);
        let second = || match instruction.op1_kind() {
            OpKind::Register => self.value(instruction.op1_register()),
            OpKind::Memory => None,
            _ => Some(instruction.immediate(1)),
        };
        let value = match (instruction.mnemonic(), instruction.op_count()) {
            (Mnemonic::Mov, 2) => second()?,
            (Mnemonic::Add, 2) => own()?.wrapping_add(second()?),
            (Mnemonic::Sub, 2) => own()?.wrapping_sub(second()?),
            (Mnemonic::Xor, 2)
                if instruction.op1_kind() == OpKind::Register && instruction.op1_register() == register =>
            {
                0
            }
            (Mnemonic::And, 2) => own()? & second()?,
            (Mnemonic::Shl, 2) => {
                own()?.checked_shl(u32::try_from(second()?).ok()? & if size == 8 { 63 } else { 31 })?
            }
            (Mnemonic::Inc, 1) => own()?.wrapping_add(1),
            (Mnemonic::Dec, 1) => own()?.wrapping_sub(1),
            (Mnemonic::Lea, 2) => instruction.virtual_address(1, 0, |register, _, _| match register {
                Register::ES | Register::CS | Register::SS | Register::DS | Register::FS | Register::GS => Some(0),
                register => self.value(register),
            })?,
            _ => return None,
        };
        Some((number, if size == 8 { value } else { value & u64::from(u32::MAX) }))
    }
}

/// Whether an operand is written, or may be.
fn writes(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
}

/// Whether an operand is read, or may be; of one that is written perhaps, what was there may stay.
fn reads(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::Write | OpAccess::NoMemAccess)
}

/// The number of the general register that a register is, or is a part of.
fn number(register: Register) -> Option<usize> {
    let whole = register.full_register();
    whole.is_gpr64().then(|| whole.number())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEXT: u64 = 0x40_1000;
    /// Above 4 GiB.
    const ABOVE: u64 = 0x7f00_0003_0000;

    /// Register n has n times 0x10000, but for bx.
    fn registers() -> Registers {
        let mut general: [u64; 16] = std::array::from_fn(|number| number as u64 * 0x1_0000);
        general[3] = ABOVE;
        Registers { instruction: NEXT, general }
    }

    /// Of code from `before` bytes before the next instruction on.
    fn accesses(code: &[u8], before: u64) -> Vec<u64> {
        let accesses = Decode::default().next(&registers(), &Code { start: NEXT - before, bytes: code }).accesses;
        accesses.iter().map(|access| access.address).collect()
    }

    #[test]
    fn writing_is_told_from_reading() {
        // mov rax, [rbx]; mov [rbx], rax; add [rbx], rax; lock xadd [rbx], rax; cmp [rbx], rax; prefetcht0 [rbx]; rep
        // stosb.
        let code = [
            &[0x48, 0x8b, 0x03][..],
            &[0x48, 0x89, 0x03],
            &[0x48, 0x01, 0x03],
            &[0xf0, 0x48, 0x0f, 0xc1, 0x03],
            &[0x48, 0x39, 0x03],
            &[0x0f, 0x18, 0x0b],
            &[0xf3, 0xaa],
        ];
        let code = Code { start: NEXT, bytes: &code.concat() };
        let accesses = Decode::default().next(&registers(), &code).accesses;
        let writes: Vec<bool> = accesses.iter().map(|access| access.writes).collect();
        assert_eq!(writes, [false, true, true, true, false, true]);
    }

    #[test]
    fn the_next_accesses_are_found() {
        let rows: [(&str, &[u8], &[u64]); 21] = [
            ("mov rax, [rbx]", &[0x48, 0x8b, 0x03], &[ABOVE]),
            ("mov [rcx + rdx*8 + 0x10], rax", &[0x48, 0x89, 0x44, 0xd1, 0x10], &[0x1_0000 + 8 * 0x2_0000 + 0x10]),
            ("mov eax, [ebx]", &[0x67, 0x8b, 0x03], &[0x3_0000]),
            ("mov rax, [rip + 0x10]", &[0x48, 0x8b, 0x05, 0x10, 0, 0, 0], &[0x40_1017]),
            ("mov rax, [r15 - 8]", &[0x49, 0x8b, 0x47, 0xf8], &[0xf_0000 - 8]),
            ("movsq", &[0x48, 0xa5], &[0x7_0000, 0x6_0000]),
            (
                "mov rax, [rbx]; mov rax, [rax]; mov [rcx], rdx",
                &[0x48, 0x8b, 0x03, 0x48, 0x8b, 0, 0x48, 0x89, 0x11],
                &[ABOVE, 0x1_0000],
            ),
            (
                "imul rbx, rbx, 8; mov rax, [rbx]; mov rax, [rcx]",
                &[0x48, 0x6b, 0xdb, 8, 0x48, 0x8b, 0x03, 0x48, 0x8b, 0x01],
                &[0x1_0000],
            ),
            ("mov bl, 1; mov rax, [rbx]", &[0xb3, 1, 0x48, 0x8b, 0x03], &[]),
            (
                "push rax; mov rax, [rsp + 8]; mov [rcx], rax",
                &[0x50, 0x48, 0x8b, 0x44, 0x24, 8, 0x48, 0x89, 0x01],
                &[0x1_0000],
            ),
            (
                "lea rax, [rbx]; nop [rbx]; mov [rcx], edx",
                &[0x48, 0x8d, 0x03, 0x0f, 0x1f, 0x03, 0x89, 0x11],
                &[0x1_0000],
            ),
            (
                "mov [rcx], edx; jmp +3; mov rax, [rbx]; mov rax, [rbp]",
                &[0x89, 0x11, 0xeb, 3, 0x48, 0x8b, 0x03, 0x48, 0x8b, 0x45, 0],
                &[0x1_0000, 0x5_0000],
            ),
            ("je +3; mov rax, [rbx]", &[0x74, 3, 0x48, 0x8b, 0x03], &[ABOVE]),
            ("jmp away; mov rax, [rbx]", &[0xeb, 0x7f, 0x48, 0x8b, 0x03], &[]),
            ("call +0; mov rax, [rbx]", &[0xe8, 0, 0, 0, 0, 0x48, 0x8b, 0x03], &[]),
            ("mov rax, fs:[rbx]; syscall; mov [rcx], edx", &[0x64, 0x48, 0x8b, 0x03, 0x0f, 0x05, 0x89, 0x11], &[]),
            ("mov rax, [r8 - 0x80000] (nobody's)", &[0x49, 0x8b, 0x80, 0, 0, 0xf8, 0xff], &[]),
            ("vmovapd [rcx], zmm0", &[0x62, 0xf1, 0xfd, 0x48, 0x29, 0x01], &[0x1_0000]),
            (
                "vgatherdpd of indices that nobody knows; mov rax, [rcx]",
                &[0xc4, 0xe2, 0xe9, 0x92, 0x04, 0xc9, 0x48, 0x8b, 0x01],
                &[0x1_0000],
            ),
            ("half of an instruction", &[0x48, 0x8b], &[]),
            ("nothing", &[], &[]),
        ];
        for (text, code, expected) in rows {
            assert_eq!(accesses(code, 0), expected, "{text}");
        }
        // No more than so many of one moment.
        assert_eq!(accesses(&[0x48, 0x8b, 0x03].repeat(2 * ACCESSES), 0), [ABOVE; ACCESSES]);
        assert!(accesses(&[0x48, 0x8b, 0x03], 100).is_empty());
    }

    #[test]
    fn pointers_are_followed_as_they_move_along() {
        // Each changes the register that mov rax, [rbx] then reads through.
        let rows: [(&str, &[u8], u64); 12] = [
            ("add rbx, 8", &[0x48, 0x83, 0xc3, 8], ABOVE + 8),
            ("add rbx, -8", &[0x48, 0x83, 0xc3, 0xf8], ABOVE - 8),
            ("sub rbx, rcx", &[0x48, 0x29, 0xcb], ABOVE - 0x1_0000),
            ("inc rbx", &[0x48, 0xff, 0xc3], ABOVE + 1),
            ("dec rbx", &[0x48, 0xff, 0xcb], ABOVE - 1),
            ("lea rbx, [rcx + rdx*2 + 4]", &[0x48, 0x8d, 0x5c, 0x51, 4], 0x1_0000 + 2 * 0x2_0000 + 4),
            ("mov rbx, rcx", &[0x48, 0x89, 0xcb], 0x1_0000),
            ("mov ebx, ebx", &[0x89, 0xdb], 0x3_0000),
            ("mov ebx, 0x12345", &[0xbb, 0x45, 0x23, 0x01, 0], 0x1_2345),
            ("and ebx, 0x30000", &[0x81, 0xe3, 0, 0, 3, 0], 0x3_0000),
            ("mov rbx, rcx; shl rbx, 4", &[0x48, 0x89, 0xcb, 0x48, 0xc1, 0xe3, 4], 0x10_0000),
            ("xor ebx, ebx; add rbx, rdx", &[0x31, 0xdb, 0x48, 0x01, 0xd3], 0x2_0000),
        ];
        for (text, change, expected) in rows {
            assert_eq!(accesses(&[change, &[0x48, 0x8b, 0x03]].concat(), 0), [expected], "{text}");
        }
        // mov rax, [rbx]; add rbx, 8; cmp rbx, rcx; jne back: interrupted behind the load, or behind the addition.
        let round = [0x48, 0x8b, 0x03, 0x48, 0x83, 0xc3, 8, 0x48, 0x39, 0xcb, 0x75, 0xf4];
        let expected = |first: u64| (0..ACCESSES as u64).map(|time| first + 8 * time).collect::<Vec<u64>>();
        assert_eq!(accesses(&round, 3), expected(ABOVE + 8));
        assert_eq!(accesses(&round, 7), expected(ABOVE));
        // What is before is not known.
        assert!(accesses(&round[10..], 0).is_empty());
        // A loop without an access ends, too: jmp to itself.
        assert!(accesses(&[0xeb, 0xfe], 0).is_empty());
    }

    #[test]
    fn loops_that_may_wait_for_somebody_are_told() {
        let rows: [(&str, &[u8], bool); 18] = [
            ("cmp dword [rbx], 0; je back", &[0x83, 0x3b, 0, 0x74, 0xfb], true),
            (
                "mov eax, [rbx]; lock or qword [rsp], 0; test eax, eax; je back",
                &[0x8b, 0x03, 0xf0, 0x48, 0x83, 0x0c, 0x24, 0, 0x85, 0xc0, 0x74, 0xf4],
                true,
            ),
            (
                "mov eax, [rbx]; cmp eax, ecx; jne out; pause; inc rdx; jmp back",
                &[0x8b, 0x03, 0x39, 0xc8, 0x75, 0x7, 0xf3, 0x90, 0x48, 0xff, 0xc2, 0xeb, 0xf3],
                true,
            ),
            ("mov eax, [rbx]; cmp eax, [rcx]; je back", &[0x8b, 0x03, 0x3b, 0x01, 0x74, 0xfa], true),
            ("mov eax, [rbx]; add rbx, 4; jmp back", &[0x8b, 0x03, 0x48, 0x83, 0xc3, 4, 0xeb, 0xf8], false),
            ("lock xadd [rbx], eax; jmp back", &[0xf0, 0x0f, 0xc1, 0x03, 0xeb, 0xfa], false),
            (
                "add eax, [rbx]; add eax, [rcx]; add rcx, 4; jmp back",
                &[0x03, 0x03, 0x03, 0x01, 0x48, 0x83, 0xc1, 4, 0xeb, 0xf6],
                false,
            ),
            ("mov eax, [rbx]; mov ecx, [rbx] (no loop)", &[0x8b, 0x03, 0x8b, 0x0b], false),
            ("mov rax, [rax]; mov ecx, [rbx]; jmp back (a list)", &[0x48, 0x8b, 0, 0x8b, 0x0b, 0xeb, 0xf9], false),
            ("jmp to itself", &[0xeb, 0xfe], false),
            (
                "mulsd xmm0, xmm1; addsd xmm0, xmm2; inc rax; cmp [rbx], rax; jg back",
                &[0xf2, 0x0f, 0x59, 0xc1, 0xf2, 0x0f, 0x58, 0xc2, 0x48, 0xff, 0xc0, 0x48, 0x39, 0x03, 0x7f, 0xf0],
                false,
            ),
            ("inc rax; cmp [rbx], rax; jg back (a bound)", &[0x48, 0xff, 0xc0, 0x48, 0x39, 0x03, 0x7f, 0xf8], false),
            (
                "mov rdx, [rbx]; cmp rdx, rax; jle out; inc rax; jmp back (a bound)",
                &[0x48, 0x8b, 0x13, 0x48, 0x39, 0xc2, 0x7e, 5, 0x48, 0xff, 0xc0, 0xeb, 0xf3],
                false,
            ),
            (
                "cmp dword [rcx], 0; jne out; inc rax; cmp [rbx], rax; jg back (for a while)",
                &[0x83, 0x39, 0, 0x75, 8, 0x48, 0xff, 0xc0, 0x48, 0x39, 0x03, 0x7f, 0xf3],
                true,
            ),
            ("imul eax, eax, 5; cmp dword [rbx], 0; je back", &[0x6b, 0xc0, 5, 0x83, 0x3b, 0, 0x74, 0xf8], false),
            ("xor eax, ecx; cmp dword [rbx], 0; je back", &[0x31, 0xc8, 0x83, 0x3b, 0, 0x74, 0xf9], false),
            ("add eax, ecx; cmp dword [rbx], 0; je back", &[0x01, 0xc8, 0x83, 0x3b, 0, 0x74, 0xf9], false),
            (
                "mov eax, [rbx]; shl eax, 2; test eax, eax; je back (of what it has read)",
                &[0x8b, 0x03, 0xc1, 0xe0, 2, 0x85, 0xc0, 0x74, 0xf7],
                true,
            ),
        ];
        for (text, code, may_wait) in rows {
            let moment = Decode::default().next(&registers(), &Code { start: NEXT, bytes: code });
            assert_eq!(moment.may_wait, may_wait, "{text}: {moment:?}");
            assert!(moment.repeats || !moment.may_wait, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_are_addresses_are_a_programs(
            bytes in prop::collection::vec(any::<u8>(), 0..256),
            general in any::<[u64; 16]>(),
            before in 0..300u64,
        ) {
            let code = Code { start: general[0].wrapping_sub(before), bytes: &bytes };
            let accesses = Decode::default().next(&Registers { instruction: general[0], general }, &code).accesses;
            prop_assert!(accesses.len() <= ACCESSES);
            let is_a_programs = |access: &Access| (FIRST_ADDRESS..USER_ADDRESSES).contains(&access.address);
            prop_assert!(accesses.iter().all(is_a_programs));
        }
    }
}
