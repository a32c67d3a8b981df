//! A lane among those of other servers: the gate of its provider and those of the services behind.

use std::sync::Arc;

use super::{Lane, Service};
use crate::delivery::gate::{Gate, Heard, Hearer};
use crate::store::{ChannelPlace, ChannelTold, NewWord, StoreError};

/// Most words about one lane that are read at its start: its own, and those of the services behind.
const WORDS_MAX: u32 = 1_000;

/// A gate of a lane.
enum Place {
    Provider,
    Service(Arc<Service>),
}

impl Lane {
    /// Tells the other servers what changed at the gates.
    pub(crate) async fn tell_others(&self) -> Result<(), StoreError> {
        self.tell_of(&Place::Provider, "").await?;
        for (name, service) in self.services.told() {
            self.tell_of(&Place::Service(service), &name).await?;
        }
        Ok(())
    }

    async fn tell_of(&self, place: &Place, service: &str) -> Result<(), StoreError> {
        let gate = self.gate_of(place);
        let now = self.shared.clock.now();
        let Some((word, known)) = gate.to_tell(now) else { return Ok(()) };
        let (app, platform) = (self.app, self.platform);
        let place = ChannelPlace { app, platform, service: service.into() };
        let new = NewWord { place, word, by: self.shared.epoch, known, at: now };
        match self.shared.store.tell_channel(new).await {
            Ok(latest) => self.heard(&latest),
            // Erased with its application.
            Err(StoreError::NotFound) => {}
            Err(error) => {
                gate.not_told();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reads what was told before this lane began.
    pub(super) async fn hear_others(&self) -> Result<(), StoreError> {
        let of = Some((self.app, self.platform));
        for told in self.shared.store.channels_told(of, 0, WORDS_MAX).await? {
            self.heard(&told);
        }
        Ok(())
    }

    /// Takes the latest word about one of the gates.
    pub(crate) fn heard(&self, told: &ChannelTold) {
        let name = &*told.place.service;
        let place = match name {
            "" => Place::Provider,
            name => match self.services.known(name) {
                Some(service) => Place::Service(service),
                // There are so many that this one has no gate of its own.
                None => return,
            },
        };
        let by = Hearer {
            epoch: self.shared.epoch,
            servers: self.shared.standing.servers(),
            now: self.shared.clock.now(),
            jitter: self.shared.jitter(),
        };
        match self.gate_of(&place).heard(told, by) {
            Heard::Nothing => {}
            Heard::Taken => {
                // Pages that set devices aside for a service wait at the lane's gate.
                self.gate.nudge();
                tracing::info!(
                    app.id = %self.app_name(),
                    platform = %self.platform,
                    service = name,
                    word = ?told.word,
                    "another server says how the provider stands"
                );
            }
            Heard::Stop => self.stop_sending(),
            Heard::Release => self.provider_changed(),
        }
    }

    fn gate_of<'a>(&'a self, place: &'a Place) -> &'a Gate {
        match place {
            Place::Provider => &self.gate,
            Place::Service(service) => &service.gate,
        }
    }
}
