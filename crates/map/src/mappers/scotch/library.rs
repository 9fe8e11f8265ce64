//! The few calls of libscotch 7 that the mapper needs (Scotch and libScotch 7.0 User's Guide, chapter 8).

use crate::graph::{Graph, scaled};
use crate::levels::Levels;
use cohabit_model::{Error, Result};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// Debian's library has 32-bit numbers; [`map`] refuses any other.
type Num = i32;

// SAFETY: as scotch.h of Scotch 7 declares them, with 32-bit `SCOTCH_Num`, its structures being memory that it makes
// itself.
unsafe extern "C" {
    fn SCOTCH_numSizeof() -> c_int;
    fn SCOTCH_memFree(memory: *mut c_void);
    fn SCOTCH_graphAlloc() -> *mut c_void;
    fn SCOTCH_graphInit(graph: *mut c_void) -> c_int;
    fn SCOTCH_graphExit(graph: *mut c_void);
    fn SCOTCH_graphBuild(
        graph: *mut c_void,
        base: Num,
        vertices: Num,
        starts: *const Num,
        ends: *const Num,
        vertex_loads: *const Num,
        labels: *const Num,
        arcs: Num,
        neighbours: *const Num,
        weights: *const Num,
    ) -> c_int;
    fn SCOTCH_archAlloc() -> *mut c_void;
    fn SCOTCH_archInit(architecture: *mut c_void) -> c_int;
    fn SCOTCH_archExit(architecture: *mut c_void);
    fn SCOTCH_archTleaf(architecture: *mut c_void, levels: Num, sizes: *const Num, costs: *const Num) -> c_int;
    fn SCOTCH_archSub(architecture: *mut c_void, whole: *mut c_void, count: Num, leaves: *const Num) -> c_int;
    fn SCOTCH_stratAlloc() -> *mut c_void;
    fn SCOTCH_stratInit(strategy: *mut c_void) -> c_int;
    fn SCOTCH_stratExit(strategy: *mut c_void);
    fn SCOTCH_contextAlloc() -> *mut c_void;
    fn SCOTCH_contextInit(context: *mut c_void) -> c_int;
    fn SCOTCH_contextExit(context: *mut c_void);
    fn SCOTCH_contextThreadSpawn(context: *mut c_void, threads: c_int, cores: *const c_int) -> c_int;
    fn SCOTCH_contextOptionSetNum(context: *mut c_void, option: c_int, value: Num) -> c_int;
    fn SCOTCH_contextRandomSeed(context: *mut c_void, seed: Num);
    fn SCOTCH_contextRandomReset(context: *mut c_void);
    fn SCOTCH_contextBindGraph(context: *mut c_void, graph: *const c_void, bound: *mut c_void) -> c_int;
    fn SCOTCH_graphMap(graph: *mut c_void, architecture: *const c_void, strategy: *mut c_void, map: *mut Num) -> c_int;
    fn SCOTCH_graphMapFixed(
        graph: *mut c_void,
        architecture: *const c_void,
        strategy: *mut c_void,
        map: *mut Num,
    ) -> c_int;
}

/// SCOTCH_OPTIONNUMDETERMINISTIC.
const DETERMINISTIC: c_int = 0;

/// What libscotch calls to say an error or a warning: libraries do not print here, and the failing call says so itself.
/// The C functions take more arguments, which the ones here leave alone.
mod silence {
    use super::c_char;

    // SAFETY: libscotch leaves this name to the program, and calls it with at least this argument.
    #[unsafe(no_mangle)]
    extern "C" fn SCOTCH_errorPrint(_: *const c_char) {}

    // SAFETY: libscotch leaves this name to the program, and calls it with at least this argument.
    #[unsafe(no_mangle)]
    extern "C" fn SCOTCH_errorPrintW(_: *const c_char) {}

    // SAFETY: libscotch leaves this name to the program, and calls it with at least this argument.
    #[unsafe(no_mangle)]
    extern "C" fn SCOTCH_errorProg(_: *const c_char) {}
}

/// One object of the library: allocated and initialised, and given back when dropped.
struct Object {
    memory: *mut c_void,
    /// Called once, with `memory`.
    exit: unsafe extern "C" fn(*mut c_void),
}

impl Object {
    fn new(
        alloc: unsafe extern "C" fn() -> *mut c_void,
        init: unsafe extern "C" fn(*mut c_void) -> c_int,
        exit: unsafe extern "C" fn(*mut c_void),
    ) -> Result<Self> {
        // SAFETY: the library's own pair of functions for one kind of object.
        let memory = unsafe { alloc() };
        // SAFETY: as above; it is asked for where there is memory.
        if memory.is_null() || unsafe { init(memory) } != 0 {
            return Err(failed("its objects cannot be made: out of memory"));
        }
        Ok(Self { memory, exit })
    }

    fn graph() -> Result<Self> {
        Self::new(SCOTCH_graphAlloc, SCOTCH_graphInit, SCOTCH_graphExit)
    }

    fn architecture() -> Result<Self> {
        Self::new(SCOTCH_archAlloc, SCOTCH_archInit, SCOTCH_archExit)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: made by the library, initialised, and not used after this.
        unsafe {
            (self.exit)(self.memory);
            SCOTCH_memFree(self.memory);
        }
    }
}

/// The slots as Scotch sees them: a tree of equal depth, and which of its leaves are slots.
pub struct Architecture {
    sizes: Vec<Num>,
    costs: Vec<Num>,
    /// Leaf of each slot, ascending.
    leaves: Vec<Num>,
    /// Leaves of the whole tree.
    size: usize,
}

impl Architecture {
    /// The tree of the levels, each group filled up with leaves that are no slots to the size of the largest.
    ///
    /// # Errors
    /// Where that makes more leaves than Scotch can number.
    pub fn new(levels: &Levels) -> Result<Self> {
        let sizes: Vec<usize> = (0..levels.depth()).map(|level| levels.arity(level)).collect();
        let size = sizes.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        let size = size.filter(|&size| size < 1 << 24).ok_or_else(|| failed("the tree is too uneven for it"))?;
        let leaf = |path: &Vec<usize>| path.iter().zip(&sizes).fold(0, |leaf, (place, size)| leaf * size + place);
        // Ratios are what counts; 16 bits of them leave room for the weights.
        let scale = levels.distance[0].div_ceil(1 << 15).max(1);
        Ok(Self {
            leaves: levels.paths().iter().map(|path| leaf(path) as Num).collect(),
            costs: levels.distance.iter().map(|&distance| (distance / scale) as Num).collect(),
            sizes: sizes.into_iter().map(|size| size as Num).collect(),
            size,
        })
    }

    /// The library's objects: the architecture to map to, and the whole tree that it may be a part of and must not
    /// outlive.
    fn build(&self) -> Result<(Object, Option<Object>)> {
        let whole = Object::architecture()?;
        let depth = self.sizes.len() as Num;
        // SAFETY: both arrays have `depth` numbers, and the library copies them.
        if unsafe { SCOTCH_archTleaf(whole.memory, depth, self.sizes.as_ptr(), self.costs.as_ptr()) } != 0 {
            return Err(failed("it refused the topology"));
        }
        if self.leaves.len() == self.size {
            return Ok((whole, None));
        }
        let part = Object::architecture()?;
        let count = self.leaves.len() as Num;
        // SAFETY: `leaves` are numbers of leaves of `whole`, which lives as long as `part`.
        if unsafe { SCOTCH_archSub(part.memory, whole.memory, count, self.leaves.as_ptr()) } != 0 {
            return Err(failed("it refused the part of the topology that may be used"));
        }
        Ok((part, Some(whole)))
    }
}

/// The graph in the library's arrays, with a vertex a slot: tasks first, then those that stay empty.
struct Arrays {
    starts: Vec<Num>,
    neighbours: Vec<Num>,
    weights: Vec<Num>,
}

impl Arrays {
    fn new(graph: &Graph, vertices: usize, greatest: u64) -> Result<Self> {
        if graph.pairs() > (1 << 29) {
            return Err(failed("the graph is too large for its 32-bit numbers"));
        }
        let shift = graph.shift(greatest, 29);
        let mut arrays = Self { starts: vec![0], neighbours: Vec::new(), weights: Vec::new() };
        for task in 0..graph.tasks() {
            for (other, weight) in graph.row(task).filter(|&(_, weight)| weight > 0) {
                arrays.neighbours.push(other as Num);
                arrays.weights.push(scaled(weight, shift) as Num);
            }
            arrays.starts.push(arrays.neighbours.len() as Num);
        }
        arrays.starts.resize(vertices + 1, arrays.neighbours.len() as Num);
        Ok(arrays)
    }
}

/// Maps every vertex (`fixed` has one for each slot) to a slot.
///
/// # Errors
/// What the library refused.
pub fn map(graph: &Graph, fixed: &[Option<usize>], architecture: &Architecture, seed: u64) -> Result<Vec<usize>> {
    // SAFETY: no arguments.
    if unsafe { SCOTCH_numSizeof() } as usize != size_of::<Num>() {
        return Err(failed("the library has 64-bit numbers"));
    }
    // Contexts keep random numbers apart, but not all of the library was written for threads.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let vertices = fixed.len();
    let arrays = Arrays::new(graph, vertices, architecture.costs[0] as u64)?;
    let (target, _whole) = architecture.build()?;
    let mut slot_of_leaf = vec![usize::MAX; architecture.size];
    architecture.leaves.iter().enumerate().for_each(|(slot, &leaf)| slot_of_leaf[leaf as usize] = slot);
    let is_part = architecture.leaves.len() != architecture.size;
    let leaf_of = |slot: usize| if is_part { slot as Num } else { architecture.leaves[slot] };
    let mut placed: Vec<Num> = fixed.iter().map(|slot| slot.map_or(-1, leaf_of)).collect();
    compute(&arrays, vertices, &target, &mut placed, fixed.iter().any(Option::is_some), seed)?;
    let slot = |&leaf: &Num| if is_part { leaf as usize } else { slot_of_leaf[leaf as usize] };
    Ok(placed.iter().map(slot).collect())
}

fn compute(
    arrays: &Arrays,
    vertices: usize,
    target: &Object,
    placed: &mut [Num],
    any_fixed: bool,
    seed: u64,
) -> Result<()> {
    let graph = Object::graph()?;
    let bound = Object::graph()?;
    let context = Object::new(SCOTCH_contextAlloc, SCOTCH_contextInit, SCOTCH_contextExit)?;
    let strategy = Object::new(SCOTCH_stratAlloc, SCOTCH_stratInit, SCOTCH_stratExit)?;
    // SAFETY: the arrays outlive the graph, and have the lengths that are passed with them.
    let built = unsafe {
        SCOTCH_graphBuild(
            graph.memory,
            0,
            vertices as Num,
            arrays.starts.as_ptr(),
            ptr::null(),
            ptr::null(),
            ptr::null(),
            arrays.neighbours.len() as Num,
            arrays.neighbours.as_ptr(),
            arrays.weights.as_ptr(),
        )
    };
    if built != 0 {
        return Err(failed("it refused the graph"));
    }
    // SAFETY: initialised objects; the context and both graphs outlive the mapping, which fills `vertices` numbers.
    let status = unsafe {
        SCOTCH_contextThreadSpawn(context.memory, 1, ptr::null());
        SCOTCH_contextOptionSetNum(context.memory, DETERMINISTIC, 1);
        SCOTCH_contextRandomSeed(context.memory, (seed & 0x7fff_ffff) as Num);
        SCOTCH_contextRandomReset(context.memory);
        if SCOTCH_contextBindGraph(context.memory, graph.memory, bound.memory) != 0 {
            return Err(failed("it cannot bind the graph"));
        }
        let map = if any_fixed { SCOTCH_graphMapFixed } else { SCOTCH_graphMap };
        map(bound.memory, target.memory, strategy.memory, placed.as_mut_ptr())
    };
    drop(bound);
    if status != 0 { Err(failed("it gave up")) } else { Ok(()) }
}

fn failed(why: &str) -> Error {
    Error::new(format!("Scotch cannot map this problem: {why}")).remedy("take the mapper `best`")
}
