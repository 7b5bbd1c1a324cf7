//! Fan-out: passes every event of a session to all listeners, each through a queue bounded in bytes. A listener that cannot keep
//! up loses its queue and is notified; the others do not notice.

use std::{collections::VecDeque, sync::Arc};

use lodge_agent::Publish;
use lodge_events::Event;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// What a subscription gives.
#[derive(Debug, Clone)]
pub enum Notice {
    /// An event.
    Event(Event),
    /// Events were lost because nobody took them in time. The stream goes on with what came after.
    Lagged,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Event>,
    bytes: usize,
    lagged: bool,
    closed: bool,
}

struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    limit: usize,
}

impl Queue {
    fn push(&self, event: &Event) {
        let mut waiting = self.waiting.lock();
        if waiting.lagged {
            return;
        }
        let size = event.json().len();
        // One event alone always fits: a bound below it would make it undeliverable.
        if waiting.bytes + size > self.limit && !waiting.events.is_empty() {
            waiting.events = VecDeque::new();
            waiting.bytes = 0;
            waiting.lagged = true;
        } else {
            waiting.bytes += size;
            waiting.events.push_back(event.clone());
        }
        drop(waiting);
        self.arrived.notify_one();
    }
}

/// The listeners of one session.
#[derive(Default)]
pub(crate) struct Hub {
    queues: Mutex<Vec<Arc<Queue>>>,
    /// Those who take events themselves.
    direct: Mutex<Vec<Arc<dyn Publish>>>,
    /// Called with every event before the listeners get it.
    tap: Option<Tap>,
}

type Tap = Box<dyn Fn(&Event) + Send + Sync>;

impl Hub {
    pub(crate) fn with_tap(tap: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self {
            queues: Mutex::default(),
            direct: Mutex::default(),
            tap: Some(Box::new(tap)),
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>, limit: usize) -> Subscription {
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            arrived: Notify::new(),
            limit,
        });
        self.queues.lock().push(queue.clone());
        Subscription {
            queue,
            hub: self.clone(),
        }
    }

    pub(crate) fn listen(self: &Arc<Self>, listener: Arc<dyn Publish>) -> Listening {
        self.direct.lock().push(listener.clone());
        Listening {
            listener,
            hub: self.clone(),
        }
    }

    /// Ends all subscriptions once they are drained.
    pub(crate) fn close(&self) {
        for queue in self.queues.lock().drain(..) {
            queue.waiting.lock().closed = true;
            queue.arrived.notify_one();
        }
    }

    pub(crate) fn listeners(&self) -> usize {
        self.queues.lock().len() + self.direct.lock().len()
    }
}

impl Publish for Hub {
    fn publish(&self, event: &Event) {
        if let Some(tap) = &self.tap {
            tap(event);
        }
        for listener in self.direct.lock().iter() {
            listener.publish(event);
        }
        for queue in self.queues.lock().iter() {
            queue.push(event);
        }
    }
}

/// Somebody who takes every event at the moment it is published, without a queue and a task of their own. Dropping it
/// ends that.
pub struct Listening {
    listener: Arc<dyn Publish>,
    hub: Arc<Hub>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.hub
            .direct
            .lock()
            .retain(|listener| !Arc::ptr_eq(listener, &self.listener));
    }
}

/// A stream of events. Dropping it unsubscribes.
pub struct Subscription {
    queue: Arc<Queue>,
    hub: Arc<Hub>,
}

impl Subscription {
    /// The next event. `None` when the session has ended.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            let arrived = self.queue.arrived.notified();
            {
                let mut waiting = self.queue.waiting.lock();
                if let Some(event) = waiting.events.pop_front() {
                    waiting.bytes -= event.json().len();
                    return Some(Notice::Event(event));
                }
                if std::mem::take(&mut waiting.lagged) {
                    return Some(Notice::Lagged);
                }
                if waiting.closed {
                    return None;
                }
            }
            arrived.await;
        }
    }

    /// Everything that waits, at once; waits for at least one. `None` when the session has ended. After lost events the
    /// batch is empty.
    pub async fn next_batch(&mut self) -> Option<Vec<Event>> {
        loop {
            let arrived = self.queue.arrived.notified();
            {
                let mut waiting = self.queue.waiting.lock();
                if !waiting.events.is_empty() {
                    waiting.bytes = 0;
                    return Some(std::mem::take(&mut waiting.events).into());
                }
                if std::mem::take(&mut waiting.lagged) {
                    return Some(Vec::new());
                }
                if waiting.closed {
                    return None;
                }
            }
            arrived.await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.queues.lock().retain(|queue| !Arc::ptr_eq(queue, &self.queue));
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::AssistantIntent;

    use super::*;

    fn event(text: &str) -> Event {
        Event::new(None, None, AssistantIntent { intent: text.into() })
    }

    #[tokio::test]
    async fn a_listener_that_lags_is_told_and_the_others_miss_nothing() {
        let hub = Arc::new(Hub::default());
        let size = event("0").json().len();
        let mut slow = hub.subscribe(size * 3);
        let mut fast = hub.subscribe(usize::MAX);
        let events: Vec<Event> = (0..5).map(|n| event(&n.to_string())).collect();
        for event in &events {
            hub.publish(event);
        }
        assert!(matches!(slow.next().await, Some(Notice::Lagged)));
        hub.publish(&event("after"));
        assert!(matches!(slow.next().await, Some(Notice::Event(_))));
        for expected in &events {
            let Some(Notice::Event(got)) = fast.next().await else {
                panic!("lost {expected:?}")
            };
            assert_eq!(got.id(), expected.id());
        }
        hub.close();
        assert!(matches!(fast.next().await, Some(Notice::Event(_))));
        assert!(fast.next().await.is_none());
        assert!(slow.next().await.is_none());
    }
}
