package stopwords

// lists has the function words by language: articles, pronouns, prepositions, conjunctions,
// auxiliary verbs and a few particles.
var lists = map[string]string{
	"ar": `
		من إلى عن على في مع هذا هذه ذلك تلك التي الذي الذين هو هي هم نحن أنا أنت كان كانت يكون لم لن لا ما
		ليس قد كل أو أن إن ثم حتى إذا بعد قبل بين عند كما غير أي و`,
	"de": `
		der die das den dem des ein eine einen einem einer eines und oder aber denn weil dass wenn als wie
		auch nicht kein keine nur noch schon so ich du er sie es wir ihr ihn ihm uns euch sich mein dein
		sein ihre unser von vom zu zum zur in im an am auf aus bei beim mit nach für durch gegen ohne um
		über unter vor hinter zwischen bis seit ist sind war waren bin bist sei wird werden wurde wurden
		worden hat haben hatte hatten kann können muss müssen soll sollen will wollen was wer wo hier da
		dann doch man dieser diese dieses diesem diesen`,
	"en": `
		a an the and or but nor if then else when while as at by for from in into of off on onto out over to
		up with without within about above after against before below between during through under until
		upon i me my mine we us our ours you your yours he him his she her hers it its they them their
		theirs this that these those who whom whose which what where why how is am are was were be been
		being have has had having do does did doing will would shall should can could may might must not no
		so than too very just only also there here all any both each few more most other some such own same
		s t don isn aren wasn doesn didn won`,
	"es": `
		el la los las un una unos unas lo y e o u pero ni que porque como cuando donde si no de del a al en
		con sin por para sobre entre desde hasta hacia contra tras según yo tú él ella ello nosotros
		vosotros ellos ellas me te se le les nos os mi mis tu tus su sus este esta estos estas ese esa esos
		esas aquel aquella es son era eran ser fue fueron ha han había habían haber está están estaba hay
		muy más menos ya también quien cual cuyo todo todos toda todas`,
	"fr": `
		le la les l un une des du de d au aux et ou mais donc or ni car que qu qui quoi dont où si ne n pas
		plus ce c cet cette ces je j tu il elle on nous vous ils elles me m te t se s lui leur leurs y en
		mon ma mes ton ta tes son sa ses notre nos votre vos à dans par pour sur sous avec sans entre chez
		vers contre depuis pendant est sont était étaient être été a ont avait avaient avoir sera seront
		comme quand aussi très tout tous toute toutes même`,
	"hi": `
		का के की को से में पर है हैं था थे थी थीं हो और या कि जो वह वे यह ये इस उस इन उन ने तो भी ही न नहीं
		एक अपना अपने अपनी कर करके लिए साथ तक मैं हम तुम आप मेरा हमारा उसका उनका जब तब अब कब कैसे क्या कौन
		होता होती होते गया गई गए रहा रही रहे`,
	"it": `
		il lo la i gli le l un uno una e ed o ma né che chi cui se non di del dello della dei degli delle d
		a al allo alla ai agli alle da dal dallo dalla dai dagli dalle in nel nello nella nei negli nelle
		con su sul sullo sulla sui sugli sulle per tra fra io tu lui lei noi voi loro mi ti ci vi si ne mio
		mia tuo tua suo sua nostro vostro questo questa questi queste quello quella è sono era erano essere
		stato ha hanno aveva avere come quando dove anche più già molto tutto tutti`,
	"nl": `
		de het een en of maar want dat die dit deze als dan toen niet geen wel ook nog al ik jij je u hij
		zij ze wij we jullie hen hun hem haar mij me ons mijn jouw zijn onze van in op aan uit bij met naar
		voor door over onder tegen zonder om tot tussen na sinds te is was waren ben bent wordt worden werd
		werden heeft hebben had hadden kan kunnen moet moeten zal zullen wil er hier daar wat wie waar hoe
		zo`,
	"pl": `
		i oraz a ale lub albo czy że żeby bo jak jako gdy kiedy gdzie jeśli nie tak też także już tylko w we
		z ze na do od po o u za dla przez przy pod nad przed między bez ja ty on ona ono my wy oni one mnie
		mi cię ci go mu jej jego ich im nas nam was wam się sobie mój twój swój ten ta to te tego tej tym
		tych który która które co kto jest są był była było były być będzie będą ma mają`,
	"pt": `
		o a os as um uma uns umas e ou mas nem que porque como quando onde se não de do da dos das em no na
		nos nas ao à aos às por pelo pela pelos pelas para com sem sobre entre desde até contra eu tu ele
		ela nós vós eles elas me te lhe lhes meu minha teu tua seu sua seus suas nosso nossa este esta isto
		esse essa isso aquele aquela é são era eram ser foi foram tem têm tinha ter há está estão muito mais
		menos já também quem qual todo todos toda todas`,
	"ru": `
		и а но или да ни не что чтобы как когда где если то же ли бы в во на с со к ко у о об от до из за по
		под над при про для без через между перед я ты он она оно мы вы они меня тебя его её ее нас вас их
		мне тебе ему ей нам вам им мной себя свой мой твой наш ваш этот эта это эти тот та те который
		которая которые кто был была было были быть есть будет будут так уже ещё еще только очень все всё
		весь вся`,
	"sv": `
		och eller men att som om när där för till från av på i vid med utan under över mellan genom efter
		före mot en ett den det de denna detta dessa jag du han hon vi ni mig dig honom henne oss er dem sig
		min din sin vår deras är var vara varit blir blev har hade kan kunde ska skulle vill måste inte icke
		också bara så än nu här vad vem hur man`,
	"tr": `
		ve veya ya da de ile ama fakat ancak çünkü ki bir bu şu o ben sen biz siz onlar beni seni onu bizi
		sizi onları bana sana ona bize size onlara benim senin onun bizim sizin onların için gibi kadar göre
		sonra önce daha çok en az her hiç bazı tüm bütün ne nasıl neden niçin kim hangi mı mi mu mü değil
		var yok olan olarak olduğu idi ise`,
}
