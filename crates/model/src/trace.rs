//! What the tasks of a profile did with messages, one after another: who could send only when something had come.
//!
//! A [`Pattern`](crate::Pattern) says how much was sent, a trace what waited for what. It has no times: those are what
//! a mapping decides (`cohabit_network::replay`).

use crate::{Error, Result};
use std::collections::HashMap;

/// A message of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The task that sends it.
    pub source: u32,
    /// The task that receives it.
    pub destination: u32,
    /// Bytes.
    pub bytes: u64,
}

/// What is done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Its source gives it to MPI.
    Send,
    /// Its destination is ready to receive it.
    Post,
    /// Its source waits until it has left, or its destination until it has come.
    Wait,
}

/// Something that a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What.
    pub does: Does,
    /// With which of [`Trace::messages`].
    pub message: u32,
}

/// The beginning of a run, or all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Each is sent once.
    pub messages: Vec<Message>,
    /// What each task does, in its order.
    pub operations: Vec<Vec<Operation>>,
}

impl Trace {
    /// Bytes of all messages.
    pub fn bytes(&self) -> u128 {
        self.messages.iter().map(|message| u128::from(message.bytes)).sum()
    }

    /// How many of its operations each task can do: all, or those before one that waits for a message which is not sent
    /// until then. Sending waits for nothing here.
    pub fn reach(&self) -> Vec<usize> {
        let mut sent = vec![false; self.messages.len()];
        let mut waiting: HashMap<u32, usize> = HashMap::new();
        let mut reached = vec![0; self.operations.len()];
        let mut ready: Vec<usize> = (0..self.operations.len()).collect();
        while let Some(task) = ready.pop() {
            while let Some(&Operation { does, message }) = self.operations[task].get(reached[task]) {
                let receives = self.messages[message as usize].destination as usize == task;
                if does == Does::Send {
                    sent[message as usize] = true;
                    ready.extend(waiting.remove(&message));
                } else if does == Does::Wait && receives && !sent[message as usize] {
                    waiting.insert(message, task);
                    break;
                }
                reached[task] += 1;
            }
        }
        reached
    }

    /// Checks that a message is sent once, by its source, and before the source waits for it; is posted by its
    /// destination, once at most; is waited for by one of the two; and that no task waits for ever.
    ///
    /// # Errors
    /// Where it is not so.
    pub fn check(&self) -> Result<()> {
        let mut sent = vec![false; self.messages.len()];
        let mut posted = sent.clone();
        for (task, operations) in self.operations.iter().enumerate() {
            for (at, operation) in operations.iter().enumerate() {
                let wrong = |what: &str| Error::new(format!("the trace of task {task}, operation {at}: {what}"));
                let number = operation.message as usize;
                let Some(message) = self.messages.get(number) else {
                    return Err(wrong(&format!("there is no message {number}")));
                };
                let (is_source, is_destination) =
                    (message.source as usize == task, message.destination as usize == task);
                match operation.does {
                    Does::Send if !is_source => return Err(wrong("it sends another task's message")),
                    Does::Send if sent[number] => return Err(wrong("the message is sent twice")),
                    Does::Send => sent[number] = true,
                    Does::Post if !is_destination => return Err(wrong("it posts another task's message")),
                    Does::Post if posted[number] => return Err(wrong("the message is posted twice")),
                    Does::Post => posted[number] = true,
                    Does::Wait if !is_source && !is_destination => {
                        return Err(wrong("it waits for another task's message"));
                    }
                    Does::Wait if !is_destination && !sent[number] => {
                        return Err(wrong("it waits for a message that it has not sent"));
                    }
                    Does::Wait => {}
                }
            }
        }
        if let Some(number) = sent.iter().position(|sent| !sent) {
            return Err(Error::new(format!("the trace: message {number} is never sent")));
        }
        let reached = self.reach();
        match (0..reached.len()).find(|&task| reached[task] < self.operations[task].len()) {
            Some(task) => {
                Err(Error::new(format!("the trace of task {task}, operation {}: it waits for ever", reached[task])))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_contradicts_itself_is_refused() {
        let message = |source, destination| Message { source, destination, bytes: 8 };
        let operation = |does, message| Operation { does, message };
        let trace = |first: &[Operation], second: &[Operation]| Trace {
            messages: vec![message(0, 1), message(1, 0)],
            operations: vec![first.to_vec(), second.to_vec()],
        };
        let [send, post, wait] = [Does::Send, Does::Post, Does::Wait].map(|does| move |number| operation(does, number));
        let good = trace(&[post(1), send(0), wait(0), wait(1)], &[post(0), wait(0), send(1)]);
        good.check().unwrap();
        assert_eq!(good.bytes(), 16);
        for (first, second, what) in [
            (vec![send(0)], vec![], "message 1 is never sent"),
            (vec![send(0), send(0)], vec![send(1)], "sent twice"),
            (vec![send(1)], vec![], "another task's"),
            (vec![post(1), post(1)], vec![], "posted twice"),
            (vec![post(0)], vec![], "another task's"),
            (vec![wait(0), send(0)], vec![], "has not sent"),
            (vec![send(2)], vec![], "no message 2"),
            (vec![wait(1), send(0)], vec![wait(0), send(1)], "task 0, operation 0: it waits for ever"),
        ] {
            let error = trace(&first, &second).check().unwrap_err();
            assert!(error.cause.contains(what), "{error:?}, {what}");
        }
    }
}
