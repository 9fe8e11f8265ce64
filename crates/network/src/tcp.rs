//! How much of what one task sends another may be on its way at a time: one direction of a TCP connection, as Linux
//! keeps it where ports drop nothing.
//!
//! It matters where connections share a port: a long message lets as much go before others as is in the port of it, and
//! what is said about the next message waits behind what is in the sender's buffer of this one.

use std::collections::VecDeque;

/// A frame of Ethernet holds so much of a message, in bytes.
pub(crate) const FRAME: f64 = 1460.0;

/// What may be on its way before anything is acknowledged (RFC 6928).
pub(crate) const INITIAL: f64 = 10.0 * FRAME;

/// The window grows by what is acknowledged (slow start, RFC 5681, 3.1), but to no more than so many times what has
/// been on its way at a time (tcp_is_cwnd_limited).
pub(crate) const UNUSED: f64 = 2.0;

/// A sender leaves so much in its port: what it sends in these seconds (small queues, tcp_small_queue_check), at two
/// windows a round trip (tcp_update_pacing_rate), in each of two buffers (tcp_tso_autosize) of 64 KiB at most; and two
/// frames always.
pub(crate) const QUEUED_S: f64 = 2.0 * 2.0 / 1024.0;
pub(crate) const QUEUED: [f64; 2] = [2.0 * FRAME, 2.0 * 65_536.0];

/// The sender's buffer holds so many windows: two, with 2,304 bytes of memory for each frame (tcp_sndbuf_expand).
pub(crate) const BUFFER: f64 = 2.0 * 2304.0 / FRAME;

/// A new round trip counts this share (RFC 6298).
pub(crate) const NEW: f64 = 1.0 / 8.0;

/// One direction of a connection. All sizes are in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Connection {
    /// What may be on its way.
    window: f64,
    /// What is, in the order in which it was sent, with the time when.
    sent: VecDeque<(f64, f64)>,
    on_its_way: f64,
    /// The most that has been.
    most: f64,
    in_first_port: f64,
    round_trip_s: f64,
    /// What was ever given it, and what of that is acknowledged.
    given: f64,
    acknowledged: f64,
    /// Messages that are not wholly in the buffer yet, each with what had been given when it was.
    outside: VecDeque<(f64, usize)>,
}

impl Connection {
    pub fn new() -> Self {
        Self {
            window: INITIAL,
            sent: VecDeque::new(),
            on_its_way: 0.0,
            most: 0.0,
            in_first_port: 0.0,
            round_trip_s: 0.0,
            given: 0.0,
            acknowledged: 0.0,
            outside: VecDeque::new(),
        }
    }

    /// Whether so much more may be sent now. Something may always be on its way.
    pub fn lets(&self, bytes: f64) -> bool {
        let queued = QUEUED_S * self.window / self.round_trip_s;
        if self.in_first_port > 0.0 && self.in_first_port + bytes > queued.clamp(QUEUED[0], QUEUED[1]) {
            return false;
        }
        self.sent.is_empty() || self.on_its_way + bytes <= self.window
    }

    pub fn send(&mut self, bytes: f64, now_s: f64) {
        self.sent.push_back((bytes, now_s));
        self.on_its_way += bytes;
        self.most = self.most.max(self.on_its_way);
        self.in_first_port += bytes;
    }

    /// So much is through the first port.
    pub fn through(&mut self, bytes: f64) {
        self.in_first_port = less(self.in_first_port, bytes);
    }

    /// What was sent first is acknowledged.
    pub fn acknowledge(&mut self, now_s: f64) {
        let Some((bytes, sent_s)) = self.sent.pop_front() else { return };
        let round_trip_s = now_s - sent_s;
        let is_first = self.acknowledged == 0.0;
        self.round_trip_s += if is_first { 1.0 } else { NEW } * (round_trip_s - self.round_trip_s);
        if self.window < UNUSED * self.most {
            self.window += bytes;
        }
        self.on_its_way = less(self.on_its_way, bytes);
        self.acknowledged += bytes;
    }

    /// Something is given it to send: a whole message, or what is said about one.
    pub fn give(&mut self, bytes: f64) {
        self.given += bytes;
    }

    /// Who gave it this message, the last, waits until it is in the buffer.
    pub fn wait_for_buffer(&mut self, message: usize) {
        self.outside.push_back((self.given, message));
    }

    /// The next message that has come to be in the buffer as a whole.
    pub fn next_in_buffer(&mut self) -> Option<usize> {
        let is_in = |&(given, _): &(f64, usize)| given - self.acknowledged <= BUFFER * self.window;
        let (_, message) = self.outside.front().copied().filter(is_in)?;
        self.outside.pop_front();
        Some(message)
    }
}

/// Whatever rounding leaves is nothing.
fn less(sum: f64, bytes: f64) -> f64 {
    if sum - bytes < 0.5 { 0.0 } else { sum - bytes }
}
