//! What the instructions of a segment need before they can begin, and how long each takes: their *flow*.
//!
//! Instructions are taken apart into loads, work and stores, as cores do. Values that move from register to register take
//! no time, and what always gives 0 (`xor eax, eax`) needs nothing. Parts of a register are the register. What goes
//! through x87 and MMX registers is not followed, so such code is taken to be faster than it is.

use crate::segment::Segment;
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// Registers, numbered: 0 is none, which is always there.
pub(crate) const REGISTERS: usize = 64;
const NONE: u8 = 0;
const FIRST_GENERAL: u8 = 1;
const FIRST_VECTOR: u8 = 17;
const FIRST_MASK: u8 = 49;
const FLAGS: u8 = 57;
/// What was loaded, within an instruction; what it is about to store; and what nobody reads.
const LOADED: u8 = 58;
const RESULT: u8 = 59;
const NOWHERE: u8 = 63;

/// A load; its access is recorded; a store; the next part has the next access; the instruction's last part.
pub(crate) const LOADS: u8 = 1;
pub(crate) const RECORDED: u8 = 2;
pub(crate) const STORES: u8 = 4;
pub(crate) const NEXT: u8 = 8;
pub(crate) const LAST: u8 = 16;

/// Loads into vector registers take so many cycles more than others: between Intel's and AMD's cores.
const VECTOR_LOAD: u8 = 2;
/// From what is to be stored to where a load finds it: both together are what forwarding takes.
const STORE: u8 = 1;

/// A part of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub reads: [u8; 4],
    pub writes: [u8; 2],
    /// Cycles; of a load those beyond the L1's.
    pub cycles: u8,
    /// [`LOADS`] and so on, together.
    pub does: u8,
}

/// The parts of a segment's instructions, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub parts: Vec<Part>,
    /// How many instructions they are of.
    pub instructions: u64,
    /// The registers among those that are read or written.
    pub registers: Vec<u8>,
}

impl Flow {
    /// Of a segment; as far as its code is known.
    pub fn of(segment: &Segment) -> Self {
        let mut factory = InstructionInfoFactory::new();
        let mut decoder = Decoder::new(64, &segment.code, DecoderOptions::NONE);
        let mut flow = Self::default();
        let mut accesses = accesses_by_instruction(segment).peekable();
        let mut instruction = Instruction::default();
        while decoder.can_decode() && flow.instructions < u64::from(segment.instructions) {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                break;
            }
            let mut own = Vec::new();
            while let Some((_, access)) = accesses.next_if(|(at, _)| *at <= flow.instructions) {
                own.push(access);
            }
            add(&mut flow.parts, &instruction, factory.info(&instruction), &own);
            flow.instructions += 1;
        }
        let all = flow.parts.iter().flat_map(|part| part.reads.iter().chain(&part.writes));
        flow.registers = all.copied().filter(|&register| register != NONE && register != NOWHERE).collect();
        flow.registers.sort_unstable();
        flow.registers.dedup();
        flow
    }
}

/// The instruction that each access is of, and whether it reads and writes.
fn accesses_by_instruction(segment: &Segment) -> impl Iterator<Item = (u64, (bool, bool))> + '_ {
    let (mut behind, last) = (0u64, segment.accesses.len().wrapping_sub(1));
    segment.accesses.iter().enumerate().map(move |(number, access)| {
        behind += u64::from(access.instructions);
        // The last access counts those behind it as its own.
        let behind = if number == last { behind.saturating_sub(segment.behind.into()) } else { behind };
        (behind.saturating_sub(1), (access.kind.reads(), access.kind.writes()))
    })
}

/// The registers of an instruction, by what they are for.
#[derive(Default)]
struct Used {
    address: Vec<u8>,
    /// Read, but for addresses.
    read: Vec<u8>,
    written: Vec<u8>,
    loads: bool,
    stores: bool,
}

impl Used {
    fn of(instruction: &Instruction, info: &InstructionInfo) -> Self {
        let mut used = Self::default();
        let put = |to: &mut Vec<u8>, register: u8| {
            if register != NONE && !to.contains(&register) {
                to.push(register);
            }
        };
        for memory in info.used_memory().iter().filter(|memory| is_access(memory.access())) {
            put(&mut used.address, number(memory.base()));
            put(&mut used.address, number(memory.index()));
            used.loads |= reads(memory.access());
            used.stores |= writes(memory.access());
        }
        // Pushes, calls and what takes back leave the stack's register where it would be without waiting for it.
        let of_stack = if instruction.is_stack_instruction() { number(Register::RSP) } else { NONE };
        for register in info.used_registers() {
            let known = number(register.register());
            let partial = register.register().is_gpr8() || register.register().is_gpr16();
            let is_operand = || {
                (0..instruction.op_count()).any(|operand| {
                    instruction.op_kind(operand) == OpKind::Register
                        && number(instruction.op_register(operand)) == known
                })
            };
            let only_address = used.address.contains(&known) && !is_operand();
            if (reads(register.access()) && !only_address || writes(register.access()) && partial) && known != of_stack
            {
                put(&mut used.read, known);
            }
            if writes(register.access()) && known != of_stack {
                put(&mut used.written, known);
            }
        }
        if instruction.rflags_read() != 0 {
            put(&mut used.read, FLAGS);
        }
        if instruction.rflags_modified() != 0 {
            put(&mut used.written, FLAGS);
        }
        if gives_zero(instruction) {
            used.read.clear();
        }
        used
    }
}

fn add(parts: &mut Vec<Part>, instruction: &Instruction, info: &InstructionInfo, accesses: &[(bool, bool)]) {
    let used = Used::of(instruction, info);
    let (moves, cycles) = class(instruction);
    let loads = if accesses.is_empty() { usize::from(used.loads) } else { 0 };
    let (mut kept, mut last_load) = (Vec::new(), None);
    // Accesses that the recording has, in its order; of others that something is loaded.
    let recorded = accesses.iter().map(|&access| (access, RECORDED));
    let others = std::iter::repeat_n(((true, false), 0), loads);
    for ((is_read, is_written), recorded) in recorded.chain(others) {
        let next = if recorded != 0 && !(is_read && is_written) { NEXT } else { 0 };
        if is_read {
            last_load = Some(parts.len());
            work(parts, &used.address, &[LOADED], 0, LOADS | recorded | next);
        } else {
            kept.push(next);
        }
        if is_read && is_written {
            kept.push(NEXT);
        }
    }
    let vector = used.written.iter().any(|register| (FIRST_VECTOR..FIRST_MASK).contains(register));
    match last_load {
        // A move from memory is the load and no more.
        Some(load) if moves && kept.is_empty() => {
            let into = used.written.first().copied().unwrap_or(NOWHERE);
            parts[load].writes = [into, used.written.get(1).copied().unwrap_or(NOWHERE)];
            parts[load].cycles = if vector { VECTOR_LOAD } else { 0 };
        }
        _ => {
            let mut read = used.read.clone();
            if let Some(load) = last_load {
                read.push(LOADED);
                let of_vectors = used.read.iter().any(|register| (FIRST_VECTOR..FIRST_MASK).contains(register));
                parts[load].cycles = if vector || of_vectors { VECTOR_LOAD } else { 0 };
            }
            let stores = !kept.is_empty();
            if stores && moves {
                store(parts, &used, &read, &kept);
            } else {
                let mut written = used.written.clone();
                if stores {
                    written.push(RESULT);
                }
                work(parts, &read, &written, cycles, 0);
                if stores {
                    store(parts, &used, &[RESULT], &kept);
                }
            }
        }
    }
    if let Some(part) = parts.last_mut() {
        part.does |= LAST;
    }
}

fn store(parts: &mut Vec<Part>, used: &Used, values: &[u8], kept: &[u8]) {
    let needs = [values, &used.address].concat();
    for next in kept {
        work(parts, &needs, &[], STORE, STORES | RECORDED | next);
    }
}

/// As many parts as it takes to read and write so many registers; what it does is done by the last that reads.
fn work(parts: &mut Vec<Part>, reads: &[u8], writes: &[u8], cycles: u8, does: u8) {
    let mut reads = reads.to_vec();
    let part = |reads: &[u8], writes: &[u8], cycles, does| {
        let read = |at: usize| reads.get(at).copied().unwrap_or(NONE);
        let write = |at: usize| writes.get(at).copied().unwrap_or(NOWHERE);
        Part { reads: [read(0), read(1), read(2), read(3)], writes: [write(0), write(1)], cycles, does }
    };
    while reads.len() > 4 {
        let some: Vec<u8> = reads.drain(..4).collect();
        parts.push(part(&some, &[RESULT], 0, 0));
        reads.push(RESULT);
    }
    parts.push(part(&reads, &writes[..writes.len().min(2)], cycles, does));
    for more in writes.get(2..).unwrap_or(&[]).chunks(2) {
        parts.push(part(&writes[..1], more, 0, 0));
    }
}

fn is_access(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::NoMemAccess)
}

fn reads(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::Write | OpAccess::NoMemAccess)
}

fn writes(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
}

/// The number of the register that a register is, or is a part of.
fn number(register: Register) -> u8 {
    let whole = register.full_register();
    match () {
        () if whole.is_gpr64() => FIRST_GENERAL + whole.number() as u8,
        () if whole.is_zmm() => FIRST_VECTOR + whole.number() as u8,
        () if whole.is_k() => FIRST_MASK + whole.number() as u8,
        () => NONE,
    }
}

/// Whether the result is 0, or all ones, whatever the registers hold.
fn gives_zero(instruction: &Instruction) -> bool {
    let count = instruction.op_count();
    let register =
        |operand: u32| (instruction.op_kind(operand) == OpKind::Register).then(|| instruction.op_register(operand));
    let same = count >= 2 && register(count - 1).is_some() && register(count - 1) == register(count - 2);
    same && matches!(
        instruction.mnemonic(),
        Mnemonic::Xor
            | Mnemonic::Sub
            | Mnemonic::Pxor
            | Mnemonic::Xorps
            | Mnemonic::Xorpd
            | Mnemonic::Vpxor
            | Mnemonic::Vpxord
            | Mnemonic::Vpxorq
            | Mnemonic::Vxorps
            | Mnemonic::Vxorpd
            | Mnemonic::Psubb
            | Mnemonic::Psubw
            | Mnemonic::Psubd
            | Mnemonic::Psubq
            | Mnemonic::Vpsubb
            | Mnemonic::Vpsubw
            | Mnemonic::Vpsubd
            | Mnemonic::Vpsubq
            | Mnemonic::Pcmpeqb
            | Mnemonic::Pcmpeqw
            | Mnemonic::Pcmpeqd
            | Mnemonic::Vpcmpeqb
            | Mnemonic::Vpcmpeqw
            | Mnemonic::Vpcmpeqd
    )
}

/// Whether it moves a value as it is, and how many cycles it takes otherwise: typical of recent cores (Zen 3 and Ice Lake,
/// of the two the shorter, since the whole is a lower bound).
fn class(instruction: &Instruction) -> (bool, u8) {
    use Mnemonic as M;
    let mnemonic = instruction.mnemonic();
    // What a lock costs goes through the cache.
    if instruction.has_lock_prefix() {
        return (false, 8);
    }
    let cycles = match mnemonic {
        M::Mov | M::Push | M::Pop | M::Call | M::Ret | M::Jmp | M::Nop | M::Endbr64 | M::Leave => return (true, 0),
        M::Xchg if instruction.op_kinds().any(|kind| kind == OpKind::Memory) => 8,
        M::Movzx | M::Movsx | M::Movsxd => {
            let loads = instruction.op_kind(1) == OpKind::Memory;
            return (loads, if loads { 0 } else { 1 });
        }
        M::Lea => {
            let three = instruction.memory_base() != Register::None
                && instruction.memory_index() != Register::None
                && (instruction.memory_displacement64() != 0 || instruction.memory_index_scale() > 1);
            if three { 2 } else { 1 }
        }
        M::Imul | M::Mul | M::Mulx | M::Pdep | M::Pext | M::Crc32 | M::Shld | M::Shrd => 3,
        M::Bsf | M::Bsr => 3,
        M::Div | M::Idiv => match instruction.op_kind(0) == OpKind::Register && instruction.op0_register().is_gpr64() {
            true => 12,
            false => 9,
        },
        _ => return named(&format!("{mnemonic:?}").to_ascii_lowercase(), instruction),
    };
    (false, cycles)
}

/// The same of vector instructions, by their names.
fn named(name: &str, instruction: &Instruction) -> (bool, u8) {
    let name = name.strip_prefix('v').unwrap_or(name);
    let begins = |with: &[&str]| with.iter().any(|with| name.starts_with(with));
    let of_floats = ["ss", "sd", "ps", "pd"].iter().any(|end| name.ends_with(end));
    let of_doubles = ["sd", "pd"].iter().any(|end| name.ends_with(end));
    let general = |operand: u32| {
        operand < instruction.op_count()
            && instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand).is_gpr()
    };
    let of_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
    match () {
        // To and from general registers.
        () if begins(&["movd", "movq", "pextr", "pinsr"]) && (general(0) || general(1) || general(2)) => (false, 2),
        // Of two registers the scalar ones keep the other half.
        () if begins(&["movss", "movsd"]) => (of_memory, if of_memory { 0 } else { 1 }),
        () if begins(&["movap", "movup", "movdqa", "movdqu", "movd", "movq", "movnt", "lddqu"])
            && name != "movddup" =>
        {
            (true, 0)
        }
        () if begins(&["broadcast", "movddup"]) => (of_memory, if of_memory { 0 } else { 1 }),
        () if begins(&["fmadd", "fmsub", "fnmadd", "fnmsub"]) => (false, 4),
        () if of_floats && begins(&["div"]) => (false, if of_doubles { 13 } else { 10 }),
        () if of_floats && begins(&["sqrt"]) => (false, if of_doubles { 15 } else { 12 }),
        () if of_floats && begins(&["hadd", "hsub", "dp"]) => (false, 6),
        () if of_floats && begins(&["add", "sub", "mul", "round", "rcp", "rsqrt", "scalef"]) => (false, 3),
        () if begins(&["cvt"]) => (false, if general(0) || general(1) || general(2) { 6 } else { 3 }),
        () if begins(&["comis", "ucomis", "movmsk", "pmovmsk", "ptest", "testp"]) => (false, 2),
        () if begins(&["pmul", "pmadd", "psadbw"]) => (false, 3),
        () if begins(&["perm2", "permpd", "permq", "permd", "permps", "extractf", "extracti"]) => (false, 2),
        () => (false, 1),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::AccessKind;
    use crate::segment::{Owner, SegmentAccess};

    /// A segment of code whose accesses are of these instructions.
    pub(crate) fn segment(code: &[&[u8]], accesses: &[(u32, AccessKind)]) -> Segment {
        let (mut before, mut made) = (0, Vec::new());
        for (number, &(at, kind)) in accesses.iter().enumerate() {
            let instructions = at + 1 - before;
            before = at + 1;
            made.push(SegmentAccess {
                anchor: number as u16,
                offset: 0,
                size_bytes: 8,
                kind,
                atomic: false,
                unconditional: false,
                instructions,
            });
        }
        let instructions = code.len() as u32;
        let behind = if made.is_empty() { 0 } else { instructions - before };
        if let Some(last) = made.last_mut() {
            last.instructions += behind;
        }
        Segment {
            pc: 0x40_0000,
            owner: Owner::Program,
            code_bytes: code.iter().map(|bytes| bytes.len() as u32).sum(),
            instructions,
            anchors: accesses.len() as u32,
            accesses: made,
            code: code.concat(),
            behind,
        }
    }

    fn general(number: u8) -> u8 {
        FIRST_GENERAL + number
    }

    fn vector(number: u8) -> u8 {
        FIRST_VECTOR + number
    }

    /// Of one instruction: of each of its parts what it reads, what it writes, cycles.
    fn parts(code: &[u8], kinds: &[AccessKind]) -> Vec<(Vec<u8>, Vec<u8>, u8)> {
        let accesses: Vec<_> = kinds.iter().map(|&kind| (0, kind)).collect();
        let mut segment = segment(&[code], &accesses[..accesses.len().min(1)]);
        for &kind in kinds.iter().skip(1) {
            let first = segment.accesses[0];
            segment.accesses.push(SegmentAccess { kind, instructions: 0, ..first });
        }
        let flow = Flow::of(&segment);
        assert_eq!(flow.instructions, 1, "{code:x?}");
        let known = |registers: &[u8]| -> Vec<u8> {
            let mut known: Vec<u8> =
                registers.iter().copied().filter(|&register| register != NONE && register != NOWHERE).collect();
            known.sort_unstable();
            known
        };
        flow.parts.iter().map(|part| (known(&part.reads), known(&part.writes), part.cycles)).collect()
    }

    #[test]
    fn instructions_need_what_they_read() {
        use AccessKind::{Read, ReadWrite, Write};
        let (rax, rbx, rcx, rsp) = (general(0), general(3), general(1), general(4));
        let one = |reads: &[u8], writes: &[u8], cycles| vec![(reads.to_vec(), writes.to_vec(), cycles)];
        for (text, code, kinds, expected) in [
            ("add rax, rbx", &[0x48u8, 0x01, 0xd8][..], &[][..], one(&[rax, rbx], &[rax, FLAGS], 1)),
            ("xor eax, eax", &[0x31, 0xc0], &[], one(&[], &[rax, FLAGS], 1)),
            ("mov rax, rbx", &[0x48, 0x89, 0xd8], &[], one(&[rbx], &[rax], 0)),
            ("mov al, bl", &[0x88, 0xd8], &[], one(&[rax, rbx], &[rax], 0)),
            ("lea rax, [rbx + rcx*8 + 8]", &[0x48, 0x8d, 0x44, 0xcb, 8], &[], one(&[rcx, rbx], &[rax], 2)),
            ("imul rax, rbx", &[0x48, 0x0f, 0xaf, 0xc3], &[], one(&[rax, rbx], &[rax, FLAGS], 3)),
            ("mov rax, [rbx]", &[0x48, 0x8b, 0x03], &[Read], one(&[rbx], &[rax], 0)),
            ("mov rax, [rbx], of which nothing is recorded", &[0x48, 0x8b, 0x03], &[], one(&[rbx], &[rax], 0)),
            ("mov [rbx], rax", &[0x48, 0x89, 0x03], &[Write], one(&[rax, rbx], &[], 1)),
            ("push rax", &[0x50], &[Write], one(&[rax, rsp], &[], 1)),
            ("pop rax", &[0x58], &[Read], one(&[rsp], &[rax], 0)),
            ("jne", &[0x75, 0], &[], one(&[FLAGS], &[], 1)),
            ("addsd xmm0, xmm1", &[0xf2, 0x0f, 0x58, 0xc1], &[], one(&[vector(0), vector(1)], &[vector(0)], 3)),
            ("pxor xmm1, xmm1", &[0x66, 0x0f, 0xef, 0xc9], &[], one(&[], &[vector(1)], 1)),
            ("vfmadd231sd xmm0, xmm1, xmm2", &[0xc4, 0xe2, 0xf1, 0xb9, 0xc2], &[], one(&[17, 18, 19], &[17], 4)),
            ("divsd xmm0, xmm1", &[0xf2, 0x0f, 0x5e, 0xc1], &[], one(&[17, 18], &[17], 13)),
            ("movsd xmm0, [rbx]", &[0xf2, 0x0f, 0x10, 0x03], &[Read], one(&[rbx], &[17], VECTOR_LOAD)),
            ("movsd [rbx], xmm0", &[0xf2, 0x0f, 0x11, 0x03], &[Write], one(&[rbx, 17], &[], 1)),
            ("movapd xmm0, xmm1", &[0x66, 0x0f, 0x28, 0xc1], &[], one(&[18], &[17], 0)),
            ("cvttsd2si eax, xmm0", &[0xf2, 0x0f, 0x2c, 0xc0], &[], one(&[17], &[rax], 6)),
            (
                "add rax, [rbx]",
                &[0x48, 0x03, 0x03],
                &[Read],
                vec![(vec![rbx], vec![LOADED], 0), (vec![rax, LOADED], vec![rax, FLAGS], 1)],
            ),
            (
                "add [rbx], rax",
                &[0x48, 0x01, 0x03],
                &[ReadWrite],
                vec![
                    (vec![rbx], vec![LOADED], 0),
                    (vec![rax, LOADED], vec![FLAGS, RESULT], 1),
                    (vec![rbx, RESULT], vec![], 1),
                ],
            ),
            (
                "mulsd xmm0, [rbx]",
                &[0xf2, 0x0f, 0x59, 0x03],
                &[Read],
                vec![(vec![rbx], vec![LOADED], VECTOR_LOAD), (vec![17, LOADED], vec![17], 3)],
            ),
        ] {
            assert_eq!(parts(code, kinds), expected, "{text}");
        }
    }

    #[test]
    fn whatever_is_recorded_of_code_is_no_reason_to_panic() {
        let mut state = 1u64;
        for round in 0..3000 {
            let mut bytes = Vec::new();
            for _ in 0..round % 40 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                bytes.push((state >> 56) as u8);
            }
            let mut segment = segment(&[&bytes], &[(0, AccessKind::Write)]);
            segment.instructions = round % 9;
            segment.behind = (state >> 60) as u32;
            segment.accesses[0].instructions = (state >> 58) as u32;
            let flow = Flow::of(&segment);
            assert!(flow.instructions <= u64::from(segment.instructions));
            assert!(flow.parts.iter().all(|part| part.reads.iter().chain(&part.writes).all(|&r| r < 64)));
        }
    }
}
