# نصوص صفحات المشترين بالعربية. الأسماء هي أسماء en.ftl نفسها.

language-name = العربية
direction = rtl
locale-numbers = ar-u-nu-latn
locale-dates = ar-u-nu-latn

number-group = ,
number-group-from = 4
number-decimal = .
money = { $sign ->
    [none] { "\u200F" }{ $amount }{ "\u00A0" }{ $code }
   *[other] { "\u200F" }{ $amount }{ "\u00A0" }{ $sign }
}
currency-sign = { $code ->
    [EUR] €
    [USD] US$
    [GBP] UK£
    [JPY] JP¥
    [CNY] CN¥
    [INR] ₹
    [KRW] ₩
   *[none] none
}
month = { $month ->
    [1] يناير
    [2] فبراير
    [3] مارس
    [4] أبريل
    [5] مايو
    [6] يونيو
    [7] يوليو
    [8] أغسطس
    [9] سبتمبر
    [10] أكتوبر
    [11] نوفمبر
   *[12] ديسمبر
}
moment = { $day } { $month } { $year }، { $time } UTC
duration-seconds = { $count ->
    [one] ثانية واحدة
    [two] ثانيتين
    [few] { $text } ثوانٍ
   *[other] { $text } ثانية
}
duration-minutes = { $count ->
    [one] دقيقة واحدة
    [two] دقيقتين
    [few] { $text } دقائق
   *[other] { $text } دقيقة
}
duration-hours = { $count ->
    [one] ساعة واحدة
    [two] ساعتين
    [few] { $text } ساعات
   *[other] { $text } ساعة
}
span-days = { $days } ي { $hours } س
span-hours = { $hours } س { $minutes } د
span-minutes = { $minutes } د { $seconds } ث
span-seconds = { $seconds } ث
unit-days = أيام
unit-hours = ساعات
unit-minutes = دقائق
unit-seconds = ثوانٍ
units = { $count ->
    [zero] لا قطع
    [one] قطعة واحدة
    [two] قطعتان
    [few] { $text } قطع
   *[other] { $text } قطعة
}

skip-to-content = انتقل إلى المحتوى
site = الموقع
sales = العروض
my-orders = طلباتي
language = اللغة
breadcrumb = مسار التنقل
footer-promise = كمية محدودة تُباع بدقة: لا تُباع قطعة واحدة أكثر من الموجود، والطلب المقبول محفوظ.
footer-demo = هذا عرض توضيحي. لا يُسلَّم شيء ولا يُدفع مال.
no-connection = لا اتصال بالمتجر. قد يكون ما تراه قديمًا؛ نواصل المحاولة.
no-answer = لا جواب من المتجر.
server-answered = أجاب الخادم بـ { $status }.
sign-in = تسجيل الدخول
sign-in-first = سجّل الدخول في المتجر أولًا.

index-title = عروض سريعة
index-title-ended = عروض انتهت
index-description = كمية محدودة تُباع بدقة: العروض الجارية والتي تبدأ قريبًا.
sale-description = منتجات هذا العرض: كمية محدودة تُباع بدقة.
hero-few = قطع قليلة. بداية واحدة.
hero-exactly = بيع بدقة.
hero-text = عندما يبدأ العرض، فما تراه متبقيًا هو المتبقي فعلًا. والطلب الذي نقبله تدفع ثمنه بهدوء.
badge-live = جارٍ الآن
badge-starts-soon = يبدأ قريبًا
badge-paused = متوقف مؤقتًا
badge-ended = انتهى
badge-sold-out = نفدت الكمية
badge-almost-gone = أوشكت على النفاد
starts = يبدأ
until = حتى
ends = ينتهي
ended = انتهى
ended-early = انتهى مبكرًا
starts-in = يبدأ بعد { $span }
ends-in = ينتهي بعد { $span }
ended-on = انتهى { $time }
instead-of = بدلًا من
units-in-sale = { $count ->
    [zero] لا قطع في هذا العرض
    [one] قطعة واحدة في هذا العرض
    [two] قطعتان في هذا العرض
    [few] { $text } قطع في هذا العرض
   *[other] { $text } قطعة في هذا العرض
}
limit-per-person = { $text } لكل شخص
more-products = { $count ->
    [one] ومنتج آخر في هذا العرض
    [two] ومنتجان آخران في هذا العرض
    [few] و{ $text } منتجات أخرى في هذا العرض
   *[other] و{ $text } منتجًا آخر في هذا العرض
}
no-sale = لا عروض مقررة الآن. عُد قريبًا.
no-others = لا يوجد غيرها.
more = المزيد
next-page = الصفحة التالية
to-ended = عروض انتهت
to-current = عروض جارية أو تبدأ قريبًا

drawing-of = رسم { $title }
order-as-member = تطلب بصفتك العضو
buy-title-reserve = احجز الآن
buy-title-order = اطلب الآن
buy-title-ended = انتهى هذا العرض
ready-with-address = املأ هذا قبل البداية: عندها تكفي ضغطة واحدة. يبقى في علامة التبويب هذه حتى ترسله.
ready = عند البداية تكفي ضغطة واحدة.
quantity = الكمية
at-most = { $text } على الأكثر
at-most-per-person = { $text } على الأكثر لكل شخص
only-one-left = بقيت قطعة واحدة فقط
goes-to = يُرسل إلى
change = تغيير
where-to = إلى أين نرسله؟
send-address = إرسال هذا العنوان
address-once = يمكن تقديم العنوان مرة واحدة فقط. تحقق منه قبل إرساله.
sending-address = جارٍ إرسال العنوان…
full-name = الاسم الكامل
phone = الهاتف
street = الشارع ورقم المبنى
post-code = الرمز البريدي
city = المدينة
district = الحي
province = المحافظة
country = البلد
optional = اختياري
total = المجموع
buy-now = اشترِ الآن
not-open-yet = لم يُفتح بعد
sale-ended = انتهى العرض
forget-attempt = تجاهل المحاولة السابقة
no-script = من دون JavaScript لا تتابع هذه الصفحة البيع: أعد تحميلها لترى الحالة.
how-title = كيف يعمل هذا العرض
how-clock = بحسب ساعتنا.
how-clock-text = يتبع العدّ التنازلي وقت الخادم لا وقت جهازك. لا يدخل أحد قبل غيره.
how-reserved = محجوز لمدة { $time }.
how-reserved-text = يحتفظ الطلب المقبول بقطعه هذه المدة. ادفع بهدوء؛ لقد تجاوزت الزحام.
how-account = الدفع لاحقًا.
how-account-text = الطلب المقبول لك فورًا؛ ويرسل المتجر الفاتورة.
how-once = لا شراء مرتين.
how-once-text = النقر المزدوج وإعادة التحميل وانقطاع الاتصال تقود إلى الطلب نفسه.
how-second = فرصة ثانية.
how-second-text = تعود قطع الطلبات غير المدفوعة إلى البيع. أبقِ الصفحة مفتوحة: ستخبرك.
term-units = القطع
term-per-person = لكل شخص
no-limit = بلا حد
faq-title = معلومات مفيدة
faq-lost = انقطع الاتصال وأنا أطلب. هل حصلت عليه؟
faq-lost-text = افتح هذه الصفحة مرة أخرى في المتصفح نفسه. يحمل طلبك رقمًا لا يعرفه إلا متصفحك؛ تسأل الصفحة به، فتحصل إما على الطلب المقبول أو، إن لم يوجد، على فرصة جديدة. لا يمكن أن يصيرا طلبين.
faq-wait = مكتوب أن الكمية نفدت. هل يستحق الانتظار؟
faq-wait-text = كثيرًا ما يستحق. القطع التي حجزها أحد ولم يدفع ثمنها خلال { $time } تعود إلى البيع عندئذ، وكذلك الملغاة. يُفتح الزر هنا من تلقاء نفسه.
faq-reload = هل تفيد إعادة التحميل؟
faq-reload-text = لا. تتابع الصفحة البداية والكمية من تلقاء نفسها. وعندما يضغط أكثر ممن يمكن خدمتهم معًا، ينتظر بعضهم لحظة؛ وتحاول صفحاتهم من جديد في أوقات عشوائية، فمن يسبق محظوظ إلى حد ما. إعادة التحميل لا تكلفك إلا الثواني.
faq-change = هل يمكنني تغيير رأيي؟
faq-change-text = نعم: يمكن إلغاء الطلب غير المدفوع من صفحته في أي وقت، وتعود قطعه إلى البيع.
said-live = العرض مفتوح.
said-few = أوشكت الكمية على النفاد.
said-paused = العرض متوقف مؤقتًا. سيستمر هنا من تلقاء نفسه.
said-ended = انتهى العرض.
said-sold-out = كل القطع محجوزة. أبقِ هذه الصفحة مفتوحة: إن عادت قطع فستلاحظ ذلك.
units-back = عادت قطع إلى البيع: بقي { $left }.
starts-in-a-minute = يبدأ بعد دقيقة.
starts-in-ten-seconds = يبدأ بعد عشر ثوانٍ.
left-of = بقي { $left } من { $total }
left-of-at = بقي { $left } من { $total } في { $time }

one-moment = لحظة…
ask-again = اسأل عن طلبك مجددًا
not-open = { $state }. لم يُطلب شيء.
nothing-then = لم يُطلب شيء حينها. يمكنك الطلب الآن.
checking-order = جارٍ التحقق من الطلب الذي أرسلته…
earlier-unanswered = لم يصل جواب طلب سابق لك. اسأل عنه مجددًا أو تجاهله.
sign-in-nothing-ordered = سجّل الدخول في المتجر أولًا. لم يُطلب شيء.
placing = جارٍ إرسال طلبك…
asking-again = { $reason }. نسأل مجددًا بالمفتاح نفسه، فلا يمكنك الشراء مرتين (المحاولة { $number })…
check-heading = راجع طلبك
check-text = لم يُطلب شيء بعد. ضغطة واحدة أخرى تُتمّ الطلب.
not-yet = ليس بعد
reload-to-ask = أعد تحميل هذه الصفحة للسؤال مرة أخرى. لا يمكن أن يُطلب مرتين.
not-learned = لم نتمكن من معرفة مصير طلبك. اضغط الزر للسؤال مجددًا: لا يمكن أن يُطلب مرتين.
reserved-leading = تم الحجز! ننتقل إلى طلبك…
reserved = تم الحجز!
ordered-in-other-tab = لقد طلبت هذا في علامة تبويب أخرى، فلم يُطلب هنا شيء. لطلب آخر اضغط مجددًا.
see-your-order = عرض طلبك
ordered-before = لقد طلبت هذا هنا من قبل.
refused-sold-out = نفدت الكمية للتو. إن عادت قطع فستلاحظ هذه الصفحة ذلك: أبقها مفتوحة.
refused-sold-out-plain = نفدت الكمية للتو. الوحدات التي لا تُدفع في الوقت المحدد تعود إلى البيع: عاود النظر لاحقًا.
refused-not-enough-left = المتبقي أقل مما طلبت. جرّب كمية أصغر.
refused-not-started = لم يبدأ العرض بعد. لم يُطلب شيء.
refused-ended = انتهى العرض. لم يُطلب شيء.
refused-paused = العرض متوقف مؤقتًا. لم يُطلب شيء؛ حاول عندما يُستأنف.
refused-over-limit = لقد بلغت الحد المسموح لكل شخص من هذا المنتج.
refused-price-changed = تغيّر السعر منذ تحميل هذه الصفحة، ولم يُطلب شيء. اطّلع على السعر الجديد قبل أن تطلب.
refused-cooling-down = أُلغي كثير من طلباتك أو لم يُدفع ثمنها. انتظر لحظة قبل الطلب التالي.
refused-too-many-holds = لديك طلبات كثيرة غير مدفوعة. ادفع أحدها أولًا؛ وإن حان دورك في طابور فهو يُحتسب واحدًا منها.
refused-holds-used-up = بلغ عدد طلباتك لهذا المنتج التي أُلغيت أو لم تُدفع في وقتها ما يُسمح به لكل مشترٍ. لا يمكنك طلبه مجددًا في هذا البيع.
refused-turn-required = لم يحن دورك بعد. يباع هذا المنتج بحسب الطابور، ويُستدعى من انضم إليه.
refused-unknown-sku = لم يعد هذا المنتج في العرض.
excuse-cut-short = وصل جواب المتجر ناقصًا
excuse-not-recognised = لم يتعرف عليك المتجر
excuse-busy = المتجر مزدحم جدًا
excuse-unknown = لا يعرف المتجر بعد هل تم طلبك
excuse-lost = ضاع جواب المتجر

button-not-a-number = لا يمكن لهذا الزر البيع: يجب أن تكون الخاصية "{ $name }" رقمًا.
not-on-sale = هذا ليس معروضًا للبيع.
button-sign-in = سجّل الدخول أولًا. لم يُطلب شيء.
button-to-line = إلى الطابور
button-your-turn = حان دورك: اطلب { $units } كحد أقصى حتى { $time }.
button-price-changed = سعر القطعة الآن { $price }، ولم يُطلب شيء. اضغط مرة أخرى للطلب بهذا السعر.
opens-in = يبدأ بعد { $span }

your-order = طلبك
order-description = طلب في عرض سريع: ما يحجزه، وحتى متى يمكن دفعه.
orders-description = الطلبات التي أُرسلت من هذا المتصفح.
order-loading = جارٍ البحث عن طلبك…
pay-within = ادفع خلال
pay-by = الدفع قبل
pay-now = ادفع الآن
pay-now-demo = ادفع الآن (تجريبي)
pay-amount = ادفع { $amount }
pay-amount-demo = ادفع { $amount } (تجريبي)
cancel-order = إلغاء الطلب
product = المنتج
product-of-sale = المنتج { $product } من العرض { $sale }
unit-price = سعر القطعة
placed = وقت الطلب
closed = وقت الإغلاق
order-number = رقم الطلب
short-for = اختصار
keep-address = احتفظ بعنوان هذه الصفحة: فهو يعيدك إلى طلبك. أعد تحميلها لترى حالته.
back-to-sales = العودة إلى العروض
back-to-product = العودة إلى المنتج
order-without-script = عرض هذا الطلب من دون JavaScript
orders-needs-script = تحتاج هذه الصفحة إلى JavaScript لقراءة طلباتك.
sure-title = إلغاء هذا الطلب؟
sure-text = تعود قطعه إلى البيع فورًا، وقد يأخذها شخص آخر.
keep-order = الاحتفاظ به
paying = جارٍ الدفع…
cancelling = جارٍ الإلغاء…
no-answer-asking-again = لا جواب بعد. نسأل مجددًا؛ لا يمكن أن يحدث مرتين (المحاولة { $number })…
no-answer-yet = لا جواب من المتجر بعد. نحاول مجددًا…
shop-takes-payment = يتسلم المتجر دفعتك.
held = محجوز
held-heading = محجوز لك
held-text = قطعك محفوظة جانبًا. ادفع في الوقت المحدد فتصبح لك.
pending = مقبول
pending-heading = طلبك مقبول
pending-text = يُدوَّن الآن في الدفاتر؛ يستغرق ذلك لحظة.
paid = مدفوع
paid-heading = تم الدفع. إنه لك!
paid-text = شكرًا لك. يجهز المتجر الشحنة.
cancelled = ملغى
cancelled-heading = أُلغي هذا الطلب
cancelled-text = عادت قطعه إلى البيع. لا شيء يُدفع.
expired = منتهي المهلة
expired-heading = انتهت مهلة هذا الطلب
expired-text = لم يُدفع في الوقت المحدد، فعادت قطعه إلى البيع.
refunded = مسترَد
refunded-heading = رُدّ ثمن هذا الطلب
refunded-text = يعود المال بالطريقة التي دُفع بها.
rejected = غير ممكن
rejected-heading = تعذر الاحتفاظ بهذا الطلب
rejected-text = لا شيء يُدفع.
refund-held = وصلت دفعة بمبلغ غير مبلغ هذا الطلب، فلم يُدفع الطلب بعد. سيرد المتجر تلك الدفعة.
refund-paid = وصلت دفعة أخرى لم يكن هذا الطلب بحاجة إليها. سيردها المتجر.
refund-other = وصلت دفعة لم تسدد ثمن هذا الطلب. سيردها المتجر.
refund-part = من { $amount } يعود إليك { $refunded }.
refund-due = { $status }، بانتظار رد المال
sign-in-to-see = سجّل الدخول لترى هذا الطلب
no-such-order = لا يوجد طلب كهذا
no-such-order-text = لا يوجد بين طلباتك طلب بهذا الرقم. لا يُعرض الطلب إلا لمن أرسله.
orders-lead = الطلبات التي أُرسلت من هذا المتصفح.
no-orders = لا شيء بعد. ما تطلبه هنا يبقى في هذه القائمة.
sign-in-to-list = سجّل الدخول في المتجر لترى حالتها.
standing-not-known = لا جواب من المتجر: حالتها غير معروفة.
order-short = رقم { $number }

not-found-title = الصفحة غير موجودة
not-found-description = لا صفحة في هذا العنوان.
not-found-heading = لا شيء على هذا الرف
not-found-text = لا صفحة في هذا العنوان. ربما تغيّر اسم العرض، أو ضاع حرف في الطريق.
see-sales = عرض العروض

line-title = يُباع بحسب الطابور
line-units = { $count ->
    [zero] لا قطع
    [one] قطعة واحدة تُباع بحسب الطابور
    [two] قطعتان تُباعان بحسب الطابور
    [few] { $text } قطع تُباع بحسب الطابور
   *[other] { $text } قطعة تُباع بحسب الطابور
}
line-unsold = لم يُبع بعد { $left } من أصل { $total }
line-means-place = الانضمام مجاني ولا يُلزمك بشيء. لكل شخص مكان واحد على أي جهاز.
line-means-turn = عندما تُستدعى تُحفظ قطعة لك وحدك، وأمامك { $turn } لطلبها. لا يمكن لأحد أن يسبقك.
line-means-presence = كن في هذه الصفحة عندما يصل الدور إلى مكانك: من لا يكون حاضرًا يُنتظر { $grace } ثم يُستدعى التالي.
line-check = التحقق من مكاني
line-check-good = صحيح. جرى التحقق في هذا المتصفح: تسجيلك واحد من { $entries } ثُبّتت قبل القرعة، والقرعة مبنية على ما أُعلن، ورقمك { $number } له فيها المكان { $place }.
line-check-bad = غير صحيح: ما نُشر لا يعطي رقمك { $number } المكان { $place }. أعد تحميل الصفحة وتحقق مرة أخرى؛ وإن بقي الأمر كذلك فأخبر المتجر برقمك.
line-check-failed = تعذر الوصول إلى المتجر للتحقق. حاول مرة أخرى.
line-draw-open = تُجرى القرعة على الأماكن في { $time } بين كل من انضم حتى ذلك الوقت: لا فرق قبله بين من انضم مبكرًا أو متأخرًا. ومن ينضم بعده يقف خلفهم.
line-draw-alone = لا تشارك في القرعة منارة عشوائية عامة: من يدير البيع لا يزال بإمكانه أن يختار، بآخر المنضمين، أي قرعة تنتج.
line-draw-beacon = { $late ->
    [0] تشارك في القرعة منارة عشوائية عامة لا يعرف أحد هنا قيمتها مسبقًا. إن بقيت صامتة تُجرى القرعة من دونها عند بدء البيع.
   *[other] تشارك في القرعة منارة عشوائية عامة لا يعرف أحد هنا قيمتها مسبقًا. إن بقيت صامتة تُجرى القرعة من دونها في مدة أقصاها (بالثواني) { $late } بعد بدء البيع، ولا يُستدعى أحد قبل ذلك.
}
line-join = انضم إلى الطابور
line-working = قبل انضمامك يُجري متصفحك عملية حسابية تُثقل على البرامج التي تريد الانضمام آلاف المرات. يستغرق ذلك بضع ثوانٍ.
line-verify = انتقل إلى تلك الصفحة
line-place = مكانك: { $place }
line-number = رقمك: { $number }
line-drawing = لم تُجرَ القرعة على مكانك بعد
line-drawing-text = تُجرى بين كل من انضم في الوقت المحدد، ويظهر المكان هنا.
line-drawn-at = تُجرى القرعة في { $time }.
line-sure = ستحصل على قطعة
line-sure-text = هناك قطعة محفوظة لمكانك إن كنت هنا عندما يصل الدور إليه.
line-maybe = قد تحصل على قطعة
line-maybe-text = يتوقف ذلك على من وُعدوا بقطعة قبلك.
line-as-of = حتى الساعة { $time }.
line-ahead = { $count ->
    [0] أنت التالي حالما تتوفر قطعة.
    [one] أمامك شخص واحد غير متأكد أيضًا.
    [two] أمامك شخصان غير متأكدين أيضًا.
    [few] أمامك { $text } أشخاص غير متأكدين أيضًا.
   *[other] أمامك { $text } شخصًا غير متأكدين أيضًا.
}
line-open = لم يُبع بعد: { $units }. ما لا يُطلب أو لا يُدفع ثمنه في وقته ينتقل إلى من يليه في الطابور.
line-gave-up = من تخلوا حتى الآن: { $text }.
line-moved-added = أضيف ({ $time }): { $units }.
line-moved-taken = سُحب من البيع لعدم وجوده ({ $time }): { $units }.
line-moved-unpaid = عاد دون دفع أو بعد إلغاء ({ $time }): { $units }.
line-moved-back = تخلّوا ({ $time }): { $text }.
line-none = لم يبقَ شيء
line-none-text = إلا إذا عادت قطع أو أضيفت: ستنتبه هذه الصفحة لذلك.
line-unknown = غير معروف الآن
line-unknown-text = لا أخبار حديثة من المتجر، لذلك لا نعدك هنا بشيء. مكانك محفوظ ونواصل السؤال.
line-reached = وصل الدور إلى مكانك
line-reached-text = ابقَ هنا: ستُستدعى بعد لحظات.
line-reached-paused = ابقَ هنا: العرض متوقف مؤقتًا، وستُستدعى عندما يستمر.
line-called = حان دورك
line-called-text = محفوظ لك: { $units }. اطلب قبل انتهاء الوقت، فبعده لا يُحفظ لك شيء. الوقت واحد للجميع ولا يمكن تمديده.
line-called-paused = محفوظ لك: { $units }. العرض متوقف مؤقتًا: يمكنك الطلب عندما يستمر، ولا يُحتسب وقتك حتى ذلك الحين.
line-blocked = لا يمكن استدعاؤك الآن
line-blocked-text = لديك من الطلبات غير المدفوعة والأدوار المفتوحة أقصى ما يُسمح به في هذا العرض: ادفع أحدها أو تنازل عن واحد، فتُستدعى إن بقيت قطعة.
line-away = لم تكن حاضرًا عندما حان دورك
line-away-text = ستُستدعى حالما تتوفر قطعة. ابقَ هنا.
line-over = انتهى دورك
line-over-text = لقد طلبت، أو تنازلت، أو انقضى الوقت.
line-ordered = لقد طلبت
line-ordered-text = استُخدم دورك لهذا الطلب.
line-expired = فات دورك
line-expired-text = انقضى الوقت دون طلب، ولم يعد شيء محفوظًا لك.
line-given-back = لقد تنازلت عن دورك
line-given-back-text = لم يعد شيء محفوظًا لك.
line-closed = الطابور مغلق
line-closed-text = انتهى العرض، ولم يعد أحد موعودًا بقطعة.
line-starts = يُستدعى الأوائل في { $time }.
line-minutes = بالسرعة الحالية يصل الدور إلى مكانك بعد عدد من الدقائق بين { $from } و{ $to }.
line-no-time = لا يمكن الآن القول كم يستغرق وصول الدور إلى مكانك.
line-late = قد ينتهي العرض قبل أن يصل الدور إلى مكانك: ينتهي في { $time }، ولا يُستدعى بعده إلا من ضُمنت له قطعة.
line-may-close = يمكنك إغلاق هذه الصفحة: مكانك محفوظ. عُد قبل { $time }.
line-stay = أبقِ هذه الصفحة مفتوحة وأمامك.
line-turn-left = الوقت المتبقي للطلب
line-seconds-left = الثواني المتبقية للطلب: { $text }.
line-not-yet = لم يحن دورك بعد
line-ready = املأ هذا أثناء الانتظار: عندها تكفي ضغطة واحدة عندما تُستدعى. يبقى في علامة التبويب هذه حتى ترسله.
line-sound = نبهني بصوت عندما أُستدعى
line-receipt = احفظ إيصالًا بمكاني
line-receipt-failed = تعذّر الحصول على الإيصال. حاول مرة أخرى بعد لحظات.
line-leave = لم أعد أريدها
line-leave-title = هل تتنازل عن دورك؟
line-leave-text = إن تخلّيت عنه فلن يبقى شيء محفوظًا لك، ولا يمكنك استعادته.
line-keep = أحتفظ بدوري
line-asks-again = تسأل هذه الصفحة كل بضع ثوانٍ وتُظهر للمتجر أنك هنا. أبقِها مفتوحة.
line-order-by = اطلب قبل { $time }.
refused-line-full = الطابور ممتلئ.
refused-no-line = لا يباع هذا المنتج بحسب الطابور.
refused-line-opens-later = يمكنك الانضمام إلى هذا الطابور ابتداءً من { $time }.
refused-line-opens-later-plain = هذا الطابور غير مفتوح لك بعد. عد قرب موعد البدء.
refused-line-not-open = لا ينضم إلى هذا الطابور إلا من دعاهم المتجر. إن كنت عضوًا فسجّل الدخول بصفتك عضوًا.
refused-verification-required = قبل انضمامك يجب أن يُجري متصفحك عملية حسابية، ويحتاج ذلك إلى JavaScript: فعّلها أو استخدم متصفحًا آخر.
refused-verification-token-required = قبل انضمامك يتحقق المتجر من أنك لست برنامجًا ينضم آلاف المرات. يجري ذلك في صفحة من صفحات المتجر.
faq-turn = هل يمكن أن أحصل على وقت أطول في دوري؟
faq-turn-text = لا. ينتظر آخرون القطع نفسها، لذلك للجميع { $turn }، وهذا جزء من العرض. يمكنك ملء كل شيء أثناء الانتظار، وسننبهك قبل انتهاء الوقت. أما الدفع فيأتي لاحقًا وله وقته.
