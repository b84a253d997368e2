# The texts of the buyers' pages, in English. Every other language has the same names; a text may use fewer of the $values, and no others.

## The language itself

language-name = English
direction = ltr
# For the browser's numbers and dates.
locale-numbers = en
locale-dates = en-GB

## Numbers, money and times, as the server writes them: the way the browser does with the locales above

number-group = ,
# A number with fewer digits is not grouped.
number-group-from = 4
number-decimal = .
# $sign: what currency-sign gives; $code: three letters.
money = { $sign ->
    [none] { $code }{ "\u00A0" }{ $amount }
   *[other] { $sign }{ $amount }
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
# $month: 1 to 12.
month = { $month ->
    [1] Jan
    [2] Feb
    [3] Mar
    [4] Apr
    [5] May
    [6] Jun
    [7] Jul
    [8] Aug
    [9] Sep
    [10] Oct
    [11] Nov
   *[12] Dec
}
moment = { $day } { $month } { $year }, { $time } UTC
duration-seconds = { $count ->
    [one] 1 second
   *[other] { $text } seconds
}
duration-minutes = { $count ->
    [one] 1 minute
   *[other] { $text } minutes
}
duration-hours = { $count ->
    [one] 1 hour
   *[other] { $text } hours
}
span-days = { $days } d { $hours } h
span-hours = { $hours } h { $minutes } min
span-minutes = { $minutes } min { $seconds } s
span-seconds = { $seconds } s
unit-days = days
unit-hours = hours
unit-minutes = min
unit-seconds = sec
units = { $count ->
    [one] { $text } unit
   *[other] { $text } units
}

## Every page

skip-to-content = Skip to content
site = Site
sales = Sales
my-orders = My orders
language = Language
breadcrumb = Breadcrumb
footer-promise = Limited stock, sold exactly: never one unit more than there is, and an accepted order is kept.
footer-demo = This is a demonstration. Nothing is delivered and no money moves.
no-connection = No connection to the shop. What you see may be out of date; we keep trying.
no-answer = No answer from the shop.
server-answered = The server answered { $status }.
sign-in = Sign in
sign-in-first = Sign in at the shop first.

## Lists of sales

index-title = Flash sales
index-title-ended = Sales that are over
index-description = Limited stock, sold exactly: the sales that run now and those that start soon.
sale-description = The products of this sale: limited stock, sold exactly.
hero-few = Few units. One start.
hero-exactly = Sold exactly.
hero-text = When a sale opens, what you see left is what is left. An order that we accept is yours to pay in peace.
badge-live = Live
badge-starts-soon = Starts soon
badge-paused = Paused
badge-ended = Ended
badge-sold-out = Sold out
badge-almost-gone = Almost gone
starts = Starts
until = Until
ends = Ends
ended = Ended
ended-early = Ended early
starts-in = Starts in { $span }
ends-in = Ends in { $span }
ended-on = Ended { $time }
instead-of = instead of
units-in-sale = { $count ->
    [one] { $text } unit in this sale
   *[other] { $text } units in this sale
}
limit-per-person = { $text } per person
more-products = { $count ->
    [one] And { $text } more product in this sale
   *[other] And { $text } more products in this sale
}
no-sale = No sale is planned right now. Come back soon.
no-others = There are no others.
more = More
next-page = Next page
to-ended = Sales that are over
to-current = Sales that run or start soon

## A product in a sale

drawing-of = Drawing of { $title }
order-as-member = You order as member
buy-title-reserve = Reserve yours
buy-title-order = Order yours
buy-title-ended = This sale is over
ready-with-address = Fill this in before the start: then one press is all it takes. It stays in this tab until you send it.
ready = At the start one press is all it takes.
quantity = Quantity
at-most = at most { $text }
at-most-per-person = at most { $text } per person
only-one-left = only 1 left
goes-to = Goes to
change = Change
where-to = Where should it go?
send-address = Send this address
address-once = It can be given once. Check it before you send it.
sending-address = Sending the address…
full-name = Full name
phone = Phone
street = Street and number
post-code = Post code
city = City
district = District
province = Province
country = Country
optional = optional
total = Total
buy-now = Buy now
not-open-yet = Not open yet
sale-ended = Sale ended
forget-attempt = Discard the earlier attempt
no-script = Without JavaScript this page does not follow the sale: reload it to see how it stands.
how-title = How this sale works
how-clock = Sold by our clock.
how-clock-text = The countdown follows the server's time, not your device's. Nobody gets in early.
how-reserved = Reserved for { $time }.
how-reserved-text = An accepted order keeps its units that long. Pay in peace; you are past the rush.
how-account = Sold on account.
how-account-text = An accepted order is yours at once; the shop sends the bill.
how-once = Never bought twice.
how-once-text = Double clicks, reloads and lost connections lead to the same one order.
how-second = Second chances.
how-second-text = Units of orders that are not paid come back. Keep the page open: it will tell you.
term-units = Units
term-per-person = Per person
no-limit = no limit
faq-title = Good to know
faq-lost = My connection broke while I was ordering. Do I have it?
faq-lost-text = Open this page again in the same browser. Your order carries a number that only your browser knows; the page asks with it, and you get either the order that was accepted or, if none was, a fresh chance. You can't end up with two.
faq-wait = It says sold out. Is it worth waiting?
faq-wait-text = Often. Units that somebody reserved and did not pay for within { $time } go back on sale at that moment, and so do cancelled ones. The button here opens again by itself.
faq-reload = Does reloading help?
faq-reload-text = No. The page follows the start and the stock by itself. When more people press than can be served at once, some are asked to wait a moment; their pages try again by themselves, at random moments, so who comes first is partly luck. Reloading only costs you seconds.
faq-change = Can I change my mind?
faq-change-text = Yes: an order that is not paid can be cancelled on its page at any time, and its units go back on sale.
said-live = The sale is open.
said-few = Almost gone.
said-paused = The sale is paused. It will go on here by itself.
said-ended = The sale is over.
said-sold-out = Every unit is taken. Keep this page open: if units come back, it will notice.
units-back = Units are back: { $left } left.
starts-in-a-minute = Starts in one minute.
starts-in-ten-seconds = Starts in ten seconds.
left-of = { $left } of { $total } left
left-of-at = { $left } of { $total } left at { $time }

## Ordering

one-moment = One moment…
ask-again = Ask again about your order
not-open = { $state }. Nothing was ordered.
nothing-then = Nothing was ordered then. You can order now.
checking-order = Checking on the order that you sent…
earlier-unanswered = An earlier order of yours never got its answer. Ask again, or discard it.
sign-in-nothing-ordered = Sign in at the shop first. Nothing was ordered.
placing = Placing your order…
asking-again = { $reason }. Asking again with the same key, so you can't buy twice (try { $number })…
check-heading = Check your order
check-text = Nothing is ordered yet. One more press places the order.
not-yet = Not yet
reload-to-ask = Reload this page to ask again. It can't be ordered twice.
not-learned = We could not learn what became of your order. Press the button to ask again: it can't be ordered twice.
reserved-leading = Reserved! Taking you to your order…
reserved = Reserved!
ordered-in-other-tab = You have ordered this in another tab, so nothing was ordered here. To order once more, press again.
see-your-order = See your order
ordered-before = You have ordered this here before.
refused-sold-out = Just sold out. If units come back, this page will notice: keep it open.
refused-sold-out-plain = Just sold out. Units that are not paid in time come back on sale: look again later.
refused-not-enough-left = Fewer units are left than you asked for. Try a smaller quantity.
refused-not-started = The sale has not started yet. Nothing was ordered.
refused-ended = The sale is over. Nothing was ordered.
refused-paused = The sale is paused. Nothing was ordered; try again when it goes on.
refused-over-limit = You have reached the limit per person for this product.
refused-price-changed = The price has changed since this page was loaded, and nothing was ordered. Look at the new one before you order.
refused-cooling-down = Too many of your orders were cancelled or not paid. Wait a moment before the next one.
refused-too-many-holds = You have too many unpaid orders. Pay one first; a turn of yours that is open counts as one.
refused-holds-used-up = As many of your orders of this product were cancelled or not paid in time as one buyer may have. You can't order it again in this sale.
refused-turn-required = It is not your turn. This product is sold to its line: who has joined is called.
refused-unknown-sku = This product is not in the sale any more.
excuse-cut-short = The shop's answer was cut short
excuse-not-recognised = The shop did not recognise you
excuse-busy = The shop is very busy
excuse-unknown = The shop can't tell yet whether your order went through
excuse-lost = The shop's answer got lost

## The buy button in a page of the shop

button-not-a-number = This button can't sell: its attribute "{ $name }" must be a number.
not-on-sale = This is not on sale.
button-sign-in = Sign in first. Nothing was ordered.
button-to-line = To the line
button-your-turn = It is your turn: order { $units } at most until { $time }.
button-price-changed = A unit costs { $price } now, and nothing was ordered. Press again to order at that price.
opens-in = Opens in { $span }

## An order, and the list of one's orders

your-order = Your order
order-description = An order in a flash sale: what it holds, and until when it can be paid.
orders-description = The orders that were placed in this browser.
order-loading = Looking up your order…
pay-within = Pay within
pay-by = To be paid by
pay-now = Pay now
pay-now-demo = Pay now (demo)
pay-amount = Pay { $amount }
pay-amount-demo = Pay { $amount } (demo)
cancel-order = Cancel the order
product = Product
product-of-sale = Product { $product } of sale { $sale }
unit-price = Unit price
placed = Placed
closed = Closed
order-number = Order number
short-for = short for
keep-address = Keep the address of this page: it leads back to your order. Reload it to see how the order stands.
back-to-sales = Back to the sales
back-to-product = Back to the product
order-without-script = Show this order without JavaScript
orders-needs-script = This page needs JavaScript to read your orders.
sure-title = Cancel this order?
sure-text = Its units go back on sale at once, and somebody else may take them.
keep-order = Keep it
paying = Paying…
cancelling = Cancelling…
no-answer-asking-again = No answer yet. Asking again; it can't happen twice (try { $number })…
no-answer-yet = No answer from the shop yet. Trying again…
shop-takes-payment = The shop takes your payment.
held = Reserved
held-heading = Reserved for you
held-text = Your units are set aside. Pay in time and they are yours.
pending = Accepted
pending-heading = Your order is accepted
pending-text = It is being written into the books; this takes a moment.
paid = Paid
paid-heading = Paid. It is yours!
paid-text = Thank you. The shop prepares your delivery.
cancelled = Cancelled
cancelled-heading = This order is cancelled
cancelled-text = Its units went back on sale. There is nothing to pay.
expired = Expired
expired-heading = This order has expired
expired-text = It was not paid in time, so its units went back on sale.
refunded = Refunded
refunded-heading = This order is refunded
refunded-text = The money goes back the way it was paid.
rejected = Not possible
rejected-heading = This order could not be kept
rejected-text = There is nothing to pay.
refund-held = A payment arrived that was not of this order's amount, so the order is not paid yet. The shop will refund that payment.
refund-paid = Another payment arrived that this order did not need. The shop will refund it.
refund-other = A payment arrived that did not pay for this order. The shop will refund it.
refund-part = Of { $amount }, { $refunded } go back to you.
refund-due = { $status }, refund due
sign-in-to-see = Sign in to see this order
no-such-order = No such order
no-such-order-text = There is no order with this number among yours. Orders are shown only to the buyer who placed them.
orders-lead = Orders that were placed in this browser.
no-orders = None yet. An order that you place here stays in this list.
sign-in-to-list = Sign in at the shop to see how they stand.
standing-not-known = No answer from the shop: how they stand is not known.
order-short = No. { $number }

## No page

not-found-title = Page not found
not-found-description = There is no page at this address.
not-found-heading = Nothing on this shelf
not-found-text = There is no page at this address. The sale may have been renamed, or a letter went missing on the way.
see-sales = See the sales

## A product that is sold to its line

line-title = Sold to its line
line-units = { $count ->
    [one] { $text } unit, sold to a line
   *[other] { $text } units, sold to a line
}
line-unsold = { $left } of { $total } not sold yet
line-means-place = Joining costs nothing and binds you to nothing. Everybody has one place, on any device.
line-means-turn = When you are called, a unit is set aside for you alone, and you have { $turn } to order it. Nobody can be faster than you.
line-means-presence = Be on this page when your place is reached: whoever is not there is waited for { $grace }, then the next is called.
line-check = Check my place
line-check-good = It holds. Checked in this browser: your entry is one of the { $entries } that were fixed before the draw, the draw is made of what was announced, and your number { $number } has place { $place } in it.
line-check-bad = It does not hold: what was published does not give your number { $number } the place { $place }. Reload the page and check again; if it stays so, tell the shop your number.
line-check-failed = The shop could not be reached to check it. Try again.
line-draw-open = Places are drawn at { $time } among everybody who has joined by then: until then, joining early or late makes no difference. Whoever joins later stands behind them.
line-draw-alone = No public beacon takes part: whoever runs the sale could still choose by the last entries which draw comes of them.
line-draw-beacon = { $late ->
    [0] A public beacon takes part, whose value nobody here knows before. If it stays silent, the places are drawn without it once the sale starts.
   *[other] A public beacon takes part, whose value nobody here knows before. If it stays silent, the places are drawn without it, at most { $late } seconds after the sale starts, and nobody is called before that.
}
line-join = Join the line
line-working = Your browser is working something out before you join, which is too much for programs that would join by the thousand. It takes some seconds.
line-verify = Go to that page
line-place = Your place: { $place }
line-number = Your number: { $number }
line-drawing = Your place is not drawn yet
line-drawing-text = It is drawn among everybody who has joined in time, and shown here.
line-drawn-at = It is drawn at { $time }.
line-sure = You will get one
line-sure-text = A unit is kept for your place, if you are here when it is reached.
line-maybe = You may get one
line-maybe-text = It depends on those who were promised one before you.
line-as-of = As of { $time }.
line-ahead = { $count ->
    [0] You are next when one comes free.
    [one] { $text } person ahead of you is not sure either.
   *[other] { $text } people ahead of you are not sure either.
}
line-open = Not sold yet: { $units }. Whatever is not ordered or not paid for in time goes down the line.
line-gave-up = Gave up so far: { $text }.
line-moved-added = Added ({ $time }): { $units }.
line-moved-taken = Taken off sale, as not there ({ $time }): { $units }.
line-moved-unpaid = Came back unpaid or cancelled ({ $time }): { $units }.
line-moved-back = Gave up ({ $time }): { $text }.
line-none = Nothing is left
line-none-text = Unless units come back or are added: this page would notice.
line-unknown = Not known right now
line-unknown-text = There is no fresh news from the shop, so nothing is promised here. Your place is kept, and we keep asking.
line-reached = Your place is reached
line-reached-text = Stay here: you are called in a moment.
line-reached-paused = Stay here: the sale is paused, and you are called once it goes on.
line-called = It is your turn
line-called-text = Set aside for you: { $units }. Order before the time is up: after that, nothing is kept for you. The time is the same for everybody and can't be made longer.
line-called-paused = Set aside for you: { $units }. The sale is paused: you can order once it goes on, and the time of your turn stands until then.
line-blocked = You can't be called right now
line-blocked-text = You have as many unpaid orders and open turns as one may have in this sale: pay for one or give one back, and you are called if a unit is left.
line-away = You were away when your turn came
line-away-text = You are called as soon as a unit is free. Stay here.
line-over = Your turn is over
line-over-text = You have ordered, given it back, or let the time go by.
line-ordered = You have ordered
line-ordered-text = Your turn was used for an order.
line-expired = Your turn passed
line-expired-text = Its time went by without an order, so nothing is set aside for you any more.
line-given-back = You gave your turn back
line-given-back-text = Nothing is set aside for you any more.
line-closed = The line is closed
line-closed-text = The sale is over, and nobody is promised a unit any more.
line-starts = The first are called at { $time }.
line-minutes = As fast as the line moves now, your place is reached in { $from } to { $to } minutes.
line-no-time = How long it takes until your place is reached can't be said right now.
line-late = The sale may well end before your place is reached: it ends at { $time }, and after that only those who are sure are called.
line-may-close = You may close this page: your place is kept. Be back by { $time }.
line-stay = Keep this page open and in front.
line-turn-left = Time left to order
line-seconds-left = { $text } seconds left to order.
line-not-yet = Not your turn yet
line-ready = Fill this in while you wait: then one press is all it takes when you are called. It stays in this tab until you send it.
line-sound = Sound when I am called
line-receipt = Save a receipt of my place
line-receipt-failed = The receipt could not be had. Try again in a moment.
line-leave = I don't want it any more
line-leave-title = Give your turn back?
line-leave-text = Once you give it back, nothing is set aside for you any more, and you can't have it again.
line-keep = Keep my turn
line-asks-again = This page asks again every few seconds, and shows the shop that you are here. Keep it open.
line-order-by = Order by { $time }.
refused-line-full = The line is full.
refused-no-line = This product is not sold to a line.
refused-line-opens-later = This line opens for you at { $time }.
refused-line-opens-later-plain = This line is not open to you yet. Come back nearer to the start.
refused-line-not-open = Only those whom the shop has invited may join this line. If you are a member, sign in as one.
refused-verification-required = Before you join, your browser has to work something out, which takes JavaScript: switch it on, or use another browser.
refused-verification-token-required = Before you join, the shop checks that you are no program that joins by the thousand. That is done on a page of the shop.
faq-turn = Can I have more time for my turn?
faq-turn-text = No. Others wait for the same units, so everybody has { $turn }, and that is part of the sale. You may fill in everything while you wait, and you are warned before the time is up. Paying comes later and has a time of its own.
