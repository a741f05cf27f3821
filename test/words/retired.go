// SPDX-License-Identifier: Apache-2.0

package words

// retired is a word that has been retired, with its forms. A form is one or more words, in lower case, separated by spaces: "give up" is a part of
// giveUpLocked.
type retired struct {
	// word names the entry in counts.txt.
	word string
	// parts are found anywhere in a name; whole only where they are the whole name, because they have a plain meaning in longer ones.
	parts, whole []string
	// prose is found in text.
	prose []string
	// instead is what to write, and why says what was wrong.
	instead, why string
}

// list holds each word once.
var list = []retired{
	// Verbs and nouns with several meanings.
	{word: "settle", parts: []string{"settle", "settles", "settled", "settling"},
		instead: "waitForReaders, resolved, quiescent: what is waited for", why: "seven meanings"},
	{word: "rest", whole: []string{"rest", "rest of", "rests"},
		instead: "remainder, suspension, yield", why: "three meanings"},
	{word: "turn", whole: []string{"turn", "turns", "turn of"}, parts: []string{"turns edit"}, prose: []string{"a turn", "its turn", "turn of"},
		instead: "ticket, slot, schedule entry, cursor, trial", why: "four meanings"},
	{word: "place", whole: []string{"place", "places", "place of", "places of"}, parts: []string{"hash place", "hash places", "place bits"},
		instead: "ring entry, namespace, placement, span", why: "six meanings"},
	{word: "kept", whole: []string{"kept", "next kept", "kept of", "kept cluster", "kept targets"},
		instead: "cached, idle, copied: how it is kept", why: "five meanings"},
	{word: "follow", whole: []string{"follow", "follows", "follow locked"},
		instead: "apply, consume, serveReloads: what the follower does", why: "seven meanings in one package"},
	{word: "install", whole: []string{"install", "switch to"},
		instead: "one of load, compile, activate, publish", why: "six names for four steps"},
	{word: "keeper", parts: []string{"keeper", "keepers"}, prose: []string{"keeper", "keepers"},
		instead: "manager, refresher", why: "two types"},
	{word: "numbers", whole: []string{"numbers"},
		instead: "index allocator, sequence number generator", why: "two types"},
	{word: "piece", whole: []string{"piece", "pieces"},
		instead: "interned value, chunk, segment", why: "three meanings"},
	{word: "hold not", parts: []string{"hold not"}, instead: "HOLD_NONE", why: "reads as a command"},

	// Images.
	{word: "warden", parts: []string{"warden", "wardens"}, prose: []string{"warden", "wardens"},
		instead: "guard controller", why: "an image"},
	{word: "speaker", parts: []string{"speaker", "utterance"}, prose: []string{"speaker", "utterance"},
		instead: "log limiter", why: "an image"},
	{word: "speech", parts: []string{"speech"}, prose: []string{"speech"},
		instead: "transport socket matcher", why: "Envoy's term"},
	{word: "hear", parts: []string{"hear", "hears", "heard"},
		instead: "onEvent, received", why: "an image"},
	{word: "door", parts: []string{"door", "doors"}, prose: []string{"door", "doors"},
		instead: "bound listener", why: "an image"},
	{word: "news", parts: []string{"news"}, prose: []string{"news"},
		instead: "events, change", why: "an image"},
	{word: "temper", parts: []string{"temper"}, instead: "nice value", why: "an image"},
	{word: "desk", parts: []string{"desk", "desks"}, prose: []string{"desk", "desks"},
		instead: "scheduler", why: "an image"},
	{word: "holders", whole: []string{"holders"}, instead: "running", why: "says not what is held"},
	{word: "library", whole: []string{"library", "new library", "holdable"}, instead: "interners, refCounted", why: "an image"},
	{word: "room", whole: []string{"room", "rooms", "new room", "room for"}, instead: "limit, capacity, connection limiter", why: "an image"},
	{word: "guest", parts: []string{"guest", "guests"}, instead: "connection", why: "an image"},
	{word: "bury", parts: []string{"bury"}, instead: "reclaim", why: "an image"},
	{word: "heed", parts: []string{"heed"}, instead: "poll", why: "an image"},
	{word: "tell", whole: []string{"tell", "told"}, parts: []string{"untold", "teller"}, prose: []string{"untold"},
		instead: "notify, notified, pending", why: "the kernel idiom is notify"},
	{word: "roams", parts: []string{"roams"}, instead: "isUnanchored", why: "the term of automata"},
	{word: "worn", parts: []string{"worn"}, instead: "drift", why: "an image"},

	// Words that leave out what they speak of.
	{word: "goes", whole: []string{"goes"}, instead: "spawn", why: "not a verb of programs"},
	{word: "every", whole: []string{"every", "ticks"}, instead: "runPeriodically, newTicker", why: "no verb"},
	{word: "elsewhere", whole: []string{"elsewhere"}, instead: "retryPicker, otherEndpoint", why: "names no thing"},
	{word: "asking", whole: []string{"asking", "awaiting"}, instead: "probe, warming cluster", why: "names no thing"},
	{word: "passed over", parts: []string{"passed over", "passed http"}, whole: []string{"passed"}, prose: []string{"passed over"},
		instead: "ignored fields, ignored filters", why: "two meanings"},
	{word: "unfit", parts: []string{"unfit", "fitting"}, whole: []string{"fit", "start fit"}, prose: []string{"unfit"},
		instead: "unsupported, capacity check, within capacity", why: "two meanings"},
	{word: "in force", parts: []string{"in force"}, instead: "generation, active", why: "a field is a noun"},
	{word: "wanted", whole: []string{"wanted", "shown"}, instead: "desired, published", why: "names no thing"},
	{word: "begun", parts: []string{"begun"}, instead: "resumed request", why: "names no thing"},
	{word: "decided", whole: []string{"decided", "picked"}, instead: "attempt, chosen endpoint", why: "names no thing"},
	{word: "unlinked", parts: []string{"unlinked"}, whole: []string{"spent", "and"},
		instead: "pending, reclaimable, merge", why: "names no thing"},
	{word: "give up", parts: []string{"give up"}, whole: []string{"give"}, prose: []string{"not given up"},
		instead: "free, abandon", why: "says not what happens"},
	{word: "said", whole: []string{"said", "may"}, parts: []string{"unsaid"}, prose: []string{"unsaid"},
		instead: "log limiter, allow, suppressed", why: "names no thing"},
	{word: "loose", parts: []string{"loose"}, instead: "regex path", why: "names no thing"},
	{word: "round", whole: []string{"round", "known"}, instead: "previous build, cache", why: "names no thing"},
	{word: "division", parts: []string{"division"}, instead: "CORS split", why: "names no thing"},
	{word: "undecided", parts: []string{"undecided"}, instead: "kernel limits", why: "names no thing"},
	{word: "hop", whole: []string{"hop", "of hop", "hop change", "hop passed"},
		instead: "Envoy headers, connection manager", why: "not a term of Envoy"},
	{word: "reading", whole: []string{"reading"}, instead: "readMu", why: "a lock is named after what it guards"},
	{word: "whose", parts: []string{"whose", "whom"}, instead: "ClientOf, Owner", why: "a question"},
	{word: "plain", parts: []string{"plain"}, instead: "tcp, supported, without TLS", why: "says not what is missing"},
	{word: "owed", whole: []string{"owed", "counted", "largest"},
		instead: "unacked_bytes, breaker_epoch, largest_queued", why: "a field says what it counts, in which unit"},
	{word: "unproven", parts: []string{"unproven"}, instead: "unconfirmed lease", why: "names no thing"},
	{word: "look", parts: []string{"client look"}, instead: "client query", why: "not a term of programs"},
	{word: "whoami", parts: []string{"whoami"}, instead: "daemon tgid", why: "says not what is returned"},
	{word: "endpoint want", parts: []string{"endpoint want", "ask at"}, instead: "request growth, grow threshold",
		why: "says not what is wanted"},

	// Phrases without a subject, or with one that has to be guessed.
	{word: "nobody", parts: []string{"nobody"}, prose: []string{"nobody"},
		instead: "no client, no program, no endpoint: say which", why: "hides the subject"},
	{word: "somebody", parts: []string{"somebody", "everybody", "anybody"}, prose: []string{"somebody", "everybody", "anybody", "someone"},
		instead: "a client, each process: say which", why: "hides the subject"},
	{word: "whoever", parts: []string{"whoever"}, prose: []string{"whoever", "whomever"},
		instead: "the client that, each process that", why: "hides the subject"},
	{word: "who asks", prose: []string{"who asks", "who waits", "who ends", "who finds", "who needs", "who speaks"},
		instead: "the client that, the caller that", why: "hides the subject"},
	{word: "is asked", prose: []string{"is asked", "are asked", "was asked", "were asked"},
		instead: "queries, requests, with its subject", why: "a request has a sender"},
	{word: "is told", prose: []string{"is told", "are told", "was told", "were told", "tells of"},
		instead: "notifies, reports", why: "the term is notify"},
	{word: "is said", prose: []string{"is said", "are said", "was said"},
		instead: "is logged, is reported", why: "says not where"},
	{word: "is none", prose: []string{"is none", "are none", "was none", "were none", "is nobody", "none is", "none are"},
		instead: "is absent, is not a ..., there is no ...", why: "says not what is missing"},
	{word: "becomes of", prose: []string{"becomes of", "become of", "became of"},
		instead: "how ... is handled, the result of", why: "says not what happens"},
	{word: "those of which", prose: []string{"those of which", "those of whom", "those of no other"},
		instead: "repeat the noun", why: "hides the subject"},
	{word: "again and again", prose: []string{"again and again"}, instead: "periodically, repeatedly", why: "says not how often"},
	{word: "taken for gone", prose: []string{"taken for gone", "let go of", "is let go"},
		instead: "treated as disconnected, released", why: "an image"},
	{word: "tried again", prose: []string{"it is tried again", "will be tried again", "next look tries again"},
		instead: "will retry", why: "the term is retry"},
	{word: "comes upon", prose: []string{"comes upon", "come upon", "came upon"}, instead: "finds, meets", why: "an image"},
}
