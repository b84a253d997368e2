# Los textos de las páginas para compradores, en español. Los nombres son los de en.ftl.

language-name = Español
direction = ltr
locale-numbers = es
locale-dates = es

number-group = .
number-group-from = 5
number-decimal = ,
money = { $sign ->
    [none] { $amount }{ "\u00A0" }{ $code }
   *[other] { $amount }{ "\u00A0" }{ $sign }
}
currency-sign = { $code ->
    [EUR] €
    [USD] US$
   *[none] none
}
month = { $month ->
    [1] ene
    [2] feb
    [3] mar
    [4] abr
    [5] may
    [6] jun
    [7] jul
    [8] ago
    [9] sept
    [10] oct
    [11] nov
   *[12] dic
}
moment = { $day } { $month } { $year }, { $time } UTC
duration-seconds = { $count ->
    [one] 1 segundo
   *[other] { $text } segundos
}
duration-minutes = { $count ->
    [one] 1 minuto
   *[other] { $text } minutos
}
duration-hours = { $count ->
    [one] 1 hora
   *[other] { $text } horas
}
span-days = { $days } d { $hours } h
span-hours = { $hours } h { $minutes } min
span-minutes = { $minutes } min { $seconds } s
span-seconds = { $seconds } s
unit-days = días
unit-hours = horas
unit-minutes = min
unit-seconds = s
units = { $count ->
    [one] { $text } unidad
   *[other] { $text } unidades
}

skip-to-content = Ir al contenido
site = Sitio
sales = Ventas
my-orders = Mis pedidos
language = Idioma
breadcrumb = Ruta
footer-promise = Existencias limitadas, vendidas con exactitud: nunca una unidad más de las que hay, y un pedido aceptado se mantiene.
footer-demo = Esto es una demostración. No se entrega nada ni se mueve dinero.
no-connection = Sin conexión con la tienda. Lo que ve puede no estar al día; seguimos intentándolo.
no-answer = La tienda no responde.
server-answered = El servidor respondió { $status }.
sign-in = Iniciar sesión
sign-in-first = Inicie sesión primero en la tienda.

index-title = Ventas
index-title-ended = Ventas terminadas
index-description = Existencias limitadas, vendidas con exactitud: las ventas en curso y las que empiezan pronto.
sale-description = Los productos de esta venta: existencias limitadas, vendidas con exactitud.
hero-few = Pocas unidades. Un comienzo.
hero-exactly = Vendidas con exactitud.
hero-text = Cuando se abre una venta, lo que ve es lo que queda. Un pedido aceptado puede pagarlo con calma.
badge-live = En curso
badge-starts-soon = Empieza pronto
badge-paused = En pausa
badge-ended = Terminada
badge-sold-out = Agotado
badge-almost-gone = Casi agotado
starts = Empieza
until = Hasta
ends = Termina
ended = Terminó
ended-early = Terminó antes de tiempo
starts-in = Empieza en { $span }
ends-in = Termina en { $span }
ended-on = Terminó: { $time }
instead-of = en lugar de
units-in-sale = { $count ->
    [one] { $text } unidad en esta venta
   *[other] { $text } unidades en esta venta
}
limit-per-person = { $text } por persona
more-products = { $count ->
    [one] Y { $text } producto más en esta venta
   *[other] Y { $text } productos más en esta venta
}
no-sale = Ahora no hay ninguna venta prevista. Vuelva pronto.
no-others = No hay más.
more = Más
next-page = Página siguiente
to-ended = Ventas terminadas
to-current = Ventas en curso o que empiezan pronto

drawing-of = Dibujo de { $title }
order-as-member = Hace el pedido como miembro
buy-title-reserve = Reserve el suyo
buy-title-order = Pida el suyo
buy-title-ended = Esta venta ha terminado
ready-with-address = Rellénelo antes del comienzo: después basta una pulsación. Se queda en esta pestaña hasta que lo envíe.
ready = Al comienzo basta una pulsación.
quantity = Cantidad
at-most = como máximo { $text }
at-most-per-person = como máximo { $text } por persona
only-one-left = solo queda 1
goes-to = Se envía a
change = Cambiar
where-to = ¿Adónde lo enviamos?
send-address = Enviar esta dirección
address-once = Solo se puede indicar una vez. Revísela antes de enviarla.
sending-address = Enviando la dirección…
full-name = Nombre y apellidos
phone = Teléfono
street = Calle y número
post-code = Código postal
city = Ciudad
district = Distrito
province = Provincia
country = País
optional = opcional
total = Total
buy-now = Comprar ahora
not-open-yet = Aún no está abierta
sale-ended = Venta terminada
forget-attempt = Descartar el intento anterior
no-script = Sin JavaScript esta página no sigue la venta: recárguela para ver cómo va.
how-title = Cómo funciona esta venta
how-clock = Según nuestro reloj.
how-clock-text = La cuenta atrás sigue la hora del servidor, no la de su dispositivo. Nadie entra antes.
how-reserved = Reservado durante { $time }.
how-reserved-text = Ese tiempo conserva sus unidades un pedido aceptado. Pague con calma; lo difícil ya pasó.
how-account = A cuenta.
how-account-text = Un pedido aceptado es suyo al momento; la tienda envía la factura.
how-once = Nunca se compra dos veces.
how-once-text = Dobles pulsaciones, recargas y conexiones perdidas llevan al mismo y único pedido.
how-second = Segundas oportunidades.
how-second-text = Las unidades que no se pagan vuelven a la venta. Deje la página abierta: se lo dirá.
term-units = Unidades
term-per-person = Por persona
no-limit = sin límite
faq-title = Conviene saber
faq-lost = Se cortó la conexión mientras hacía el pedido. ¿Lo tengo?
faq-lost-text = Abra de nuevo esta página en el mismo navegador. Su pedido lleva un número que solo conoce su navegador; la página pregunta con él y usted recibe el pedido aceptado o, si no lo hubo, una nueva oportunidad. No pueden ser dos.
faq-wait = Pone agotado. ¿Merece la pena esperar?
faq-wait-text = A menudo. Lo que alguien reservó y no pagó en { $time } vuelve entonces a la venta, y lo cancelado también. El botón de aquí se abre solo.
faq-reload = ¿Ayuda recargar?
faq-reload-text = No. La página sigue sola el comienzo y las existencias. Cuando pulsan más personas de las que se pueden atender a la vez, algunas tienen que esperar un momento; sus páginas lo intentan de nuevo solas, en momentos al azar, así que llegar primero es en parte suerte. Recargar solo cuesta segundos.
faq-change = ¿Puedo cambiar de idea?
faq-change-text = Sí: un pedido sin pagar se puede cancelar en su página en cualquier momento, y sus unidades vuelven a la venta.
said-live = La venta está abierta.
said-few = Casi agotado.
said-paused = La venta está en pausa. Seguirá aquí por sí sola.
said-ended = La venta ha terminado.
said-sold-out = Todas las unidades están ocupadas. Deje esta página abierta: si vuelven algunas, lo notará.
units-back = Vuelve a haber: quedan { $left }.
starts-in-a-minute = Empieza dentro de un minuto.
starts-in-ten-seconds = Empieza dentro de diez segundos.
left-of = Quedan { $left } de { $total }
left-of-at = Quedaban { $left } de { $total } a las { $time }

one-moment = Un momento…
ask-again = Preguntar por su pedido
not-open = { $state }. No se ha pedido nada.
nothing-then = Antes no se pidió nada. Ahora puede hacer el pedido.
checking-order = Comprobando el pedido que envió…
earlier-unanswered = Un pedido suyo anterior quedó sin respuesta. Pregunte de nuevo o descártelo.
sign-in-nothing-ordered = Inicie sesión primero en la tienda. No se ha pedido nada.
placing = Haciendo su pedido…
asking-again = { $reason }. Se pregunta de nuevo con la misma clave, así que no puede comprar dos veces (intento { $number })…
check-heading = Revise su pedido
check-text = Aún no se ha pedido nada. Con una pulsación más se hace el pedido.
not-yet = Todavía no
reload-to-ask = Recargue esta página para preguntar de nuevo. No se puede pedir dos veces.
not-learned = No hemos podido saber qué fue de su pedido. Pulse el botón para preguntar de nuevo: no se puede pedir dos veces.
reserved-leading = ¡Reservado! Vamos a su pedido…
reserved = ¡Reservado!
ordered-in-other-tab = Lo ha pedido en otra pestaña, así que aquí no se ha pedido nada. Para pedir otra vez, pulse de nuevo.
see-your-order = Ver su pedido
ordered-before = Ya ha pedido esto aquí.
refused-sold-out = Se acaba de agotar. Si vuelven unidades, esta página lo notará: déjela abierta.
refused-sold-out-plain = Se acaba de agotar. Las unidades que no se pagan a tiempo vuelven a la venta: mire de nuevo más tarde.
refused-not-enough-left = Quedan menos unidades de las que pide. Pruebe con una cantidad menor.
refused-not-started = La venta aún no ha empezado. No se ha pedido nada.
refused-ended = La venta ha terminado. No se ha pedido nada.
refused-paused = La venta está en pausa. No se ha pedido nada; inténtelo cuando siga.
refused-over-limit = Ha llegado al límite por persona de este producto.
refused-price-changed = El precio ha cambiado desde que se cargó esta página y no se ha pedido nada. Mire el nuevo antes de pedir.
refused-cooling-down = Demasiados pedidos suyos se cancelaron o no se pagaron. Espere un momento antes del siguiente.
refused-too-many-holds = Tiene demasiados pedidos sin pagar. Pague uno primero; si es su turno en una cola, cuenta como uno más.
refused-holds-used-up = Se cancelaron o no se pagaron a tiempo tantos pedidos suyos de este producto como puede tener un comprador. Ya no puede pedirlo en esta venta.
refused-turn-required = No es su turno. Este producto se vende por orden de cola: se llama a quien se ha puesto en ella.
refused-unknown-sku = Este producto ya no está en la venta.
excuse-cut-short = La respuesta de la tienda llegó cortada
excuse-not-recognised = La tienda no le ha reconocido
excuse-busy = La tienda está muy ocupada
excuse-unknown = La tienda aún no sabe si su pedido se hizo
excuse-lost = La respuesta de la tienda se perdió

button-not-a-number = Este botón no puede vender: su atributo «{ $name }» debe ser un número.
not-on-sale = Esto no está a la venta.
button-sign-in = Inicie sesión primero. No se ha pedido nada.
button-to-line = Ir a la cola
button-your-turn = Es su turno: pida como máximo { $units } hasta las { $time }.
button-price-changed = Una unidad cuesta ahora { $price } y no se ha pedido nada. Pulse otra vez para pedir a ese precio.
opens-in = Empieza en { $span }

your-order = Su pedido
order-description = Un pedido de una venta: qué reserva y hasta cuándo se puede pagar.
orders-description = Los pedidos que se hicieron en este navegador.
order-loading = Buscando su pedido…
pay-within = Para pagar quedan
pay-by = A pagar antes de
pay-now = Pagar ahora
pay-now-demo = Pagar ahora (demostración)
pay-amount = Pagar { $amount }
pay-amount-demo = Pagar { $amount } (demostración)
cancel-order = Cancelar el pedido
product = Producto
product-of-sale = Producto { $product } de la venta { $sale }
unit-price = Precio por unidad
placed = Hecho
closed = Cerrado
order-number = Número de pedido
short-for = abreviatura de
keep-address = Guarde la dirección de esta página: lleva de vuelta a su pedido. Recárguela para ver cómo está.
back-to-sales = Volver a las ventas
back-to-product = Volver al producto
order-without-script = Mostrar este pedido sin JavaScript
orders-needs-script = Esta página necesita JavaScript para leer sus pedidos.
sure-title = ¿Cancelar este pedido?
sure-text = Sus unidades vuelven a la venta al momento y otra persona puede quedárselas.
keep-order = Conservarlo
paying = Pagando…
cancelling = Cancelando…
no-answer-asking-again = Aún no hay respuesta. Se pregunta de nuevo; no puede ocurrir dos veces (intento { $number })…
no-answer-yet = La tienda aún no responde. Intentándolo de nuevo…
shop-takes-payment = El pago lo recibe la tienda.
held = Reservado
held-heading = Reservado para usted
held-text = Sus unidades están apartadas. Pague a tiempo y son suyas.
pending = Aceptado
pending-heading = Su pedido está aceptado
pending-text = Se está anotando en los libros; tarda un momento.
paid = Pagado
paid-heading = Pagado. ¡Es suyo!
paid-text = Gracias. La tienda prepara el envío.
cancelled = Cancelado
cancelled-heading = Este pedido está cancelado
cancelled-text = Sus unidades han vuelto a la venta. No hay nada que pagar.
expired = Caducado
expired-heading = Este pedido ha caducado
expired-text = No se pagó a tiempo, así que sus unidades han vuelto a la venta.
refunded = Reembolsado
refunded-heading = Este pedido está reembolsado
refunded-text = El dinero vuelve por donde se pagó.
rejected = No es posible
rejected-heading = No se ha podido mantener este pedido
rejected-text = No hay nada que pagar.
refund-held = Llegó un pago que no era del importe de este pedido, así que aún no está pagado. La tienda devolverá ese pago.
refund-paid = Llegó otro pago que este pedido no necesitaba. La tienda lo devolverá.
refund-other = Llegó un pago que no pagó este pedido. La tienda lo devolverá.
refund-part = De { $amount } se le devuelven { $refunded }.
refund-due = { $status }, reembolso pendiente
sign-in-to-see = Inicie sesión para ver este pedido
no-such-order = No existe ese pedido
no-such-order-text = Entre los suyos no hay ningún pedido con este número. Un pedido solo lo ve quien lo hizo.
orders-lead = Pedidos que se hicieron en este navegador.
no-orders = Aún ninguno. Lo que pida aquí se queda en esta lista.
sign-in-to-list = Inicie sesión en la tienda para ver cómo están.
standing-not-known = La tienda no responde: no se sabe cómo están.
order-short = N.º { $number }

not-found-title = Página no encontrada
not-found-description = No hay ninguna página en esta dirección.
not-found-heading = En este estante no hay nada
not-found-text = No hay ninguna página en esta dirección. Puede que la venta se llame ahora de otra manera o que se perdiera una letra por el camino.
see-sales = Ver las ventas

line-title = Se vende por orden de cola
line-units = { $count ->
    [one] { $text } unidad, se vende por orden de cola
   *[other] { $text } unidades, se venden por orden de cola
}
line-unsold = { $left } de { $total } sin vender todavía
line-means-place = Ponerse en la cola no cuesta nada ni obliga a nada. Cada persona tiene un puesto, en cualquier dispositivo.
line-means-turn = Cuando se le llame, una unidad queda apartada solo para usted, y tiene { $turn } para pedirla. Nadie puede ser más rápido.
line-means-presence = Esté en esta página cuando llegue su puesto: a quien no está se le espera { $grace }; después se llama al siguiente.
line-check = Comprobar mi puesto
line-check-good = Es correcto. Comprobado en este navegador: su entrada es una de las { $entries } fijadas antes del sorteo, el sorteo está hecho con lo que se anunció, y a su número { $number } le toca en él el puesto { $place }.
line-check-bad = No es correcto: lo publicado no da a su número { $number } el puesto { $place }. Vuelva a cargar la página y compruébelo otra vez; si sigue igual, indique su número a la tienda.
line-check-failed = No se pudo contactar con la tienda para comprobarlo. Inténtelo de nuevo.
line-draw-open = Los puestos se sortean el { $time } entre quienes se hayan puesto en la cola hasta entonces: hasta ese momento da igual llegar antes o después. Quien llegue más tarde queda detrás.
line-draw-alone = No participa ninguna fuente pública de azar: quien organiza la venta aún podría elegir, con las últimas inscripciones, qué sorteo resulta.
line-draw-beacon = { $late ->
    [0] Participa una fuente pública de azar, cuyo valor nadie conoce aquí de antemano. Si calla, los puestos se sortean sin ella en cuanto empiece la venta.
   *[other] Participa una fuente pública de azar, cuyo valor nadie conoce aquí de antemano. Si calla, los puestos se sortean sin ella, como mucho { $late } segundos después del comienzo de la venta, y antes no se llama a nadie.
}
line-join = Ponerse en la cola
line-working = Antes de ponerse en la cola, su navegador calcula algo que resulta demasiado para los programas que quieren ponerse mil veces. Tarda unos segundos.
line-verify = Ir a esa página
line-place = Su puesto: { $place }
line-number = Su número: { $number }
line-drawing = Su puesto aún no se ha sorteado
line-drawing-text = Se sortea entre quienes llegaron a tiempo y se muestra aquí.
line-drawn-at = Se sortea el { $time }.
line-sure = Tendrá una
line-sure-text = Hay una unidad guardada para su puesto, si está aquí cuando llegue.
line-maybe = Quizá tenga una
line-maybe-text = Depende de quienes tienen una prometida antes que usted.
line-as-of = Datos de las { $time }.
line-ahead = { $count ->
    [0] Usted es quien sigue en cuanto una quede libre.
    [one] Delante de usted hay { $text } persona que tampoco lo sabe.
   *[other] Delante de usted hay { $text } personas que tampoco lo saben.
}
line-open = Sin vender todavía: { $units }. Lo que no se pide o no se paga a tiempo pasa a los siguientes de la cola.
line-gave-up = Han renunciado hasta ahora: { $text }.
line-moved-added = Añadido ({ $time }): { $units }.
line-moved-taken = Retirado de la venta por no existir ({ $time }): { $units }.
line-moved-unpaid = Ha vuelto sin pagar o anulado ({ $time }): { $units }.
line-moved-back = Han renunciado ({ $time }): { $text }.
line-none = No queda nada
line-none-text = Salvo que vuelvan o se añadan unidades: esta página lo notaría.
line-unknown = Ahora mismo no se sabe
line-unknown-text = No hay noticias recientes de la tienda, así que aquí no se promete nada. Su puesto se conserva y seguimos preguntando.
line-reached = Ha llegado su puesto
line-reached-text = Quédese aquí: se le llama en un momento.
line-reached-paused = Quédese aquí: la venta está en pausa y se le llamará cuando siga.
line-called = Es su turno
line-called-text = Apartado para usted: { $units }. Haga el pedido antes de que acabe el tiempo: después ya no habrá nada apartado para usted. El tiempo es igual para todos y no se puede alargar.
line-called-paused = Apartado para usted: { $units }. La venta está en pausa: podrá hacer el pedido cuando siga, y hasta entonces su tiempo no corre.
line-blocked = Ahora mismo no se le puede llamar
line-blocked-text = Tiene tantos pedidos sin pagar y turnos abiertos como se pueden tener en esta venta: pague uno o renuncie a uno, y se le llama si queda una unidad.
line-away = No estaba cuando llegó su turno
line-away-text = Se le llama en cuanto haya una unidad libre. Quédese aquí.
line-over = Su turno ha terminado
line-over-text = Ha hecho el pedido, ha renunciado o ha dejado pasar el tiempo.
line-ordered = Ha hecho el pedido
line-ordered-text = Ha usado su turno para un pedido.
line-expired = Su turno ha pasado
line-expired-text = El tiempo pasó sin un pedido, y ya no hay nada apartado para usted.
line-given-back = Ha renunciado a su turno
line-given-back-text = Ya no hay nada apartado para usted.
line-closed = La cola está cerrada
line-closed-text = La venta ha terminado y ya no se promete ninguna unidad a nadie.
line-starts = A los primeros se les llama el { $time }.
line-minutes = Al ritmo de ahora, su puesto llega en { $from } a { $to } minutos.
line-no-time = Ahora mismo no se puede decir cuánto tarda en llegar su puesto.
line-late = Es muy posible que la venta termine antes de que llegue su puesto: termina el { $time }, y después solo se llama a quienes tienen una unidad segura.
line-may-close = Puede cerrar esta página: su puesto se conserva. Vuelva antes del { $time }.
line-stay = Deje esta página abierta y a la vista.
line-turn-left = Tiempo que queda para pedir
line-seconds-left = Quedan { $text } segundos para pedir.
line-not-yet = Aún no es su turno
line-ready = Rellénelo mientras espera: así basta una pulsación cuando se le llame. Se queda en esta pestaña hasta que lo envíe.
line-sound = Sonido cuando se me llame
line-receipt = Guardar un comprobante de mi puesto
line-receipt-failed = No se pudo obtener el comprobante. Inténtelo de nuevo en un momento.
line-leave = Ya no lo quiero
line-leave-title = ¿Renunciar a su turno?
line-leave-text = Si lo devuelve, ya no habrá nada apartado para usted y no podrá recuperarlo.
line-keep = Conservar mi turno
line-asks-again = Esta página pregunta cada pocos segundos y muestra a la tienda que usted está aquí. Déjela abierta.
line-order-by = Haga el pedido antes del { $time }.
refused-line-full = La cola está llena.
refused-no-line = Este producto no se vende por orden de cola.
refused-line-opens-later = Podrá ponerse en esta cola a partir de { $time }.
refused-line-opens-later-plain = Esta cola aún no está abierta para usted. Vuelva cuando falte menos para el comienzo.
refused-line-not-open = En esta cola solo pueden ponerse quienes la tienda ha invitado. Si es socio, inicie sesión como tal.
refused-verification-required = Antes de ponerse en la cola, su navegador tiene que calcular algo, para lo que necesita JavaScript: actívelo o use otro navegador.
refused-verification-token-required = Antes de ponerse en la cola, la tienda comprueba que no es usted un programa que se pone mil veces. Eso se hace en una página de la tienda.
faq-turn = ¿Puedo tener más tiempo en mi turno?
faq-turn-text = No. Otras personas esperan las mismas unidades, así que todas tienen { $turn }, y eso forma parte de la venta. Puede rellenarlo todo mientras espera, y se le avisa antes de que acabe el tiempo. El pago viene después y tiene su propio plazo.
