"""Pairs of notes with the answer that a person would give: do they say the same?

Written for the purpose, in two halves. Whoever changes the embedder may look at the first; `HELD_OUT_*` was written
afterwards to be measured only, so that a rule which fits the first half by accident is found out (one pair of it, up
and down, has led to a rule since). The last group of
paraphrases in each half shares few words or none: an embedder that knows only wording cannot find them, and the figure
for recall shows that.
"""

from __future__ import annotations

from typing import Final

__all__ = ["HELD_OUT_NEAR_MISSES", "HELD_OUT_PARAPHRASES", "NEAR_MISSES", "PARAPHRASES"]

PARAPHRASES: Final[tuple[tuple[str, str], ...]] = (
    # The same words, hardly changed.
    ("I love hiking in the mountains.", "I really love hiking in the mountains!"),
    ("My sister lives in Oslo.", "My sister is living in Oslo"),
    ("I'm allergic to peanuts.", "I am allergic to peanuts"),
    ("Please remind me to call the dentist on Friday.", "Remind me to call my dentist on Friday, please."),
    ("We booked a table for six at Luigi's.", "We've booked a table for six at Luigi's."),
    ("The password manager is Bitwarden.", "the password manager is bitwarden"),
    ("My flight to Lisbon leaves at 07:40.", "My flight leaves at 07:40 to Lisbon."),
    ("I prefer tea over coffee in the morning.", "In the morning I prefer tea over coffee."),
    ("Anna's birthday is on the 14th of March.", "Anna's birthday: 14th of March"),
    ("The server runs PostgreSQL 16 on Debian.", "The server is running PostgreSQL 16 on Debian."),
    ("Our dog Bruno needs his medicine twice a day.", "Our dog Bruno needs the medicine twice a day"),
    ("I finished reading Middlemarch yesterday.", "Yesterday I finished reading Middlemarch."),
    ("He plays the cello in a small orchestra.", "He plays cello in a small orchestra"),
    ("The quarterly report is due on Thursday.", "Quarterly report is due Thursday"),
    ("I parked the car on level 3, row B.", "The car is parked on level 3, row B."),
    ("My daughter started school in September.", "My daughter started school this September."),
    ("Use metric units in every answer.", "Please use metric units in every answer."),
    ("I work from home on Wednesdays.", "On Wednesdays I work from home."),
    ("She is vegetarian and does not eat fish.", "She's vegetarian and doesn't eat fish."),
    ("The invoice number is 2024-118.", "Invoice number: 2024-118"),
    # Some words changed.
    ("Send the weekly summary to the whole team.", "Send a weekly summary to the entire team."),
    ("I want to learn Spanish before the summer.", "I would like to learn Spanish before summer."),
    ("The meeting with the bank was moved to 15:00.", "The bank meeting was moved to 15:00."),
    ("My favourite colour is dark green.", "Dark green is my favourite color."),
    ("I run five kilometres every morning.", "Every morning I go running, five kilometres."),
    ("We are renovating the kitchen this spring.", "This spring we're renovating our kitchen."),
    ("He broke his left arm while skiing.", "While skiing he broke the left arm."),
    ("The heating in the office does not work.", "Heating in the office doesn't work."),
    # The same meaning in other words.
    ("I can't stand loud music.", "Noisy songs bother me a lot."),
    ("My car broke down.", "The vehicle stopped working."),
    ("I get up early.", "I'm a morning person who rises at dawn."),
    ("The film was terrible.", "That movie was awful."),
    ("Our son goes to kindergarten.", "Our little boy attends preschool."),
    ("I quit my job.", "I resigned from my position."),
)

NEAR_MISSES: Final[tuple[tuple[str, str], ...]] = (
    ("I like coffee.", "I don't like coffee."),
    ("The train leaves at 9.", "The train leaves at 10."),
    ("My budget is 500 euros.", "My budget is 5000 euros."),
    ("Meeting with Ana on Monday.", "Meeting with Ana on Tuesday."),
    ("My sister lives in Oslo.", "My brother lives in Oslo."),
    ("I love hiking in the mountains.", "I love swimming in the lake."),
    ("Please call the dentist.", "Please call the plumber."),
    ("The server runs PostgreSQL 15.", "The server runs PostgreSQL 16."),
    ("I am allergic to peanuts.", "I am allergic to penicillin."),
    ("Flight to Lisbon at 07:40.", "Flight to London at 07:40."),
    ("Anna's birthday is in March.", "Anna's wedding is in March."),
    ("The dog needs his medicine.", "The cat needs her medicine."),
    ("I finished reading Middlemarch.", "I started reading Middlemarch."),
    ("The report is due on Thursday.", "The report is not due on Thursday."),
    ("I parked the car on level 3.", "I parked the car on level 4."),
    ("She eats fish.", "She never eats fish."),
    ("Invoice number 2024-118.", "Invoice number 2024-181."),
    ("I work from home on Wednesdays.", "I work from home on Fridays."),
    ("The password is stored in Bitwarden.", "The password is stored in KeePass."),
    ("Turn the heating on.", "Turn the heating off."),
    ("My daughter started school.", "My daughter finished school."),
    ("The kitchen is being renovated.", "The bathroom is being renovated."),
    ("He broke his left arm.", "He broke his right arm."),
    ("Send the summary every week.", "Send the summary every month."),
    ("We won the match against Leeds.", "We lost the match against Leeds."),
    ("I run five kilometres every morning.", "I swim one kilometre every evening."),
    ("The bank meeting was moved to 15:00.", "The bank meeting was cancelled."),
    ("I want to learn Spanish.", "I want to learn Portuguese."),
    ("The door must stay open.", "The door must stay closed."),
    ("Tom owes me 20 dollars.", "I owe Tom 20 dollars."),
    ("Buy milk and eggs.", "Buy milk and bread."),
    ("Rent is due on the first.", "Rent is due on the fifteenth."),
)

HELD_OUT_PARAPHRASES: Final[tuple[tuple[str, str], ...]] = (
    # The same words, hardly changed.
    ("Mum's new phone number ends in 4471.", "mum's new phone number ends in 4471"),
    ("I'm learning to play the ukulele.", "I am learning to play the ukulele."),
    ("The boiler was serviced in November.", "In November the boiler was serviced."),
    ("Our landlord is called Mr. Petrov.", "Our landlord's called Mr Petrov"),
    ("My gym membership expires on 30 June.", "The gym membership expires on 30 June."),
    ("We have two cats, Miso and Tofu.", "We have two cats: Miso and Tofu."),
    ("I take my coffee black, without sugar.", "I take my coffee black and without sugar."),
    ("The team stand-up starts at 9:45.", "Team stand-up starts at 9:45"),
    ("Please answer in German from now on.", "From now on please answer in German."),
    ("My grandfather worked in the harbour.", "My grandfather was working in the harbour."),
    ("The router is behind the bookshelf.", "Router is behind the bookshelf!"),
    ("I have already renewed my passport.", "I've already renewed the passport."),
    ("The staging database is refreshed every Sunday.", "Every Sunday the staging database is refreshed."),
    ("Lena is moving to Toronto in August.", "Lena moves to Toronto in August."),
    ("I don't watch television.", "I do not watch television."),
    ("The concert tickets cost 64 euros each.", "Concert tickets cost 64 euros each."),
    ("He has a scar above his right eye.", "He has got a scar above the right eye."),
    ("Our anniversary is on 2 May.", "2 May is our anniversary."),
    ("The spare keys are with our neighbour Ines.", "Spare keys are with the neighbour, Ines."),
    ("Deployments are frozen until Monday.", "Deployments will be frozen until Monday."),
    # Some words changed.
    ("I usually skip breakfast on workdays.", "On workdays I mostly skip breakfast."),
    ("The roof needs to be repaired before winter.", "Before winter the roof has to be repaired."),
    ("My wife is a nurse at the city hospital.", "My wife works as a nurse at the city hospital."),
    ("We adopted a puppy from the shelter.", "We've adopted a little puppy from the animal shelter."),
    ("Book the cheapest train to Hamburg.", "Please book the cheapest available train to Hamburg."),
    ("The exam is going to be in room 204.", "The exam will take place in room 204."),
    ("I grew up in a village near Lyon.", "I grew up in a small village close to Lyon."),
    ("The printer on the second floor is out of toner.", "Second floor printer is out of toner."),
    # The same meaning in other words.
    ("I'm broke until payday.", "There is no money left before my salary comes."),
    ("The kids are asleep.", "The children went to bed."),
    ("He hates flying.", "Planes scare him."),
    ("Our internet is down.", "We have no connection at home."),
    ("She had a baby last week.", "Last week she gave birth."),
    ("I need a holiday.", "Some time off would do me good."),
)

HELD_OUT_NEAR_MISSES: Final[tuple[tuple[str, str], ...]] = (
    ("Mum's phone number ends in 4471.", "Mum's phone number ends in 4417."),
    ("I am learning to play the ukulele.", "I am learning to play the accordion."),
    ("The boiler was serviced in November.", "The boiler was replaced in November."),
    ("My gym membership expires on 30 June.", "My gym membership expires on 30 July."),
    ("I take my coffee with sugar.", "I take my coffee without sugar."),
    ("The stand-up starts at 9:45.", "The stand-up starts at 9:15."),
    ("Please answer in German.", "Please answer in Italian."),
    ("My grandfather worked in the harbour.", "My grandmother worked in the harbour."),
    ("The router is behind the bookshelf.", "The router is behind the sofa."),
    ("I have renewed my passport.", "I have lost my passport."),
    ("The staging database is refreshed every Sunday.", "The production database is refreshed every Sunday."),
    ("Lena is moving to Toronto in August.", "Lena is moving to Vancouver in August."),
    ("I watch television.", "I never watch television."),
    ("The tickets cost 64 euros.", "The tickets cost 46 euros."),
    ("He has a scar above his right eye.", "He has a scar above his left eye."),
    ("The spare keys are with Ines.", "The spare keys are with Marek."),
    ("Deployments are frozen until Monday.", "Deployments are allowed until Monday."),
    ("I skip breakfast on workdays.", "I skip lunch on workdays."),
    ("The roof was repaired.", "The roof was not repaired."),
    ("My wife is a nurse.", "My wife is a teacher."),
    ("We adopted a puppy from the shelter.", "We adopted a kitten from the shelter."),
    ("Book a train to Hamburg.", "Cancel the train to Hamburg."),
    ("The exam is in room 204.", "The exam is in room 240."),
    ("I grew up near Lyon.", "I grew up near Lille."),
    ("The printer is out of toner.", "The printer is out of paper."),
    ("Paul lent Eva his bike.", "Eva lent Paul her bike."),
    ("The meeting starts before noon.", "The meeting starts after noon."),
    ("Prices went up last year.", "Prices went down last year."),
    ("I can eat nuts.", "I can't eat nuts."),
    ("The parcel arrived on Tuesday.", "The parcel was sent on Tuesday."),
    ("My older brother is an architect.", "My younger brother is an architect."),
    ("The shop opens on Sundays.", "The shop closes on Sundays."),
)
