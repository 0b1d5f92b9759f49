from rota.alerts.alerts import AlertEvent as AlertEvent
from rota.alerts.alerts import Alerts as Alerts
from rota.alerts.alerts import Firing as Firing
from rota.alerts.duty import AlertDuty as AlertDuty
from rota.alerts.duty import try_sink as try_sink
from rota.alerts.kinds import kinds_of as kinds_of
from rota.alerts.kinds import rules_of as rules_of
from rota.alerts.kinds import shown_kinds as shown_kinds
