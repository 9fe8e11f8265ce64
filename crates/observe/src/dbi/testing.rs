//! Parts made in memory, as the client would leave them.

use super::abi::*;
use super::part::Record;

/// A part under construction. What is public is written into it as it is.
pub struct PartBuilder {
    pub head: cohabit_part_t,
    bytes: Vec<u8>,
    tasks: Vec<(cohabit_task_t, Vec<(u32, cohabit_cell_t)>)>,
    shapes: Vec<cohabit_shape_t>,
}

impl PartBuilder {
    /// An image of a process that has ended by itself.
    pub fn new(pid: u32, ppid: u32, start_ns: u64) -> Self {
        let mut head: cohabit_part_t = zeroed();
        head.magic = COHABIT_PART_MAGIC;
        head.version = COHABIT_PART_VERSION;
        (head.pid, head.ppid, head.start_ns, head.end_ns) = (pid, ppid, start_ns, start_ns + 100);
        (head.start_ticks, head.ticks_per_second, head.window_ticks) = (10 * start_ns, 10_000_000_000, 1000);
        (head.block_bytes, head.end) = (64, COHABIT_END_EXIT);
        let bytes = vec![0; size_of::<cohabit_part_t>()];
        Self { head, bytes, tasks: Vec::new(), shapes: vec![zeroed(); COHABIT_FIRST_SHAPE as usize] }
    }

    /// Adds a task; thread ids follow the process id.
    pub fn task(mut self, parent: Option<u32>, name: &str) -> Self {
        let mut task: cohabit_task_t = zeroed();
        task.tid = self.head.pid + self.tasks.len() as u32;
        task.parent = parent.unwrap_or(COHABIT_NO_TASK);
        for (to, from) in task.name.iter_mut().zip(name.bytes()) {
            *to = from as std::ffi::c_char;
        }
        self.tasks.push((task, Vec::new()));
        self
    }

    /// Changes the task added last.
    pub fn with(mut self, change: impl FnOnce(&mut cohabit_task_t)) -> Self {
        change(&mut self.tasks.last_mut().expect("a task").0);
        self
    }

    /// Gives the task added last a cell, each of its values with one reader: messages, bytes, invalidations, sharing,
    /// window_messages, window_bytes.
    pub fn cell(mut self, partner: u32, counts: [u64; 6]) -> Self {
        let [messages, bytes, invalidations, sharing, window_messages, window_bytes] = counts;
        let transfers = messages * u64::from(COHABIT_TRANSFER_PARTS);
        let cell = cohabit_cell_t { messages, bytes, invalidations, sharing, transfers, window_messages, window_bytes };
        self.tasks.last_mut().expect("a task").1.push((partner, cell));
        self
    }

    /// Gives the task added last a page of the series, of (bin, writer, messages, bytes).
    pub fn series(mut self, window_shift: u32, rows: &[(u64, u32, u64, u64)]) -> Self {
        let mut page: cohabit_series_page_t = zeroed();
        (page.count, page.window_shift) = (rows.len() as u32, window_shift);
        page.next = self.tasks.last().expect("a task").0.series;
        for (to, &(bin, writer, messages, bytes)) in page.rows.iter_mut().zip(rows) {
            *to = cohabit_series_row_t { bin, messages, bytes, writer, reserved: 0 };
        }
        let at = self.put(&page);
        self.with(|task| task.series = at)
    }

    /// Adds a block shape, which the task added last has executed so often.
    pub fn shape(self, loads: u32, stores: u32, bytes: u32, executions: u64) -> Self {
        self.shaped(cohabit_shape_t { loads, stores, bytes, spins: 0 }, executions)
    }

    /// The same of any shape.
    pub fn shaped(mut self, shape: cohabit_shape_t, executions: u64) -> Self {
        self.shapes.push(shape);
        let mut counters = vec![0u64; self.shapes.len()];
        counters[self.shapes.len() - 1] = executions;
        let at = self.bytes.len() as u64;
        counters.resize(COHABIT_MAX_COUNTERS as usize, 0);
        for counter in counters {
            self.put(&counter);
        }
        self.with(|task| task.counters = at)
    }

    /// Adds a followed block.
    pub fn hot(mut self, mut hot: cohabit_hot_t) -> Self {
        hot.next = self.head.hot;
        self.head.hot = self.put(&hot);
        self
    }

    /// Adds a data object; its offset is what blocks of it name.
    pub fn object(&mut self, mut object: cohabit_object_t) -> u64 {
        object.next = self.head.objects;
        self.head.hot_messages = self.head.hot_messages.saturating_add(object.messages);
        self.head.hot_looked_at = self.head.hot_looked_at.saturating_add(object.looked_at);
        self.head.objects = self.put(&object);
        self.head.objects
    }

    /// Says that a phase begins, in ticks.
    pub fn phase(mut self, number: u64, ticks: u64) -> Self {
        self.head.phase_count += 1;
        self.head.phases = self.put(&cohabit_phase_t { next: self.head.phases, number, ticks });
        self
    }

    /// Adds a mapped file.
    pub fn module(mut self, start: u64, end: u64, preferred: u64, path: &str) -> Self {
        let mut module: cohabit_module_t = zeroed();
        (module.start, module.end, module.preferred, module.next) = (start, end, preferred, self.head.modules);
        for (to, from) in module.path.iter_mut().zip(path.bytes()) {
            *to = from as std::ffi::c_char;
        }
        self.head.modules = self.put(&module);
        self
    }

    /// The part's bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.head.shapes = self.shapes.len() as u32;
        self.head.shapes_at = self.bytes.len() as u64;
        for shape in std::mem::take(&mut self.shapes) {
            self.put(&shape);
        }
        let tasks = std::mem::take(&mut self.tasks);
        self.head.tasks = tasks.len() as u32;
        let mut records: Vec<cohabit_task_t> = Vec::new();
        for (mut task, cells) in tasks {
            self.put_cells(&mut task, &cells);
            records.push(task);
        }
        for (number, page) in records.chunks_mut(COHABIT_TASKS_PER_PAGE as usize).enumerate() {
            self.head.task_pages[number] = self.bytes.len() as u64;
            let mut page = page.to_vec();
            page.resize(COHABIT_TASKS_PER_PAGE as usize, zeroed());
            for task in page {
                self.put(&task);
            }
        }
        self.head.used = self.bytes.len() as u64;
        let head = self.head;
        let at = self.put(&head) as usize;
        let head = self.bytes.split_off(at);
        self.bytes[..head.len()].copy_from_slice(&head);
        self.bytes
    }

    fn put_cells(&mut self, task: &mut cohabit_task_t, cells: &[(u32, cohabit_cell_t)]) {
        let per_row = COHABIT_CELLS_PER_ROW;
        for number in 0..COHABIT_DIRECTORIES {
            let mut directory: cohabit_directory_t = zeroed();
            for place in 0..COHABIT_ROWS_PER_DIRECTORY {
                let row = number * COHABIT_ROWS_PER_DIRECTORY + place;
                if !cells.iter().any(|(partner, _)| partner / per_row == row) {
                    continue;
                }
                directory.rows[place as usize] = self.bytes.len() as u64;
                for partner in row * per_row..(row + 1) * per_row {
                    let cell = cells.iter().find(|cell| cell.0 == partner).map_or(zeroed(), |cell| cell.1);
                    self.put(&cell);
                }
            }
            if directory.rows.iter().any(|&row| row != 0) {
                task.directories[number as usize] = self.put(&directory);
            }
        }
    }

    fn put<T: Record>(&mut self, record: &T) -> u64 {
        let at = self.bytes.len();
        // SAFETY: the bytes of one record, none of which is padding without a value: records were zeroed first.
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast::<u8>(), size_of::<T>()) };
        self.bytes.extend_from_slice(bytes);
        at as u64
    }
}

/// A record of zeroes, as memory the client has not touched.
pub fn zeroed<T: Record>() -> T {
    // SAFETY: any bytes are a record (the trait's promise).
    unsafe { std::mem::zeroed() }
}
