//! Members of clubs, whose names are personal data that is erased now and then.

use tidelock::ErrorKind;
use tidelock::events::Personal;

use super::Client;
use crate::simulator::state::{CLUBS, Club, ClubEvent, SUBJECTS, secret};

impl Client {
    /// Adds a member, or reads the members that there are.
    pub(super) async fn join(&self, id: &str) {
        let (nth, reads) = self.draw(|rng| (rng.below(SUBJECTS), rng.one_in(3)));
        if reads {
            return self.read_members(nth % CLUBS).await;
        }
        let subject = format!("person-{nth}");
        let club = self.tidelock.aggregate::<Club>((nth % CLUBS).to_string());
        let world = &self.process.world;
        let was_erased = world.facts(|facts| facts.erased.get(&subject) == Some(&true));
        world.asks("member", id);
        let name = format!("{}{id}", secret(&subject));
        let event = ClubEvent::Joined { id: id.to_owned(), name: Personal::new(&subject, name) };
        let join = async || club.operation_id(id).execute(|_| Ok::<_, String>(event.clone())).await;
        match self.insist(join).await {
            Some(Ok(_)) if was_erased => {
                world.problem(format!("personal data of {subject} was added after its erasure"));
            }
            Some(Ok(_)) => world.told("member", id),
            Some(Err(error)) if error.kind() == ErrorKind::SubjectErased => {
                self.sometimes("personal data of an erased subject is refused");
                if !world.facts(|facts| facts.erased.contains_key(&subject)) {
                    self.strange("a member of a subject that was never erased", &error);
                }
            }
            Some(Err(error)) => self.strange("a member", &error),
            None => {}
        }
    }

    /// Nothing is read of a subject once its erasure has ended.
    async fn read_members(&self, club: u64) {
        let club = self.tidelock.aggregate::<Club>(club.to_string());
        let world = &self.process.world;
        let erased = world.facts(|facts| facts.erased.clone());
        let erased = |subject: &str| erased.get(subject) == Some(&true);
        let Some(Ok(history)) = self.insist(async || club.history().await).await else { return };
        for recorded in history {
            let ClubEvent::Joined { id, name } = recorded.event;
            if name.get().is_some() && erased(name.subject()) {
                world.problem(format!("the name of member {id} was read after its erasure"));
            }
        }
        let Some(Ok(club)) = self.insist(async || club.load().await).await else { return };
        for name in &club.state.names {
            if (0..SUBJECTS).any(|nth| {
                let subject = format!("person-{nth}");
                erased(&subject) && name.starts_with(&secret(&subject))
            }) {
                world.problem(format!("{name} was in a state after its erasure"));
            }
        }
    }
}
