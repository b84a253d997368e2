# Die Texte der Seiten für Käufer, auf Deutsch. Die Namen sind die von en.ftl.

language-name = Deutsch
direction = ltr
locale-numbers = de
locale-dates = de

number-group = .
number-group-from = 4
number-decimal = ,
money = { $sign ->
    [none] { $amount }{ "\u00A0" }{ $code }
   *[other] { $amount }{ "\u00A0" }{ $sign }
}
currency-sign = { $code ->
    [EUR] €
    [USD] $
    [GBP] £
    [JPY] ¥
    [CNY] CN¥
    [INR] ₹
    [KRW] ₩
   *[none] none
}
month = { $month ->
    [1] Jan.
    [2] Feb.
    [3] März
    [4] Apr.
    [5] Mai
    [6] Juni
    [7] Juli
    [8] Aug.
    [9] Sept.
    [10] Okt.
    [11] Nov.
   *[12] Dez.
}
moment = { $day }. { $month } { $year }, { $time } UTC
duration-seconds = { $count ->
    [one] 1 Sekunde
   *[other] { $text } Sekunden
}
duration-minutes = { $count ->
    [one] 1 Minute
   *[other] { $text } Minuten
}
duration-hours = { $count ->
    [one] 1 Stunde
   *[other] { $text } Stunden
}
span-days = { $days } T { $hours } Std
span-hours = { $hours } Std { $minutes } Min
span-minutes = { $minutes } Min { $seconds } s
span-seconds = { $seconds } s
unit-days = Tage
unit-hours = Std
unit-minutes = Min
unit-seconds = Sek
units = { $text } Stück

skip-to-content = Zum Inhalt
site = Seiten
sales = Verkäufe
my-orders = Bestellungen
language = Sprache
breadcrumb = Pfad
footer-promise = Begrenzter Bestand, genau verkauft: nie ein Stück mehr als da ist, und eine angenommene Bestellung gilt.
footer-demo = Dies ist eine Vorführung. Es wird nichts geliefert und kein Geld bewegt.
no-connection = Keine Verbindung zum Shop. Was Sie sehen, kann veraltet sein; wir versuchen es weiter.
no-answer = Keine Antwort vom Shop.
server-answered = Der Server hat mit { $status } geantwortet.
sign-in = Anmelden
sign-in-first = Melden Sie sich zuerst im Shop an.

index-title = Verkäufe
index-title-ended = Vergangene Verkäufe
index-description = Begrenzter Bestand, genau verkauft: die Verkäufe, die laufen, und die bald beginnen.
sale-description = Die Artikel dieses Verkaufs: begrenzter Bestand, genau verkauft.
hero-few = Wenige Stück. Ein Start.
hero-exactly = Genau verkauft.
hero-text = Wenn ein Verkauf beginnt, ist das übrig, was Sie sehen. Eine angenommene Bestellung können Sie in Ruhe bezahlen.
badge-live = Läuft
badge-starts-soon = Beginnt bald
badge-paused = Pause
badge-ended = Beendet
badge-sold-out = Ausverkauft
badge-almost-gone = Fast weg
starts = Beginnt
until = Bis
ends = Endet
ended = Beendet
ended-early = Vorzeitig beendet
starts-in = Beginnt in { $span }
ends-in = Endet in { $span }
ended-on = Beendet am { $time }
instead-of = statt
units-in-sale = { $text } Stück in diesem Verkauf
limit-per-person = { $text } pro Person
more-products = { $count ->
    [one] Und { $text } weiterer Artikel in diesem Verkauf
   *[other] Und { $text } weitere Artikel in diesem Verkauf
}
no-sale = Zurzeit ist kein Verkauf geplant. Schauen Sie bald wieder vorbei.
no-others = Es gibt keine weiteren.
more = Weiteres
next-page = Nächste Seite
to-ended = Vergangene Verkäufe
to-current = Verkäufe, die laufen oder bald beginnen

drawing-of = Zeichnung von { $title }
order-as-member = Sie bestellen als Mitglied
buy-title-reserve = Jetzt reservieren
buy-title-order = Jetzt bestellen
buy-title-ended = Dieser Verkauf ist beendet
ready-with-address = Füllen Sie dies vor dem Start aus: Dann genügt ein Druck. Es bleibt in diesem Tab, bis Sie es absenden.
ready = Zum Start genügt ein Druck.
quantity = Menge
at-most = höchstens { $text }
at-most-per-person = höchstens { $text } pro Person
only-one-left = nur noch 1 da
goes-to = Geht an
change = Ändern
where-to = Wohin soll es gehen?
send-address = Adresse absenden
address-once = Sie kann nur einmal angegeben werden. Prüfen Sie sie, bevor Sie sie absenden.
sending-address = Adresse wird gesendet…
full-name = Vor- und Nachname
phone = Telefon
street = Straße und Hausnummer
post-code = Postleitzahl
city = Ort
district = Ortsteil
province = Bundesland
country = Land
optional = freiwillig
total = Summe
buy-now = Jetzt kaufen
not-open-yet = Noch nicht offen
sale-ended = Verkauf beendet
forget-attempt = Den früheren Versuch verwerfen
no-script = Ohne JavaScript folgt diese Seite dem Verkauf nicht: Laden Sie sie neu, um den Stand zu sehen.
how-title = So läuft dieser Verkauf
how-clock = Nach unserer Uhr.
how-clock-text = Der Countdown folgt der Zeit des Servers, nicht der Ihres Geräts. Niemand kommt früher hinein.
how-reserved = { $time } reserviert.
how-reserved-text = So lange behält eine angenommene Bestellung ihre Stücke. Bezahlen Sie in Ruhe; der Andrang liegt hinter Ihnen.
how-account = Auf Rechnung.
how-account-text = Eine angenommene Bestellung gehört sofort Ihnen; die Rechnung kommt vom Shop.
how-once = Nie doppelt gekauft.
how-once-text = Doppelklicks, Neuladen und abgerissene Verbindungen führen zu derselben einen Bestellung.
how-second = Zweite Chance.
how-second-text = Stücke, die nicht bezahlt werden, kommen zurück. Lassen Sie die Seite offen: Sie sagt Bescheid.
term-units = Stück
term-per-person = Pro Person
no-limit = ohne Grenze
faq-title = Gut zu wissen
faq-lost = Meine Verbindung riss beim Bestellen ab. Habe ich es?
faq-lost-text = Öffnen Sie diese Seite noch einmal im selben Browser. Ihre Bestellung trägt eine Nummer, die nur Ihr Browser kennt; die Seite fragt damit nach, und Sie bekommen entweder die angenommene Bestellung oder, wenn es keine gab, eine neue Chance. Zwei können es nicht werden.
faq-wait = Da steht ausverkauft. Lohnt sich das Warten?
faq-wait-text = Oft. Was jemand reserviert und nicht bezahlt hat, kommt nach { $time } zurück in den Verkauf, und Storniertes sofort. Der Knopf hier öffnet sich dann von selbst.
faq-reload = Hilft es, neu zu laden?
faq-reload-text = Nein. Die Seite folgt Start und Bestand von selbst. Drücken mehr Menschen, als zugleich bedient werden können, müssen manche kurz warten; ihre Seiten versuchen es zu zufälligen Zeitpunkten wieder, wer zuerst kommt, ist also zum Teil Glück. Neuladen kostet nur Sekunden.
faq-change = Kann ich es mir anders überlegen?
faq-change-text = Ja: Eine unbezahlte Bestellung lässt sich auf ihrer Seite jederzeit stornieren, und ihre Stücke kommen zurück in den Verkauf.
said-live = Der Verkauf ist offen.
said-few = Fast weg.
said-paused = Der Verkauf macht Pause. Hier geht es von selbst weiter.
said-ended = Der Verkauf ist beendet.
said-sold-out = Alle Stücke sind vergeben. Lassen Sie diese Seite offen: Sie merkt es, wenn welche zurückkommen.
units-back = Es sind wieder welche da: noch { $left }.
starts-in-a-minute = Beginnt in einer Minute.
starts-in-ten-seconds = Beginnt in zehn Sekunden.
left-of = noch { $left } von { $total }
left-of-at = noch { $left } von { $total } um { $time }

one-moment = Einen Moment…
ask-again = Nach der Bestellung fragen
not-open = { $state }. Es wurde nichts bestellt.
nothing-then = Vorhin wurde nichts bestellt. Jetzt können Sie bestellen.
checking-order = Ihre abgeschickte Bestellung wird geprüft…
earlier-unanswered = Eine frühere Bestellung von Ihnen blieb ohne Antwort. Fragen Sie noch einmal nach, oder verwerfen Sie sie.
sign-in-nothing-ordered = Melden Sie sich zuerst im Shop an. Es wurde nichts bestellt.
placing = Ihre Bestellung wird aufgegeben…
asking-again = { $reason }. Es wird mit demselben Schlüssel noch einmal gefragt, doppelt kaufen können Sie also nicht (Versuch { $number })…
check-heading = Bestellung prüfen
check-text = Noch ist nichts bestellt. Ein weiterer Klick gibt die Bestellung auf.
not-yet = Noch nicht
reload-to-ask = Laden Sie diese Seite neu, um noch einmal zu fragen. Doppelt bestellt wird dabei nichts.
not-learned = Was aus Ihrer Bestellung wurde, ließ sich nicht erfahren. Drücken Sie den Knopf, um nachzufragen: Doppelt bestellt werden kann es nicht.
reserved-leading = Reserviert! Es geht zu Ihrer Bestellung…
reserved = Reserviert!
ordered-in-other-tab = Sie haben dies in einem anderen Tab bestellt, darum wurde hier nichts bestellt. Für noch eine Bestellung drücken Sie erneut.
see-your-order = Zur Bestellung
ordered-before = Sie haben dies hier schon bestellt.
refused-sold-out = Gerade ausverkauft. Kommen Stücke zurück, merkt es diese Seite: Lassen Sie sie offen.
refused-sold-out-plain = Gerade ausverkauft. Was nicht rechtzeitig bezahlt wird, kommt zurück in den Verkauf: Schauen Sie später noch einmal.
refused-not-enough-left = Es ist weniger da, als Sie möchten. Versuchen Sie eine kleinere Menge.
refused-not-started = Der Verkauf hat noch nicht begonnen. Es wurde nichts bestellt.
refused-ended = Der Verkauf ist beendet. Es wurde nichts bestellt.
refused-paused = Der Verkauf macht Pause. Es wurde nichts bestellt; versuchen Sie es wieder, wenn er weitergeht.
refused-over-limit = Mehr davon bekommt eine Person nicht.
refused-price-changed = Der Preis hat sich geändert, seit diese Seite geladen wurde; es wurde nichts bestellt. Sehen Sie sich den neuen an, bevor Sie bestellen.
refused-cooling-down = Zu viele Ihrer Bestellungen wurden storniert oder nicht bezahlt. Warten Sie einen Moment mit der nächsten.
refused-too-many-holds = Sie haben zu viele unbezahlte Bestellungen. Bezahlen Sie zuerst eine; sind Sie in einer Warteschlange an der Reihe, zählt das mit.
refused-holds-used-up = So viele Ihrer Bestellungen dieses Artikels wurden storniert oder nicht rechtzeitig bezahlt, wie einem Kunden zustehen. Sie können ihn in diesem Verkauf nicht mehr bestellen.
refused-turn-required = Sie sind nicht an der Reihe. Dieses Produkt geht an die Warteschlange: Wer sich angestellt hat, wird aufgerufen.
refused-unknown-sku = Dieser Artikel ist nicht mehr im Verkauf.
excuse-cut-short = Die Antwort des Shops kam nicht ganz an
excuse-not-recognised = Der Shop hat Sie nicht erkannt
excuse-busy = Im Shop ist sehr viel los
excuse-unknown = Der Shop weiß noch nicht, ob Ihre Bestellung durchging
excuse-lost = Die Antwort des Shops ging verloren

button-not-a-number = Dieser Knopf kann nicht verkaufen: Sein Attribut „{ $name }“ muss eine Zahl sein.
not-on-sale = Dies ist nicht im Verkauf.
button-sign-in = Melden Sie sich zuerst an. Es wurde nichts bestellt.
button-to-line = Zur Warteschlange
button-your-turn = Sie sind an der Reihe: Bestellen Sie höchstens { $units } bis { $time }.
button-price-changed = Ein Stück kostet jetzt { $price }; es wurde nichts bestellt. Drücken Sie noch einmal, um zu diesem Preis zu bestellen.
opens-in = Beginnt in { $span }

your-order = Ihre Bestellung
order-description = Eine Bestellung: was reserviert ist, und bis wann es bezahlt werden kann.
orders-description = Die Bestellungen, die in diesem Browser aufgegeben wurden.
order-loading = Ihre Bestellung wird gesucht…
pay-within = Zu bezahlen in
pay-by = Zu bezahlen bis
pay-now = Jetzt bezahlen
pay-now-demo = Jetzt bezahlen (Vorführung)
pay-amount = { $amount } bezahlen
pay-amount-demo = { $amount } bezahlen (Vorführung)
cancel-order = Bestellung stornieren
product = Artikel
product-of-sale = Artikel { $product } des Verkaufs { $sale }
unit-price = Stückpreis
placed = Bestellt
closed = Abgeschlossen
order-number = Bestellnummer
short-for = kurz für
keep-address = Merken Sie sich die Adresse dieser Seite: Sie führt zurück zu Ihrer Bestellung. Laden Sie sie neu, um den Stand zu sehen.
back-to-sales = Zurück zu den Verkäufen
back-to-product = Zurück zum Artikel
order-without-script = Diese Bestellung ohne JavaScript zeigen
orders-needs-script = Diese Seite braucht JavaScript, um Ihre Bestellungen zu lesen.
sure-title = Diese Bestellung stornieren?
sure-text = Ihre Stücke kommen sofort zurück in den Verkauf, und jemand anderes kann sie nehmen.
keep-order = Behalten
paying = Wird bezahlt…
cancelling = Wird storniert…
no-answer-asking-again = Noch keine Antwort. Es wird noch einmal gefragt; doppelt geschehen kann es nicht (Versuch { $number })…
no-answer-yet = Noch keine Antwort vom Shop. Neuer Versuch…
shop-takes-payment = Die Zahlung nimmt der Shop an.
held = Reserviert
held-heading = Für Sie reserviert
held-text = Ihre Stücke liegen bereit. Bezahlen Sie rechtzeitig, dann gehören sie Ihnen.
pending = Angenommen
pending-heading = Ihre Bestellung ist angenommen
pending-text = Sie wird gerade in die Bücher geschrieben; das dauert einen Moment.
paid = Bezahlt
paid-heading = Bezahlt. Es gehört Ihnen!
paid-text = Vielen Dank. Der Shop bereitet die Lieferung vor.
cancelled = Storniert
cancelled-heading = Diese Bestellung ist storniert
cancelled-text = Ihre Stücke sind zurück im Verkauf. Zu bezahlen ist nichts.
expired = Abgelaufen
expired-heading = Diese Bestellung ist abgelaufen
expired-text = Sie wurde nicht rechtzeitig bezahlt, darum sind ihre Stücke zurück im Verkauf.
refunded = Erstattet
refunded-heading = Diese Bestellung ist erstattet
refunded-text = Das Geld geht den Weg zurück, auf dem es gekommen ist.
rejected = Nicht möglich
rejected-heading = Diese Bestellung war nicht zu halten
rejected-text = Zu bezahlen ist nichts.
refund-held = Es kam eine Zahlung über einen anderen Betrag, darum ist die Bestellung noch nicht bezahlt. Der Shop erstattet diese Zahlung.
refund-paid = Es kam noch eine Zahlung, die diese Bestellung nicht brauchte. Der Shop erstattet sie.
refund-other = Es kam eine Zahlung, die diese Bestellung nicht bezahlt hat. Der Shop erstattet sie.
refund-part = Von { $amount } gehen { $refunded } an Sie zurück.
refund-due = { $status }, Erstattung folgt
sign-in-to-see = Melden Sie sich an, um diese Bestellung zu sehen
no-such-order = Keine solche Bestellung
no-such-order-text = Unter Ihren Bestellungen gibt es keine mit dieser Nummer. Eine Bestellung sieht nur, wer sie aufgegeben hat.
orders-lead = Bestellungen, die in diesem Browser aufgegeben wurden.
no-orders = Noch keine. Was Sie hier bestellen, bleibt in dieser Liste.
sign-in-to-list = Melden Sie sich im Shop an, um ihren Stand zu sehen.
standing-not-known = Keine Antwort vom Shop: Ihr Stand ist nicht bekannt.
order-short = Nr. { $number }

not-found-title = Seite nicht gefunden
not-found-description = Unter dieser Adresse gibt es keine Seite.
not-found-heading = In diesem Regal liegt nichts
not-found-text = Unter dieser Adresse gibt es keine Seite. Vielleicht heißt der Verkauf jetzt anders, oder ein Buchstabe ging verloren.
see-sales = Zu den Verkäufen

line-title = Verkauf an eine Warteschlange
line-units = { $text } Stück, Verkauf an eine Warteschlange
line-unsold = { $left } von { $total } noch nicht verkauft
line-means-place = Sich anzustellen kostet nichts und verpflichtet zu nichts. Jede Person hat einen Platz, auf jedem Gerät.
line-means-turn = Wenn Sie aufgerufen werden, ist ein Stück für Sie allein zurückgelegt, und Sie haben { $turn } Zeit, es zu bestellen. Niemand kann schneller sein.
line-means-presence = Seien Sie auf dieser Seite, wenn Ihr Platz an der Reihe ist: Auf wen fehlt, wird { $grace } gewartet, dann wird der nächste aufgerufen.
line-check = Meinen Platz prüfen
line-check-good = Es stimmt. In diesem Browser geprüft: Ihr Eintrag ist einer der { $entries }, die vor der Verlosung feststanden, die Verlosung ist aus dem gemacht, was angekündigt war, und Ihre Nummer { $number } hat darin den Platz { $place }.
line-check-bad = Es stimmt nicht: Was veröffentlicht ist, gibt Ihrer Nummer { $number } nicht den Platz { $place }. Laden Sie die Seite neu und prüfen Sie noch einmal; bleibt es dabei, nennen Sie dem Shop Ihre Nummer.
line-check-failed = Der Shop war dafür nicht zu erreichen. Versuchen Sie es noch einmal.
line-draw-open = Die Plätze werden um { $time } unter allen verlost, die sich bis dahin angestellt haben: Ob früh oder spät, macht bis dahin keinen Unterschied. Wer später kommt, steht dahinter.
line-draw-alone = Kein öffentlicher Zufallsgeber ist beteiligt: Wer den Verkauf betreibt, könnte durch die letzten Einträge noch wählen, welche Verlosung daraus wird.
line-draw-beacon = { $late ->
    [0] Ein öffentlicher Zufallsgeber ist beteiligt, dessen Wert hier vorher niemand kennt. Schweigt er, wird ohne ihn verlost, sobald der Verkauf beginnt.
   *[other] Ein öffentlicher Zufallsgeber ist beteiligt, dessen Wert hier vorher niemand kennt. Schweigt er, wird ohne ihn verlost, höchstens { $late } Sekunden nach Beginn des Verkaufs, und vorher wird niemand aufgerufen.
}
line-join = Anstellen
line-working = Bevor Sie sich anstellen, rechnet Ihr Browser etwas aus, was Programmen zu viel wird, die sich tausendfach anstellen wollen. Das dauert einige Sekunden.
line-verify = Zu dieser Seite
line-place = Ihr Platz: { $place }
line-number = Ihre Nummer: { $number }
line-drawing = Ihr Platz ist noch nicht verlost
line-drawing-text = Er wird unter allen verlost, die sich rechtzeitig angestellt haben, und hier angezeigt.
line-drawn-at = Verlost wird um { $time }.
line-sure = Sie bekommen eines
line-sure-text = Für Ihren Platz ist ein Stück zurückgelegt, wenn Sie da sind, sobald er an der Reihe ist.
line-maybe = Vielleicht bekommen Sie eines
line-maybe-text = Das hängt von denen ab, denen vor Ihnen eines versprochen ist.
line-as-of = Stand: { $time }.
line-ahead = { $count ->
    [0] Sie sind die nächste Person, sobald eines frei wird.
    [one] Vor Ihnen ist { $text } Person, die es auch nicht weiß.
   *[other] Vor Ihnen sind { $text } Personen, die es auch nicht wissen.
}
line-open = Noch nicht verkauft: { $units }. Was nicht rechtzeitig bestellt oder bezahlt wird, geht in der Schlange weiter.
line-gave-up = Aufgegeben haben bisher: { $text }.
line-moved-added = Hinzugekommen ({ $time }): { $units }.
line-moved-taken = Aus dem Verkauf genommen, da nicht vorhanden ({ $time }): { $units }.
line-moved-unpaid = Unbezahlt oder storniert zurückgekommen ({ $time }): { $units }.
line-moved-back = Aufgegeben ({ $time }): { $text }.
line-none = Nichts mehr da
line-none-text = Außer es kommen Stücke zurück oder hinzu: Diese Seite würde es merken.
line-unknown = Zurzeit nicht bekannt
line-unknown-text = Vom Shop gibt es nichts Neues, also wird hier nichts versprochen. Ihr Platz bleibt, und wir fragen weiter.
line-reached = Ihr Platz ist an der Reihe
line-reached-text = Bleiben Sie hier: Sie werden gleich aufgerufen.
line-reached-paused = Bleiben Sie hier: Der Verkauf macht Pause, und Sie werden aufgerufen, sobald es weitergeht.
line-called = Sie sind dran
line-called-text = Für Sie zurückgelegt: { $units }. Bestellen Sie, bevor die Zeit um ist: Danach ist nichts mehr für Sie zurückgelegt. Die Zeit ist für alle gleich und lässt sich nicht verlängern.
line-called-paused = Für Sie zurückgelegt: { $units }. Der Verkauf macht Pause: Sie können bestellen, sobald es weitergeht, und bis dahin steht Ihre Zeit still.
line-blocked = Sie können gerade nicht aufgerufen werden
line-blocked-text = Sie haben so viele unbezahlte Bestellungen und offene Aufrufe, wie man in diesem Verkauf haben darf: Bezahlen Sie eine oder verzichten Sie auf etwas davon, dann werden Sie aufgerufen, wenn noch ein Stück da ist.
line-away = Sie waren nicht da, als Sie an der Reihe waren
line-away-text = Sie werden aufgerufen, sobald ein Stück frei ist. Bleiben Sie hier.
line-over = Sie waren an der Reihe
line-over-text = Sie haben bestellt, verzichtet oder die Zeit verstreichen lassen.
line-ordered = Sie haben bestellt
line-ordered-text = Damit haben Sie Ihren Aufruf genutzt.
line-expired = Ihre Zeit ist verstrichen
line-expired-text = Sie haben nicht rechtzeitig bestellt. Es ist nichts mehr für Sie zurückgelegt.
line-given-back = Sie haben verzichtet
line-given-back-text = Es ist nichts mehr für Sie zurückgelegt.
line-closed = Die Warteschlange ist geschlossen
line-closed-text = Der Verkauf ist vorbei, und niemandem wird noch ein Stück versprochen.
line-starts = Die Ersten werden um { $time } aufgerufen.
line-minutes = So schnell, wie es jetzt vorangeht, ist Ihr Platz in { $from } bis { $to } Minuten an der Reihe.
line-no-time = Wie lange es dauert, bis Ihr Platz an der Reihe ist, lässt sich gerade nicht sagen.
line-late = Der Verkauf kann gut enden, bevor Ihr Platz an der Reihe ist: Er endet um { $time }, und danach wird nur noch aufgerufen, wem ein Stück sicher ist.
line-may-close = Sie können diese Seite schließen: Ihr Platz bleibt. Seien Sie bis { $time } zurück.
line-stay = Lassen Sie diese Seite offen und im Vordergrund.
line-turn-left = Verbleibende Zeit zum Bestellen
line-seconds-left = Noch { $text } Sekunden zum Bestellen.
line-not-yet = Noch nicht an der Reihe
line-ready = Füllen Sie dies aus, während Sie warten: Dann genügt ein Druck, wenn Sie aufgerufen werden. Es bleibt in diesem Tab, bis Sie es absenden.
line-sound = Ton, wenn ich dran bin
line-receipt = Beleg für meinen Platz speichern
line-receipt-failed = Der Beleg war nicht zu bekommen. Versuchen Sie es gleich noch einmal.
line-leave = Ich möchte es nicht mehr
line-leave-title = Verzichten?
line-leave-text = Wenn Sie es zurückgeben, ist nichts mehr für Sie zurückgelegt, und Sie bekommen es nicht wieder.
line-keep = Behalten
line-asks-again = Diese Seite fragt alle paar Sekunden nach und zeigt dem Shop, dass Sie da sind. Lassen Sie sie offen.
line-order-by = Bestellen Sie bis { $time }.
refused-line-full = Die Warteschlange ist voll.
refused-no-line = Dieses Produkt wird nicht an eine Warteschlange verkauft.
refused-line-opens-later = Sie können sich ab { $time } anstellen.
refused-line-opens-later-plain = Für Sie ist diese Schlange noch nicht offen. Kommen Sie näher am Beginn wieder.
refused-line-not-open = Hier kann sich nur anstellen, wen der Shop eingeladen hat. Wenn Sie Mitglied sind, melden Sie sich als solches an.
refused-verification-required = Bevor Sie sich anstellen, muss Ihr Browser etwas ausrechnen, wozu er JavaScript braucht: Schalten Sie es ein, oder nehmen Sie einen anderen Browser.
refused-verification-token-required = Bevor Sie sich anstellen, prüft der Shop, dass Sie kein Programm sind, das sich tausendfach anstellt. Das geschieht auf einer Seite des Shops.
faq-turn = Bekomme ich mehr Zeit, wenn ich dran bin?
faq-turn-text = Nein. Andere warten auf dieselben Stücke, darum haben alle { $turn }, und das gehört zum Verkauf. Ausfüllen können Sie alles schon beim Warten, und bevor die Zeit um ist, werden Sie gewarnt. Bezahlt wird danach; dafür gibt es eigene Zeit.
