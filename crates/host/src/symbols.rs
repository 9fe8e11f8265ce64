//! Names for addresses: the data object that lies there, or the function and line of code.
//!
//! Modules are where they were seen mapped; names come from their symbol tables (ELF) and lines from their
//! debug information (DWARF), the file's own or the separate one that it names. Where a file has neither, or is gone,
//! a module and an offset in it are what is left.

use addr2line::Loader;
use object::elf::R_X86_64_JUMP_SLOT;
use object::{
    File, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget, SectionKind,
    SymbolKind,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// Debug information of larger files is not read: it would take longer than the run.
const FILE_LIMIT_BYTES: u64 = 4 << 30;

/// A file that is or was mapped for execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// Its path.
    pub path: String,
    /// The first address.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
    /// The address that its own tables give the first one.
    pub preferred: u64,
    /// Whether it is mapped no more.
    pub unloaded: bool,
}

/// A place in code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Function, demangled, or module and offset.
    pub function: String,
    /// `file:line`, or empty.
    pub line: String,
}

/// A place in data: the object that lies there, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPlace {
    /// The object's name, or how it was allocated.
    pub name: String,
    /// The address, counted from the object's first byte.
    pub offset: i64,
    /// The object's length, 0 where that is not known.
    pub bytes: u64,
}

/// The files that have been looked into.
#[derive(Default)]
pub struct Symbols {
    binaries: HashMap<String, Binary>,
}

/// What is known of one file.
#[derive(Default)]
struct Binary {
    code: Option<Loader>,
    /// Address as linked, length and name of each data object, by address.
    data: Vec<(u64, u64, String)>,
    /// Length of the function that begins at an address as linked, where the symbol table says it.
    functions: HashMap<u64, u64>,
    /// Sections of code: the first address as linked, and the one behind the last.
    code_sections: Vec<Range<u64>>,
    /// What calls a function of another file, by the address as linked at which it begins, and that function's name.
    stubs: HashMap<u64, String>,
}

/// Of an entry of the procedure linkage table (System V ABI, AMD64 supplement, 5.2).
const STUB_BYTES: u64 = 16;

/// The entries of the procedure linkage table: of `.plt`, whose first looks functions up, and of `.plt.sec`, which there
/// is where branches may only go to marked instructions.
fn stubs(file: &File<'_>) -> HashMap<u64, String> {
    let slots = file.dynamic_relocations().into_iter().flatten().filter_map(|(_, relocation)| {
        let RelocationFlags::Elf { r_type: R_X86_64_JUMP_SLOT } = relocation.flags() else { return None };
        let RelocationTarget::Symbol(index) = relocation.target() else { return Some(None) };
        let symbol = file.dynamic_symbol_table()?.symbol_by_index(index).ok();
        Some(symbol.and_then(|symbol| Some(demangled(symbol.name().ok()?))))
    });
    let begins = |name: &str| Some(file.section_by_name(name)?.address());
    let (lazy, direct) = (begins(".plt"), begins(".plt.sec"));
    let mut stubs = HashMap::new();
    for (number, name) in (0..).zip(slots) {
        let Some(name) = name else { continue };
        let lazy = lazy.map(|start| start + (number + 1) * STUB_BYTES);
        let direct = direct.map(|start| start + number * STUB_BYTES);
        stubs.extend(lazy.into_iter().chain(direct).map(|address| (address, format!("{name}@plt"))));
    }
    stubs
}

impl Symbols {
    /// The code at `address` (of an instruction; for a return address give the byte before it).
    pub fn code(&mut self, modules: &[Module], address: u64) -> Place {
        let Some((path, linked)) = locate(modules, address) else {
            return Place { function: format!("{address:#x}, outside every file"), line: String::new() };
        };
        let binary = self.binary(&path);
        binary.place(linked).unwrap_or_else(|| Place { function: offset_in(&path, linked), line: String::new() })
    }

    /// The data object at `address`; none where no file is mapped there. Where no symbol is known the file is the
    /// object, with the address that its own tables have as the offset.
    pub fn data(&mut self, modules: &[Module], address: u64) -> Option<DataPlace> {
        let (path, linked) = locate(modules, address)?;
        let data = &self.binary(&path).data;
        let next = data.partition_point(|&(start, ..)| start <= linked);
        // Of objects that begin at the same place any name will do; one that ends before it is not there.
        let found = data[..next].iter().rev().take(8).find(|(start, length, _)| linked - start < *length);
        Some(match found {
            Some((start, bytes, name)) => DataPlace {
                name: format!("{name} in {}", base_name(&path)),
                offset: (linked - start) as i64,
                bytes: *bytes,
            },
            None => DataPlace { name: base_name(&path).to_owned(), offset: linked as i64, bytes: 0 },
        })
    }

    /// The file that is mapped at `address`, and the address that its own tables have.
    pub fn file(modules: &[Module], address: u64) -> Option<(String, u64)> {
        let (path, linked) = locate(modules, address)?;
        Some((base_name(&path).to_owned(), linked))
    }

    fn binary(&mut self, path: &str) -> &Binary {
        self.binaries.entry(path.to_owned()).or_insert_with(|| Binary::open(Path::new(path)).unwrap_or_default())
    }
}

impl Binary {
    /// None where the file is gone, too large, or no program.
    fn open(path: &Path) -> Option<Self> {
        let length = path.metadata().ok().filter(fs::Metadata::is_file)?.len();
        if length > FILE_LIMIT_BYTES {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let symbols = file.symbols().chain(file.dynamic_symbols());
        let objects = symbols.filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.size() > 0);
        let objects =
            objects.filter_map(|symbol| Some((symbol.address(), symbol.size(), demangled(symbol.name().ok()?))));
        let mut data: Vec<_> = objects.collect();
        data.sort_unstable();
        data.dedup_by_key(|&mut (start, length, _)| (start, length));
        let mut functions = HashMap::new();
        let symbols = file.symbols().chain(file.dynamic_symbols());
        for symbol in symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
            let length: &mut u64 = functions.entry(symbol.address()).or_default();
            *length = symbol.size().max(*length);
        }
        let sections = file.sections().filter(|section| section.kind() == SectionKind::Text);
        let code_sections = sections.map(|section| section.address()..section.address() + section.size()).collect();
        Some(Self { code: Loader::new(path).ok(), data, functions, code_sections, stubs: stubs(&file) })
    }

    /// Of functions that are inlined into one another, the innermost that is not a library's.
    fn place(&self, linked: u64) -> Option<Place> {
        let code = self.code.as_ref()?;
        let mut places = Vec::new();
        if let Ok(mut frames) = code.find_frames(linked) {
            while let Ok(Some(frame)) = frames.next() {
                let function = frame.function.and_then(|function| Some(demangled(&function.raw_name().ok()?)));
                let location = frame.location.as_ref();
                let line = match location.map(|location| (location.file, location.line)) {
                    Some((Some(file), Some(line))) => format!("{file}:{line}"),
                    Some((Some(file), None)) => file.to_owned(),
                    _ => String::new(),
                };
                places.push((function, line));
            }
        }
        let own = places.iter().position(|(function, line)| function.is_some() && !is_library(line)).unwrap_or(0);
        let (function, line) = places.into_iter().nth(own).unwrap_or_default();
        Some(Place { function: function.or_else(|| self.function(linked))?, line })
    }

    /// The function that the symbol table has there. What lies behind its end is another one, of which a stripped file
    /// has no name: the C library's memcpy, for one.
    fn function(&self, linked: u64) -> Option<String> {
        if let Some(name) = self.stubs.get(&(linked / STUB_BYTES * STUB_BYTES)) {
            return Some(name.clone());
        }
        let symbol = self.code.as_ref()?.find_symbol_info(linked)?;
        let ended = self.functions.get(&symbol.address()).is_some_and(|length| linked - symbol.address() >= *length);
        let section = self.code_sections.iter().find(|section| section.contains(&linked));
        let elsewhere = section.is_some_and(|section| !section.contains(&symbol.address()));
        (!ended && !elsewhere).then(|| demangled(symbol.name()))
    }
}

/// Whether the source belongs to a compiler or its library: its lines say little to whoever wrote the program.
fn is_library(file: &str) -> bool {
    ["/rustc/", "/usr/include/", "/usr/lib/"].iter().any(|folder| file.starts_with(folder))
}

/// The file mapped at `address`, and the address that its own tables have for it. What is mapped now comes before what
/// was once.
fn locate(modules: &[Module], address: u64) -> Option<(String, u64)> {
    let there = |module: &&Module| (module.start..module.end).contains(&address);
    let mut found = modules.iter().filter(there);
    let module = modules.iter().filter(there).find(|module| !module.unloaded).or_else(|| found.next())?;
    Some((module.path.clone(), (address - module.start).wrapping_add(module.preferred)))
}

/// Names that are not mangled stay as they are: a variable `c` is none of C++'s `char`, which is mangled so.
fn demangled(name: &str) -> String {
    if !name.starts_with("_Z") && !name.starts_with("_R") {
        return name.to_owned();
    }
    addr2line::demangle_auto(Cow::from(name), None).into_owned()
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn offset_in(path: &str, linked: u64) -> String {
    format!("{}+{linked:#x}", base_name(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_c_are_not_types_of_cpp() {
        for name in ["a", "b", "c", "d", "f", "t", "w", "x", "main", "_start", "St", "f.constprop.0"] {
            assert_eq!(demangled(name), name);
        }
        assert_eq!(demangled("_Z1cv"), "c()");
        assert_eq!(demangled("_RNvC5mycrt4main"), "mycrt::main");
    }

    /// Data of this test program, to be found again by its address.
    static SOUGHT: [u64; 8] = [1; 8];

    /// Calls nothing: its first instruction would have the name of a function that is inlined there.
    #[inline(never)]
    fn sought() -> u64 {
        let (mut sum, mut index) = (0, 0);
        while index < SOUGHT.len() {
            sum += SOUGHT[index];
            index += 1;
        }
        sum
    }

    /// This test program as the client would have seen it mapped.
    fn this_program() -> Module {
        let path = std::env::current_exe().unwrap();
        let path = path.to_str().unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let ranges: Vec<_> =
            maps.lines().filter(|line| line.ends_with(path)).map(|line| line.split(['-', ' '])).collect();
        let number = |text: Option<&str>| u64::from_str_radix(text.unwrap(), 16).unwrap();
        Module {
            path: path.to_owned(),
            start: number(ranges[0].clone().next()),
            end: number(ranges[ranges.len() - 1].clone().nth(1)),
            ..Module::default()
        }
    }

    #[test]
    fn data_and_code_have_names() {
        assert_eq!(sought(), 8);
        let modules = [this_program()];
        let mut symbols = Symbols::default();
        let address = SOUGHT.as_ptr() as u64;
        let (at, inside) = (symbols.data(&modules, address).unwrap(), symbols.data(&modules, address + 16).unwrap());
        assert!(at.name.contains("symbols::tests::SOUGHT in "), "{at:?}");
        assert_eq!((at.offset, at.bytes), (0, 64));
        assert_eq!(inside, DataPlace { offset: 16, ..at });
        let place = symbols.code(&modules, sought as fn() -> u64 as usize as u64);
        assert!(place.function.contains("sought"), "{place:?}");
        assert!(place.line.contains("symbols.rs:"), "{place:?}");
    }

    /// Calls of other files' functions have these functions' names, and no stub that of what lies before it, `_init`.
    #[test]
    fn stubs_are_named_by_what_they_call() {
        for path in ["/bin/ls", "/bin/cat"] {
            let Some(binary) = Binary::open(Path::new(path)) else { continue };
            let sections = fs::read(path).unwrap();
            let file = File::parse(&*sections).unwrap();
            for section in [".plt", ".plt.sec", ".plt.got"].iter().filter_map(|name| file.section_by_name(name)) {
                for stub in (section.address()..section.address() + section.size()).step_by(8) {
                    let name = binary.function(stub);
                    assert_ne!(name.as_deref(), Some("_init"), "{path} {stub:#x}");
                    assert!(name.is_none_or(|name| name.ends_with("@plt")), "{path} {stub:#x}");
                }
            }
            assert!(
                binary.stubs.is_empty()
                    || binary.stubs.values().any(|name| name == "malloc@plt" || name == "abort@plt")
            );
        }
    }

    #[test]
    fn code_behind_a_function_is_not_that_function() {
        let (path, linked) = locate(&[this_program()], sought as fn() -> u64 as usize as u64).unwrap();
        let mut symbols = Symbols::default();
        symbols.binary(&path);
        let binary = symbols.binaries.get_mut(&path).unwrap();
        assert!(binary.function(linked + 1).unwrap().contains("sought"));
        assert!(binary.functions[&linked] > 1);
        binary.functions.insert(linked, 1);
        assert!(binary.function(linked).unwrap().contains("sought"));
        assert_eq!(binary.function(linked + 1), None);
    }

    #[test]
    fn without_symbols_there_is_an_offset() {
        let mut module = this_program();
        (module.start, module.end, module.preferred) = (0x1000, 0x2000, 0x400_000);
        module.path = "/no/such/file.so".to_owned();
        let gone = Module { unloaded: true, path: "/no/such/older.so".to_owned(), ..module.clone() };
        let mut symbols = Symbols::default();
        let object = DataPlace { name: "file.so".to_owned(), offset: 0x40_0010, bytes: 0 };
        assert_eq!(symbols.data(&[gone.clone(), module.clone()], 0x1010), Some(object));
        assert_eq!(symbols.code(&[gone], 0x1010).function, "older.so+0x400010");
        assert_eq!(symbols.data(std::slice::from_ref(&module), 0x2000), None);
        assert_eq!(symbols.code(&[module], 0x2000).function, "0x2000, outside every file");
    }
}
