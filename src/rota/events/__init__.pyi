from rota.events.consumer import Effect as Effect
from rota.events.delivery import Later as Later
from rota.events.delivery import NonRetriable as NonRetriable
from rota.events.envelope import Event as Event
from rota.events.events import Events as Events
from rota.events.handles import Handles as Handles
from rota.events.outbox import Outbox as Outbox
